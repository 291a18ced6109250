//! The source `job_pool`: ids in sorted sets by due time, and the jobs in other keys.
//!
//! A claim moves members as they are. The daemon reads the ids out of them, and asks for the jobs under the lease of the claim
//! ([`bodies`](delaybridge_ledger::claims)). A job goes in the script that settles its element. [`record`] and [`layout`] read bytes
//! and are pure, `preset` has the layouts of known programs, `source` is the implementation of [`Source`](delaybridge_ledger::Source).

pub(crate) mod config;
mod due;
pub mod java;
pub mod layout;
mod preset;
pub mod record;
mod rights;
mod rivals;
mod scripts;
mod source;
mod status;
#[cfg(test)]
mod tests;
mod write;

pub use self::config::JobPoolSpec;
pub(crate) use self::config::KIND;
pub use self::preset::{PRESETS, Preset};
pub use self::rivals::{held, rivals, to_see_rivals};
pub use self::scripts::{SCRIPTS, SCRIPTS_ON_TEST_CLOCK};
pub use self::source::JobPool;
pub use self::write::{Leaving, Program, Written};
