//! The keys of `sinks.NAME.amqp`, and the cluster that they describe: nodes, login, and how messages are published.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::NAME;
use super::declare::{self, AmqpTopology};
use super::target::{self, AmqpKeys};
use super::url::AmqpUrl;
use delaybridge_link::Redis;
use delaybridge_settings::keys::{Key, tables};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_settings::words::words;
use delaybridge_settings::{Secret, TlsFiles, secrets, shown, tls};
use delaybridge_sink::kind::{self, SinkSettings};
use delaybridge_sink::{Connector, Sink};

tables! {
    mod sink_amqp at "sinks.NAME.amqp", "Nodes of one AMQP 0-9-1 cluster. A message counts as delivered when the broker has confirmed it and has not returned it. `exchange` and `routing_key` are set here for all queues, or under `to:`, which takes precedence. Without an exchange, messages go to the default exchange, and the routing key is the name of a queue. The body is the payload; the headers are `delaybridge-id`, `delaybridge-queue`, `delaybridge-due-ms`, `delaybridge-attempt`, and then the route's." {
        URL = key("url", Kind::Secret, "`amqp://[user[:password]@]host[:port][/vhost]`, or `amqps://` for TLS. Without a path the vhost is `/`; write a `/` in its name as `%2F`. Percent-encode special characters. This or `urls` is required.");
        URLS = key("urls", Kind::Texts, "Several nodes, tried in turn, all with the same scheme, login and vhost. Their passwords are never shown.");
        USERNAME = key("username", Kind::Text, "User, instead of one in the URL. Default: `guest` with the password `guest`, which RabbitMQ accepts only from its own machine.");
        PASSWORD = secrets::PASSWORD;
        PASSWORD_FILE = secrets::PASSWORD_FILE;
        LOGIN = key("login", word::<LoginWords>(), "`plain`: user and password. `external`: the client certificate, with `amqps://`.").default("plain");
        TLS = key("tls", Kind::Section(&tls::TABLE), "Certificates for `amqps://`.");
        CONNECT_TIMEOUT = key("connect_timeout", duration(1), "Timeout for TCP, TLS and login together.").default("5s");
        HEARTBEAT = key("heartbeat", duration(1_000), "Interval of heartbeats, in whole seconds. The sink reconnects if the broker is silent for twice this time.").default("10s");
        MAX_UNCONFIRMED = key("max_unconfirmed", count(1, 65_535), "Unconfirmed messages on one channel.").default("1000");
        MANDATORY = key("mandatory", Kind::Flag, "The broker returns a message that it cannot route, and the queue is held. With `false`, it confirms and drops such a message.").default("true");
        PERSISTENT = key("persistent", Kind::Flag, "Messages in durable queues survive a restart of the broker.").default("true");
        MAX_MESSAGE_SIZE = key("max_message_size", Kind::Size, "Largest body. An element with a larger body becomes a dead letter. It must not exceed the broker's `max_message_size`.").default("128MiB");
        TIMEOUT = kind::TIMEOUT;
        MAX_RATE = kind::MAX_RATE;
        TOPOLOGY = key("topology", word::<Topology>(), "`expect`: exchange, queues and bindings exist; if one is missing, the queue is held. `declare`: the entries under `declare` are declared at every connect.").default("expect");
        DECLARE = key("declare", Kind::Section(&declare::amqp_declare::TABLE), "The declarations; only with `topology: declare`.");
    } + target::ON_SINK
}

/// The settings of an AMQP 0-9-1 broker: its nodes, the login, and the way messages are published.
#[derive(Debug, Clone, Serialize)]
pub struct AmqpSpec {
    /// Nodes of one cluster, tried in turn. At least one.
    #[serde(skip)]
    pub nodes: Vec<(String, u16)>,
    /// Virtual host.
    pub vhost: String,
    /// Set for `amqps://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// The login.
    #[serde(flatten)]
    pub login: AmqpLogin,
    /// Time allowed for TCP, TLS and login together.
    #[serde(serialize_with = "shown::duration")]
    pub connect_timeout: Duration,
    /// Interval of heartbeats, in whole seconds; a silent broker is given up after twice as long.
    #[serde(serialize_with = "shown::duration")]
    pub heartbeat: Duration,
    /// Messages without a confirmation on one channel.
    pub max_unconfirmed: u32,
    /// Whether the broker returns what it cannot route; if not, it drops and confirms it.
    pub mandatory: bool,
    /// Whether messages in durable queues survive a restart of the broker.
    pub persistent: bool,
    /// Largest body in bytes that is sent at all.
    #[serde(serialize_with = "shown::size")]
    pub max_message_size: u64,
    /// The topology that is declared at every connect; `None` expects everything to be there.
    #[serde(skip)]
    pub declare: Option<AmqpTopology>,
}

impl AmqpSpec {
    /// `host:port` of each node, for messages.
    pub fn addresses(&self) -> Vec<String> {
        let address = |(host, port): &(String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        self.nodes.iter().map(address).collect()
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
        /// They are there.
        Expect = "expect",
        /// They are made at every connect.
        Declare = "declare",
    }
}

/// Reads the sink.
pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let keys = AmqpKeys::of_sink(section);
    SinkSettings::new(section, Some(section.duration(&sink_amqp::TIMEOUT)), spec(section, &keys), move |at| {
        AmqpKeys::of_route(at).target(at, &keys)
    })
}

impl Connector for AmqpSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, timeout: Duration, _source: &Redis) -> Arc<dyn Sink> {
        Arc::new(super::AmqpSink::new(Arc::new(self.clone()), timeout))
    }

    fn connect_to_check(&self, timeout: Duration, _source: &Redis) -> Arc<dyn Sink> {
        Arc::new(super::AmqpSink::to_check(Arc::new(self.clone()), timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        let scheme = if self.tls.is_some() { "amqps" } else { "amqp" };
        let urls: Vec<_> = self.addresses().into_iter().map(|address| format!("{scheme}://{address}")).collect();
        let topology = if self.declare.is_some() { Topology::Declare } else { Topology::Expect };
        let mut fields = Map::from_iter([("urls".to_owned(), json!(urls))]);
        fields.extend(shown::fields(self));
        fields.insert("topology".to_owned(), json!(topology));
        fields.extend(self.declare.as_ref().map(|declare| ("declare".to_owned(), declare.settings().into())));
        fields
    }

    fn address(&self) -> String {
        format!("{}, vhost {}", self.addresses().join(", "), self.vhost)
    }
}

/// The cluster under `section`; `keys` are where the sink delivers to unless a route says otherwise.
fn spec(section: &Section<'_>, keys: &AmqpKeys) -> AmqpSpec {
    let tls = section.opt_section(&sink_amqp::TLS).map(|section| tls::files(&section));
    let urls = urls(section);
    let encrypted = urls.first().is_some_and(|(url, _)| url.tls);
    if let (true, Some(_), false) = (tls.is_some(), urls.first(), encrypted) {
        let help = "write `amqps://`, or remove `tls`";
        section.cx.report.problem(
            &section.spot(&sink_amqp::TLS),
            "`tls` has no effect, because the URL is amqp://",
            help,
        );
    }
    let tls = encrypted.then(|| tls.unwrap_or_default());
    let heartbeat = section.duration(&sink_amqp::HEARTBEAT);
    if heartbeat.subsec_nanos() > 0 || heartbeat.as_secs() > u16::MAX.into() {
        let help = "write whole seconds, as in `10s`";
        section.cx.report.problem(&section.spot(&sink_amqp::HEARTBEAT), "the broker takes seconds, up to 65535", help);
    }
    let window = section.count(&sink_amqp::MAX_UNCONFIRMED).and_then(|count| u32::try_from(count).ok());
    AmqpSpec {
        vhost: urls.first().map(|(url, _)| url.vhost.clone()).unwrap_or_default(),
        login: login(section, &urls, tls.as_ref()),
        nodes: urls.into_iter().map(|(url, _)| (url.host, url.port)).collect(),
        tls,
        connect_timeout: section.duration(&sink_amqp::CONNECT_TIMEOUT),
        heartbeat,
        max_unconfirmed: window.unwrap_or(1),
        mandatory: safe(section, &sink_amqp::MANDATORY, "messages that no queue takes are confirmed and lost"),
        persistent: safe(section, &sink_amqp::PERSISTENT, "messages are lost when the broker restarts"),
        max_message_size: section.size(&sink_amqp::MAX_MESSAGE_SIZE),
        declare: declared(section, keys),
    }
}

/// Reads what is declared at every connect, with `topology: declare`.
fn declared(section: &Section<'_>, keys: &AmqpKeys) -> Option<AmqpTopology> {
    let wanted = section.one_of::<Topology>(&sink_amqp::TOPOLOGY) == Some(Topology::Declare);
    if section.has(&sink_amqp::DECLARE) && !wanted {
        let (message, help) =
            ("`declare` has no effect without `topology: declare`", "write `topology: declare`, or remove `declare`");
        section.cx.report.problem(&section.spot(&sink_amqp::DECLARE), message, help);
    }
    declare::topology(&section.section(&sink_amqp::DECLARE), wanted, keys)
}

/// A flag that is on unless the user wants to lose messages.
fn safe(section: &Section<'_>, key: &Key, loss: &str) -> bool {
    let on = section.flag(key).unwrap_or(true);
    if !on {
        section.cx.report.warning(&section.spot(key), loss, "remove the key unless that is what you want");
    }
    on
}

fn urls(section: &Section<'_>) -> Vec<(AmqpUrl, Scalar)> {
    let report = &section.cx.report;
    let mut written: Vec<Scalar> = section.text(&sink_amqp::URL).into_iter().collect();
    written.extend(section.texts(&sink_amqp::URLS));
    match (section.has(&sink_amqp::URL), section.has(&sink_amqp::URLS)) {
        (true, true) => {
            let help = "write all nodes under `urls`";
            report.problem(&section.spot(&sink_amqp::URLS), "there is both `url` and `urls`", help);
        }
        (false, false) => report.problem(&section.spot, "`url` is missing", sink_amqp::URL.help),
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
    let own_name = section.text(&sink_amqp::USERNAME).map(|name| name.value);
    let own_password = secrets::password(section, "AMQP_PASSWORD");
    let external = section.one_of::<LoginWords>(&sink_amqp::LOGIN) == Some(LoginWords::External);
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
    plain(section, &spot, username, password)
}

fn plain(section: &Section<'_>, spot: &Spot, username: Option<String>, password: Option<Secret>) -> AmqpLogin {
    let guest = || Secret::Literal(SecretString::from("guest"));
    // What cannot be read has been reported, and is not missing.
    let written = [&sink_amqp::USERNAME, &sink_amqp::PASSWORD, &sink_amqp::PASSWORD_FILE].map(|key| section.has(key));
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
            if !written[0] {
                section.cx.report.problem(spot, "there is a password, but no user", "write `username: NAME`");
            }
            (String::new(), password)
        }
        (None, None) => ("guest".to_owned(), guest()),
    };
    AmqpLogin::Plain { username, password }
}

fn check_external(section: &Section<'_>, url: Option<&AmqpUrl>, tls: Option<&TlsFiles>, named: bool) {
    let spot = section.spot(&sink_amqp::LOGIN);
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
