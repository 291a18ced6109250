//! A source and its ledger in memory: the same contract as in Redis, without a server and on the clock of the test.
//!
//! For tests of the pipeline, which run on paused time over it. It also does what a server seldom does on request: it goes
//! away, and it loses the reply of a call that ran.
//!
//! An element is eight bytes of id and the payload; anything shorter is junk.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::ledger::{
    Answer, BATCH_BYTES, BATCH_ENTRIES, ClaimKey, ClaimReply, ClaimRequest, Claimed, ClaimedFrom, Cursor, DeadLetter,
    Entry, Forwarder, Header, Hints, MAX_EXPIRIES, Move, Order, RecoverRequest, Recovered, Settled, Stats,
};
use super::store::{Call, Rescued, Scheduled, Server, Store};
use super::{Announcement, Depths, Junk, Leftovers, Read, SourceError, UpkeepRequest, UpkeepState, Upkept, millis};
use crate::clock::Instant;
use crate::link::Side;
use crate::link::{LinkError, NoAnswer};
use crate::message::{MessageId, Origin};
use crate::metric::SourceTerms;

/// The time of the server when it is made, in ms.
const START_MS: i64 = 1_800_000_000_000;
/// Expiries from which on an entry is claimed alone.
const SUSPECT: u16 = 3;
/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A call of which something can be made to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Store::claim`].
    Claim,
    /// [`Store::recover`].
    Recover,
    /// [`Store::settle`].
    Settle,
    /// [`Store::extend`].
    Extend,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It runs, and its reply is lost.
    ReplyLost,
    /// It does not run, and nobody answers.
    RequestLost,
    /// The server refuses it with this code.
    Refused(&'static str),
}

/// A server in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryServer(Arc<Inner>);

struct Inner {
    started: Instant,
    queues: Mutex<HashMap<Arc<str>, Queue>>,
    faults: Mutex<HashMap<Op, VecDeque<Fault>>>,
    up: watch::Sender<bool>,
}

/// One queue of the server, as a process with this owner sees it.
pub struct MemoryStore {
    server: MemoryServer,
    name: Arc<str>,
    owner: [u8; 8],
}

#[derive(Default)]
struct Queue {
    scheduled: BTreeSet<(i64, Bytes)>,
    ready: VecDeque<Bytes>,
    /// Member -> end of its lease.
    in_flight: BTreeMap<Bytes, i64>,
    /// Member -> time of the next attempt.
    retry: BTreeMap<Bytes, i64>,
    dead: Vec<DeadLetter>,
    deaths: u64,
    /// Lists that exactly-once pushes went to.
    lists: HashMap<Bytes, VecDeque<Bytes>>,
    forwarder: Option<ForwardLease>,
    given: u64,
}

struct ForwardLease {
    owner: [u8; 8],
    until_ms: i64,
    returned: bool,
}

impl MemoryServer {
    /// An empty server that is up.
    pub fn new() -> Self {
        MemoryServer(Arc::new(Inner {
            started: Instant::now(),
            queues: Mutex::default(),
            faults: Mutex::default(),
            up: watch::Sender::new(true),
        }))
    }

    /// The queue of this name for the process with this owner.
    pub fn store(&self, name: &str, owner: [u8; 8]) -> MemoryStore {
        self.0.queues.lock().entry(name.into()).or_default();
        MemoryStore { server: self.clone(), name: name.into(), owner }
    }

    /// The server's time in ms.
    pub fn now_ms(&self) -> i64 {
        START_MS.saturating_add(millis(self.0.started.elapsed()))
    }

    /// Goes away or comes back.
    pub fn set_up(&self, up: bool) {
        self.0.up.send_replace(up);
    }

    /// Makes the next calls of this kind go wrong, one for each fault.
    pub fn fail(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.0.faults.lock().entry(op).or_default().extend(faults);
    }

    /// Runs a call against a queue, with what is to go wrong with it.
    async fn call<T>(
        &self,
        op: Option<Op>,
        name: &str,
        run: impl FnOnce(&mut Queue, i64) -> T,
    ) -> Result<T, SourceError> {
        let address: Arc<str> = "memory".into();
        if !self.is_up() {
            return Err(LinkError::NotSent { address }.into());
        }
        // As on a wire, others come between the call and its answer.
        tokio::task::yield_now().await;
        let fault = op.and_then(|op| self.0.faults.lock().get_mut(&op)?.pop_front());
        let ran = |run: Box<dyn FnOnce(&mut Queue, i64) -> T + '_>| {
            let mut queues = self.0.queues.lock();
            run(queues.entry(name.into()).or_default(), self.now_ms())
        };
        let lost = || SourceError::Link(LinkError::Unknown { address, reason: NoAnswer::TimedOut(CALL_TIMEOUT) });
        match fault {
            None => Ok(ran(Box::new(run))),
            Some(Fault::ReplyLost) => {
                ran(Box::new(run));
                Err(lost())
            }
            Some(Fault::RequestLost) => Err(lost()),
            Some(Fault::Refused(code)) => {
                Err(LinkError::Server { code, message: "refused by the test".to_owned() }.into())
            }
        }
    }
}

impl Default for MemoryServer {
    fn default() -> Self {
        Self::new()
    }
}

impl Server for MemoryServer {
    fn ready(&self) -> BoxFuture<'_, ()> {
        let mut up = self.0.up.subscribe();
        async move {
            // The sender is in the server, which outlives this call.
            let _ = up.wait_for(|up| *up).await;
        }
        .boxed()
    }

    fn is_up(&self) -> bool {
        *self.0.up.borrow()
    }

    fn call_timeout(&self) -> Duration {
        CALL_TIMEOUT
    }

    fn read<'a>(&'a self, reads: &'a [Read]) -> Call<'a, Vec<Result<i64, SourceError>>> {
        async move {
            let mut answers = Vec::with_capacity(reads.len());
            for read in reads {
                let (key, until_ms) = match read {
                    Read::DueBefore { key, until_ms } => (key, *until_ms),
                    Read::Length { key } => (key, i64::MAX),
                };
                let key = String::from_utf8_lossy(key).into_owned();
                let (place, name) = key.split_once(':').unwrap_or((&key, ""));
                let number = self.call(None, name, |queue, _| queue.count(place, until_ms)).await?;
                answers.push(Ok(number));
            }
            Ok(answers)
        }
        .boxed()
    }

    fn listeners<'a>(&'a self, channels: &'a [Arc<str>]) -> Call<'a, Vec<i64>> {
        async move { Ok(vec![0; channels.len()]) }.boxed()
    }

    fn nearly_full(&self) -> Call<'_, bool> {
        async { Ok(false) }.boxed()
    }
}

/// An element with this id.
pub fn element(id: MessageId, payload: &[u8]) -> Bytes {
    [&id.0[..], payload].concat().into()
}

/// Takes an element apart.
fn open(element: &Bytes) -> (MessageId, Result<Bytes, Junk>) {
    match element.first_chunk() {
        Some(id) => (MessageId(*id), Ok(element.slice(8..))),
        None => (MessageId([0; 8]), Err(Junk(format!("{} bytes, fewer than an id has", element.len())))),
    }
}

impl MemoryStore {
    /// Offers an element that falls due after `delay`; returns its due time in ms.
    pub fn offer(&self, element: Bytes, delay: Duration) -> i64 {
        let due_ms = self.server.now_ms().saturating_add(millis(delay));
        self.with(|queue| queue.scheduled.insert((due_ms, element)));
        due_ms
    }

    /// Puts a bare payload on the ready list, as a client of the source does.
    pub fn make_ready(&self, payload: Bytes) {
        self.with(|queue| queue.ready.push_back(payload));
    }

    /// The entries in flight.
    pub fn in_flight(&self) -> Vec<Entry> {
        self.with(|queue| queue.in_flight.keys().cloned().filter_map(Entry::decode).collect())
    }

    /// The entries that wait for another attempt, with the time of that attempt.
    pub fn retry(&self) -> Vec<(i64, Entry)> {
        self.with(|queue| {
            let entries = queue.retry.iter().map(|(member, at)| (*at, member.clone()));
            entries.filter_map(|(at, member)| Some((at, Entry::decode(member)?))).collect()
        })
    }

    /// The dead letters.
    pub fn dead(&self) -> Vec<DeadLetter> {
        self.with(|queue| queue.dead.clone())
    }

    /// What exactly-once pushes have put into a list.
    pub fn list(&self, key: &[u8]) -> Vec<Bytes> {
        self.with(|queue| queue.lists.get(key).map(|list| list.iter().cloned().collect()).unwrap_or_default())
    }

    /// Ends every lease now, as if the processes that hold them had died long ago.
    pub fn expire_leases(&self) {
        let now_ms = self.server.now_ms();
        self.with(|queue| queue.in_flight.values_mut().for_each(|until| *until = now_ms - 1));
    }

    /// Whether nothing is scheduled, ready, in flight or waiting.
    pub fn is_empty(&self) -> bool {
        self.with(|queue| {
            queue.scheduled.is_empty() && queue.ready.is_empty() && queue.in_flight.is_empty() && queue.retry.is_empty()
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Queue) -> T) -> T {
        look(self.server.0.queues.lock().entry(self.name.clone()).or_default())
    }

    fn key(&self, place: &str) -> Bytes {
        format!("{place}:{}", self.name).into()
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        op: Option<Op>,
        run: impl FnOnce(&mut Queue, i64) -> T + Send + 'a,
    ) -> Call<'a, T> {
        async move { self.server.call(op, &self.name, run).await }.boxed()
    }
}

impl Store for MemoryStore {
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Call<'a, ClaimReply> {
        self.call(Some(Op::Claim), |queue, now_ms| queue.claim(self.owner, request, now_ms))
    }

    fn recover<'a>(&'a self, request: &'a RecoverRequest) -> Call<'a, Recovered> {
        self.call(Some(Op::Recover), |queue, now_ms| queue.recover(self.owner, request, now_ms))
    }

    fn settle<'a>(
        &'a self,
        batch: &'a [(Bytes, Move)],
        push_to: Option<&'a Bytes>,
        dead_max_len: Option<u64>,
    ) -> Call<'a, Settled> {
        self.call(Some(Op::Settle), move |queue, now_ms| {
            let answers = batch.iter().map(|(member, step)| queue.settle(member, step, push_to, now_ms)).collect();
            let trimmed = dead_max_len.map_or(0, |most| {
                let over = queue.dead.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
                queue.dead.drain(..over).count() as u64
            });
            Settled { now_ms: Some(now_ms), answers, trimmed }
        })
    }

    fn extend<'a>(&'a self, lease: Duration, members: &'a [Bytes]) -> Call<'a, Vec<bool>> {
        self.call(Some(Op::Extend), move |queue, now_ms| {
            let until = now_ms.saturating_add(millis(lease));
            let extend = |member| queue.in_flight.get_mut(member).map(|end| *end = until).is_some();
            members.iter().map(extend).collect()
        })
    }

    fn stats<'a>(&'a self, _hints: &'a mut Hints) -> Call<'a, Stats> {
        self.call(None, |queue, now_ms| Stats {
            now_ms,
            in_flight: queue.in_flight.len() as i64,
            retry: queue.retry.len() as i64,
            dead: queue.dead.len() as i64,
            source: Depths {
                scheduled: queue.scheduled.len() as i64,
                due: queue.count("scheduled", now_ms),
                ready: queue.ready.len() as i64,
                head_ms: queue.scheduled.first().map(|(due_ms, _)| *due_ms),
                ..Depths::default()
            },
        })
    }

    fn poll(&self, now_ms: i64, ahead: Duration) -> Vec<Read> {
        let until = |place: &str, until_ms| Read::DueBefore { key: self.key(place), until_ms };
        vec![
            until("scheduled", now_ms.saturating_add(millis(ahead))),
            Read::Length { key: self.key("ready") },
            until("retry", now_ms),
            until("in_flight", now_ms),
        ]
    }

    fn unannounced(&self) -> Option<(Read, Arc<str>)> {
        None
    }

    fn channels(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    fn announcement(&self, _channel: &str, _payload: &[u8]) -> Option<Announcement> {
        None
    }

    fn terms(&self) -> Option<&'static SourceTerms> {
        None
    }

    fn open(&self, entry: &Entry) -> (MessageId, Result<Bytes, Junk>) {
        match entry.header.origin {
            Origin::Ready => (entry.header.given_id(), Ok(entry.element.clone())),
            Origin::Delayed => open(&entry.element),
        }
    }

    fn open_scheduled(&self, element: &Bytes) -> (MessageId, Result<Bytes, Junk>) {
        open(element)
    }

    fn upkeep<'a>(&'a self, _request: &'a UpkeepRequest) -> Call<'a, Upkept> {
        self.call(None, |_, now_ms| Upkept {
            state: UpkeepState::Idle,
            now_ms,
            step: 0,
            left: 0,
            removed: 0,
            orphans: 0,
        })
    }

    fn due_before(&self, ms: i64) -> Call<'_, usize> {
        self.call(None, move |queue, _| queue.scheduled.iter().take_while(|(due_ms, _)| *due_ms < ms).count())
    }

    fn scheduled(&self, first: usize) -> Call<'_, Scheduled> {
        self.call(None, move |queue, now_ms| Scheduled {
            now_ms,
            elements: queue.scheduled.iter().skip(first).take(BATCH_ENTRIES).cloned().collect(),
        })
    }

    fn rescue<'a>(&'a self, after: Duration, elements: &'a [Bytes]) -> Call<'a, Rescued> {
        self.call(None, move |queue, now_ms| {
            let limit = now_ms.saturating_sub(millis(after));
            let mut rescued = Rescued::default();
            for element in elements {
                let Ok(payload) = open(element).1 else {
                    rescued.junk += 1;
                    continue;
                };
                let overdue = queue.scheduled.iter().find(|(due_ms, at)| at == element && *due_ms <= limit).cloned();
                if let Some(overdue) = overdue {
                    queue.scheduled.remove(&overdue);
                    queue.ready.push_back(payload);
                    rescued.moved += 1;
                }
            }
            rescued
        })
    }

    fn forwarded<'a>(&'a self, lease: Duration, confirmed: &'a [String]) -> Call<'a, Forwarder> {
        self.call(None, move |queue, now_ms| {
            queue.dead.retain(|letter| !confirmed.contains(&letter.stream_id));
            let own = queue.forwarder.as_ref().is_none_or(|lease| lease.owner == self.owner);
            let over = queue.forwarder.as_ref().is_none_or(|lease| lease.until_ms <= now_ms);
            let returned = queue.forwarder.as_ref().is_some_and(|lease| lease.returned);
            if !own && !over {
                return Forwarder::Another;
            }
            let until_ms = now_ms.saturating_add(millis(lease));
            queue.forwarder = Some(ForwardLease { owner: self.owner, until_ms, returned: lease.is_zero() });
            if own || returned { Forwarder::Own } else { Forwarder::TakenOver }
        })
    }

    fn dead_count(&self) -> Call<'_, usize> {
        self.call(None, |queue, _| queue.dead.len())
    }

    fn dead_range<'a>(
        &'a self,
        order: Order,
        from: &'a str,
        until: &'a str,
        count: usize,
    ) -> Call<'a, Vec<DeadLetter>> {
        self.call(None, move |queue, _| {
            let (low, high) = if order == Order::Oldest { (from, until) } else { (until, from) };
            let within = |letter: &&DeadLetter| {
                let place = place(&letter.stream_id);
                let above = match low.strip_prefix('(') {
                    Some(low) => place > self::place(low),
                    None => low == "-" || place >= self::place(low),
                };
                above
                    && match high.strip_prefix('(') {
                        Some(high) => place < self::place(high),
                        None => high == "+" || place <= self::place(high),
                    }
            };
            let letters = queue.dead.iter().filter(within).cloned();
            match order {
                Order::Oldest => letters.take(count).collect(),
                Order::Newest => letters.rev().take(count).collect(),
            }
        })
    }
}

/// The two numbers of a stream id.
fn place(stream_id: &str) -> (u64, u64) {
    let (ms, number) = stream_id.split_once('-').unwrap_or((stream_id, "0"));
    (ms.parse().unwrap_or(0), number.parse().unwrap_or(0))
}

/// What is left of a claim while it is filled.
struct Take {
    owner: [u8; 8],
    number: u64,
    most: usize,
    bytes: usize,
    deadline: i64,
    taken: Vec<(ClaimedFrom, Entry)>,
    own: Vec<ClaimKey>,
    /// Something was left because of its size.
    more: bool,
}

impl Take {
    fn is_full(&self) -> bool {
        self.taken.len() + self.own.len() >= self.most
    }

    /// Whether an element of this size may be taken: one always may.
    fn fits(&mut self, size: usize) -> bool {
        let fits = self.taken.is_empty() || size <= self.bytes;
        self.more |= !fits;
        fits
    }

    /// The entry that an element becomes under this header.
    fn entry(&self, mut header: Header, element: &Bytes) -> Option<Entry> {
        header.generation = header.generation.wrapping_add(1);
        header.owner = self.owner;
        let index = u32::try_from(self.taken.len() + 1).unwrap_or(u32::MAX);
        header.key = ClaimKey { claim: self.number, index };
        let mut member = header.encode();
        member.extend_from_slice(element);
        Entry::decode(member.into())
    }
}

impl Queue {
    fn count(&self, place: &str, until_ms: i64) -> i64 {
        let up_to = |times: &BTreeMap<Bytes, i64>| times.values().filter(|at| **at <= until_ms).count();
        let count = match place {
            "scheduled" => self.scheduled.iter().take_while(|(due_ms, _)| *due_ms <= until_ms).count(),
            "ready" => self.ready.len(),
            "retry" => up_to(&self.retry),
            _ => up_to(&self.in_flight),
        };
        count as i64
    }

    fn claim(&mut self, owner: [u8; 8], request: &ClaimRequest, now_ms: i64) -> ClaimReply {
        if now_ms > request.not_after_ms {
            return ClaimReply::Late { now_ms };
        }
        let mut take = Take {
            owner,
            number: request.number,
            most: request.most.min(BATCH_ENTRIES),
            bytes: request.bytes.min(BATCH_BYTES),
            deadline: now_ms.saturating_add(millis(request.lease)),
            taken: Vec::new(),
            own: Vec::new(),
            more: false,
        };
        let suspects = self.take_expired(&mut take, request.alone, now_ms);
        if !request.alone {
            self.take_retry(&mut take, now_ms);
            self.take_ready(&mut take, now_ms);
            self.take_scheduled(&mut take, now_ms.saturating_add(millis(request.ahead)));
        }
        for (_, entry) in &take.taken {
            self.in_flight.insert(entry.member.clone(), take.deadline);
        }
        let next_due = self.scheduled.first().map(|(due_ms, _)| due_ms.saturating_sub(millis(request.ahead)));
        let next_retry = self.retry.values().min().copied();
        ClaimReply::Claimed(Claimed {
            now_ms,
            entries: take.taken,
            own: take.own,
            next_ms: next_due.into_iter().chain(next_retry).min(),
            hints: request.hints.clone(),
            leftovers: Leftovers::default(),
            suspects,
            unknown: 0,
            more: take.more,
        })
    }

    /// Takes what let its lease run out; answers how many entries have to be claimed alone.
    fn take_expired(&mut self, take: &mut Take, alone: bool, now_ms: i64) -> u64 {
        let mut suspects = 0;
        let over: Vec<Bytes> =
            self.in_flight.iter().filter(|(_, until)| **until <= now_ms).map(|(member, _)| member.clone()).collect();
        for member in over {
            if take.is_full() {
                break;
            }
            let Some(entry) = Entry::decode(member.clone()) else { continue };
            if entry.header.owner == take.owner {
                self.in_flight.insert(member, take.deadline);
                take.own.push(entry.header.key);
                continue;
            }
            let mut header = entry.header.clone();
            header.expiries = header.expiries.saturating_add(1);
            let exhausted = header.expiries >= MAX_EXPIRIES;
            let suspect = header.expiries >= SUSPECT && !exhausted;
            if suspect != alone {
                suspects += u64::from(suspect);
                continue;
            }
            if !take.fits(member.len()) {
                break;
            }
            let from = if exhausted { ClaimedFrom::Exhausted } else { ClaimedFrom::Expired };
            let Some(claimed) = take.entry(header, &entry.element) else { continue };
            self.in_flight.remove(&member);
            take.bytes = take.bytes.saturating_sub(member.len());
            take.taken.push((from, claimed));
        }
        suspects
    }

    fn take_retry(&mut self, take: &mut Take, now_ms: i64) {
        let mut due: Vec<(i64, Bytes)> =
            self.retry.iter().filter(|(_, at)| **at <= now_ms).map(|(member, at)| (*at, member.clone())).collect();
        due.sort();
        for (_, member) in due {
            if take.is_full() || !take.fits(member.len()) {
                return;
            }
            let Some(entry) = Entry::decode(member.clone()) else { continue };
            let Some(claimed) = take.entry(entry.header.clone(), &entry.element) else { continue };
            self.retry.remove(&member);
            take.bytes = take.bytes.saturating_sub(member.len());
            take.taken.push((ClaimedFrom::Retry, claimed));
        }
    }

    fn take_ready(&mut self, take: &mut Take, now_ms: i64) {
        while let Some(payload) = self.ready.front().cloned() {
            if take.is_full() || !take.fits(payload.len()) {
                return;
            }
            self.given += 1;
            let id = MessageId(self.given.to_be_bytes());
            let header = Header::redriven(Origin::Ready, id, now_ms, take.owner, Vec::new());
            let Some(claimed) = take.entry(header, &payload) else { return };
            self.ready.pop_front();
            take.bytes = take.bytes.saturating_sub(payload.len());
            take.taken.push((ClaimedFrom::Ready, claimed));
        }
    }

    fn take_scheduled(&mut self, take: &mut Take, horizon_ms: i64) {
        while let Some((due_ms, element)) = self.scheduled.first().cloned() {
            if due_ms > horizon_ms || take.is_full() || !take.fits(element.len()) {
                return;
            }
            let header = Header::redriven(Origin::Delayed, MessageId([0; 8]), due_ms, take.owner, Vec::new());
            let Some(claimed) = take.entry(header, &element) else { return };
            self.scheduled.pop_first();
            take.bytes = take.bytes.saturating_sub(element.len());
            take.taken.push((ClaimedFrom::Delayed, claimed));
        }
    }

    fn recover(&mut self, owner: [u8; 8], request: &RecoverRequest, now_ms: i64) -> Recovered {
        if now_ms <= request.not_after_ms {
            return Recovered::Wait { now_ms };
        }
        let deadline = now_ms.saturating_add(millis(request.lease));
        let mut entries = Vec::new();
        for (member, until) in &mut self.in_flight {
            let Some(entry) = Entry::decode(member.clone()) else { continue };
            if entry.header.owner == owner && entry.header.key.claim == request.number {
                *until = deadline;
                entries.push(entry);
            }
        }
        Recovered::Slice { now_ms, entries, next: None::<Cursor> }
    }

    fn settle(&mut self, member: &Bytes, step: &Move, push_to: Option<&Bytes>, now_ms: i64) -> Answer {
        let Some(entry) = Entry::decode(member.clone()) else { return Answer::NotMine };
        let there = self.in_flight.contains_key(member);
        let known = |place: &BTreeMap<Bytes, i64>, new: &Bytes| match place.contains_key(new) {
            true => Answer::Already,
            false => Answer::NotMine,
        };
        match step {
            Move::Retry { header, .. } | Move::Release { header, .. } if !there => {
                return known(&self.retry, &entry.under(header));
            }
            Move::Progress { header } if !there => return known(&self.in_flight, &entry.under(header)),
            _ if !there => return Answer::NotMine,
            Move::Confirm => {}
            Move::Retry { header, delay_ms } => {
                self.retry.insert(entry.under(header), now_ms.saturating_add_unsigned(*delay_ms));
            }
            Move::Release { header, at_ms } => {
                self.retry.insert(entry.under(header), *at_ms);
            }
            Move::Progress { header } => {
                if let Some(until) = self.in_flight.get(member).copied() {
                    self.in_flight.remove(member);
                    self.in_flight.insert(entry.under(header), until);
                }
                return Answer::Done;
            }
            Move::Dead { fields } => {
                self.deaths += 1;
                let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
                self.dead.push(DeadLetter { stream_id: format!("{now_ms}-{}", self.deaths), fields });
            }
            Move::Push { side, body } => {
                let list = self.lists.entry(push_to.cloned().unwrap_or_default()).or_default();
                match side {
                    Side::Left => list.push_front(body.clone()),
                    Side::Right => list.push_back(body.clone()),
                }
            }
        }
        self.in_flight.remove(member);
        Answer::Done
    }
}
