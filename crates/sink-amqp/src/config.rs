//! The keys of `sinks.NAME.amqp`, and the cluster that they describe: nodes, login, and how messages are published.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::codes;
use super::declare::{self, AmqpTopology};
use super::target::{self, AmqpKeys, NAME};
use super::url::AmqpUrl;
use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Key, Kind, Table, key};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_settings::url::host_with_port;
use delaybridge_settings::words::word;
use delaybridge_settings::words::words;
use delaybridge_settings::{Secret, Settings, TlsFiles, secrets, tls};
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkStart};

/// The `amqp` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&sink_amqp::TABLE), "AMQP 0-9-1 exchanges (RabbitMQ)."),
    title: "AMQP",
    tables: TABLES,
    to: target::KEYS,
    dead_letter: target::DEAD_LETTER_KEYS,
    read: Ok(read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

static TABLES: &[&Table] =
    &[&sink_amqp::TABLE, &declare::amqp_declare::TABLE, &declare::amqp_queue::TABLE, &target::amqp_properties::TABLE];

/// Nodes of one AMQP 0-9-1 cluster. A message is delivered when the broker has confirmed and not returned it. Without
/// an exchange it goes to the default exchange, and the routing key names a queue. The body is the payload.
#[derive(Debug, Clone, Settings)]
#[settings(sink_amqp, at = "sinks.NAME.amqp", offered = target::ON_SINK)]
pub struct AmqpSpec {
    /// Nodes of one cluster, tried in turn. At least one.
    #[settings(
        keys(URL, URLS, USERNAME, secrets::PASSWORD, secrets::PASSWORD_FILE, LOGIN),
        later = Vec::new()
    )]
    pub nodes: Vec<(String, u16)>,
    /// Virtual host.
    #[settings(later = String::new())]
    pub vhost: String,
    /// Certificates for `amqps://`.
    #[key(Kind::Section(&tls::TABLE))]
    pub tls: Option<TlsFiles>,
    /// The login.
    #[settings(later = AmqpLogin::External, flatten)]
    pub login: AmqpLogin,
    /// Timeout for TCP, TLS and login together.
    #[key(duration(1), default = "5s")]
    pub connect_timeout: Duration,
    /// Interval of heartbeats, in whole seconds. After twice this time of silence, the sink reconnects.
    #[key(duration(1_000), default = "10s", read = heartbeat)]
    pub heartbeat: Duration,
    /// Largest frame, 8 KiB to 16 MiB, or the broker's `frame_max` if that is smaller. A connection takes up to 64
    /// times this in memory.
    #[key(Kind::Size, default = "128KiB", read = frame_max)]
    pub frame_max: u64,
    /// Unconfirmed messages on one channel.
    #[key(count(1, 65_535), default = "1000")]
    pub max_unconfirmed: u32,
    /// An unroutable message is returned, and the queue held. With `false`, the broker confirms and drops it.
    #[key(Kind::Flag, default = "true", read = mandatory)]
    pub mandatory: bool,
    /// Messages in durable queues survive a restart of the broker.
    #[key(Kind::Flag, default = "true", read = persistent)]
    pub persistent: bool,
    /// Largest body, at most the broker's `max_message_size`. An element with a larger one becomes a dead letter.
    #[key(Kind::Size, default = "128MiB")]
    pub max_message_size: u64,
    /// The topology that is declared at every connect; `None` expects everything to be there.
    #[settings(keys(kind::TIMEOUT, kind::MAX_RATE, TOPOLOGY, DECLARE), later = None)]
    pub declare: Option<AmqpTopology>,
}

const URL: Key = key(
    "url",
    Kind::Secret,
    "`amqp://[user[:password]@]host[:port][/vhost]`, or `amqps://` for TLS; special characters percent-encoded (`/` in a vhost as `%2F`). Default vhost `/`. This or `urls` is required.",
);
const URLS: Key = key(
    "urls",
    Kind::Texts,
    "Several nodes, tried in turn, with one scheme, login and vhost. Passwords are never shown.",
);
const USERNAME: Key =
    key("username", Kind::Text, "User, instead of one in the URL. Default: `guest` with the password `guest`.");
const LOGIN: Key = key(
    "login",
    word::<LoginWords>(),
    "`plain`: user and password. `external`: the client certificate, with `amqps://`.",
)
.default("plain");
const TOPOLOGY: Key = key(
    "topology",
    word::<Topology>(),
    "`expect`: if exchange, queues or bindings are missing, the queue is held. `declare`: `declare` is declared at every connect.",
).default("expect");
const DECLARE: Key =
    key("declare", Kind::Section(&declare::amqp_declare::TABLE), "The declarations; only with `topology: declare`.");

/// Sizes of the largest frame: RabbitMQ refuses less than 8 KiB.
const FRAMES: std::ops::RangeInclusive<u64> = 8 << 10..=16 << 20;

impl AmqpSpec {
    /// Returns the largest frame, in bytes.
    pub(crate) fn frame_max(&self) -> u32 {
        u32::try_from(self.frame_max.min(*FRAMES.end())).unwrap_or(u32::MAX)
    }

    /// Returns `host:port` of each node, for messages.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|(host, port)| host_with_port(host, *port)).collect()
    }
}

/// A login to AMQP.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "login", rename_all = "lowercase")]
pub enum AmqpLogin {
    /// Mechanism PLAIN.
    Plain {
        /// The user.
        username: String,
        /// The password.
        #[serde(flatten)]
        password: Secret,
    },
    /// Mechanism EXTERNAL: the client certificate identifies the daemon.
    External,
}

words! {
    /// The ways to log in.
    enum LoginWords {
        /// User and password.
        Plain = "plain",
        /// The client certificate.
        External = "external",
    }
}

words! {
    /// Whether exchanges, queues and bindings are there, or are made.
    enum Topology {
        /// No declaration.
        Expect = "expect",
        /// A declaration at every connect.
        Declare = "declare",
    }
}

/// The keys of a broker, for everything that connects to one.
pub(super) const BROKER_KEYS: &[Key] = &[
    URL,
    URLS,
    USERNAME,
    secrets::PASSWORD,
    secrets::PASSWORD_FILE,
    LOGIN,
    sink_amqp::TLS,
    sink_amqp::CONNECT_TIMEOUT,
    sink_amqp::HEARTBEAT,
    sink_amqp::FRAME_MAX,
];

/// Reads the keys of a broker alone: the rest is that of a sink without any other key.
pub(super) fn broker(section: &Section<'_>) -> AmqpSpec {
    spec(section, &AmqpKeys::default())
}

pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let keys = AmqpKeys::of(section);
    SinkSettings::new(section, Some(section.duration(&kind::TIMEOUT)), spec(section, &keys), move |at| {
        AmqpKeys::of_route(at).target(at, &keys)
    })
}

impl Connector for AmqpSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(super::client::AmqpSink::new(Arc::new(self.clone()), start.timeout))
    }

    fn connect_to_check(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(super::client::AmqpSink::to_check(Arc::new(self.clone()), start.timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        let scheme = if self.tls.is_some() { "amqps" } else { "amqp" };
        let urls: Vec<_> = self.addresses().into_iter().map(|address| format!("{scheme}://{address}")).collect();
        let topology = if self.declare.is_some() { Topology::Declare } else { Topology::Expect };
        let mut fields = Map::from_iter([("urls".to_owned(), json!(urls)), ("vhost".to_owned(), json!(self.vhost))]);
        fields.extend(self.shown());
        fields.insert("topology".to_owned(), json!(topology));
        fields.extend(self.declare.as_ref().map(|declare| ("declare".to_owned(), declare.settings().into())));
        fields
    }

    fn address(&self) -> String {
        format!("{}, vhost {}", self.addresses().join(", "), self.vhost)
    }
}

/// Returns the cluster under `section`; `keys` are where the sink delivers to unless a route says otherwise.
fn spec(section: &Section<'_>, keys: &AmqpKeys) -> AmqpSpec {
    let spec = AmqpSpec::of(section);
    let urls = urls(section);
    let encrypted = urls.first().is_some_and(|(url, _)| url.tls);
    if let (true, Some(_), false) = (spec.tls.is_some(), urls.first(), encrypted) {
        let help = "write `amqps://`, or remove `tls`";
        let message = "`tls` has no effect, because the URL is amqp://";
        section.cx.report.problem(&section.spot(&sink_amqp::TLS), message, help);
    }
    let tls = encrypted.then(|| spec.tls.clone().unwrap_or_default());
    AmqpSpec {
        vhost: urls.first().map(|(url, _)| url.vhost.clone()).unwrap_or_default(),
        login: login(section, &urls, tls.as_ref()),
        nodes: urls.into_iter().map(|(url, _)| (url.host, url.port)).collect(),
        tls,
        declare: declared(section, keys),
        ..spec
    }
}

fn heartbeat(section: &Section<'_>, key: &Key) -> Duration {
    let heartbeat = section.duration(key);
    if heartbeat.subsec_nanos() > 0 || heartbeat.as_secs() > u16::MAX.into() {
        let help = "write whole seconds, as in `10s`";
        section.cx.report.problem(&section.spot(key), "the broker takes seconds, up to 65535", help);
    }
    heartbeat
}

fn frame_max(section: &Section<'_>, key: &Key) -> u64 {
    let size = section.size(key);
    if !FRAMES.contains(&size) {
        let help = "write a size from `8KiB` to `16MiB`";
        section.cx.report.problem(&section.spot(key), "no broker and no client agree on frames of this size", help);
    }
    size
}

fn mandatory(section: &Section<'_>, key: &Key) -> bool {
    safe(section, key, "messages that no queue takes are confirmed and lost")
}

fn persistent(section: &Section<'_>, key: &Key) -> bool {
    safe(section, key, "messages are lost when the broker restarts")
}

/// Reads what is declared at every connect, with `topology: declare`.
fn declared(section: &Section<'_>, keys: &AmqpKeys) -> Option<AmqpTopology> {
    let wanted = section.one_of::<Topology>(&TOPOLOGY) == Some(Topology::Declare);
    if section.has(&DECLARE) && !wanted {
        let message = "`declare` has no effect without `topology: declare`";
        let help = "write `topology: declare`, or remove `declare`";
        section.cx.report.problem(&section.spot(&DECLARE), message, help);
    }
    declare::topology(&section.section(&DECLARE), wanted, keys)
}

/// Reads a flag that is on unless the user wants to lose messages.
fn safe(section: &Section<'_>, key: &Key, loss: &str) -> bool {
    let on = section.flag(key).unwrap_or(true);
    if !on {
        section.cx.report.warning(&section.spot(key), loss, "remove the key unless that is what you want");
    }
    on
}

fn urls(section: &Section<'_>) -> Vec<(AmqpUrl, Scalar)> {
    let report = &section.cx.report;
    let mut written: Vec<Scalar> = section.text(&URL).into_iter().collect();
    written.extend(section.texts(&URLS));
    match (section.has(&URL), section.has(&URLS)) {
        (true, true) => {
            let help = "write all nodes under `urls`";
            report.problem(&section.spot(&URLS), "there is both `url` and `urls`", help);
        }
        (false, false) => report.problem(&section.spot, "`url` is missing", URL.help),
        _ => {}
    }
    let mut urls: Vec<(AmqpUrl, Scalar)> = Vec::new();
    for text in written {
        match AmqpUrl::parse(&text.value) {
            Ok(url) => {
                if let Some(what) = urls.first().and_then(|(first, _)| first.differs(&url)) {
                    let message = format!("the URL has another {what} than the first");
                    report.problem(&text.spot, message, "the nodes of one cluster have one login and one vhost");
                }
                if url.password.is_some() && text.is_plain() {
                    let help = "put it into a file of its own with `password_file`, or write `${AMQP_PASSWORD}`";
                    report.warning(&text.spot, "the URL holds a password in plain text", help);
                }
                urls.push((url, text));
            }
            Err(problem) => {
                report.problem(&text.spot, problem, "write `amqp://user@host:5672/vhost`, or `amqps://` for TLS")
            }
        }
    }
    urls
}

fn login(section: &Section<'_>, urls: &[(AmqpUrl, Scalar)], tls: Option<&TlsFiles>) -> AmqpLogin {
    let report = &section.cx.report;
    let own_name = section.text(&USERNAME).map(|name| name.value);
    let own_password = secrets::password(section, "AMQP_PASSWORD");
    let external = section.one_of::<LoginWords>(&LOGIN) == Some(LoginWords::External);
    let (url, spot) = match urls.first() {
        Some((url, text)) => (Some(url), text.spot.clone()),
        None => (None, section.spot.clone()),
    };
    let name_in_url = url.and_then(|url| url.username.clone());
    let password_in_url = url.and_then(|url| url.password.clone());
    if name_in_url.is_some() && own_name.is_some() {
        report.problem(&spot, "the user is in the URL and in `username`", "keep one of them");
    }
    if password_in_url.is_some() && own_password.is_some() {
        report.problem(&spot, "the password is in the URL and in a separate key", "keep one of them");
    }
    let username = name_in_url.or(own_name);
    let password = password_in_url.map(Secret::Literal).or(own_password);
    if external {
        check_external(section, url, tls, username.is_some() || password.is_some());
        return AmqpLogin::External;
    }
    plain(section, (url, &spot), username, password)
}

fn plain(
    section: &Section<'_>,
    (url, spot): (Option<&AmqpUrl>, &Spot),
    username: Option<String>,
    password: Option<Secret>,
) -> AmqpLogin {
    let guest = || Secret::Literal(SecretString::from("guest"));
    // What cannot be read has been reported, and is not missing.
    let written = [&USERNAME, &secrets::PASSWORD, &secrets::PASSWORD_FILE].map(|key| section.has(key));
    let (username, password) = match (username, password) {
        (Some(username), Some(password)) => (username, password),
        (Some(username), None) => {
            if !written[1] && !written[2] {
                let help = "write `password_file: PATH`, or `password: ${AMQP_PASSWORD}`";
                section.cx.report.problem(spot, "there is a user, but no password", help);
            }
            (username, guest())
        }
        (None, Some(password)) => {
            // A URL that cannot be read may have the user.
            let unread = url.is_none() && (section.has(&URL) || section.has(&URLS));
            if !written[0] && !unread {
                section.cx.report.problem(spot, "there is a password, but no user", "write `username: NAME`");
            }
            (String::new(), password)
        }
        (None, None) => ("guest".to_owned(), guest()),
    };
    AmqpLogin::Plain { username, password }
}

fn check_external(section: &Section<'_>, url: Option<&AmqpUrl>, tls: Option<&TlsFiles>, named: bool) {
    let spot = section.spot(&LOGIN);
    let refuse = |message: &str, help: &str| section.cx.report.problem(&spot, message, help);
    if url.is_some_and(|url| !url.tls) {
        refuse("login external needs amqps://", "the client certificate identifies the daemon");
    } else if tls.is_some_and(|tls| tls.client.is_none()) {
        refuse("login external needs a client certificate", "write `tls: { cert_file: PATH, key_file: PATH }`");
    }
    if named {
        refuse("login external takes no user and no password", "the client certificate identifies the daemon");
    }
}
