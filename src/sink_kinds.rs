//! The list of the kinds of sinks, in the order of the reference. A kind is named here and nowhere else.

use crate::settings::keys::Group;
use crate::sink::{SinkKind, amqp, http, kafka, redis, stdout};

macro_rules! kinds {
    ($($module:ident),* $(,)?) => {
        /// Every kind.
        pub(crate) static KINDS: &[&SinkKind] = &[$(&$module::KIND),*];

        /// The key of each kind under `sinks.NAME`.
        pub(crate) static KIND_KEYS: &[Group] = &[$(Group { of: None, keys: std::slice::from_ref(&$module::KIND.key) }),*];

        /// The keys of each kind under `queues.NAME.to[]`.
        pub(crate) static DESTINATION_KEYS: &[Group] =
            &[$(Group { of: Some($module::KIND.title), keys: $module::KIND.to }),*];

        /// The keys of each kind under `queues.NAME.dead_letter`.
        pub(crate) static DEAD_LETTER_KEYS: &[Group] =
            &[$(Group { of: Some($module::KIND.title), keys: $module::KIND.dead_letter }),*];
    };
}

kinds![redis, stdout, kafka, amqp, http];
