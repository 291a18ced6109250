//! The keys of `sinks.NAME.amqp1`, and the broker that they describe: address, login, links.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::codes;
use super::login::Amqp1Login;
use super::target::{self, Amqp1Keys, NAME};
use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Key, Kind, Table, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::url::{host_and_port, host_with_port};
use delaybridge_settings::words::{word, words};
use delaybridge_settings::{Settings, TlsFiles, secrets, tls};
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkStart};

/// The `amqp1` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&sink_amqp1::TABLE), "Addresses of a broker that speaks AMQP 1.0."),
    title: "AMQP 1.0",
    tables: TABLES,
    to: target::destination::OWN,
    dead_letter: target::destination::OWN,
    read: Ok(read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

/// Every table, in the order of the reference.
pub(super) static TABLES: &[&Table] = &[&sink_amqp1::TABLE];

/// A broker that speaks AMQP 1.0: ActiveMQ Artemis, RabbitMQ, and others. A message is delivered when the broker has
/// accepted it. The body is one data section with the payload; the message is durable, `message-id` is the id,
/// `creation-time` the time of sending, `content-type` the type of the envelope. Headers are application properties.
#[derive(Debug, Clone, Settings)]
#[settings(sink_amqp1, at = "sinks.NAME.amqp1", offered = target::ON_SINK)]
pub struct Amqp1Spec {
    /// Host and port of the broker.
    #[settings(
        keys(URL, secrets::PASSWORD, secrets::PASSWORD_FILE, USERNAME, LOGIN),
        later = (String::new(), 0)
    )]
    pub server: (String, u16),
    /// Certificates for `amqps://`.
    #[key(Kind::Section(&tls::TABLE))]
    pub tls: Option<TlsFiles>,
    /// The login.
    #[settings(later = Amqp1Login::Anonymous, flatten)]
    pub login: Amqp1Login,
    /// Host that is asked for, where an address has several. Default: that of `url`. RabbitMQ 4 takes `vhost:NAME`.
    #[key(Kind::Text)]
    pub hostname: Option<String>,
    /// Timeout for TCP, TLS and login together.
    #[key(duration(1), default = "5s")]
    pub connect_timeout: Duration,
    /// Interval at which the broker has to be heard. After twice this time of silence, the sink reconnects.
    #[key(duration(1_000), default = "10s")]
    pub heartbeat: Duration,
    /// Messages that wait for credit or for their outcome.
    #[key(count(1, 65_535), default = "1000")]
    pub max_unconfirmed: u32,
    /// Addresses with a link at the same time. Further ones share a link where the broker has an anonymous terminus;
    /// elsewhere they wait until a link is idle.
    #[key(count(1, 1_000), default = "32")]
    #[settings(keys(kind::TIMEOUT, kind::MAX_RATE))]
    pub max_links: u32,
}

const URL: Key = key(
    "url",
    Kind::Text,
    "`amqp://host[:port]` (default port 5672), or `amqps://` for TLS (5671), without a login. Required.",
);
const USERNAME: Key = key("username", Kind::Text, "User.");
const LOGIN: Key = key(
    "login",
    word::<LoginWays>(),
    "`plain`: user and password. `external`: the client certificate, with `amqps://`. `anonymous`: none. Default: `plain` with a user, else `anonymous`.",
);

words! {
    /// The ways to log in.
    enum LoginWays {
        /// User and password.
        Plain = "plain",
        /// The client certificate.
        External = "external",
        /// None.
        Anonymous = "anonymous",
    }
}

impl Amqp1Spec {
    /// Returns `host:port` of the broker, for messages.
    pub fn shown_address(&self) -> String {
        let (host, port) = &self.server;
        host_with_port(host, *port)
    }
}

pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let keys = Amqp1Keys::of(section);
    SinkSettings::new(section, Some(section.duration(&kind::TIMEOUT)), spec(section), move |at| {
        Amqp1Keys::of(at.section).target(at, &keys)
    })
}

impl Connector for Amqp1Spec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(super::client::Amqp1Sink::new(Arc::new(self.clone()), start.timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        let scheme = if self.tls.is_some() { "amqps" } else { "amqp" };
        let url = format!("{scheme}://{}", self.shown_address());
        Map::from_iter([("url".to_owned(), json!(url))]).into_iter().chain(self.shown()).collect()
    }

    fn address(&self) -> String {
        self.shown_address()
    }
}

fn spec(section: &Section<'_>) -> Amqp1Spec {
    let spec = Amqp1Spec::of(section);
    let (encrypted, server) = server(section);
    let tls = encrypted.then(|| spec.tls.clone().unwrap_or_default());
    if spec.tls.is_some() && !encrypted && !server.0.is_empty() {
        let (message, help) = ("`tls` has no effect, because the URL is amqp://", "write `amqps://`, or remove `tls`");
        section.cx.report.problem(&section.spot(&sink_amqp1::TLS), message, help);
    }
    let login = login(section, tls.as_ref());
    if tls.is_none() && matches!(login, Amqp1Login::Plain { .. }) && !is_local(&server.0) {
        let message = "without TLS the network sees the password";
        section.cx.report.warning(&section.spot(&USERNAME), message, "write `amqps://`");
    }
    Amqp1Spec { server, tls, login, ..spec }
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns whether the URL asks for TLS, and the server that it names.
fn server(section: &Section<'_>) -> (bool, (String, u16)) {
    let report = &section.cx.report;
    let Some(text) = section.text(&URL) else {
        if !section.has(&URL) {
            report.problem(&section.spot, "`url` is missing", URL.help);
        }
        return (false, (String::new(), 0));
    };
    // Not repeated in a message: a URL with a user often has the password too.
    let refuse = |problem: &str| {
        report.problem(&text.spot, problem, "write `amqp://host:5672`, or `amqps://` for TLS");
        (false, (String::new(), 0))
    };
    let (encrypted, rest) = match text.value.split_once("://") {
        Some(("amqp", rest)) => (false, rest),
        Some(("amqps", rest)) => (true, rest),
        _ => return refuse("the URL does not begin with amqp:// or amqps://"),
    };
    match rest {
        _ if rest.contains('@') => refuse("the URL has a login: that has keys of its own"),
        _ if rest.trim_end_matches('/').contains(['/', '?', '#']) => {
            refuse("the URL has a path: the address has a key of its own, and so has `hostname`")
        }
        _ => match host_and_port(rest.trim_end_matches('/'), if encrypted { 5671 } else { 5672 }) {
            Ok(server) => (encrypted, server),
            Err(problem) => refuse(problem),
        },
    }
}

fn login(section: &Section<'_>, tls: Option<&TlsFiles>) -> Amqp1Login {
    let report = &section.cx.report;
    let username = section.text(&USERNAME).map(|name| name.value);
    let password = secrets::password(section, "AMQP_PASSWORD");
    let has_password = section.has(&secrets::PASSWORD) || section.has(&secrets::PASSWORD_FILE);
    let named = section.has(&USERNAME) || has_password;
    let way =
        section.one_of::<LoginWays>(&LOGIN).unwrap_or(if named { LoginWays::Plain } else { LoginWays::Anonymous });
    let spot = section.spot(&LOGIN);
    if way != LoginWays::Plain {
        if named {
            let message = "this login takes no user and no password";
            report.problem(&spot, message, "remove them, or write `login: plain`");
        }
        if way == LoginWays::Anonymous {
            return Amqp1Login::Anonymous;
        }
        if tls.is_none_or(|tls| tls.client.is_none()) {
            let help = "write `amqps://` and `tls: { cert_file: PATH, key_file: PATH }`";
            report.problem(&spot, "login external needs a client certificate", help);
        }
        return Amqp1Login::External;
    }
    match (section.has(&USERNAME), has_password) {
        (true, true) => {}
        (true, false) => {
            let help = "write `password_file: PATH`, or `password: ${AMQP_PASSWORD}`";
            report.problem(&section.spot(&USERNAME), "there is a user, but no password", help);
        }
        (false, true) => report.problem(&section.spot, "there is a password, but no user", "write `username: NAME`"),
        (false, false) => report.problem(&spot, "login plain needs a user and a password", "write `username: NAME`"),
    }
    match (username, password) {
        (Some(username), Some(password)) => Amqp1Login::Plain { username, password },
        _ => Amqp1Login::Anonymous,
    }
}
