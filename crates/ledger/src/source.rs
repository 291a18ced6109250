//! The foreign half of a queue: the trait that the ledger asks of every source, and those that a source may offer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::answers::{Announcement, ClaimAdded, Depths, Rescued};
use super::body::{AllBodies, Body, BodyAt, CompanionKey, StatusWrite};
use super::claims::Element;
use super::error::StoreError;
use super::fsck::held::Held;
use super::fsck::suspect::{Check, Found};
use super::hints::Hints;
use super::keys::Keys;
use super::packed::{Packed, glob_literal};
use super::payload::{Junk, NoPayload};
use super::score::Unit;
use super::scripts::Scripts;
use super::upkeep::{UpkeepRequest, Upkept};
use delaybridge_core::carried::Carried;
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_core::metric::SourceTerms;
use delaybridge_link::rights::Grant;
use delaybridge_link::{BadReply, Conn, Fields, Score, Script};

/// The foreign half of a queue. One value is one queue.
///
/// # Contract
///
/// - **Claim.** [`scripts`](Source::scripts) are the ledger's, with the source's [`Fragments`](super::Fragments) in them.
///   The fragment of the claim script takes due elements; the ledger's text gives each a lease in the same run. It takes
///   no element before its due time (less `ahead`), at most as many and as large ones as the ledger allows, and removes an
///   element from its place only together with its addition to the elements in flight. All keys are in
///   [`keys`](Source::keys) and share the tag of [`ledger_keys`](Source::ledger_keys).
/// - **Types first.** Nothing is written before the type of every key is known to be right: Redis rolls nothing back.
/// - **Open.** [`open`](Source::open) takes an element apart without Redis. It never fails to give an id, and it gives the
///   same id for the same bytes for ever.
/// - **Leftovers.** What a claim leaves behind at the source is recorded by the claim itself, counted, and taken away by
///   [`Upkeep`], one bounded step a call; a step that is sent twice does no harm.
/// - **Announcements are hints.** A lost one costs lateness up to the next poll, never an element.
/// - **Rights.** Every command of the source's halves and scripts is in [`rights`](Source::rights), and no other.
pub trait Source: Send + Sync + 'static {
    /// Returns the ledger's keys of the queue.
    fn ledger_keys(&self) -> Keys;

    /// Returns the source's keys, in the order that its halves of scripts expect.
    fn keys(&self) -> Vec<Bytes>;

    /// Returns the ledger's scripts with the source's halves in them.
    fn scripts(&self) -> &'static Scripts;

    /// Returns the scripts of the source alone that a daemon runs, to be loaded when a connection is made.
    fn own_scripts(&self) -> Vec<&'static Script> {
        Vec::new()
    }

    /// Returns the arguments of the source's half of the claim script: what earlier claims learned, and how long before
    /// their due times elements are taken.
    fn claim_args(&self, hints: &Hints, ahead: Duration) -> Vec<Bytes>;

    /// Reads what the source's half added to the reply of a claim.
    ///
    /// # Errors
    ///
    /// For a reply of another shape.
    fn claim_added(&self, added: Fields) -> Result<ClaimAdded, BadReply>;

    /// Returns the arguments of the source's half of the gauges.
    fn depth_args(&self) -> Vec<Bytes> {
        Vec::new()
    }

    /// Reads what the source's half added to the gauges.
    ///
    /// # Errors
    ///
    /// For a reply of another shape.
    fn depths(&self, added: Fields) -> Result<Depths, BadReply>;

    /// Takes an element apart: its id, and the payload or why there is none. `given` is the id that the ledger gave an
    /// element of the ready list, or else [`id_from_score`](Source::id_from_score).
    fn open(&self, origin: Origin, given: MessageId, element: &Bytes) -> (Identity, Result<Bytes, Junk>);

    /// Returns the unit of the scores in the source's keys, and of bare elements in claims: they are moved, not
    /// rewritten.
    fn unit(&self) -> Unit {
        Unit::Millis
    }

    /// Returns the part of a score that is kept in the header of an element that failed or was released, beside the due
    /// time in ms.
    fn id_from_score(&self, _score: Score) -> MessageId {
        MessageId([0; 8])
    }

    /// Returns the sorted sets of what is scheduled, at least one: element -> score in [`unit`](Source::unit). Elements
    /// that go back go to the first.
    fn schedules(&self) -> Vec<Bytes>;

    /// Returns the lists of elements that the source's own clients have made ready.
    fn ready_lists(&self) -> Vec<Bytes> {
        Vec::new()
    }

    /// Returns those of the sorted sets of what is scheduled, and of the ready lists, that are claimed from.
    fn claimed_from(&self) -> (Vec<Bytes>, Vec<Bytes>) {
        (self.schedules(), self.ready_lists())
    }

    /// Returns whether the schedule itself is one of our keys: with another prefix it is another queue.
    fn is_ours(&self) -> bool {
        false
    }

    /// Returns the words, behind our prefix, of keys with what claims leave behind at the source until it is removed.
    fn left_behind(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the rights that the source's halves and scripts need.
    fn rights(&self, activity: Activity) -> Vec<Grant>;

    /// Returns the reading and finding of elements for an operator.
    fn search(&self) -> &dyn Search;

    /// Returns the removals and repairs that an operator asks for.
    fn repair(&self) -> &dyn Repair;

    /// Returns the announcements of the source's programs, if they make any.
    fn announcements(&self) -> Option<&dyn Announcements> {
        None
    }

    /// Returns the bodies that are kept beside the elements, if they are.
    fn bodies(&self) -> Option<&dyn Bodies> {
        None
    }

    /// Returns the removal of what claims leave behind, if they leave anything.
    fn upkeep(&self) -> Option<&dyn Upkeep> {
        None
    }

    /// Returns the transfer that the source's own clients do, if they do one.
    fn transfer(&self) -> Option<&dyn Transfer> {
        None
    }
}

/// Elements as an operator reads and finds them.
pub trait Search {
    /// Reads a scheduled element of `size` bytes from its beginning. The payload is what was read of it. `given` as for
    /// [`Source::open`].
    fn read(&self, given: MessageId, start: &Bytes, size: usize) -> Packed;

    /// Returns the greatest number of bytes in front of the payload of an element.
    fn overhead(&self) -> usize {
        0
    }

    /// Returns the identity that an operator means by this text; `None` if no element of the source is called so.
    fn identity(&self, text: &str) -> Option<Identity> {
        text.parse().ok().map(|id: MessageId| id.into())
    }

    /// Returns glob patterns, one of which matches the scheduled element with this id.
    fn patterns(&self, wanted: &Identity) -> Vec<Vec<u8>>;

    /// Returns such patterns for entries, where the element is behind a header.
    fn patterns_inside(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        vec![[b"*", &glob_literal(&wanted.id.0)[..], b"*"].concat()]
    }
}

/// Removals and repairs that an operator asks for.
pub trait Repair: Source {
    /// Returns the keys of the source's half of `remove.lua`, and its word there: the other places of a scheduled
    /// element. For a source of sorted sets, these.
    fn removal(&self) -> (Vec<Bytes>, Bytes) {
        (self.schedules(), Bytes::new())
    }

    /// Returns the keys of the queue, each with the type that it has.
    fn typed_keys(&self) -> Vec<(Bytes, &'static str)> {
        self.schedules().into_iter().map(|key| (key, "zset")).collect()
    }

    /// Returns whether no two elements have the same bytes: a second copy is the same element.
    fn elements_are_unique(&self) -> bool {
        false
    }

    /// Takes a scheduled element out of the source's keys, if another copy of it is the member of this sorted set.
    fn unschedule(&self, _element: &Bytes, _kept_key: &Bytes, _kept: &Bytes) -> Option<Check> {
        None
    }

    /// Looks for faults in keys that only this kind of source has.
    fn look_for_faults<'a>(
        &'a self,
        _conn: &'a Conn,
        _held: &'a Held,
        _found: &'a mut Found<'_>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Announcements on a channel that the source's programs, or the server, publish to.
pub trait Announcements {
    /// Returns the channel.
    fn channel(&self) -> &Arc<str>;

    /// Returns the meaning of a message; `None` for nothing.
    fn announcement(&self, payload: &[u8]) -> Option<Announcement>;

    /// Returns a list that other clients fill without an announcement while they are awake; it is polled more often
    /// then.
    fn unannounced(&self) -> Option<Bytes> {
        None
    }

    /// Returns the message that announces a new first due time, where the source's own programs listen too. Of others
    /// the daemons hear on the presence channel.
    fn announce(&self, _due_ms: i64) -> Option<Bytes> {
        None
    }
}

/// Bodies that are kept beside the elements.
pub trait Bodies {
    /// Returns the place of an element's body; `None` for an element that has none. The same for the same bytes for
    /// ever.
    fn body_at(&self, element: &Bytes) -> Option<BodyAt>;

    /// Takes an element apart whose body was looked for: as [`Source::open`], with the payload in its body.
    fn open_body(&self, element: &Bytes, body: &Body) -> (Identity, Result<Bytes, NoPayload>);

    /// Returns other keys that change when an element is settled for good, once its body was removed.
    fn companions(&self, _element: &Bytes, _body: &Bytes) -> Vec<CompanionKey> {
        Vec::new()
    }

    /// Returns whether [`cancelled`](Bodies::cancelled) says anything.
    fn remembers_cancelled(&self) -> bool {
        false
    }

    /// Returns keys that remember for a while that an element with this body was cancelled, and no longer that it was
    /// there.
    fn cancelled(&self, _element: &Bytes, _body: &Bytes) -> Vec<CompanionKey> {
        Vec::new()
    }

    /// Returns the body with which a dead letter begins its next life.
    fn revived(&self, body: Bytes) -> Bytes {
        body
    }

    /// Returns whether an element without a body has certainly none: no configuration could name another place.
    fn are_certain(&self) -> bool {
        false
    }

    /// Returns the topic of a job, where the source has topics.
    fn topic(&self, body: &Body) -> Option<Arc<str>>;

    /// Returns the address, headers and properties of a message of an input, where the element is one.
    fn carried(&self, _body: &Body) -> Option<Carried> {
        None
    }

    /// Returns the number of attempts that a job may have by its own record, where the source has such jobs.
    fn tries(&self, _body: &Body) -> Option<u32> {
        None
    }

    /// Returns the body of an element with another due time in it, for a source with bodies that say when they are due.
    ///
    /// # Errors
    ///
    /// In words, when the body says so in a way that cannot be written.
    fn due_anew(&self, _body: &Bytes, _due_ms: i64) -> Result<Option<Bytes>, &'static str> {
        Ok(None)
    }

    /// Returns the place of all bodies, if they can be told from other data.
    fn all_bodies(&self) -> Option<AllBodies>;

    /// Returns the scheduled member whose body has this name; `None` if the name does not show it.
    fn member_of_body(&self, name: &Bytes) -> Option<Bytes>;

    /// Returns sorted sets that hold ids of jobs beside the schedules.
    fn other_ids(&self) -> Vec<Bytes> {
        Vec::new()
    }

    /// Returns the status that the source's programs keep in bodies, if they keep one.
    fn status(&self) -> Option<&dyn BodyStatus> {
        None
    }
}

/// A status that the source's programs keep in bodies.
pub trait BodyStatus: Sync {
    /// Writes into the bodies of these elements where they are now, and takes over what the bodies are then. A body
    /// that cannot be written stays as it is.
    fn write<'a>(
        &'a self,
        conn: &'a Conn,
        elements: &'a mut [Element],
        status: StatusWrite,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// The removal of what claims leave behind at the source.
pub trait Upkeep {
    /// Runs one step. `owner` is this process.
    fn step<'a>(
        &'a self,
        conn: &'a Conn,
        owner: [u8; 8],
        request: &'a UpkeepRequest,
    ) -> BoxFuture<'a, Result<Upkept, StoreError>>;

    /// Returns the names of the metrics and log lines about it.
    fn metric_names(&self) -> &'static SourceTerms;
}

/// The transfer of overdue elements that the source's own clients do.
pub trait Transfer {
    /// Runs the source's transfer for those of the elements that are overdue by at least `after`.
    fn rescue<'a>(
        &'a self,
        conn: &'a Conn,
        after: Duration,
        elements: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Rescued, StoreError>>;
}

impl dyn Source + '_ {
    /// Returns a scheduled element as a claim holds it.
    pub fn bare(&self, member: Bytes, score: Score) -> Element {
        Element::bare(member, self.unit().due_ms(score)).given(self.id_from_score(score))
    }

    /// Returns the place of an element's body, if that is not in the element itself.
    pub fn body_at(&self, element: &Bytes) -> Option<BodyAt> {
        self.bodies()?.body_at(element)
    }

    /// Returns a list that other clients fill without an announcement.
    pub fn unannounced(&self) -> Option<Bytes> {
        self.announcements()?.unannounced()
    }
}

/// The activity of a daemon or a command on a queue, as far as rights differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Reads.
    Look,
    /// Claims and delivers.
    Deliver,
    /// Does the source's own transfer in place of its clients.
    Rescue,
    /// Commands of an operator.
    Operate,
}
