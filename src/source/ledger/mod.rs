//! The ledger: what is in flight, waits for a retry or is dead, the same for every kind of source.
//!
//! [`Ledger`] wraps the scripts of one queue, one call each: no state between calls, no retries. What to do with an unknown
//! answer is the pipeline's to decide. [`keys`] names what is in Redis, [`claims`] documents its bytes; then a file for each
//! kind of call. The source's half of each script comes from the [`Source`] that the ledger was made for.

mod bodies;
pub mod claims;
mod dead;
pub mod fsck;
mod hints;
mod horizon;
mod in_flight;
mod inspect;
mod keys;
mod operate;
mod page;
mod pause;
mod pressure;
mod restore;
mod rights;
mod scripts;
mod stats;
mod unleased;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;

pub use self::claims::{Answer, sink_hash};
pub use self::dead::{CAUSES, DeadLetter, DeadLetters, DeadPages, Forwarder, NotALetter, Order};
pub use self::hints::{Hints, large_head};
pub use self::in_flight::ClaimKey;
pub(crate) use self::inspect::glob_literal;
pub use self::inspect::{Located, Packed, Page, Place, Seen, Shape, Show};
pub use self::keys::Keys;
pub(in crate::source) use self::keys::together;
pub(crate) use self::operate::truth;
pub use self::operate::{Acted, CHANGED, Import, NewBody, Removal};
pub use self::page::{Kind, Members, RawPage, members, page, redis_now_ms};
pub use self::pause::{ANNOUNCED, Changed, NewPause, Pause, PauseEnd, Pauses, Subject};
pub use self::pressure::nearly_full;
pub use self::restore::{Item, Moved, Restored, restore_end};
pub use self::rights::Use;
pub use self::scripts::{Fragments, REMOVE_SETS, Scripts, whole};
pub use self::stats::Stats;
pub use self::unleased::claims_with_keys;
use super::{Junk, NoPayload, Source};
pub use crate::link::{BadReply, Clock, Fields, TEST_CLOCK};
use crate::message::Identity;

/// Most entries that one script moves.
pub const BATCH_ENTRIES: usize = 500;
/// Most bytes that one script moves; a single larger element is moved alone.
pub const BATCH_BYTES: usize = 1 << 20;

/// The ledger of one queue in one Redis, as one process sees it.
pub struct Ledger {
    /// The ledger's keys of the queue.
    pub keys: Keys,
    /// The random number of this process.
    pub owner: [u8; 8],
    scripts: &'static Scripts,
    source: Arc<dyn Source>,
    /// One daemon at a time delivers from the queue, in order.
    ordered: bool,
    /// Mean size of the bodies that were met last, for a source with bodies: 0 for none.
    body_size: AtomicUsize,
}

impl Ledger {
    /// The ledger of a source's queue. `owner` is this process's random number.
    pub fn new(source: Arc<dyn Source>, owner: [u8; 8]) -> Self {
        let keys = source.ledger_keys();
        Ledger { keys, owner, scripts: source.scripts(), source, ordered: false, body_size: AtomicUsize::new(0) }
    }

    /// The same of a queue that one daemon at a time delivers from, in order.
    pub fn in_order(self, ordered: bool) -> Self {
        Ledger { ordered, ..self }
    }

    /// The foreign half of the queue.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// Takes an element apart: its id, and the payload or why there is none.
    pub fn open(&self, element: &claims::Element) -> (Identity, Result<Bytes, NoPayload>) {
        let (origin, given, bytes) = (element.origin(), element.given_id(), element.bytes());
        let (id, payload) = match &element.body {
            _ if element.is_damaged() => Junk::damaged(element),
            Some(body) => return self.source.open_body(origin, given, &bytes, body),
            None => self.source.open(origin, given, &bytes),
        };
        (id, payload.map_err(NoPayload::Junk))
    }

    /// The keys of scripts that have a half of the source: ours first.
    fn with_source(&self) -> Vec<Bytes> {
        let mut keys = vec![self.keys.leases.clone(), self.keys.retry.clone(), self.keys.dead.clone()];
        keys.extend(self.source.keys());
        keys
    }
}
