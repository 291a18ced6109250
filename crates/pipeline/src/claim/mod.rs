//! Claims of this process: from the wake-up of the claimer to the elements that its delivery takes over.
//!
//! A claim is one lease and one share of the room for all of its elements, and knows the stage of each ([`record`]). A [`batch`]
//! brings them to the sinks. An element is [`claimed`] by itself only where it leaves the common way: in a queue in order, with
//! several sinks, or with a verdict of its own.

pub mod alarm;
pub mod batch;
pub mod claimed;
pub mod claimer;
pub mod claimers;
pub mod differences;
pub mod element;
pub mod expired;
pub mod gauges;
pub mod isolation;
pub mod lookers;
pub mod lost;
pub mod notes;
mod outlook;
pub mod outstanding;
pub mod pollers;
pub mod prepare;
pub mod progress;
pub mod record;
pub mod reply;
pub mod safety_poll;
mod stages;
