//! Claims as keys: the requests and the answers of each call.
//!
//! A claim does not rewrite elements, it moves a range of them into a key of its own. The name of the claim is the fence:
//! it never comes back, so a late or repeated call finds nothing (R3). What the elements of a claim have in common is said
//! once: owner, number and expiries in the [name](ClaimName), the end of the lease in one score.
//!
//! | key | holds |
//! |---|---|
//! | `delaybridge:leases:T` | name of a claim -> end of its lease in ms |
//! | `delaybridge:claim:NAME:d:T` | bare elements -> due time |
//! | `delaybridge:claim:NAME:h:T` | entries -> time of the attempt |
//!
//! A lease is written before the keys of its claim and removed after them: a lease without keys is harmless, keys without a
//! lease would be lost. It outlives the keys until the claim can run no more, so that a second sending finds it.

mod bodies;
mod call;
mod entry;
mod name;
mod reply;
mod scripts;
mod verdict;

use std::time::Duration;

use bytes::Bytes;

pub use self::call::ClaimScripts;
pub use self::entry::{Element, Header, Part, RECORD_PENDING, Writer, room_of, sink_hash};
pub use self::name::{ClaimName, MAX_EXPIRIES, NotAName, SUSPECT_EXPIRIES};
pub use self::scripts::{Fragments, Patch, Scripts};
pub use super::body::{Body, BodyAt};
use super::hints::Hints;
use crate::upkeep::Leftovers;
use delaybridge_link::Side;

/// A request for a claim, with the time until which a lost sending may run.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// Name of the claim.
    pub name: ClaimName,
    /// Redis time in ms after which the script does nothing. Before the end of the lease of a claim that runs then.
    pub not_after_ms: i64,
    /// The time for which the elements are ours.
    pub lease: Duration,
    /// The time by which elements of the source are taken before they are due.
    pub ahead: Duration,
    /// Most elements.
    pub most: usize,
    /// Most bytes; a single larger element is taken all the same.
    pub bytes: usize,
    /// The place that goes first; grows by one with every claim, so that none starves.
    pub rotation: u64,
    /// Hints of earlier claims.
    pub hints: Hints,
    /// Redis time in ms, for a queue in order: while claims wait to be taken over, what has gone back and is due before this is
    /// claimed, and nothing else.
    pub back_before_ms: Option<i64>,
}

/// The answer to a claim.
#[derive(Debug)]
pub enum ClaimReply {
    /// The script ran after its `not_after` and did nothing.
    Late {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// The script ran before, and did nothing now.
    Twice {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// The queue is delivered in order, by another daemon; nothing was done.
    Standby {
        /// Redis time in ms.
        now_ms: i64,
        /// Until when that one has the order, if it does not extend it.
        until_ms: i64,
    },
    /// The script ran.
    Claimed(Claimed),
}

/// The elements that a claim took, and what it saw. A claim has a lease only if it took something.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Redis time in ms.
    pub now_ms: i64,
    /// The elements taken: from the retry set, then from the source, each in due order.
    pub elements: Vec<Element>,
    /// The number of those that came from the retry set.
    pub retried: usize,
    /// The time at which there is something to take next, in Redis ms; a past time means at once.
    pub next_ms: Option<i64>,
    /// For the next claim.
    pub hints: Hints,
    /// The leftovers of claims at the source, if the claim looked.
    pub leftovers: Option<Leftovers>,
    /// Claims with leases that are over, the longest first: at most [`EXPIRED_SHOWN`].
    pub expired: Vec<ClaimName>,
    /// Names beside them that this version cannot read: a newer one's, or another program's. They may hide others.
    pub unknown_names: u64,
    /// Entries met that this version cannot read: a newer one's, and left to it, or damaged ones.
    pub unknown: u64,
    /// The number of those that were taken: they stay in the claim.
    pub unreadable: u64,
    /// The damaged ones among them.
    pub damaged: Vec<Element>,
    /// Something was left because of its size: there is more to claim at once.
    pub more: bool,
}

/// Names of expired claims that a claim shows, with those that cannot be read. If it shows so many, there may be more:
/// [`expired`](crate::store::Claims::expired) has them all.
pub const EXPIRED_SHOWN: usize = 8;

/// A request to take over a claim under a new name.
#[derive(Debug, Clone)]
pub struct TakeOverRequest {
    /// The claim with the lease that is over.
    pub old: ClaimName,
    /// The new one: [`ClaimName::taken_over_by`].
    pub new: ClaimName,
    /// As for a claim.
    pub not_after_ms: i64,
    /// As for a claim.
    pub lease: Duration,
    /// Most elements: one, if the new name [is suspect](ClaimName::is_suspect).
    pub most: usize,
    /// Most bytes; a single larger element is taken all the same.
    pub bytes: usize,
    /// Size of the largest element met lately.
    pub largest: usize,
}

/// The answer to a takeover.
#[derive(Debug)]
pub enum TakeOverReply {
    /// The script ran after its `not_after` and did nothing.
    Late {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// The script ran before, and did nothing now.
    Twice {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// There is no such lease any more, or its owner has extended it, or it held nothing and is gone now.
    Nothing {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// The elements taken are in the new claim.
    Taken {
        /// Redis time in ms.
        now_ms: i64,
        /// The elements taken, entries first.
        elements: Vec<Element>,
        /// The number of elements that there was no room for: they stay in the old claim.
        left: u64,
        /// Entries taken that this version cannot read: they stay in the new claim.
        unknown: u64,
        /// The damaged ones among them.
        damaged: Vec<Element>,
    },
}

/// The most leases that one extension takes: a script looks up each in 1 us.
pub const EXTENDED: usize = 2_000;

/// The answer to an extension of leases.
#[derive(Debug)]
pub enum Extended {
    /// The script ran after its `not_after` and did nothing.
    Late {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// The leases are extended.
    Done {
        /// Redis time in ms.
        now_ms: i64,
        /// For each name, whether it was still the caller's.
        held: Vec<bool>,
    },
}

/// The contents of a claim.
#[derive(Debug, Default)]
pub struct Contents {
    /// The elements, entries first.
    pub elements: Vec<Element>,
    /// Entries that this version cannot read.
    pub unknown: u64,
    /// The damaged ones among them.
    pub damaged: Vec<Element>,
}

impl Contents {
    /// Adds an entry: as an element, if this version can read it.
    pub fn add_entry(&mut self, member: Bytes, score_ms: i64) {
        match Element::entry(member.clone(), score_ms) {
            Some(element) => self.elements.push(element),
            None => {
                self.unknown += 1;
                self.damaged.extend(Element::damaged(member, score_ms));
            }
        }
    }
}

/// A claim that is removed by its name: every element that was ever under it was confirmed.
///
/// The server may have an older state than the caller has seen, and then more is under the name than the caller believes. So this
/// is right only if nothing has left the claim in another way than by a confirmation, and its owner knows all that it ever held.
/// Of any other claim, each element is confirmed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// The name.
    pub name: ClaimName,
    /// Bare elements left in it, as far as the caller knows.
    pub bare: usize,
    /// Entries left in it.
    pub entries: usize,
}

/// The answer to the confirmation of a whole claim. Of several claims in one call only the number of each is right, not which
/// claims they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// The claim is gone, with all that was in it.
    Done,
    /// The claim was not there: taken over, or confirmed before.
    Gone,
}

/// The verdict on one element of a claim.
#[derive(Debug, Clone)]
pub struct SettleCommand {
    /// The claim.
    pub claim: ClaimName,
    /// The key of the claim that holds the member.
    pub part: Part,
    /// The exact member.
    pub member: Bytes,
    /// The step to take with it.
    pub step: SettleOp,
    /// The body, as it was delivered. It goes with an element that leaves the claim for good, unless it has been replaced.
    pub body: Option<Bytes>,
}

/// A step that ends or moves an element.
#[derive(Debug, Clone)]
pub enum SettleOp {
    /// Every sink has confirmed: removed.
    Confirm,
    /// To the retry set, due this long after the script runs.
    Retry {
        /// Header of the entry that waits.
        header: Header,
        /// Milliseconds from now by Redis's clock.
        delay_ms: u64,
    },
    /// Back, uncounted, in the order it had: to the retry set at its due time, even a past one.
    Release {
        /// Header of the entry that waits.
        header: Header,
        /// Milliseconds since the epoch.
        at_ms: i64,
    },
    /// Back to the source, for this time: its own record says that it is not due yet.
    Return {
        /// Milliseconds since the epoch.
        at_ms: i64,
    },
    /// Some sinks have confirmed: noted in the claim's entries, the lease runs on.
    Progress {
        /// Header with the sinks confirmed so far.
        header: Header,
    },
    /// To the dead stream.
    Dead {
        /// Fields and values of the dead letter.
        fields: Vec<(&'static str, Bytes)>,
    },
    /// Removed and pushed to the destination list in one script: exactly once.
    Push {
        /// End of the list.
        side: Side,
        /// The bytes that are pushed.
        body: Bytes,
    },
}

/// The answer of the settle script for one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Done. The lease may have been over, but no other claim had taken over.
    Done,
    /// The command had been done before: the answer to a resend.
    Already,
    /// The element is not the caller's any more; nothing was changed (R3).
    NotMine,
    /// The destination of a push is not a list; nothing was changed.
    WrongType,
}

impl Answer {
    pub(super) fn of(letter: u8) -> Option<Answer> {
        match letter {
            b'y' => Some(Answer::Done),
            b'a' => Some(Answer::Already),
            b'n' => Some(Answer::NotMine),
            b'w' => Some(Answer::WrongType),
            _ => None,
        }
    }
}

/// The answer to a settling.
#[derive(Debug)]
pub struct Settled {
    /// Redis time in ms.
    pub now_ms: i64,
    /// One answer for each verdict, in their order.
    pub answers: Vec<Answer>,
    /// Dead letters that were trimmed away.
    pub trimmed: u64,
}

/// The answer to the removal of leases of empty claims.
#[derive(Debug)]
pub enum Buried {
    /// One of the claims may still run: nothing was done.
    Wait {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// The leases of empty claims are gone.
    Done {
        /// Redis time in ms.
        now_ms: i64,
        /// For each name, whether the claim holds something, and so keeps its lease.
        kept: Vec<bool>,
    },
}

impl SettleOp {
    /// Estimates the bytes that the step adds to the arguments of a script.
    pub fn size(&self) -> usize {
        match self {
            SettleOp::Dead { fields } => fields.iter().map(|(name, value)| name.len() + value.len()).sum(),
            SettleOp::Push { body, .. } => body.len(),
            _ => 128,
        }
    }
}
