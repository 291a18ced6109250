//! The keys of `sinks.NAME.rocketmq`, and the cluster that they describe: name servers, login, how messages are sent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::codes;
use super::login::{self, RocketMqLogin};
use super::target::{self, NAME, RocketMqKeys};
use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Key, Kind, Table, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::url::{host_and_port, host_with_port};
use delaybridge_settings::words::{word, words};
use delaybridge_settings::{Settings, TlsFiles, tls};
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkStart};

/// The `rocketmq` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&sink_rocketmq::TABLE), "Topics of RocketMQ."),
    title: "RocketMQ",
    tables: TABLES,
    to: target::destination::OWN,
    dead_letter: target::destination::OWN,
    read: Ok(read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

/// Every table, in the order of the reference.
pub(super) static TABLES: &[&Table] = &[&sink_rocketmq::TABLE];

/// A cluster of [RocketMQ](rocketmq.md) 4 or 5, by its remoting protocol. A message is delivered when a master has
/// stored it as safely as it is set to. The body is the payload; headers are properties, and `KEYS` has the id. No
/// delay level is set.
#[derive(Debug, Clone, Settings)]
#[settings(sink_rocketmq, at = "sinks.NAME.rocketmq", offered = target::ON_SINK)]
pub struct RocketMqSpec {
    /// `host:port` of name servers of one cluster, tried in turn, default port 9876. One text may have several,
    /// separated by commas or semicolons.
    #[key(Kind::Texts, required, read = name_servers, show = shown_name_servers)]
    pub name_servers: Vec<(String, u16)>,
    /// TLS to name servers and brokers; `{}` trusts the system's authorities. A broker's certificate must be for the
    /// address that the name servers give.
    #[key(Kind::Section(&tls::TABLE))]
    pub tls: Option<TlsFiles>,
    /// The login.
    #[settings(keys(login::ACCESS_KEY, login::SECRET_KEY, login::SECRET_KEY_FILE), read = login::read, flatten)]
    pub login: Option<RocketMqLogin>,
    /// Producer group of the sink.
    #[key(Kind::Text, default = "delaybridge", read = group)]
    pub group: String,
    /// Treatment of `SLAVE_NOT_AVAILABLE`: the message is on the master alone. `retry`: it is sent again until a slave
    /// has it, and so arrives repeatedly. `accept`: it counts as delivered.
    #[key(word::<SlaveNotAvailable>(), default = "retry")]
    pub slave_not_available: SlaveNotAvailable,
    /// Timeout for TCP, TLS and the first answer together.
    #[key(duration(1), default = "5s")]
    pub connect_timeout: Duration,
    /// Interval of pings of name servers and brokers. After twice this time of silence, the sink reconnects.
    #[key(duration(100), default = "10s")]
    pub heartbeat: Duration,
    /// Unanswered messages at most.
    #[key(count(1, 65_535), default = "2000")]
    #[settings(keys(kind::TIMEOUT, kind::MAX_RATE))]
    pub max_unconfirmed: u32,
}

words! {
    /// The fate of a message that only the master has, although it waits for a slave.
    pub enum SlaveNotAvailable {
        /// The message is sent again.
        Retry = "retry",
        /// The message counts as delivered.
        Accept = "accept",
    }
}

pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let keys = RocketMqKeys::of(section);
    let spec = RocketMqSpec::of(section);
    SinkSettings::new(section, Some(section.duration(&kind::TIMEOUT)), spec, move |at| {
        RocketMqKeys::of(at.section).target(at, &keys)
    })
}

impl Connector for RocketMqSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(super::client::RocketMqSink::new(Arc::new(self.clone()), start.timeout))
    }

    fn settings(&self) -> Map<String, Value> {
        self.shown()
    }

    fn address(&self) -> String {
        self.name_servers.iter().map(|(host, port)| host_with_port(host, *port)).collect::<Vec<_>>().join(", ")
    }
}

fn shown_name_servers(servers: &[(String, u16)]) -> Option<Value> {
    Some(servers.iter().map(|(host, port)| Value::from(host_with_port(host, *port))).collect())
}

fn name_servers(section: &Section<'_>, key: &Key) -> Vec<(String, u16)> {
    let mut servers = Vec::new();
    for text in section.texts(key) {
        for address in text.value.split([',', ';']).map(str::trim) {
            let read = match address {
                _ if address.contains('@') => Err("a name server has no login: that has keys of its own"),
                _ if address.contains('/') => Err("a name server is `host:port`, without a scheme or a path"),
                _ => host_and_port(address, 9876),
            };
            match read {
                Ok(server) => servers.push(server),
                // Not repeated: a URL with a user often has the password too.
                Err(problem) => section.cx.report.problem(&text.spot, problem, "write `namesrv-0:9876`"),
            }
        }
    }
    servers
}

fn group(section: &Section<'_>, key: &Key) -> String {
    let Some(text) = section.text(key) else { return "delaybridge".to_owned() };
    if target::unfit_name(&text.value) || text.value.len() > 120 {
        let message = "a group has letters (a to z), digits, `_`, `-`, `%` and `|`, 120 at most";
        section.cx.report.problem(&text.spot, message, "write a name as `delaybridge`");
    }
    text.value
}
