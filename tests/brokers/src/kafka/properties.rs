//! The configuration of a node: small, with a quick start and quick detection of dead nodes.

use std::fmt::Write;
use std::path::Path;

use super::{KafkaOptions, TokenRules};
use crate::ports::free_port;
use crate::tls::Certificates;

/// The users of the SASL listeners, with their passwords; `admin` may do everything, `alice` what rules allow.
pub(super) const USERS: [(&str, &str); 2] = [("admin", "admin-secret"), ("alice", "alice-secret")];

/// Kafka's names of the SCRAM mechanisms.
pub(super) const SCRAM: [&str; 2] = ["SCRAM-SHA-256", "SCRAM-SHA-512"];

/// The ports of one node; that of a listener that is not configured is unused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) controller: u16,
    pub(super) sasl: u16,
    pub(super) tls: u16,
    pub(super) sasl_tls: u16,
}

impl Ports {
    pub(super) fn free() -> Self {
        Ports {
            plain: free_port(),
            controller: free_port(),
            sasl: free_port(),
            tls: free_port(),
            sasl_tls: free_port(),
        }
    }
}

/// Whether node `id` of `nodes` is also a controller. Of two voters both must live, so the second of two nodes is none:
/// it can be killed.
pub(super) fn is_controller(id: usize, nodes: usize) -> bool {
    nodes != 2 || id == 1
}

/// The content of the file for node `id`, which has its place in `ports`, and this folder.
pub(super) fn server_properties(
    id: usize,
    ports: &[Ports],
    data: &Path,
    options: &KafkaOptions,
    certificates: Option<&Certificates>,
) -> String {
    let mut lines = Lines::default();
    roles_and_listeners(&mut lines, id, ports, options);
    lines.set("log.dirs", data.display());
    sizes(&mut lines, ports.len());
    speed(&mut lines, ports.len());
    lines.set("auto.create.topics.enable", options.auto_create);
    if options.sasl {
        let listeners = if certificates.is_some() { &["sasl_plaintext", "sasl_ssl"][..] } else { &["sasl_plaintext"] };
        for listener in listeners {
            sasl(&mut lines, listener);
            if let Some(rules) = &options.tokens {
                oauthbearer(&mut lines, listener, rules);
            }
        }
        let tokens = if options.tokens.is_some() { ",OAUTHBEARER" } else { "" };
        lines.set("sasl.enabled.mechanisms", format_args!("PLAIN,{}{tokens}", SCRAM.join(",")));
    }
    if let Some(certificates) = certificates {
        lines.set("ssl.keystore.type", "PEM");
        lines.set("ssl.keystore.location", certificates.server_pem.display());
        lines.set("ssl.truststore.type", "PEM");
        lines.set("ssl.truststore.location", certificates.ca.display());
        if options.mutual_tls {
            lines.set("ssl.client.auth", "required");
        }
    }
    if options.acl {
        lines.set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
        // The nodes and this crate use the listener without authentication.
        lines.set("super.users", "User:ANONYMOUS;User:admin");
    }
    // At the end: of two lines with the same name, the later one applies.
    for (name, value) in &options.properties {
        lines.set(name, value);
    }
    lines.0
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{name}={value}").expect("a String takes everything");
    }
}

fn roles_and_listeners(lines: &mut Lines, id: usize, ports: &[Ports], options: &KafkaOptions) {
    let own = ports[id - 1];
    let tls = options.tls || options.mutual_tls;
    let mut listeners = vec![format!("PLAINTEXT://127.0.0.1:{}", own.plain)];
    if options.sasl {
        listeners.push(format!("SASL_PLAINTEXT://127.0.0.1:{}", own.sasl));
    }
    // By name, because not all clients that check the host support addresses in certificates.
    if tls {
        listeners.push(format!("SSL://localhost:{}", own.tls));
    }
    if tls && options.sasl {
        listeners.push(format!("SASL_SSL://localhost:{}", own.sasl_tls));
    }
    lines.set("advertised.listeners", listeners.join(","));
    let bound = listeners.join(",").replace("localhost", "127.0.0.1");

    let nodes = ports.len();
    if is_controller(id, nodes) {
        lines.set("process.roles", "broker,controller");
        lines.set("listeners", format_args!("{bound},CONTROLLER://127.0.0.1:{}", own.controller));
    } else {
        lines.set("process.roles", "broker");
        lines.set("listeners", bound);
    }
    let voters: Vec<String> = (1..=nodes)
        .filter(|&id| is_controller(id, nodes))
        .map(|id| format!("{id}@127.0.0.1:{}", ports[id - 1].controller))
        .collect();
    lines.set("controller.quorum.voters", voters.join(","));
    lines.set("controller.listener.names", "CONTROLLER");
    lines.set("inter.broker.listener.name", "PLAINTEXT");
    lines.set(
        "listener.security.protocol.map",
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    );
    lines.set("node.id", id);
}

/// Sets the minimum numbers of internal partitions and threads.
fn sizes(lines: &mut Lines, nodes: usize) {
    lines.set("default.replication.factor", nodes);
    for topic in ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"] {
        lines.set(&format!("{topic}.replication.factor"), nodes);
        lines.set(&format!("{topic}.num.partitions"), 1);
    }
    lines.set("transaction.state.log.min.isr", 1);
    lines.set("share.coordinator.state.topic.min.isr", 1);
    lines.set("num.network.threads", 2);
    lines.set("num.io.threads", 2);
    lines.set("background.threads", 2);
    lines.set("num.recovery.threads.per.data.dir", 1);
    lines.set("log.cleaner.dedupe.buffer.size", 4 << 20);
}

/// Sets intervals for a cluster on one machine: a dead node is detected after 1.5 s instead of 9.
fn speed(lines: &mut Lines, nodes: usize) {
    lines.set("group.initial.rebalance.delay.ms", 0);
    lines.set("broker.heartbeat.interval.ms", 300);
    lines.set("broker.session.timeout.ms", 1_500);
    lines.set("controller.quorum.election.timeout.ms", 300);
    lines.set("controller.quorum.election.backoff.max.ms", 300);
    lines.set("controller.quorum.fetch.timeout.ms", 1_000);
    // A single node would wait for another one to take over its partitions.
    lines.set("controlled.shutdown.enable", nodes > 1);
}

/// Sets Kafka's own validator of tokens. A connection ends with its token, unless the client logs in again before.
fn oauthbearer(lines: &mut Lines, listener: &str, rules: &TokenRules) {
    let mut set = |name: &str, value: &str| lines.set(&format!("listener.name.{listener}.oauthbearer.{name}"), value);
    let package = "org.apache.kafka.common.security.oauthbearer";
    set("sasl.jaas.config", &format!("{package}.OAuthBearerLoginModule required ;"));
    set("sasl.server.callback.handler.class", &format!("{package}.OAuthBearerValidatorCallbackHandler"));
    set("connections.max.reauth.ms", "3600000");
    set("sasl.oauthbearer.jwks.endpoint.url", &rules.keys);
    set("sasl.oauthbearer.expected.audience", &rules.audience);
}

fn sasl(lines: &mut Lines, listener: &str) {
    let users: String = USERS.iter().map(|(name, password)| format!(" user_{name}=\"{password}\"")).collect();
    lines.set(
        &format!("listener.name.{listener}.plain.sasl.jaas.config"),
        format_args!("org.apache.kafka.common.security.plain.PlainLoginModule required{users};"),
    );
    for mechanism in SCRAM {
        lines.set(
            &format!("listener.name.{listener}.{}.sasl.jaas.config", mechanism.to_lowercase()),
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        );
    }
}
