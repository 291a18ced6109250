//! Faults of the network, of Redis and of the sinks, and the proof that they lose nothing.
//!
//! Every test runs the real binary with real servers and judges the deliveries. Figures are printed, never checked: the
//! machine may be busy.

mod clients;
mod clocks;
mod cut_replies;
mod disk;
mod full;
mod ghosts;
mod keys;
mod outages;
mod probes;
pub mod rig;
mod several;
mod sinks;
