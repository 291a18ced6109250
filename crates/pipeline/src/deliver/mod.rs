//! From a claim to the answers of its sinks: batches leave in the order of their claims ([`dispatch`]), each element is
//! decoded and routed ([`outgoing`], by the rules in [`understand`]) and [delivered](delivery) through the handles of its sinks
//! ([`sink_handle`]), and the last of their answers ends its [`round`] with a verdict. In a queue in order it waits in its
//! [`key_queues`] first. A sink without anything to deliver is probed ([`probes`]).

pub mod answer;
mod at_sink;
mod blame;
mod delivery;
pub mod destinations;
pub mod dispatch;
mod in_order;
pub mod key_queues;
mod look;
mod look_outages;
mod mark;
mod one_by_one;
pub mod outbound;
mod outgoing;
pub mod probes;
pub mod redact;
mod round;
mod run;
pub mod sink_handle;
pub mod together;
pub mod understand;
