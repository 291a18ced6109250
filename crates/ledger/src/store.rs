//! The calls of the pipeline on a queue, wherever it is kept: the ledger over its source in Redis ([`redis`](super::redis)),
//! or both in the memory of a test (`source::memory`).
//!
//! The contract suite of `source` holds every implementation to the same behaviour.
//!
//! `Store`, `Home` and `Server` are all that the pipeline knows of a queue. No call takes a connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::answers::Announcement;
pub use super::answers::{InFlight, Rescued};
use super::claims;
use super::dead::{DeadLetter, Forwarder, Order};
use super::error::StoreError;
use super::look::{Look, LookAt};
use super::lookers::LookerNote;
use super::pause::Pauses;
use super::payload::NoPayload;
use super::stats::Stats;
use super::upkeep::{UpkeepRequest, Upkept};
use delaybridge_core::carried::Carried;
use delaybridge_core::message::Identity;
use delaybridge_core::metric::SourceTerms;
use delaybridge_link::History;

/// A call to the server that holds a queue.
pub type Call<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// One queue, as one process works on it.
pub trait Store: Claims {
    /// Returns the server that holds the queue.
    fn home(&self) -> &dyn QueueServer;

    /// Reads the numbers behind the gauges.
    fn stats(&self) -> Call<'_, Stats>;

    /// Returns what [`RedisReads::look`] reads of the queue.
    fn look(&self) -> Look;

    /// Returns what [`RedisReads::sizes`] counts of the queue.
    fn counted(&self) -> CountedKeys;

    /// Returns a list that other clients fill without an announcement while they are awake.
    fn unannounced(&self) -> Option<Unannounced>;

    /// Notes for people whether other clients listen to the channel of [`Store::unannounced`]: how long ago one was seen
    /// last, zero for now. The note holds for a while, in which the next one must follow.
    fn note_others(&self, _seen: Option<Duration>, _holds: Duration) -> Call<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the channel that only daemons listen to, those of queues of this name in other databases among them.
    fn presence(&self) -> Arc<str>;

    /// Returns the channel that only daemons of this queue listen to.
    fn presence_in_database(&self) -> Arc<str>;

    /// Returns the channels that a daemon listens to, that of its presence among them.
    fn channels(&self) -> Vec<Arc<str>>;

    /// Returns the meaning of a message on one of these channels; `None` for nothing.
    fn announcement(&self, channel: &str, payload: &[u8]) -> Option<Announcement>;

    /// Reads the pauses of the queue and of these sinks of it.
    fn pauses<'a>(&'a self, sinks: &'a [Arc<str>]) -> Call<'a, Pauses>;

    /// Returns the names of what only this kind of source has to show; `None` if it has nothing of the kind.
    fn metric_names(&self) -> Option<&'static SourceTerms>;

    /// Runs one step of the removal of what claims left behind at the source.
    fn upkeep<'a>(&'a self, request: &'a UpkeepRequest) -> Call<'a, Upkept>;

    /// Returns the number of sorted sets that hold what is scheduled: a pool of jobs may have several.
    fn schedules(&self) -> usize {
        1
    }

    /// Counts the elements of a schedule that fall due before this time: the place of the first that does not.
    fn due_before(&self, schedule: usize, ms: i64) -> Call<'_, usize>;

    /// Counts the elements that fall due after the first and at the second of each of these pairs of times in ms, at
    /// the latest.
    fn due_between<'a>(&'a self, bounds: &'a [(i64, i64)]) -> Call<'a, Vec<u64>>;

    /// Reads elements of a schedule in due order, from the `first` on: at least one unless the end is reached. Bodies
    /// that are elsewhere are not read.
    fn scheduled(&self, schedule: usize, first: usize) -> Call<'_, Scheduled>;

    /// Reads the bodies of these elements, where the source has bodies: as far as there is room, and one in any case.
    fn read_bodies<'a>(&'a self, _elements: &'a mut [claims::Element]) -> Call<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs the source's own transfer for those of the elements that are overdue by at least `after`.
    fn rescue<'a>(&'a self, after: Duration, elements: &'a [Bytes]) -> Call<'a, Rescued>;

    /// Removes dead letters that a sink has confirmed, and takes or keeps the lease of the one process that forwards them. A
    /// lease of zero gives it back.
    fn forwarded<'a>(&'a self, lease: Duration, confirmed: &'a [String]) -> Call<'a, Forwarder>;

    /// Counts the dead letters.
    fn dead_count(&self) -> Call<'_, usize>;

    /// Reads dead letters between two places of their stream, `-` and `+` being its ends and `(` excluding a place.
    fn dead_range<'a>(&'a self, order: Order, from: &'a str, until: &'a str, count: usize)
    -> Call<'a, Vec<DeadLetter>>;
}

/// The claims of one queue: what leaves the source is in one of them until it has a verdict.
///
/// # Contract
///
/// - **Exactly one state** (R2). Each call moves elements between states as a whole or not at all.
/// - **Unknown answers.** A call that ends with [`StoreError::Unknown`] may have run. Every
///   call may be sent again: nothing is done twice. A claim or takeover that ran before answers so; what it holds is found
///   by its name ([`contents`](Claims::contents)).
/// - **The fence** (R3). A verdict names the claim and the exact member. What another process took over in the meantime is
///   not touched, and the answer says so. A verdict after the end of the lease is accepted while no other took over.
/// - **What it names, and nothing else** (R1). A verdict on an element leaves its neighbours where they are, also those that the
///   caller does not expect under the name, because the server has an older state than the caller has seen.
/// - **Leases** (R5). A claim with a lease that is over is taken over by any process, under a name with one expiry more.
/// - **Never early** (R9). The clock of the server decides what is due, not that of the caller.
pub trait Claims: Send + Sync + 'static {
    /// Claims what is due, under a lease.
    fn claim<'a>(&'a self, request: &'a claims::ClaimRequest) -> Call<'a, claims::ClaimReply>;

    /// Takes over what is in a claim with a lease that is over: all of it, or what there is room for.
    fn take_over<'a>(&'a self, request: &'a claims::TakeOverRequest) -> Call<'a, claims::TakeOverReply>;

    /// Reads the names of claims whose leases were over at this time, the longest first; at most `most`. Also returns
    /// how many names among them this version cannot read.
    fn expired(&self, now_ms: i64, most: usize) -> Call<'_, (Vec<claims::ClaimName>, u64)>;

    /// Moves the ends of these leases, at most [`EXTENDED`](claims::EXTENDED), to a full lease from now, unless that is after
    /// `not_after_ms`; says which were still the caller's. Of a claim with a lost reply it says whether it has run, as soon as the time is past its `not_after`.
    fn extend<'a>(
        &'a self,
        lease: Duration,
        not_after_ms: i64,
        names: &'a [claims::ClaimName],
    ) -> Call<'a, claims::Extended>;

    /// Reads the contents of a claim.
    fn contents(&self, name: claims::ClaimName) -> Call<'_, claims::Contents>;

    /// Reads the contents of a claim of the caller's, to be delivered: durable, as what a claim answers. `may_repeat`:
    /// a sink may have it already. What goes back, because it is not durable, says so in its header. A durable claim
    /// gets a full lease once more; after `not_after_ms` it gets none, and the answer is `None`.
    fn recover(
        &self,
        name: claims::ClaimName,
        lease: Duration,
        not_after_ms: i64,
        may_repeat: bool,
    ) -> Call<'_, Option<claims::Contents>>;

    /// Removes whole claims, by their names; one answer for each. Whatever is under such a name goes, also what the caller does
    /// not know of: see [`Whole`](claims::Whole) for when that is right.
    fn confirm<'a>(&'a self, claims: &'a [claims::Whole]) -> Call<'a, Vec<claims::Confirmed>>;

    /// Writes verdicts, each on an exact member. `push_to` is the list of exactly-once pushes, `dead_max_len` the exact
    /// length that dead letters are trimmed to.
    fn settle<'a>(
        &'a self,
        batch: &'a [claims::SettleCommand],
        push_to: Option<&'a Bytes>,
        dead_max_len: Option<u64>,
    ) -> Call<'a, claims::Settled>;

    /// Removes the leases of those of these claims that hold nothing, once none of them can run any more: after the latest
    /// `not_after` of them.
    fn bury<'a>(&'a self, not_after_ms: i64, names: &'a [claims::ClaimName]) -> Call<'a, claims::Buried>;

    /// Returns the owner of these claims, which is a part of their names.
    fn owner(&self) -> [u8; 8];

    /// Gives back the right to deliver in order, for a process with nothing in flight; nothing for other queues. Not if it ends
    /// later than `until_ms`: the process has claimed since.
    fn leave_order(&self, _until_ms: i64) -> Call<'_, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Counts the elements in flight, over all processes: exact for at most 1,000 claims, else at least this many.
    fn in_flight(&self) -> Call<'_, InFlight>;

    /// Takes an element of a claim, or a scheduled one, apart: its id, and the payload or why there is none. The source does
    /// it, with the id that the header carries for an element of the ready list.
    fn open_element(&self, element: &claims::Element) -> (Identity, Result<Bytes, NoPayload>);

    /// Returns whether this process has met a body at all, where the source has bodies. Until then a missing one may as
    /// well be a mistake in the configuration.
    fn has_met_bodies(&self) -> bool {
        true
    }

    /// Returns the number of attempts that an element may have by its own record, where the source has such elements.
    fn tries(&self, _element: &claims::Element) -> Option<u32> {
        None
    }

    /// Returns the topic of an element, where the source has topics.
    fn topic(&self, _element: &claims::Element) -> Option<Arc<str>> {
        None
    }

    /// Returns the address, headers and properties of a message of an input, where the element is one.
    fn carried(&self, _element: &claims::Element) -> Option<Arc<Carried>> {
        None
    }
}

/// A list that other clients fill without an announcement. They are awake while more clients listen to `channel` than
/// daemons, which listen to [`Store::presence`] as well.
#[derive(Debug, Clone)]
pub struct Unannounced {
    /// The list.
    pub list: Bytes,
    /// The channel that all listen to.
    pub channel: Arc<str>,
}

/// The keys that tell whether anything has changed in a queue at rest.
#[derive(Debug, Clone)]
pub struct CountedKeys {
    /// The sorted sets of what is scheduled.
    pub schedules: Vec<Bytes>,
    /// The leases.
    pub leases: Bytes,
    /// The other keys that are not there while the queue is at rest and has no dead letters.
    pub others: Vec<Bytes>,
    /// The keys that hold its elements, and are lost if another program has given them a time to live.
    pub lasting: Vec<Bytes>,
}

/// The size of a queue at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestingSize {
    /// The number of scheduled elements.
    pub scheduled: i64,
    /// Whether there is anything else.
    pub has_others: bool,
    /// Whether Redis will delete a key of the source.
    pub expires: bool,
}

/// Some of what is scheduled.
#[derive(Debug, Clone)]
pub struct Scheduled {
    /// Redis time in ms.
    pub now_ms: i64,
    /// The elements, as a claim would take them.
    pub elements: Vec<claims::Element>,
}

/// The server that holds one queue, as it can be reached now. In a cluster it may be another one at the next call.
pub trait QueueServer: Send + Sync + 'static {
    /// Waits until the server can be asked.
    fn ready(&self) -> BoxFuture<'_, ()>;

    /// Returns whether it can be asked now.
    fn is_up(&self) -> bool;

    /// Returns the time that one call may take before its answer is unknown.
    fn call_timeout(&self) -> Duration;

    /// Returns the time by the server's clock in ms, as well as it is known without asking. A hint for sleeping and for
    /// `not_after`.
    fn now_ms(&self) -> i64;

    /// Takes over a time that it has answered just now.
    fn observe(&self, now_ms: i64);

    /// Returns whether more than 90 % of the memory was used that may be, when that was last looked at.
    fn is_nearly_full(&self) -> bool;

    /// Returns the history of the data now; another one when the server may have forgotten writes. `None` while it
    /// cannot be asked.
    fn history(&self) -> Option<History>;
}

/// The servers of one Redis: what concerns many queues at once.
pub trait RedisReads: Send + Sync + 'static {
    /// Returns the name of the server in the configuration.
    fn name(&self) -> &str {
        delaybridge_link::UNNAMED
    }

    /// Returns whether one of them can be asked now.
    fn is_up(&self) -> bool;

    /// Returns the time by its clock in ms, as well as it is known without asking.
    fn now_ms(&self) -> i64;

    /// Looks at queues, in few calls: returns of each whether a claim would take something, or whether only a claim can
    /// say what is wrong with its keys; `None` for one without an answer.
    fn look<'a>(&'a self, looks: &'a [LookAt<'a>]) -> Call<'a, Vec<Option<bool>>>;

    /// Counts what is in queues at rest, in one or two round trips to each server. Returns Redis's time in ms, if it was one server, and
    /// the sizes; `None` for a queue without an answer.
    fn sizes<'a>(&'a self, queues: &'a [CountedKeys]) -> Call<'a, (Option<i64>, Vec<Option<RestingSize>>)>;

    /// Writes the note of a daemon that shares looks, and reads those of all, its own among them.
    fn share_looks<'a>(&'a self, own: &'a LookerNote) -> Call<'a, Vec<LookerNote>>;

    /// Removes the notes of daemons that ended.
    fn forget_lookers<'a>(&'a self, daemons: &'a [Bytes]) -> Call<'a, ()>;

    /// Reads the lengths of lists, in one round trip to each server; an error for one that has no answer.
    fn lengths<'a>(&'a self, lists: &'a [Bytes]) -> Call<'a, Vec<Result<i64, StoreError>>>;

    /// Counts the clients that listen to each channel, this process among them.
    fn listeners<'a>(&'a self, channels: &'a [Arc<str>]) -> Call<'a, Vec<i64>>;

    /// Looks how much of the memory is used that may be, for [`QueueServer::is_nearly_full`].
    fn look_at_memory(&self) -> Call<'_, ()>;
}
