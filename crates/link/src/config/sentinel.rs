//! The keys under `sentinel`: the master's name, and the sentinels with a login of their own.

use std::sync::Arc;

use super::super::endpoint::RedisEndpoint;
use super::super::target::{RedisTarget, SentinelTarget};
use super::needs_password;
use delaybridge_settings::keys::tables;
use delaybridge_settings::reader::Section;
use delaybridge_settings::url::host_and_port;
use delaybridge_settings::{secrets, tls};

/// The default port of a sentinel.
const PORT: u16 = 26379;
/// Maximum number of sentinels: all are asked at once, and each is subscribed to.
const MOST_NODES: usize = 15;

tables! {
    mod keys at "redis.sentinel", "Also under `sentinel` of a Redis sink. The keys beside `sentinel` apply to the master and its replicas." {
        MASTER = key("master", Kind::Text, "Name of the master at the sentinels (`sentinel monitor NAME ...`).").required();
        NODES = key("nodes", Kind::Texts, "All sentinels as `host:port`; the default port is 26379.").required();
        USERNAME = key("username", Kind::Text, "ACL user at the sentinels. Without user and password, there is no login to the sentinels.");
        PASSWORD = secrets::PASSWORD;
        PASSWORD_FILE = secrets::PASSWORD_FILE;
        TLS = key("tls", Kind::Section(&tls::TABLE), "Enables TLS to the sentinels; `tls: {}` trusts the system's authorities.");
    }
}

/// Reads the master and its sentinels; `servers` has the settings of the master and its replicas.
pub(super) fn read(section: &Section<'_>, servers: RedisEndpoint) -> Option<RedisTarget> {
    let report = &section.cx.report;
    let master = section.text(&keys::MASTER).map(|name| name.value);
    let texts = section.texts(&keys::NODES);
    let username = section.text(&keys::USERNAME).map(|name| name.value);
    let password = secrets::password(section, "SENTINEL_PASSWORD");
    needs_password(section, &username, &password);
    let like = RedisEndpoint {
        tls: section.opt_section(&keys::TLS).map(|section| tls::files(&section)),
        database: 0,
        username,
        password,
        ..servers.clone()
    };
    if texts.len() > MOST_NODES {
        let message = format!("there are {} sentinels, at most {MOST_NODES} are possible", texts.len());
        report.problem(&section.spot(&keys::NODES), message, "name those that are closest");
    }
    let mut nodes: Vec<Arc<RedisEndpoint>> = Vec::new();
    for text in &texts {
        if text.value.contains("://") {
            let help = "write `host:26379`; TLS is switched on by `tls`, and the login has keys of its own";
            report.problem(&text.spot, "a sentinel is written without a scheme", help);
            continue;
        }
        match host_and_port(&text.value, PORT) {
            Ok((host, port)) => {
                let node = like.at(&host, port);
                if nodes.iter().any(|other| other.same_server(&node)) {
                    report.problem(
                        &text.spot,
                        "this sentinel is named twice",
                        "its answer would count twice: remove one",
                    );
                }
                nodes.push(Arc::new(node));
            }
            Err(problem) => report.problem(&text.spot, problem, "write `host:26379`"),
        }
    }
    let master = master.filter(|_| !nodes.is_empty() && nodes.len() == texts.len())?;
    Some(RedisTarget::Sentinel(Arc::new(SentinelTarget { master, nodes, servers })))
}
