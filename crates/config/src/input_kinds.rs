//! The list of the kinds of inputs, in the order of the reference. A kind is named here and nowhere else.
//!
//! It comes with the sink of the same broker: a binary without that has an entry that only refuses the kind.

use delaybridge_input::InputKind;
use delaybridge_settings::keys::Group;
#[cfg(feature = "amqp")]
use delaybridge_sink_amqp::INPUT_KIND as AMQP;

#[cfg(not(feature = "amqp"))]
static AMQP: InputKind = absent("amqp");

/// An entry for a kind that is not in this binary.
#[cfg(not(feature = "amqp"))]
const fn absent(name: &'static str) -> InputKind {
    use delaybridge_core::codes::Codes;
    use delaybridge_settings::keys::{Kind, key};
    let key = key(name, Kind::Text, "Not in this binary.");
    InputKind { key, tables: &[], read: None, codes: || Codes::of("", "", &[]) }
}

/// Every kind.
pub static KINDS: &[&InputKind] = &[&AMQP];

/// The key of each kind under `inputs.NAME`.
pub static KIND_KEYS: &[Group] = &[Group { of: None, keys: std::slice::from_ref(&AMQP.key) }];
