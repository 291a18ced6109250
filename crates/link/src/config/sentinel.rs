//! The keys under `sentinel`: the master's name, and the sentinels with a login of their own.

use std::sync::Arc;

use super::super::endpoint::RedisEndpoint;
use super::super::key_space::KeyPrefix;
use super::super::target::{RedisTarget, SentinelTarget};
use super::beside::needs_password;
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_settings::url::host_and_port;
use delaybridge_settings::{Secret, Settings, TlsFiles, secrets, tls};

/// The key of the sentinels.
pub const SENTINEL: Key = key(
    "sentinel",
    Kind::Section(&keys::TABLE),
    "[Sentinels](redis.md#sentinel) that know the master, in place of `url`.",
);
/// The default port of a sentinel.
const PORT: u16 = 26379;
/// Maximum number of sentinels: all are asked at once, and each is subscribed to.
const MOST_NODES: usize = 15;

/// The keys beside `sentinel` apply to the master and its replicas.
#[derive(Settings)]
#[settings(keys, at = "redis.sentinel")]
pub struct SentinelKeys {
    /// Name of the master at the sentinels (`sentinel monitor NAME ...`).
    #[key(Kind::Text, required)]
    master: Option<String>,
    /// All sentinels as `host:port`, default port 26379.
    #[key(Kind::Texts, required)]
    nodes: Vec<Scalar>,
    /// ACL user at the sentinels. Without user and password there is no login.
    #[key(Kind::Text)]
    username: Option<String>,
    /// The password.
    #[settings(keys(secrets::PASSWORD, secrets::PASSWORD_FILE), read = password)]
    password: Option<Secret>,
    /// TLS to the sentinels; `{}` trusts the system's authorities.
    #[key(Kind::Section(&tls::TABLE))]
    tls: Option<TlsFiles>,
}

fn password(section: &Section<'_>) -> Option<Secret> {
    secrets::password(section, "SENTINEL_PASSWORD")
}

/// Reads the master and its sentinels; `servers` has the settings of the master and its replicas.
pub(super) fn read(section: &Section<'_>, servers: RedisEndpoint) -> Option<RedisTarget> {
    let report = &section.cx.report;
    let SentinelKeys { master, nodes: texts, username, password, tls } = SentinelKeys::of(section);
    needs_password(section, &username, &password);
    let key_prefix = KeyPrefix::default();
    let like = RedisEndpoint { tls, database: 0, key_prefix, username, password, ..servers.clone() };
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
