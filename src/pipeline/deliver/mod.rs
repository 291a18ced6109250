//! From a claim to the answers of its sinks: batches leave in the order of their claims ([`dispatch`]), each element is
//! decoded and routed ([`outbound`], by the rules in [`understand`]) and delivered ([`relay`]) through the handles of its sinks ([`sink_handle`]), and
//! its verdict is concluded from what they answered ([`conclude`]). A sink without anything to deliver is probed
//! ([`probes`]).

pub mod answer;
mod blame;
pub mod conclude;
pub mod delivery;
pub mod destinations;
pub mod dispatch;
pub mod in_order;
pub mod outbound;
pub mod pass;
pub mod probes;
pub mod redact;
pub mod relay;
pub mod sink_handle;
mod together;
pub mod understand;
