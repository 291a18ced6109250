//! Dead letters: the fields that one has ([`fields`]), and their way to the sink that `dead_letter` names ([`forwarder`]).

pub mod fields;
pub mod forwarder;
