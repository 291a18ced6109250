//! The source `zset`: a sorted set whose members are the payloads and whose scores are the due times.
//!
//! Other programs may read the set at the same time: whoever removes a member has it. `keys` names what is in Redis,
//! `identity` makes ids, `source` is the implementation of [`Source`](delaybridge_ledger::Source).

pub(crate) mod config;
mod identity;
mod keys;
mod notifications;
mod rights;
mod scripts;
mod source;
#[cfg(test)]
mod tests;

pub use self::config::{Body, ZsetSpec};
pub(crate) use self::config::{KIND, NOTE};
pub use self::identity::Naming;
pub use self::keys::{Keys, tag};
pub use self::notifications::announced;
pub use self::scripts::{SCRIPTS, SCRIPTS_ON_TEST_CLOCK};
pub use self::source::ZsetSource;
