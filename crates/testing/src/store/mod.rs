//! The contract of [`Claims`](delaybridge_ledger::store::Claims), [`Store`] and [`RedisReads`], as tests that every implementation passes:
//! see the traits' prose.
//!
//! An implementation brings a [`Rig`]: a queue that other clients fill, a look into its places, and a clock in the hand of
//! the test. `store_contract_tests!` makes one test of each clause. The scripts in Redis are the measure: where the memory
//! differs from them, the memory is wrong.

pub mod claims;
pub mod confirmations;
mod contract;
pub mod dead_letters;
pub mod formats;
pub mod leases;
pub mod lost;
pub mod moving;
pub mod older;
pub mod on_redis;
pub mod order;
pub mod reads;
pub mod replica;
pub mod servers;
pub mod takeovers;
pub mod verdicts;
pub mod walk;

pub use on_redis::Served;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use delaybridge_core::message::MessageId;
use delaybridge_ledger::claims::{
    ClaimName, ClaimReply, ClaimRequest, Claimed, Element, Extended, Header, Part, SettleCommand, SettleOp,
    TakeOverReply, TakeOverRequest, Writer,
};
use delaybridge_ledger::store::{RedisReads, Store};
use delaybridge_ledger::{Answer, DeadLetter, Hints};
use delaybridge_link::Side;

/// The lease of a claim, where a clause asks for no other.
pub const LEASE: Duration = Duration::from_secs(10);
/// The key of the list of exactly-once pushes.
pub const LIST: Bytes = Bytes::from_static(b"pushed");
/// Processes that work on the queue.
pub const A: u8 = 1;
pub const B: u8 = 2;
pub const C: u8 = 3;

/// One queue on a server of its own. Its clock stops until the test moves it.
pub trait Rig {
    /// The same of a queue that one process at a time delivers from, in order.
    fn store_in_order(&self, owner: u8) -> Arc<dyn Store>;

    /// The queue, as a process with this owner delivers from it. It may push to [`LIST`] and trim dead letters.
    fn store(&self, owner: u8) -> Arc<dyn Store>;
    /// The queue, as a process sees it that makes up for missing clients of the source.
    fn rescuer(&self) -> Arc<dyn Store>;
    /// Whether the source has clients that transfer.
    fn transfers(&self) -> bool {
        true
    }
    /// The key of the list of exactly-once pushes.
    fn list(&self) -> Bytes {
        LIST
    }
    /// The server of the queue.
    fn server(&self) -> Arc<dyn RedisReads>;
    /// An element with this id and payload.
    fn element(&self, id: MessageId, payload: &[u8]) -> Bytes;
    /// The server's time in ms.
    fn now_ms(&self) -> i64;
    /// Moves the server's time forward.
    async fn advance(&mut self, by: Duration);
    /// Schedules an element, or junk, for this time, as a client of the source does.
    async fn offer(&mut self, element: &Bytes, due_ms: i64);
    /// Adds a payload to the ready list, as a client of the source does.
    async fn make_ready(&mut self, payload: &Bytes);
    /// Makes [`LIST`] something else than a list.
    async fn spoil_list(&mut self);
    /// Gives a claim a lease with this end, as a daemon of another version does.
    async fn add_lease(&mut self, name: &str, end_ms: i64);
    /// Deletes all leases, as an operator may.
    async fn forget_leases(&mut self);
    /// Lets a member wait for another attempt at this time, as a daemon of another version does.
    async fn add_waiting(&mut self, member: &Bytes, at_ms: i64);
    /// Notes the state of the server.
    async fn save(&mut self);
    /// The server has the state that was noted last, and nothing else: it restarts with older data, or a replica that was behind takes
    /// over. Its time goes on.
    async fn fall_back(&mut self);
    /// The contents of each place.
    async fn places(&mut self) -> Places;
}

/// The contents of the places of a queue, in the order of the place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Places {
    /// Elements with their due times.
    pub scheduled: Vec<(i64, Bytes)>,
    /// Payloads.
    pub ready: Vec<Bytes>,
    /// Names of claims with the ends of their leases.
    pub leases: Vec<(i64, String)>,
    /// The elements of claims, with a lease or without.
    pub claims: BTreeMap<ClaimName, Parts>,
    /// Members with the times of their next attempts.
    pub waiting: Vec<(i64, Bytes)>,
    /// Dead letters.
    pub dead: Vec<DeadLetter>,
    /// The elements that were pushed to [`LIST`].
    pub pushed: Vec<Bytes>,
}

/// The contents of a claim.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    /// Elements with their due times.
    pub bare: Vec<(i64, Bytes)>,
    /// Entries with the times of their attempts.
    pub entries: Vec<(i64, Bytes)>,
}

impl Places {
    /// The names of the places where this element or payload is, once for each time that it is there.
    pub fn of(&self, element: &Bytes) -> Vec<&'static str> {
        let inside = |member: &Bytes| Element::entry(member.clone(), 0).is_some_and(|entry| entry.bytes() == element);
        let entries = |members: &[(i64, Bytes)]| members.iter().filter(|(_, member)| inside(member)).count();
        let bare = |parts: &Parts| parts.bare.iter().filter(|(_, member)| member == element).count();
        let times = [
            ("scheduled", self.scheduled.iter().filter(|(_, at)| at == element).count()),
            ("ready", self.ready.iter().filter(|at| *at == element).count()),
            ("claimed", self.claims.values().map(|parts| bare(parts) + entries(&parts.entries)).sum()),
            ("waiting", entries(&self.waiting)),
            ("dead", self.dead.iter().filter(|letter| letter.bytes("element") == Some(element)).count()),
            ("pushed", self.pushed.iter().filter(|at| *at == element).count()),
        ];
        times.into_iter().flat_map(|(place, times)| std::iter::repeat_n(place, times)).collect()
    }

    /// The end of the lease of a claim.
    pub fn lease(&self, name: ClaimName) -> Option<i64> {
        self.leases.iter().find(|(_, text)| *text == name.to_string()).map(|(end_ms, _)| *end_ms)
    }

    /// The contents of a claim.
    pub fn held(&self, name: ClaimName) -> Parts {
        self.claims.get(&name).cloned().unwrap_or_default()
    }
}

/// An element, as the process knows it that claimed it.
#[derive(Debug, Clone)]
pub struct Mine {
    pub name: ClaimName,
    /// The place in the reply, from 1.
    pub place: u32,
    pub element: Element,
}

impl Mine {
    /// The elements of a claim, as this process knows them.
    pub fn all(name: ClaimName, elements: Vec<Element>) -> Vec<Mine> {
        (1..).zip(elements).map(|(place, element)| Mine { name, place, element }).collect()
    }

    /// A header for the element that no other element has.
    pub fn header(&self) -> Header {
        let mut header = self.element.header();
        header.writer = Writer { owner: self.name.owner, claim: self.name.number, place: self.place };
        header
    }

    /// The verdict that it is tried again after this time, with one attempt more.
    pub fn retry(&self, delay: Duration) -> SettleOp {
        let mut header = self.header();
        header.attempts += 1;
        SettleOp::Retry { header, delay_ms: delay.as_millis() as u64 }
    }

    /// The verdict that it goes back to its due time.
    pub fn release(&self) -> SettleOp {
        let header = self.header();
        SettleOp::Release { at_ms: header.time_ms, header }
    }

    /// The verdict that a sink has confirmed it.
    pub fn progress(&self, sink: u64) -> SettleOp {
        let mut header = self.header();
        header.confirm(sink);
        SettleOp::Progress { header }
    }

    /// The verdict that it is dead.
    pub fn dead(&self) -> SettleOp {
        SettleOp::Dead { fields: vec![("id", Bytes::from_static(b"x")), ("element", self.element.bytes())] }
    }

    /// The verdict that its bytes are pushed.
    pub fn push(&self) -> SettleOp {
        SettleOp::Push { side: Side::Right, body: self.element.bytes() }
    }

    /// One verdict of each kind.
    pub fn all_steps(&self) -> [SettleOp; 6] {
        [SettleOp::Confirm, self.retry(ms(5)), self.release(), self.progress(7), self.dead(), self.push()]
    }

    /// A verdict on it.
    pub fn verdict(&self, step: SettleOp) -> SettleCommand {
        let body = self.element.body_bytes().cloned();
        SettleCommand { claim: self.name, part: self.element.part(), member: self.element.member.clone(), step, body }
    }
}

/// So many seeds, or as many as `DELAYBRIDGE_SEEDS` says, or the one of `DELAYBRIDGE_SEED`.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("DELAYBRIDGE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DELAYBRIDGE_SEEDS").unwrap_or(usual),
    }
}

/// The id with this number.
pub fn id(n: u64) -> MessageId {
    MessageId(n.to_be_bytes())
}

/// The element with this number.
pub fn element(rig: &impl Rig, n: u64) -> Bytes {
    rig.element(id(n), format!("payload {n}").as_bytes())
}

/// Schedules elements with these numbers for now.
pub async fn offer(rig: &mut impl Rig, numbers: impl IntoIterator<Item = u64>) -> Vec<Bytes> {
    let mut elements = Vec::new();
    for n in numbers {
        elements.push(element(rig, n));
        rig.offer(&elements[elements.len() - 1], rig.now_ms()).await;
    }
    elements
}

/// Milliseconds as a duration.
pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The name of a claim of this process.
pub fn name(owner: u8, number: u64) -> ClaimName {
    ClaimName::new([owner; 8], number)
}

/// A claim without limits.
pub fn request(owner: u8, number: u64) -> ClaimRequest {
    ClaimRequest {
        name: name(owner, number),
        not_after_ms: i64::MAX,
        lease: LEASE,
        ahead: Duration::ZERO,
        most: 500,
        bytes: 1 << 20,
        rotation: 0,
        hints: Hints::default(),
        back_before_ms: None,
    }
}

/// Makes a claim, which must run.
pub async fn claim(rig: &impl Rig, request: &ClaimRequest) -> Claimed {
    match rig.store(request.name.owner[0]).claim(request).await.expect("the server claims") {
        ClaimReply::Claimed(claimed) => claimed,
        reply => panic!("{reply:?} to {request:?}"),
    }
}

/// Claims without limits.
pub async fn take(rig: &impl Rig, owner: u8, number: u64) -> Vec<Mine> {
    Mine::all(name(owner, number), claim(rig, &request(owner, number)).await.elements)
}

/// Claims without limits what must be one element.
pub async fn take_one(rig: &impl Rig, owner: u8, number: u64) -> Mine {
    let mut mine = take(rig, owner, number).await;
    assert_eq!(mine.len(), 1, "{mine:?}");
    mine.remove(0)
}

/// Extends leases, at any time; whether each was still the caller's.
pub async fn extend(store: &Arc<dyn Store>, lease: Duration, names: &[ClaimName]) -> Vec<bool> {
    match store.extend(lease, i64::MAX, names).await.expect("the server extends") {
        Extended::Done { held, .. } => held,
        late @ Extended::Late { .. } => panic!("{late:?}"),
    }
}

/// The takeover of a whole claim.
pub fn takeover(old: ClaimName, owner: u8, number: u64) -> TakeOverRequest {
    TakeOverRequest {
        old,
        new: old.taken_over_by([owner; 8], number),
        not_after_ms: i64::MAX,
        lease: LEASE,
        most: 500,
        bytes: 1 << 20,
        largest: 0,
    }
}

/// Takes over, which must find something; and how many are left.
pub async fn take_over(rig: &impl Rig, request: &TakeOverRequest) -> (Vec<Mine>, u64) {
    match rig.store(request.new.owner[0]).take_over(request).await.expect("the server answers") {
        TakeOverReply::Taken { elements, left, unknown: 0, .. } => (Mine::all(request.new, elements), left),
        reply => panic!("{reply:?} to {request:?}"),
    }
}

/// The elements without their headers.
pub fn bytes<'a>(mine: impl IntoIterator<Item = &'a Mine>) -> Vec<Bytes> {
    mine.into_iter().map(|mine| mine.element.bytes()).collect()
}

/// Writes verdicts.
pub async fn settle(rig: &impl Rig, batch: &[SettleCommand]) -> Vec<Answer> {
    let settled = rig.store(A).settle(batch, Some(&LIST), None).await.expect("the server settles");
    assert!(batch.is_empty() || settled.now_ms == rig.now_ms(), "{settled:?}");
    settled.answers
}

/// Writes one verdict.
pub async fn settle_one(rig: &impl Rig, mine: &Mine, step: SettleOp) -> Answer {
    let answers = settle(rig, &[mine.verdict(step)]).await;
    assert_eq!(answers.len(), 1);
    answers[0]
}

/// The ids and payloads of elements.
pub fn open(rig: &impl Rig, mine: &[Mine]) -> Vec<(delaybridge_core::message::MessageId, Option<Bytes>)> {
    let store = rig.store(A);
    let open = |mine: &Mine| store.open_element(&mine.element);
    mine.iter().map(open).map(|(id, payload)| (id.id, payload.ok())).collect()
}
