//! The server in memory, and one queue of it as a process sees it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::queue::Queue;
use super::replica::{Replica, Saved};
use delaybridge_core::clock::{Instant, RedisClock};
use delaybridge_ledger::claims::{ClaimName, Element};
use delaybridge_ledger::store::{Call, CountedKeys, QueueServer, RedisReads, RestingSize};
use delaybridge_ledger::{DeadLetter, Pause, Subject};
use delaybridge_ledger::{LookAt, LookPart, LookerNote, StoreError, millis};
use delaybridge_link::{History, NoAnswer};

/// The time of the server when it is made, in ms.
const START_MS: i64 = 1_800_000_000_000;
/// The time that a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A call of which something can be made to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Claims::claim`].
    Claim,
    /// [`Claims::settle`].
    Settle,
    /// [`Claims::extend`].
    Extend,
    /// [`Claims::take_over`].
    TakeOver,
    /// [`Claims::expired`].
    Expired,
    /// [`Claims::contents`].
    Contents,
    /// [`Claims::confirm`].
    Confirm,
    /// [`Claims::bury`].
    Bury,
    /// [`Store::pauses`](super::store::Store::pauses).
    Pauses,
    /// [`Store::stats`](super::store::Store::stats).
    Stats,
    /// The look at a queue of [`RedisReads::look`].
    Look,
    /// [`RedisReads::share_looks`].
    ShareLooks,
    /// The count of a queue of [`RedisReads::sizes`].
    Sizes,
}

/// A fault of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The call runs, and its reply is lost.
    ReplyLost,
    /// The call does not run, and nothing answers.
    RequestLost,
    /// The server refuses it with this code.
    Refused(&'static str),
}

/// A server in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryServer(pub(super) Arc<Inner>);

pub(super) struct Inner {
    started: Instant,
    queues: Mutex<HashMap<Arc<str>, Queue>>,
    faults: Mutex<HashMap<Op, VecDeque<Fault>>>,
    calls: Mutex<HashMap<Op, u64>>,
    up: watch::Sender<bool>,
    /// The number of listeners of every channel.
    daemons: AtomicI64,
    /// The notes of those that share looks.
    lookers: Mutex<BTreeMap<Bytes, Bytes>>,
    /// The number of times that it came back.
    returns: AtomicU64,
    /// The number of times that it came back with an older state.
    failovers: AtomicU64,
    pub(super) replica: Replica,
}

/// One queue of the server, as a process with this owner sees it.
pub struct MemoryStore {
    pub(super) server: MemoryServer,
    pub(super) name: Arc<str>,
    pub(super) owner: [u8; 8],
    pub(super) clock: RedisClock,
}

impl MemoryServer {
    /// An empty server that is up.
    pub fn new() -> Self {
        MemoryServer(Arc::new(Inner {
            started: Instant::now(),
            queues: Mutex::default(),
            faults: Mutex::default(),
            calls: Mutex::default(),
            up: watch::Sender::new(true),
            daemons: AtomicI64::new(0),
            lookers: Mutex::default(),
            returns: AtomicU64::new(0),
            failovers: AtomicU64::new(0),
            replica: Replica::default(),
        }))
    }

    /// The queue of this name for the process with this owner.
    pub fn store(&self, name: &str, owner: [u8; 8]) -> MemoryStore {
        self.0.queues.lock().entry(name.into()).or_default();
        let clock = RedisClock::new();
        clock.observe(self.now_ms());
        MemoryStore { server: self.clone(), name: name.into(), owner, clock }
    }

    /// Lets one process at a time deliver from this queue, in order.
    pub fn in_order(&self, name: &str) {
        self.0.queues.lock().entry(name.into()).or_default().fence.on = true;
    }

    /// The server's time in ms.
    pub fn now_ms(&self) -> i64 {
        START_MS.saturating_add(millis(self.0.started.elapsed()))
    }

    /// Goes away or comes back.
    pub fn set_up(&self, up: bool) {
        self.0.returns.fetch_add(u64::from(up), Ordering::Relaxed);
        self.0.up.send_replace(up);
    }

    /// Says of every channel that so many daemons listen to it.
    pub fn set_daemons(&self, daemons: i64) {
        self.0.daemons.store(daemons, Ordering::Relaxed);
    }

    /// The state, as a replica has it that receives nothing from now on.
    pub fn save(&self) -> Saved {
        Saved(self.0.queues.lock().clone())
    }

    /// Goes away, and comes back with this state: a failover to such a replica.
    pub fn fail_over(&self, to: Saved) {
        self.set_up(false);
        *self.0.queues.lock() = to.0;
        self.0.failovers.fetch_add(1, Ordering::Relaxed);
        self.set_up(true);
    }

    /// The history of the data now.
    pub fn history(&self) -> Option<History> {
        self.is_up().then(|| History::of_connection(0, self.0.failovers.load(Ordering::Relaxed)))
    }

    /// The connection to it that one has now.
    pub fn epoch(&self) -> Option<(usize, u64)> {
        self.is_up().then(|| (0, self.0.returns.load(Ordering::Relaxed)))
    }

    /// Makes the next calls of this kind go wrong, one for each fault.
    pub fn fail(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.0.faults.lock().entry(op).or_default().extend(faults);
    }

    /// The number of calls of this kind that have run.
    pub fn calls(&self, op: Op) -> u64 {
        self.0.calls.lock().get(&op).copied().unwrap_or(0)
    }

    /// Runs a call against a queue, with what is to go wrong with it.
    async fn call<T>(
        &self,
        op: Option<Op>,
        name: &str,
        run: impl FnOnce(&mut Queue, i64) -> T,
    ) -> Result<T, StoreError> {
        let address: Arc<str> = "memory".into();
        if !self.is_up() {
            return Err(StoreError::NotSent { address });
        }
        // As on a wire, others come between the call and its answer.
        tokio::task::yield_now().await;
        let fault = op.and_then(|op| self.0.faults.lock().get_mut(&op)?.pop_front());
        let lost = || StoreError::Unknown { address, reason: NoAnswer::TimedOut(CALL_TIMEOUT) };
        match fault {
            Some(Fault::RequestLost) => return Err(lost()),
            Some(Fault::Refused(code)) => {
                return Err(StoreError::answered(code, "refused by the test".to_owned()));
            }
            None | Some(Fault::ReplyLost) => {}
        }
        if let Some(op) = op {
            *self.0.calls.lock().entry(op).or_default() += 1;
        }
        if op.is_some_and(|op| !matches!(op, Op::Expired | Op::Contents | Op::Pauses | Op::ShareLooks | Op::Sizes)) {
            self.note_lag();
        }
        let answer = run(self.0.queues.lock().entry(name.into()).or_default(), self.now_ms());
        if fault.is_some() { Err(lost()) } else { Ok(answer) }
    }
}

impl Default for MemoryServer {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryServer {
    /// Waits until it is up.
    pub async fn ready(&self) {
        let mut up = self.0.up.subscribe();
        // The sender is in the server, which outlives this call.
        let _ = up.wait_for(|up| *up).await;
    }

    /// The time that a call takes that is not answered.
    pub fn call_timeout(&self) -> Duration {
        CALL_TIMEOUT
    }
}

impl QueueServer for MemoryStore {
    fn ready(&self) -> BoxFuture<'_, ()> {
        self.server.ready().boxed()
    }

    fn is_up(&self) -> bool {
        self.server.is_up()
    }

    fn call_timeout(&self) -> Duration {
        CALL_TIMEOUT
    }

    fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    fn observe(&self, now_ms: i64) {
        self.clock.observe(now_ms);
    }

    fn is_nearly_full(&self) -> bool {
        false
    }

    fn history(&self) -> Option<History> {
        self.server.history()
    }
}

impl RedisReads for MemoryServer {
    fn is_up(&self) -> bool {
        *self.0.up.borrow()
    }

    fn now_ms(&self) -> i64 {
        MemoryServer::now_ms(self)
    }

    fn look<'a>(&'a self, looks: &'a [LookAt<'a>]) -> Call<'a, Vec<Option<bool>>> {
        async move {
            let mut answers = Vec::with_capacity(looks.len());
            for LookAt { look, part, now_ms, until_ms } in looks {
                let key = String::from_utf8_lossy(&look.leases).into_owned();
                let name = key.split_once(':').map_or("", |(_, name)| name);
                let of = [("scheduled", *until_ms), ("ready", i64::MAX), ("retry", *until_ms), ("leases", *now_ms)];
                let of = match part {
                    LookPart::All => &of[..],
                    LookPart::Users => &of[..2],
                    LookPart::Own => &of[2..],
                };
                let finds = |queue: &mut Queue, _| of.iter().any(|(place, until_ms)| queue.count(place, *until_ms) > 0);
                answers.push(Some(self.call(Some(Op::Look), name, finds).await?));
            }
            Ok(answers)
        }
        .boxed()
    }

    fn sizes<'a>(&'a self, queues: &'a [CountedKeys]) -> Call<'a, (Option<i64>, Vec<Option<RestingSize>>)> {
        async move {
            let mut sizes = Vec::with_capacity(queues.len());
            for CountedKeys { leases, .. } in queues {
                let key = String::from_utf8_lossy(leases).into_owned();
                let name = key.split_once(':').map_or("", |(_, name)| name);
                let size = |queue: &mut Queue, _| RestingSize {
                    scheduled: queue.count("scheduled", i64::MAX),
                    has_others: !queue.dead.is_empty()
                        || ["ready", "retry", "leases"].iter().any(|place| queue.count(place, i64::MAX) > 0),
                    expires: false,
                };
                sizes.push(Some(self.call(Some(Op::Sizes), name, size).await?));
            }
            Ok((Some(MemoryServer::now_ms(self)), sizes))
        }
        .boxed()
    }

    fn share_looks<'a>(&'a self, own: &'a LookerNote) -> Call<'a, Vec<LookerNote>> {
        let exchange = move |_: &mut Queue, _| {
            let mut lookers = self.0.lookers.lock();
            lookers.insert(own.daemon.clone(), own.text.clone());
            let all = lookers.iter();
            all.map(|(daemon, text)| LookerNote { daemon: daemon.clone(), text: text.clone() }).collect()
        };
        self.call(Some(Op::ShareLooks), "", exchange).boxed()
    }

    fn forget_lookers<'a>(&'a self, daemons: &'a [Bytes]) -> Call<'a, ()> {
        let forget = move |_: &mut Queue, _| {
            let mut lookers = self.0.lookers.lock();
            daemons.iter().for_each(|daemon| drop(lookers.remove(daemon)));
        };
        self.call(None, "", forget).boxed()
    }

    fn lengths<'a>(&'a self, lists: &'a [Bytes]) -> Call<'a, Vec<Result<i64, StoreError>>> {
        async move {
            let mut answers = Vec::with_capacity(lists.len());
            for list in lists {
                let key = String::from_utf8_lossy(list).into_owned();
                let (place, name) = key.split_once(':').unwrap_or((&key, ""));
                answers.push(Ok(self.call(None, name, |queue, _| queue.count(place, i64::MAX)).await?));
            }
            Ok(answers)
        }
        .boxed()
    }

    fn listeners<'a>(&'a self, channels: &'a [Arc<str>]) -> Call<'a, Vec<i64>> {
        async move { Ok(vec![self.0.daemons.load(Ordering::Relaxed); channels.len()]) }.boxed()
    }

    fn look_at_memory(&self) -> Call<'_, ()> {
        async { Ok(()) }.boxed()
    }
}

impl MemoryStore {
    /// Offers an element that falls due after `delay`; returns its due time in ms.
    pub fn offer(&self, element: Bytes, delay: Duration) -> i64 {
        let due_ms = self.server.now_ms().saturating_add(millis(delay));
        self.offer_at(element, due_ms);
        due_ms
    }

    /// Offers an element that is due at this time in ms.
    pub fn offer_at(&self, element: Bytes, due_ms: i64) {
        self.server.reach_lagging(&self.name, |queue| queue.scheduled.add(due_ms, element.clone()));
        self.with(|queue| queue.scheduled.add(due_ms, element));
    }

    /// Puts a bare payload on the ready list, as a client of the source does.
    pub fn make_ready(&self, payload: Bytes) {
        self.with(|queue| queue.ready.push_back(payload));
    }

    /// The elements in flight with the names of their claims, in the order of the leases' ends.
    pub fn in_flight(&self) -> Vec<(ClaimName, Element)> {
        let of_claim =
            |(name, _, elements): (ClaimName, i64, Vec<Element>)| elements.into_iter().map(move |e| (name, e));
        self.claims().into_iter().flat_map(of_claim).collect()
    }

    /// The dead letters.
    pub fn dead(&self) -> Vec<DeadLetter> {
        self.with(|queue| queue.dead.clone())
    }

    /// The elements that exactly-once pushes have put into a list.
    pub fn list(&self, key: &[u8]) -> Vec<Bytes> {
        self.with(|queue| queue.lists.get(key).map(|list| list.iter().cloned().collect()).unwrap_or_default())
    }

    /// Makes a key hold something else than a list: what is to be pushed to it is refused.
    pub fn spoil_list(&self, key: &[u8]) {
        self.with(|queue| queue.not_lists.insert(Bytes::copy_from_slice(key)));
    }

    /// Adds a name to the leases, as another program does.
    pub fn add_lease(&self, name: &str, end_ms: i64) {
        self.with(|queue| queue.leases.add(end_ms, Bytes::copy_from_slice(name.as_bytes())));
    }

    /// Adds a member to what waits for another attempt, as another program does.
    pub fn add_waiting(&self, member: Bytes, at_ms: i64) {
        self.with(|queue| queue.retry.add(at_ms, member));
    }

    /// Pauses the queue or a sink of it, or ends that, without an announcement.
    pub fn set_pause(&self, subject: Subject<'_>, pause: Option<Pause>) {
        self.with(|queue| match pause {
            Some(pause) => queue.pauses.insert(subject.field(), pause),
            None => queue.pauses.remove(&subject.field()),
        });
    }

    /// Whether nothing is scheduled, ready, in flight or waiting.
    pub fn is_empty(&self) -> bool {
        self.with(|queue| {
            queue.scheduled.is_empty() && queue.ready.is_empty() && queue.claims.is_empty() && queue.retry.is_empty()
        })
    }

    /// Deletes everything, as a person with a command line may.
    pub fn clear(&self) {
        self.with(|queue| *queue = Queue::default());
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Queue) -> T) -> T {
        look(self.server.0.queues.lock().entry(self.name.clone()).or_default())
    }

    pub(super) fn key(&self, place: &str) -> Bytes {
        format!("{place}:{}", self.name).into()
    }

    pub(super) fn call<'a, T: Send + 'a>(
        &'a self,
        op: Option<Op>,
        run: impl FnOnce(&mut Queue, i64) -> T + Send + 'a,
    ) -> Call<'a, T> {
        async move { self.server.call(op, &self.name, run).await }.boxed()
    }
}
