//! The list of the kinds of sinks, in the order of the reference. A kind is named here and nowhere else.
//!
//! A kind with a client library of its own has a cargo feature of its name. A binary without it has an entry that only
//! refuses the kind, so that the configuration says why.

use delaybridge_settings::keys::Group;
use delaybridge_sink::SinkKind;
#[cfg(feature = "amqp")]
use delaybridge_sink_amqp as amqp;
#[cfg(feature = "http")]
use delaybridge_sink_http as http;
#[cfg(feature = "kafka")]
use delaybridge_sink_kafka as kafka;
#[cfg(feature = "nats")]
use delaybridge_sink_nats as nats;
use delaybridge_sink_redis as redis;
use delaybridge_sink_stdout as stdout;

#[cfg(not(feature = "amqp"))]
mod amqp {
    use super::absent::*;

    pub(super) static KIND: SinkKind =
        absent("amqp", "AMQP", &[text("exchange"), text("routing_key"), text("properties")]);
}
#[cfg(not(feature = "http"))]
mod http {
    use super::absent::*;

    pub(super) static KIND: SinkKind = absent("http", "HTTP", &[text("path")]);
}
#[cfg(not(feature = "kafka"))]
mod kafka {
    use super::absent::*;

    pub(super) static KIND: SinkKind = absent("kafka", "Kafka", &[text("topic"), text("key")]);
}

#[cfg(not(feature = "nats"))]
mod nats {
    use super::absent::*;

    pub(super) static KIND: SinkKind = absent("nats", "NATS", &[text("subject")]);
}

/// Entries for kinds that are not in this binary.
#[cfg(not(all(feature = "amqp", feature = "http", feature = "kafka", feature = "nats")))]
mod absent {
    use delaybridge_core::codes::Codes;
    use delaybridge_settings::keys::{Key, Kind, key};
    pub(super) use delaybridge_sink::SinkKind;

    /// An entry with these destination keys, which are not read.
    pub(super) const fn absent(name: &'static str, title: &'static str, to: &'static [Key]) -> SinkKind {
        let key = text(name);
        SinkKind { key, title, tables: &[], to, dead_letter: to, read: None, codes: || Codes::of("", "", &[]) }
    }

    /// A key that is not read.
    pub(super) const fn text(name: &'static str) -> Key {
        key(name, Kind::Text, "Not in this binary.")
    }
}

macro_rules! kinds {
    ($($module:ident),* $(,)?) => {
        /// Every kind.
        pub static KINDS: &[&SinkKind] = &[$(&$module::KIND),*];

        /// The key of each kind under `sinks.NAME`.
        pub static KIND_KEYS: &[Group] = &[$(Group { of: None, keys: std::slice::from_ref(&$module::KIND.key) }),*];

        /// The keys of each kind under `queues.NAME.to[]`.
        pub static DESTINATION_KEYS: &[Group] =
            &[$(Group { of: Some($module::KIND.title), keys: $module::KIND.to }),*];

        /// The keys of each kind under `queues.NAME.dead_letter`.
        pub static DEAD_LETTER_KEYS: &[Group] =
            &[$(Group { of: Some($module::KIND.title), keys: $module::KIND.dead_letter }),*];
    };
}

kinds![redis, stdout, kafka, amqp, http, nats];
