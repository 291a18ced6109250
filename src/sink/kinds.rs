//! The list of kinds: one line each.

use std::fmt;

use bytes::Bytes;

use super::kind::SinkKind;
use super::{amqp, http, kafka, redis, stdout};
use crate::settings::keys::Group;

macro_rules! kinds {
    ($($(#[$help:meta])* $variant:ident($module:ident::$destination:ident),)*) => {
        /// Where one sink is to put the element; the templates are already filled.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Destination {
            $($(#[$help])* $variant($module::$destination),)*
        }

        $(impl From<$module::$destination> for Destination {
            fn from(destination: $module::$destination) -> Destination {
                Destination::$variant(destination)
            }
        })*

        impl fmt::Display for Destination {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Destination::$variant(destination) => destination.fmt(f),)*
                }
            }
        }

        impl Destination {
            /// What tells it apart from other destinations of its sink: two that are equal here fail together.
            pub(crate) fn lane(&self) -> (&[u8], &[u8]) {
                match self {
                    $(Destination::$variant(destination) => destination.lane(),)*
                }
            }

            /// The filled destination keys, by their names under `to:`; those of properties are behind a dot. What must not be
            /// shown is not in it.
            pub fn fields(&self) -> Vec<(String, Bytes)> {
                match self {
                    $(Destination::$variant(destination) => destination.fields(),)*
                }
            }
        }

        /// Every kind, in the order of the reference.
        pub(crate) static KINDS: &[&SinkKind] = &[$(&$module::KIND),*];

        /// The key of each kind under `sinks.NAME`.
        pub(crate) static KIND_KEYS: &[Group] = &[$(Group { of: None, keys: std::slice::from_ref(&$module::KIND.key) }),*];

        /// The keys of each kind under `queues.NAME.to[]`.
        pub(crate) static DESTINATION_KEYS: &[Group] = &[$(Group { of: Some($module::KIND.title), keys: $module::KIND.to }),*];

        /// The keys of each kind under `queues.NAME.dead_letter`.
        pub(crate) static DEAD_LETTER_KEYS: &[Group] =
            &[$(Group { of: Some($module::KIND.title), keys: $module::KIND.dead_letter }),*];
    };
}

kinds! {
    /// A list or a stream.
    Redis(redis::RedisDestination),
    /// Standard output.
    Stdout(stdout::StdoutDestination),
    /// A topic.
    Kafka(kafka::KafkaDestination),
    /// An exchange.
    Amqp(amqp::AmqpDestination),
    /// A path of a server.
    Http(http::HttpDestination),
}
