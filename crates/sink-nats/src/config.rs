//! The keys of `sinks.NAME.nats`, and the cluster that they describe: servers, login, and how messages are published.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::codes;
use super::login::{self, NatsLogin};
use super::target::{self, NAME, NatsKeys};
use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Key, Kind, Table, key};
use delaybridge_settings::reader::{STAND_IN, Section};
use delaybridge_settings::url::{host_and_port, host_with_port};
use delaybridge_settings::{Settings, TlsFiles, secrets, tls};
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkStart};

/// The `nats` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&sink_nats::TABLE), "Streams of NATS JetStream."),
    title: "NATS",
    tables: TABLES,
    to: target::destination::OWN,
    dead_letter: target::destination::OWN,
    read: Ok(read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

/// Every table, in the order of the reference.
pub(super) static TABLES: &[&Table] = &[&sink_nats::TABLE];

/// Servers of one NATS cluster with JetStream. A message is delivered when a stream has confirmed it. The body is the
/// payload; by the header `Nats-Msg-Id` with the id, a stream drops repeats within its `duplicate_window`.
#[derive(Debug, Clone, Settings)]
#[settings(sink_nats, at = "sinks.NAME.nats", offered = target::ON_SINK)]
pub struct NatsSpec {
    /// `host:port` of servers of one cluster, tried in turn. Default port 4222.
    #[key(Kind::Texts, required, read = servers, show = shown_servers)]
    pub servers: Vec<(String, u16)>,
    /// TLS; `{}` trusts the system's authorities.
    #[key(Kind::Section(&tls::TABLE))]
    pub tls: Option<TlsFiles>,
    /// The login.
    #[settings(
        keys(USERNAME, secrets::PASSWORD, secrets::PASSWORD_FILE, NKEY_FILE, CREDENTIALS_FILE),
        read = read_login,
        flatten
    )]
    pub login: NatsLogin,
    /// Subject prefix of the server's answers. The login needs the right to subscribe below it.
    #[key(Kind::Text, default = "_INBOX", read = inbox_prefix)]
    pub inbox_prefix: String,
    /// Timeout for TCP, TLS and login together.
    #[key(duration(1), default = "5s")]
    pub connect_timeout: Duration,
    /// Interval of pings. After twice this time of silence, the sink reconnects.
    #[key(duration(100), default = "5s")]
    pub ping_interval: Duration,
    /// Unconfirmed messages at most.
    #[key(count(1, 65_535), default = "1000")]
    #[settings(keys(kind::TIMEOUT, kind::MAX_RATE))]
    pub max_unconfirmed: u32,
}

const USERNAME: Key = key("username", Kind::Text, "User.");
const NKEY_FILE: Key = key(
    "nkey_file",
    Kind::File,
    "File with the seed of a user's key, `SU...`, in its first line, read at every connect.",
);
const CREDENTIALS_FILE: Key = key(
    "credentials_file",
    Kind::File,
    "File with a user's JWT and seed, as `nsc` makes it (`.creds`), read at every connect.",
);

impl NatsSpec {
    /// Returns `host:port` of each server, for messages.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|(host, port)| host_with_port(host, *port)).collect()
    }
}

pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let keys = NatsKeys::of(section);
    let spec = NatsSpec::of(section);
    if spec.tls.is_none() && matches!(spec.login, NatsLogin::User { .. }) && section.has(&sink_nats::SERVERS) {
        let message = "without `tls` the network sees the password";
        section.cx.report.warning(&section.spot(&USERNAME), message, "write `tls: {}`, or use a key");
    }
    SinkSettings::new(section, Some(section.duration(&kind::TIMEOUT)), spec, move |at| {
        NatsKeys::of(at.section).target(at, &keys)
    })
}

impl Connector for NatsSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(super::client::NatsSink::new(Arc::new(self.clone()), start.timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        self.shown()
    }

    fn address(&self) -> String {
        self.addresses().join(", ")
    }
}

fn shown_servers(servers: &[(String, u16)]) -> Option<Value> {
    Some(servers.iter().map(|(host, port)| Value::from(host_with_port(host, *port))).collect())
}

fn servers(section: &Section<'_>, key: &Key) -> Vec<(String, u16)> {
    let mut servers = Vec::new();
    for text in section.texts(key) {
        for address in text.value.split(',').map(str::trim) {
            let address = address.strip_prefix("nats://").unwrap_or(address);
            let read = match address {
                _ if address.contains('@') => Err("a server has no login: that has keys of its own"),
                _ if address.starts_with("tls://") => {
                    Err("a server is `host:port`; TLS has a key of its own, `tls: {}`")
                }
                _ if address.contains('/') => Err("a server is `host:port`, without a path"),
                _ => host_and_port(address, 4222),
            };
            match read {
                Ok(server) => servers.push(server),
                // Not repeated: a URL with a user often has the password too.
                Err(problem) => section.cx.report.problem(&text.spot, problem, "write `nats-0:4222`"),
            }
        }
    }
    servers
}

fn inbox_prefix(section: &Section<'_>, key: &Key) -> String {
    let Some(text) = section.text(key) else { return "_INBOX".to_owned() };
    let unfit = text.value.split('.').any(str::is_empty)
        || text.value.len() > 200
        || text.value.contains(|c: char| c.is_whitespace() || c.is_control() || c == '*' || c == '>');
    if unfit {
        let message = "it is no subject without wildcards";
        section.cx.report.problem(&text.spot, message, "write words with dots between them, as `_INBOX.delaybridge`");
    }
    text.value
}

fn read_login(section: &Section<'_>) -> NatsLogin {
    let report = &section.cx.report;
    let username = section.text(&USERNAME).map(|name| name.value);
    let password = secrets::password(section, "NATS_PASSWORD");
    let key = file(section, &NKEY_FILE, login::check_key);
    let credentials = file(section, &CREDENTIALS_FILE, login::check_credentials);
    let has_password = section.has(&secrets::PASSWORD) || section.has(&secrets::PASSWORD_FILE);
    let ways = [section.has(&USERNAME) || has_password, section.has(&NKEY_FILE), section.has(&CREDENTIALS_FILE)];
    if ways.iter().filter(|way| **way).count() > 1 {
        let help = "keep one of `username`, `nkey_file` and `credentials_file`";
        report.problem(&section.spot, "there are several logins", help);
    }
    match (section.has(&USERNAME), has_password) {
        (true, false) => {
            let help = "write `password_file: PATH`, or `password: ${NATS_PASSWORD}`";
            report.problem(&section.spot(&USERNAME), "there is a user, but no password", help);
        }
        (false, true) => report.problem(&section.spot, "there is a password, but no user", "write `username: NAME`"),
        _ => {}
    }
    match (username.zip(password), key, credentials) {
        (Some((username, password)), ..) => NatsLogin::User { username, password },
        (None, Some(path), _) => NatsLogin::Key(path),
        (None, None, Some(path)) => NatsLogin::Credentials(path),
        (None, None, None) => NatsLogin::Anonymous,
    }
}

/// Reads the path of a file whose content passes `check`.
fn file(section: &Section<'_>, key: &Key, check: fn(&str) -> Result<(), &'static str>) -> Option<PathBuf> {
    let (path, content) = section.file(key)?;
    // It was not read, which a command that has no use for the sink does not need.
    if content == STAND_IN {
        return Some(path);
    }
    let problem = match std::str::from_utf8(&content) {
        Ok(text) => check(text).err(),
        Err(_) => Some("it is not UTF-8 text"),
    };
    if let Some(problem) = problem {
        section.cx.report.problem(&section.spot(key), format!("the file cannot be used: {problem}"), key.help);
    }
    Some(path)
}
