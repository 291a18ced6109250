//! The foreign half of a queue: what the ledger asks of a source.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::answers::{Announcement, ClaimAdded, Depths, Read, Rescued};
use super::body::{AllBodies, Beside, Body, BodyAt, Noted};
use super::claims::Element;
use super::error::StoreError;
use super::fsck::{Check, Found, Held};
use super::hints::Hints;
use super::keys::Keys;
use super::packed::{Packed, glob_literal};
use super::payload::{Junk, NoPayload};
use super::scripts::Scripts;
use super::upkeep::{UpkeepRequest, Upkept};
use crate::link::rights::Grant;
use crate::link::{BadReply, Conn, Fields, Score, Script};
use crate::message::{Identity, MessageId, Origin};
use crate::metric::SourceTerms;

/// The foreign half of a queue. One value is one queue.
///
/// # Contract
///
/// - **Claim.** [`scripts`](Source::scripts) are the ledger's, with the source's [`Fragments`](super::Fragments) in them.
///   The fragment of the claim script takes due elements; the ledger's text gives each a lease in the same run. It takes
///   no element before its due time (less `ahead`), at most as many and as large ones as the ledger allows, and removes an
///   element from its place only together with its addition to the elements in flight. All keys are in
///   [`keys`](Source::keys) and share [`tag`](Source::tag).
/// - **Types first.** Nothing is written before the type of every key is known to be right: Redis rolls nothing back.
/// - **Open.** [`open`](Source::open) takes an element apart without Redis. It never fails to give an id, and it gives the
///   same id for the same bytes for ever.
/// - **Leftovers.** What a claim leaves behind at the source is recorded by the claim itself, counted, and taken away by
///   [`upkeep`](Source::upkeep), one bounded step a call; a step that is sent twice does no harm.
/// - **Announcements are hints.** A lost one costs lateness up to the next poll, never an element.
/// - **Rights.** Every command of the source's halves and scripts is in [`rights`](Source::rights), and no other.
pub trait Source: Send + Sync + 'static {
    /// The key under `source:` in the configuration.
    fn kind(&self) -> &'static str;

    /// What all keys of the queue have in common: `{NAME}`, or a name that has a hash tag of its own.
    fn tag(&self) -> &str;

    /// The ledger's keys of the queue; for a source that has them already.
    fn ledger_keys(&self) -> Keys {
        Keys::of(self.tag())
    }

    /// The source's keys, in the order that its halves of scripts expect.
    fn keys(&self) -> Vec<Bytes>;

    /// The ledger's scripts with the source's halves in them.
    fn scripts(&self) -> &'static Scripts;

    /// Scripts of the source alone that a daemon runs, to be loaded when a connection is made.
    fn own_scripts(&self) -> Vec<&'static Script>;

    /// Arguments of the source's half of the claim script: what earlier claims learned, and how long before their due
    /// times elements are taken.
    fn claim_args(&self, hints: &Hints, ahead: Duration) -> Vec<Bytes>;

    /// Reads what the source's half added to the reply of a claim.
    ///
    /// # Errors
    ///
    /// For a reply of another shape.
    fn claim_added(&self, added: Fields) -> Result<ClaimAdded, BadReply>;

    /// Arguments of the source's half of the gauges.
    fn depth_args(&self) -> Vec<Bytes>;

    /// Reads what the source's half added to the gauges.
    ///
    /// # Errors
    ///
    /// For a reply of another shape.
    fn depths(&self, added: Fields) -> Result<Depths, BadReply>;

    /// Takes an element apart: its id, and the payload or why there is none. `given` is the id that the ledger gave an
    /// element of the ready list, or else what [`given`](Source::given) kept of the score.
    fn open(&self, origin: Origin, given: MessageId, element: &Bytes) -> (Identity, Result<Bytes, Junk>);

    /// The time in ms at which a scheduled element with this score falls due. The scores of the source's keys, and of bare
    /// elements in claims, are in the unit of the source: they are moved, not rewritten.
    fn due_ms(&self, score: Score) -> i64 {
        score.ceil_ms()
    }

    /// The largest score that is due at this time: the inverse of [`due_ms`](Source::due_ms).
    fn until(&self, ms: i64) -> Score {
        Score::of_ms(ms)
    }

    /// The score that the source's programs would write for this time: a whole number.
    fn written(&self, ms: i64) -> Score {
        Score::of_ms(ms)
    }

    /// What is kept of a score in the header of an element that failed or was released, beside the due time in ms.
    fn given(&self, _score: Score) -> MessageId {
        MessageId([0; 8])
    }

    /// A scheduled element as a claim holds it.
    fn bare(&self, member: Bytes, score: Score) -> Element {
        Element::bare(member, self.due_ms(score)).given(self.given(score))
    }

    /// Whether bodies are kept beside the elements.
    fn has_bodies(&self) -> bool {
        false
    }

    /// Where the body of an element is, if not in the element itself. The same for the same bytes for ever.
    fn body_at(&self, _element: &Bytes) -> Option<BodyAt> {
        None
    }

    /// What else becomes of an element's settling for good, once its body was removed.
    fn goes_with_body(&self, _element: &Bytes, _body: &Bytes) -> Vec<Beside> {
        Vec::new()
    }

    /// The body with which a dead letter begins its next life.
    fn revived(&self, body: Bytes) -> Bytes {
        body
    }

    /// Whether an element without a body has certainly none: no configuration could name another place.
    fn bodies_are_certain(&self) -> bool {
        false
    }

    /// Takes an element apart whose body was looked for: as [`open`](Source::open), with the payload in its body.
    fn open_body(
        &self,
        origin: Origin,
        given: MessageId,
        element: &Bytes,
        _body: &Body,
    ) -> (Identity, Result<Bytes, NoPayload>) {
        let (id, payload) = self.open(origin, given, element);
        (id, payload.map_err(NoPayload::Junk))
    }

    /// The topic of a job, where the source has topics.
    fn topic(&self, _body: &Body) -> Option<Arc<str>> {
        None
    }

    /// How many attempts a job may have by its own record, where the source has such jobs.
    fn tries(&self, _body: &Body) -> Option<u32> {
        None
    }

    /// Whether the source's programs keep a status in bodies, which [`note`](Source::note) writes.
    fn keeps_status(&self) -> bool {
        false
    }

    /// Writes into the bodies of these elements where they are now, for programs that keep such a status, and takes over what
    /// the bodies are then. What cannot be written stays as it is.
    fn note<'a>(
        &'a self,
        _conn: &'a Conn,
        _elements: &'a mut [Element],
        _noted: Noted,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The sorted sets of what is scheduled, for a source with bodies: an element that is in one of them again keeps its body,
    /// and what goes back goes to the first.
    fn due_sets(&self) -> Vec<Bytes> {
        Vec::new()
    }

    /// Reads that find whether anything can be claimed from the source at this Redis time.
    fn poll(&self, now_ms: i64, ahead: Duration) -> Vec<Read>;

    /// The channel on which the source's programs announce, if they do.
    fn channel(&self) -> Option<&Arc<str>>;

    /// What an announcement means; `None` for nothing.
    fn announcement(&self, payload: &[u8]) -> Option<Announcement>;

    /// A place that other clients fill without an announcement while they are awake; it is polled more often then.
    fn unannounced(&self) -> Option<Read>;

    /// One step of the removal of what claims left behind. `owner` is this process.
    fn upkeep<'a>(
        &'a self,
        conn: &'a Conn,
        owner: [u8; 8],
        request: &'a UpkeepRequest,
    ) -> BoxFuture<'a, Result<Upkept, StoreError>>;

    /// The list of what the source's own clients have made ready, if it has one.
    fn ready_list(&self) -> Option<&Bytes>;

    /// Reads a scheduled element of `size` bytes from its beginning. The payload is what was read of it. `given` as for
    /// [`open`](Source::open).
    fn read(&self, given: MessageId, start: &Bytes, size: usize) -> Packed;

    /// Whether only the whole element shows its id.
    fn reads_whole(&self) -> bool {
        false
    }

    /// The identity that an operator means by this text; `None` if no element of the source is called so.
    fn identity(&self, text: &str) -> Option<Identity> {
        text.parse().ok().map(|id: MessageId| id.into())
    }

    /// Bytes in front of the payload of an element, at most.
    fn overhead(&self) -> usize;

    /// Glob patterns, one of which matches the scheduled element with this id.
    fn patterns(&self, wanted: &Identity) -> Vec<Vec<u8>>;

    /// The same for entries, where the element is behind a header.
    fn patterns_inside(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        vec![[b"*", &glob_literal(&wanted.id.0)[..], b"*"].concat()]
    }

    /// The keys of the source's half of `remove.lua`, and its word there: what else there is of a scheduled element. For a
    /// source of sorted sets, these.
    fn removal(&self) -> (Vec<Bytes>, Bytes) {
        (self.schedules(), Bytes::new())
    }

    /// The channel and the words that announce a new first due time, where the source's own programs listen too. Of others the
    /// daemons hear on the presence channel.
    fn announce(&self, _due_ms: i64) -> Option<(Arc<str>, Bytes)> {
        None
    }

    /// The body of an element with another due time in it, for a source with bodies that say when they are due.
    ///
    /// # Errors
    ///
    /// In words, when the body says so in a way that cannot be written.
    fn due_anew(&self, _body: &Bytes, _due_ms: i64) -> Result<Option<Bytes>, &'static str> {
        Ok(None)
    }

    /// The names of what only this kind of source has to show; `None` if it has nothing of the kind.
    fn terms(&self) -> Option<&'static SourceTerms>;

    /// The sorted sets of what is scheduled, where there are several: as [`schedule`](Source::schedule).
    fn schedules(&self) -> Vec<Bytes> {
        vec![self.schedule().clone()]
    }

    /// The lists of what the source's own clients have made ready, where there are several.
    fn ready_lists(&self) -> Vec<Bytes> {
        self.ready_list().into_iter().cloned().collect()
    }

    /// The sorted set of what is scheduled: element -> score, which [`due_ms`](Source::due_ms) reads.
    fn schedule(&self) -> &Bytes;

    /// Does the transfer that the source's own clients would do, for those of the elements that are overdue by at least
    /// `after`. A source without transferring clients has nothing to do.
    fn rescue<'a>(
        &'a self,
        conn: &'a Conn,
        after: Duration,
        elements: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Rescued, StoreError>>;

    /// What the source's halves and scripts need to be allowed.
    fn rights(&self, activity: Activity) -> Vec<Grant>;

    /// The keys of the queue, each with the type that it has.
    fn typed_keys(&self) -> Vec<(Bytes, &'static str)> {
        self.schedules().into_iter().map(|key| (key, "zset")).collect()
    }

    /// Whether no two elements have the same bytes: a second copy is the same element.
    fn elements_are_unique(&self) -> bool {
        false
    }

    /// Sorted sets that ids of jobs are in beside the schedules.
    fn other_ids(&self) -> Vec<Bytes> {
        Vec::new()
    }

    /// Where all bodies are, if they can be told from other data.
    fn all_bodies(&self) -> Option<AllBodies> {
        None
    }

    /// The scheduled member whose body has this name; `None` if the name does not show it.
    fn member_of_body(&self, _name: &Bytes) -> Option<Bytes> {
        None
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

    /// Every key that is ever stored for the queue beside those of the ledger.
    fn stored(&self) -> Vec<Bytes> {
        self.keys()
    }
}

/// What a daemon or a command does with a queue, as far as rights differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It reads.
    Look,
    /// It claims and delivers.
    Deliver,
    /// It does the source's own transfer in place of its clients.
    Rescue,
    /// Commands of an operator.
    Operate,
}
