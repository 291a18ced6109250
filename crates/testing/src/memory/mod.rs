//! A source and its ledger in memory: the same contract as in Redis, without a server and on the clock of the test.
//!
//! For tests of the pipeline, which run on paused time over it. It also does what a server seldom does on request: it goes
//! away, and it loses the reply of a call that ran.
//!
//! An element is eight bytes of id and the payload; anything shorter is junk.

mod claim_sets;
mod claims;
mod element;
mod fence;
mod lag;
mod queue;
mod replica;
mod rig;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod zset;

pub use self::element::element;
pub use self::replica::Saved;
pub use self::rig::MemoryRig;
pub use self::server::{Fault, MemoryServer, MemoryStore, Op};
