//! The keys of `sinks.NAME.redis`, and the server that they describe.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::sink::RedisSink;
use super::target::{self, NAME, RedisKeys};
use delaybridge_core::codes::{Code, Codes, DEFECT, code};
use delaybridge_link::config::{CONNECTION, PLACES};
use delaybridge_link::{LinkOptions, Redis, RedisTarget, config};
use delaybridge_settings::Settings;
use delaybridge_settings::keys::{Group, Key, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkRedis, SinkStart};

/// The `redis` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&sink_redis::TABLE), "A Redis list or stream."),
    title: "Redis",
    tables: &[&sink_redis::TABLE],
    to: target::destination::OWN,
    dead_letter: target::DEAD_LETTER_KEYS,
    read: Ok(read),
    codes: || Codes::of("Redis sinks", "Beside the answers of Redis and the codes of every sink.", CODES),
};

const CODES: &[Code] = &[code("unexpected_reply", "The answer is not a confirmation.", DEFECT)];

/// A Redis named by `url`, `sentinel` or `cluster`, else that of the queues; the keys of a connection need one of the three.
#[derive(Debug, Clone, Settings)]
#[settings(sink_redis, at = "sinks.NAME.redis", offered = BESIDE_URL, hidden)]
pub struct RedisSpec {
    /// As `redis.url`. Default: the Redis of the queues, with its connection settings.
    #[key(Kind::Secret, name = "url", read = server)]
    pub target: Option<RedisTarget>,
}

static BESIDE_URL: &[Group] = &[
    Group { of: None, keys: &[config::SENTINEL, config::CLUSTER, kind::TIMEOUT, kind::MAX_RATE] },
    Group { of: None, keys: target::destination::OWN },
    Group { of: None, keys: CONNECTION },
];

fn server(section: &Section<'_>, _url: &Key) -> Option<RedisTarget> {
    config::target(section)
}

pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let has_place = PLACES.iter().any(|place| section.has(place));
    let spec = RedisSpec::of(section);
    for key in CONNECTION.iter().filter(|key| !has_place && section.has(key)) {
        let message = format!("`{}` has no effect without `url`", key.name);
        let help = "without `url` the sink uses the Redis that holds the queues, over its settings";
        section.cx.report.problem(&section.spot(key), message, help);
    }
    let keys = RedisKeys::read(section, true);
    // Under `dead_letter:` the name `stream` means the stream that the queue keeps.
    SinkSettings::new(section, Some(section.duration(&kind::TIMEOUT)), spec, move |at| {
        RedisKeys::read(at.section, !at.dead).target(at, &keys, has_place)
    })
}

impl Connector for RedisSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        let own = |target| Redis::start(target, LinkOptions { small_replies: true, ..LinkOptions::default() });
        Arc::new(match &self.target {
            None => RedisSink::on_shared(start.queues.clone(), start.timeout),
            Some(target) => RedisSink::on_own(own(target), start.timeout),
        })
    }

    fn settings(&self) -> Map<String, Value> {
        match &self.target {
            None => Map::from_iter([("url".to_owned(), json!("(the Redis that holds the queues)"))]),
            Some(own) => own.settings(),
        }
    }

    fn address(&self) -> String {
        self.target.as_ref().map(RedisTarget::address).unwrap_or_default()
    }

    fn looks_for_destinations(&self) -> bool {
        false
    }

    fn descriptors(&self) -> u64 {
        self.target.as_ref().map(RedisTarget::descriptors).unwrap_or_default()
    }

    fn redis(&self) -> Option<SinkRedis<'_>> {
        Some(self.target.as_ref().map_or(SinkRedis::OfTheQueues, SinkRedis::Own))
    }
}
