//! The list of the kinds of inputs, in the order of the reference. A kind is named here and nowhere else.
//!
//! It comes with the sink of the same broker: a binary without that has an entry that only refuses the kind.

use delaybridge_input::InputKind;
use delaybridge_settings::keys::Group;
#[cfg(feature = "amqp")]
use delaybridge_sink_amqp::INPUT_KIND as AMQP;
#[cfg(feature = "kafka")]
use delaybridge_sink_kafka::INPUT_KIND as KAFKA;

#[cfg(not(feature = "amqp"))]
static AMQP: InputKind = absent("amqp");
#[cfg(not(feature = "kafka"))]
static KAFKA: InputKind = absent("kafka");

/// Returns an entry for a kind that is not in this binary.
#[cfg(not(all(feature = "amqp", feature = "kafka")))]
const fn absent(name: &'static str) -> InputKind {
    use delaybridge_core::codes::Codes;
    use delaybridge_settings::keys::{Kind, key};
    let key = key(name, Kind::Text, "Not in this binary.");
    InputKind { key, tables: &[], read: None, codes: || Codes::of("", "", &[]) }
}

/// Every kind.
pub static KINDS: &[&InputKind] = &[&AMQP, &KAFKA];

/// The key of each kind under `inputs.NAME`.
pub static KIND_KEYS: &[Group] = &[
    Group { of: None, keys: std::slice::from_ref(&AMQP.key) },
    Group { of: None, keys: std::slice::from_ref(&KAFKA.key) },
];
