//! What the network, Redis and the sinks can do to the daemon, and that nothing is lost by it.
//!
//! Every test runs the real binary against real servers and judges what arrived. Numbers are printed, never asserted:
//! the machine may be busy.

mod clients;
mod clocks;
mod cut_replies;
mod full;
mod ghosts;
mod keys;
mod outages;
mod probes;
pub mod rig;
mod several;
mod sinks;
