//! From a claim to the answers of its sinks: batches leave in the order of their claims ([`dispatch`]), each element is
//! decoded and routed ([`outbound`], by the rules in [`understand`]) and delivered ([`batch_delivery`], or [`round`] for an element by
//! itself) through the handles of its sinks ([`sink_handle`]), and its verdict is concluded from their answers ([`conclude`]). In a
//! queue in order it waits in its [`key_queues`] first. A sink without anything to deliver is probed ([`probes`]).

pub mod answer;
mod batch_delivery;
mod blame;
pub mod conclude;
pub mod delivery;
pub mod destinations;
pub mod dispatch;
mod in_order;
pub mod key_queues;
pub mod outbound;
pub mod pass;
pub mod probes;
pub mod redact;
mod relay;
mod result;
mod round;
pub mod sink_handle;
pub mod understand;
