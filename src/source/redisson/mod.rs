//! The source `redisson`: a delayed queue as Redisson keeps it, claimed, settled and swept by scripts.
//!
//! Typed wrappers around the scripts, one call each, no state between calls, no retries: what to do with an unknown
//! answer is the pipeline's to decide. `keys` names what is in Redis, [`layout`] reads Redisson's elements, `entry`
//! ours; then a file for each kind of call.

mod claim;
mod command;
mod consumers;
mod dead;
mod discover;
mod entry;
mod inspect;
mod keys;
pub mod layout;
mod migrate;
mod page;
mod poll;
mod recover;
mod reply;
mod rescue;
mod restore;
mod rights;
mod scratch_queue;
mod scripts;
mod settle;
mod stats;
mod sweep;
mod verdict;

use std::time::Duration;

use bytes::Bytes;

pub use self::claim::{ClaimReply, ClaimRequest, Claimed, ClaimedFrom, Hints};
pub use self::consumers::{Blocked, advice, blocked_consumers};
pub use self::dead::{DeadLetter, DeadLetters, Forwarder, NotALetter, Order};
pub use self::discover::{Found, discover, name_of, redisson_clients};
pub use self::entry::{ClaimKey, Entry, Header, sink_hash};
pub use self::inspect::{Located, Page, Place, Seen, Shape, Show};
pub use self::keys::Keys;
pub use self::migrate::{Repack, migrate_end};
pub use self::page::{Members, redis_now_ms};
pub use self::poll::{Polled, nearly_full, other_subscribers, poll, ready_lengths};
pub use self::recover::{Cursor, RecoverRequest, Recovered};
pub use self::reply::BadReply;
pub use self::rescue::{Overdue, rescue_end};
pub use self::restore::{AtWork, Back, Held, Kept, Moved, Restored, put_back, repacked, restore_end};
pub use self::scratch_queue::{memory_left, ping};
pub use self::scripts::{SCRIPTS, SCRIPTS_ON_TEST_CLOCK, Scripts, TEST_CLOCK};
pub use self::settle::{Settled, batch_end, confirmation};
pub use self::stats::Stats;
pub use self::sweep::{Start, SweepRequest, SweepState, Swept};
pub use self::verdict::{Answer, Move};
use crate::config::ListCleanup;
use crate::link::LinkError;

/// Most entries that one script moves.
pub const BATCH_ENTRIES: usize = 500;
/// Most bytes that one script moves; a single larger element is moved alone.
pub const BATCH_BYTES: usize = 1 << 20;

/// Leases in a row that ran out, after which an entry is not delivered any more.
pub const MAX_EXPIRIES: u16 = 10;

/// Why a call to the source did not answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The connection, or an error reply of the server.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// An answer of an unknown shape.
    #[error(transparent)]
    Reply(#[from] BadReply),
}

/// One queue in one Redis, as one process sees it.
pub struct Redisson {
    /// The queue's keys.
    pub keys: Keys,
    /// This process.
    pub owner: [u8; 8],
    scripts: &'static Scripts,
    sources: &'static str,
    cleanup: &'static str,
}

impl Redisson {
    /// The queue with this mapped name. `owner` is this process's random number.
    pub fn new(name: &str, owner: [u8; 8], delayed: bool, ready: bool, cleanup: ListCleanup) -> Self {
        Redisson {
            keys: Keys::of(name),
            owner,
            scripts: &SCRIPTS,
            sources: match (delayed, ready) {
                (true, false) => "d",
                (false, true) => "r",
                _ => "dr",
            },
            cleanup: match cleanup {
                ListCleanup::Auto => "auto",
                ListCleanup::Exact => "exact",
            },
        }
    }

    /// The same queue under the clock of [`TEST_CLOCK`].
    pub fn on_test_clock(mut self) -> Self {
        self.scripts = &SCRIPTS_ON_TEST_CLOCK;
        self
    }
}

fn text(value: impl std::fmt::Display) -> Bytes {
    value.to_string().into()
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
