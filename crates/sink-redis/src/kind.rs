//! The kind, as the configuration knows it.

use super::target::NAME;
use super::{config, target};
use delaybridge_core::codes::{Code, Codes, DEFECT, code};
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The `redis` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_redis::TABLE), "A Redis list or stream."),
    title: "Redis",
    tables: config::TABLES,
    to: target::KEYS,
    dead_letter: target::DEAD_LETTER_KEYS,
    read: Ok(config::read),
    codes: || Codes::of("Redis sinks", "Beside the answers of Redis and the codes of every sink.", CODES),
};

const CODES: &[Code] = &[code("unexpected_reply", "The answer is not a confirmation.", DEFECT)];
