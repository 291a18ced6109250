//! The list of the kinds of sinks, in the order of the reference. A kind is named here and nowhere else.
//!
//! A kind with a client library of its own has a cargo feature. A binary without it has an entry that only
//! refuses the kind, so that the configuration says why.

use delaybridge_settings::keys::Group;
use delaybridge_sink::SinkKind;
#[cfg(feature = "amqp")]
use delaybridge_sink_amqp as amqp;
#[cfg(feature = "amqp1")]
use delaybridge_sink_amqp1 as amqp1;
#[cfg(feature = "aws")]
use delaybridge_sink_aws as aws;
#[cfg(feature = "http")]
use delaybridge_sink_http as http;
#[cfg(feature = "kafka")]
use delaybridge_sink_kafka as kafka;
#[cfg(feature = "nats")]
use delaybridge_sink_nats as nats;
use delaybridge_sink_redis as redis;
#[cfg(feature = "rocketmq")]
use delaybridge_sink_rocketmq as rocketmq;
use delaybridge_sink_stdout as stdout;

#[cfg(not(feature = "amqp"))]
mod amqp {
    use super::absent::*;

    pub(super) static KIND: SinkKind =
        absent("amqp", "amqp", "AMQP", &[text("exchange"), text("routing_key"), text("properties")]);
}
#[cfg(not(feature = "aws"))]
mod aws {
    use super::absent::*;

    pub(super) static SQS: SinkKind = absent("aws", "sqs", "SQS", &[text("queue_url")]);
    pub(super) static SNS: SinkKind = absent("aws", "sns", "SNS", &[text("topic_arn")]);
}
#[cfg(not(feature = "amqp1"))]
mod amqp1 {
    use super::absent::*;

    pub(super) static KIND: SinkKind = absent("amqp1", "amqp1", "AMQP 1.0", &[text("address")]);
}
#[cfg(not(feature = "http"))]
mod http {
    use super::absent::*;

    pub(super) static KIND: SinkKind = absent("http", "http", "HTTP", &[text("path")]);
}
#[cfg(not(feature = "kafka"))]
mod kafka {
    use super::absent::*;

    pub(super) static KIND: SinkKind = absent("kafka", "kafka", "Kafka", &[text("topic"), text("key")]);
}

#[cfg(not(feature = "nats"))]
mod nats {
    use super::absent::*;

    pub(super) static KIND: SinkKind = absent("nats", "nats", "NATS", &[text("subject")]);
}

#[cfg(not(feature = "rocketmq"))]
mod rocketmq {
    use super::absent::*;

    pub(super) static KIND: SinkKind =
        absent("rocketmq", "rocketmq", "RocketMQ", &[text("topic"), text("tags"), text("sharding_key"), text("keys")]);
}

/// Entries for kinds that are not in this binary.
#[cfg(not(all(
    feature = "amqp",
    feature = "amqp1",
    feature = "aws",
    feature = "http",
    feature = "kafka",
    feature = "nats",
    feature = "rocketmq"
)))]
mod absent {
    use delaybridge_core::codes::Codes;
    use delaybridge_settings::keys::{Key, Kind, key};
    pub(super) use delaybridge_sink::SinkKind;

    /// Creates an entry for a kind of this cargo feature, with these destination keys, which are not read.
    pub(super) const fn absent(
        feature: &'static str,
        name: &'static str,
        title: &'static str,
        to: &'static [Key],
    ) -> SinkKind {
        let key = text(name);
        SinkKind { key, title, tables: &[], to, dead_letter: to, read: Err(feature), codes: || Codes::of("", "", &[]) }
    }

    /// Returns a key that is not read.
    pub(super) const fn text(name: &'static str) -> Key {
        key(name, Kind::Text, "Not in this binary.")
    }
}

macro_rules! kinds {
    ($($kind:path),* $(,)?) => {
        /// Every kind.
        pub static KINDS: &[&SinkKind] = &[$(&$kind),*];

        /// The key of each kind under `sinks.NAME`.
        pub static KIND_KEYS: &[Group] = &[$(Group { of: None, keys: std::slice::from_ref(&$kind.key) }),*];

        /// The keys of each kind under `queues.NAME.to[]`.
        pub static DESTINATION_KEYS: &[Group] =
            &[$(Group { of: Some($kind.title), keys: $kind.to }),*];

        /// The keys of each kind under `queues.NAME.dead_letter`.
        pub static DEAD_LETTER_KEYS: &[Group] =
            &[$(Group { of: Some($kind.title), keys: $kind.dead_letter }),*];
    };
}

kinds![
    redis::KIND,
    stdout::KIND,
    kafka::KIND,
    amqp::KIND,
    amqp1::KIND,
    http::KIND,
    nats::KIND,
    rocketmq::KIND,
    aws::SQS,
    aws::SNS,
];
