//! The connection of one process to the server in memory: calls take time, get lost in either direction, or run long
//! after their sender has given up. Cut, the process is gone like one that was killed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use delaybridge_core::clock::{Instant, RedisClock};
use delaybridge_core::message::Identity;
use delaybridge_core::metric::SourceTerms;
use delaybridge_ledger::claims::{
    Buried, ClaimName, ClaimReply, ClaimRequest, Confirmed, Contents, Element, Extended, SettleCommand, Settled,
    TakeOverReply, TakeOverRequest, Whole,
};
use delaybridge_ledger::store::{
    Call, Claims, CountedKeys, InFlight, QueueServer, RedisReads, Rescued, RestingSize, Scheduled, Store, Unannounced,
};
use delaybridge_ledger::{
    Announcement, DeadLetter, Forwarder, Look, LookAt, LookerNote, NoPayload, Order, Pauses, Stats, StoreError,
    UpkeepRequest, Upkept,
};
use delaybridge_link::{History, NoAnswer};
use delaybridge_testing::memory::{MemoryServer, MemoryStore};

/// How a connection misbehaves, drawn for each call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trouble {
    /// The longest time that a request or a reply takes.
    pub slow: Duration,
    /// Which part of the calls is lost, `0.0..=1.0`.
    pub lost: f64,
}

/// What happens to one call.
struct Fate {
    /// Before the call runs, and before its reply arrives.
    slow: (Duration, Duration),
    lost: Option<Lost>,
}

#[derive(Clone, Copy)]
enum Lost {
    Request,
    Reply,
    /// The sender has given up when it runs.
    Late,
}

/// The connection. Clones share it.
#[derive(Clone)]
pub struct Wire {
    server: MemoryServer,
    store: Arc<MemoryStore>,
    cut: CancellationToken,
    /// This process reaches the server.
    up: Arc<watch::Sender<bool>>,
    state: Arc<Mutex<State>>,
    clock: Arc<RedisClock>,
}

struct State {
    trouble: Trouble,
    frozen: bool,
    draw: fastrand::Rng,
    claims: Vec<Instant>,
    /// The time by which the next extension of leases comes late.
    hold_up: Option<Duration>,
    /// The event between the sending of the next leave of an order and its run.
    before_leave: Option<BoxFuture<'static, ()>>,
    /// Elements whose bodies do not come with their next claim.
    unread: Vec<Bytes>,
}

impl Wire {
    /// A connection without trouble.
    pub fn new(server: MemoryServer, store: MemoryStore, seed: u64) -> Self {
        let draw = fastrand::Rng::with_seed(seed);
        let state = State {
            trouble: Trouble::default(),
            frozen: false,
            draw,
            claims: Vec::new(),
            hold_up: None,
            before_leave: None,
            unread: Vec::new(),
        };
        let clock = Arc::new(RedisClock::new());
        // A calendar that is right; the machine's has nothing to do with this server.
        clock.observe(server.now_ms());
        Wire {
            clock,
            server,
            store: Arc::new(store),
            cut: CancellationToken::new(),
            up: Arc::new(watch::Sender::new(true)),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// From now on calls have this trouble.
    pub fn trouble(&self, trouble: Trouble) {
        self.state.lock().trouble = trouble;
    }

    /// While it is frozen, no call is answered; the first that gives up finds the connection gone.
    pub fn freeze(&self, frozen: bool) {
        self.state.lock().frozen = frozen;
        if !frozen {
            self.connect(true);
        }
    }

    /// The next extension of leases is held up on its way, and runs so much later.
    pub fn hold_up_an_extension(&self, by: Duration) {
        self.state.lock().hold_up = Some(by);
    }

    /// This happens between the sending of the next leave of an order and its run.
    pub fn before_leave(&self, event: impl Future<Output = ()> + Send + 'static) {
        self.state.lock().before_leave = Some(event.boxed());
    }

    /// Whether an extension is still to be held up.
    pub fn is_to_hold_up(&self) -> bool {
        self.state.lock().hold_up.is_some()
    }

    /// Whether this process reaches the server.
    pub fn connect(&self, up: bool) {
        self.up.send_replace(up);
    }

    /// The process is gone: no call of it runs or returns.
    pub fn cut(&self) {
        self.cut.cancel();
    }

    /// Ends when the process is gone.
    pub fn is_cut(&self) -> CancellationToken {
        self.cut.clone()
    }

    /// There is no room for the body of this element in the next claim that takes it.
    pub fn leave_unread(&self, element: Bytes) {
        self.state.lock().unread.push(element);
    }

    /// When claims were sent.
    pub fn claims(&self) -> Vec<Instant> {
        self.state.lock().claims.clone()
    }

    fn fate(&self) -> Fate {
        let mut state = self.state.lock();
        if state.frozen {
            return Fate { slow: Default::default(), lost: Some(Lost::Request) };
        }
        let trouble = state.trouble;
        let mut slow = || trouble.slow.mul_f64(state.draw.f64());
        let slow = (slow(), slow());
        let lost = (state.draw.f64() < trouble.lost).then(|| match state.draw.u8(0..3) {
            0 => Lost::Request,
            1 => Lost::Reply,
            _ => Lost::Late,
        });
        Fate { slow, lost }
    }

    /// Makes a call. `late` makes it again, for a run after the sender has given up.
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: Call<'a, T>,
        late: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'a,
    ) -> Call<'a, T> {
        let fate = self.fate();
        let made = async move {
            let (before, after) = fate.slow;
            pause(before).await;
            if !QueueServer::is_up(self) {
                return Err(StoreError::NotSent { address: "memory".into() });
            }
            match fate.lost {
                Some(Lost::Request) => return self.gives_up().await,
                Some(Lost::Late) => {
                    let late = late();
                    // A request on its way arrives, whatever becomes of its sender.
                    tokio::spawn(async move {
                        pause(after).await;
                        late.await;
                    });
                    return Err(unknown());
                }
                Some(Lost::Reply) | None => {}
            }
            let answer = call.await;
            pause(after).await;
            match answer {
                Ok(_) if fate.lost.is_some() => self.gives_up().await,
                Ok(_) if !QueueServer::is_up(self) => Err(unknown()),
                answer => answer,
            }
        };
        async move {
            // Order: whoever is gone gets no answer.
            tokio::select! {
                biased;
                () = self.cut.cancelled() => std::future::pending().await,
                answer = made => answer,
            }
        }
        .boxed()
    }

    async fn gives_up<T>(&self) -> Result<T, StoreError> {
        tokio::time::sleep(self.server.call_timeout()).await;
        if self.state.lock().frozen {
            self.connect(false);
        }
        Err(unknown())
    }
}

/// As the link reports it.
fn unknown() -> StoreError {
    StoreError::Unknown { address: "memory".into(), reason: NoAnswer::Broken("by the test".to_owned()) }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Nothing: a request that never arrives.
fn never() -> BoxFuture<'static, ()> {
    std::future::ready(()).boxed()
}

impl Claims for Wire {
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Call<'a, ClaimReply> {
        self.state.lock().claims.push(Instant::now());
        self.call(self.store.claim(request), || {
            let store = self.store.clone();
            let request = request.clone();
            async move { drop(store.claim(&request).await) }.boxed()
        })
    }

    fn take_over<'a>(&'a self, request: &'a TakeOverRequest) -> Call<'a, TakeOverReply> {
        self.call(self.store.take_over(request), || {
            let store = self.store.clone();
            let request = request.clone();
            async move { drop(store.take_over(&request).await) }.boxed()
        })
    }

    fn expired(&self, now_ms: i64, most: usize) -> Call<'_, (Vec<ClaimName>, u64)> {
        self.call(self.store.expired(now_ms, most), never)
    }

    fn extend<'a>(&'a self, lease: Duration, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, Extended> {
        let late = move || {
            let store = self.store.clone();
            let names = names.to_vec();
            async move { drop(store.extend(lease, not_after_ms, &names).await) }.boxed()
        };
        if let Some(by) = self.state.lock().hold_up.take() {
            let late = late();
            tokio::spawn(async move {
                pause(by).await;
                late.await;
            });
            return self.gives_up().boxed();
        }
        self.call(self.store.extend(lease, not_after_ms, names), late)
    }

    fn contents(&self, name: ClaimName) -> Call<'_, Contents> {
        self.call(self.store.contents(name), never)
    }

    fn recover(
        &self,
        name: ClaimName,
        lease: Duration,
        not_after_ms: i64,
        may_repeat: bool,
    ) -> Call<'_, Option<Contents>> {
        self.call(self.store.recover(name, lease, not_after_ms, may_repeat), never)
    }

    fn confirm<'a>(&'a self, claims: &'a [Whole]) -> Call<'a, Vec<Confirmed>> {
        self.call(self.store.confirm(claims), move || {
            let store = self.store.clone();
            let claims = claims.to_vec();
            async move { drop(store.confirm(&claims).await) }.boxed()
        })
    }

    fn settle<'a>(
        &'a self,
        batch: &'a [SettleCommand],
        push_to: Option<&'a Bytes>,
        dead_max_len: Option<u64>,
    ) -> Call<'a, Settled> {
        self.call(self.store.settle(batch, push_to, dead_max_len), move || {
            let store = self.store.clone();
            let batch = batch.to_vec();
            let push_to = push_to.cloned();
            async move { drop(store.settle(&batch, push_to.as_ref(), dead_max_len).await) }.boxed()
        })
    }

    fn bury<'a>(&'a self, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, Buried> {
        self.call(self.store.bury(not_after_ms, names), move || {
            let store = self.store.clone();
            let names = names.to_vec();
            async move { drop(store.bury(not_after_ms, &names).await) }.boxed()
        })
    }

    fn leave_order(&self, until_ms: i64) -> Call<'_, bool> {
        let event = self.state.lock().before_leave.take();
        let call = self.call(self.store.leave_order(until_ms), move || {
            let store = self.store.clone();
            async move { drop(store.leave_order(until_ms).await) }.boxed()
        });
        match event {
            Some(event) => event.then(|()| call).boxed(),
            None => call,
        }
    }

    fn owner(&self) -> [u8; 8] {
        self.store.owner()
    }

    fn in_flight(&self) -> Call<'_, InFlight> {
        self.call(Claims::in_flight(&*self.store), never)
    }

    fn open_element(&self, element: &Element) -> (Identity, Result<Bytes, NoPayload>) {
        let unread = &mut self.state.lock().unread;
        if let Some(place) = unread.iter().position(|unread| *unread == element.bytes()) {
            unread.swap_remove(place);
            return (self.store.open_element(element).0, Err(NoPayload::NoRoom));
        }
        self.store.open_element(element)
    }
}

impl Store for Wire {
    fn home(&self) -> &dyn QueueServer {
        self
    }

    fn stats(&self) -> Call<'_, Stats> {
        self.call(self.store.stats(), never)
    }

    fn look(&self) -> Look {
        self.store.look()
    }

    fn counted(&self) -> CountedKeys {
        self.store.counted()
    }

    fn unannounced(&self) -> Option<Unannounced> {
        self.store.unannounced()
    }

    fn note_others(&self, seen: Option<Duration>, holds: Duration) -> Call<'_, ()> {
        self.call(self.store.note_others(seen, holds), never)
    }

    fn presence(&self) -> Arc<str> {
        self.store.presence()
    }

    fn presence_in_database(&self) -> Arc<str> {
        self.store.presence_in_database()
    }

    fn channels(&self) -> Vec<Arc<str>> {
        self.store.channels()
    }

    fn announcement(&self, channel: &str, payload: &[u8]) -> Option<Announcement> {
        self.store.announcement(channel, payload)
    }

    fn pauses<'a>(&'a self, sinks: &'a [Arc<str>]) -> Call<'a, Pauses> {
        self.call(self.store.pauses(sinks), never)
    }

    fn metric_names(&self) -> Option<&'static SourceTerms> {
        self.store.metric_names()
    }

    fn upkeep<'a>(&'a self, request: &'a UpkeepRequest) -> Call<'a, Upkept> {
        self.call(self.store.upkeep(request), never)
    }

    fn due_between<'a>(&'a self, bounds: &'a [(i64, i64)]) -> Call<'a, Vec<u64>> {
        self.call(self.store.due_between(bounds), never)
    }

    fn due_before(&self, schedule: usize, ms: i64) -> Call<'_, usize> {
        self.call(self.store.due_before(schedule, ms), never)
    }

    fn scheduled(&self, schedule: usize, first: usize) -> Call<'_, Scheduled> {
        self.call(self.store.scheduled(schedule, first), never)
    }

    fn rescue<'a>(&'a self, after: Duration, elements: &'a [Bytes]) -> Call<'a, Rescued> {
        self.call(self.store.rescue(after, elements), never)
    }

    fn forwarded<'a>(&'a self, lease: Duration, confirmed: &'a [String]) -> Call<'a, Forwarder> {
        self.call(self.store.forwarded(lease, confirmed), never)
    }

    fn dead_count(&self) -> Call<'_, usize> {
        self.call(self.store.dead_count(), never)
    }

    fn dead_range<'a>(
        &'a self,
        order: Order,
        from: &'a str,
        until: &'a str,
        count: usize,
    ) -> Call<'a, Vec<DeadLetter>> {
        self.call(self.store.dead_range(order, from, until, count), never)
    }
}

impl QueueServer for Wire {
    fn ready(&self) -> BoxFuture<'_, ()> {
        let mut up = self.up.subscribe();
        let ready = async move {
            while !QueueServer::is_up(self) {
                // The sender is in this connection.
                let _ = up.wait_for(|up| *up).await;
                self.server.ready().await;
            }
        };
        async move {
            // Order: whoever is gone gets no answer.
            tokio::select! {
                biased;
                () = self.cut.cancelled() => std::future::pending().await,
                () = ready => {}
            }
        }
        .boxed()
    }

    fn is_up(&self) -> bool {
        *self.up.borrow() && self.server.is_up()
    }

    fn call_timeout(&self) -> Duration {
        self.server.call_timeout()
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
        QueueServer::is_up(self).then(|| self.server.history()).flatten()
    }
}

impl RedisReads for Wire {
    fn is_up(&self) -> bool {
        QueueServer::is_up(self)
    }

    fn now_ms(&self) -> i64 {
        QueueServer::now_ms(self)
    }

    fn look<'a>(&'a self, looks: &'a [LookAt<'a>]) -> Call<'a, Vec<Option<bool>>> {
        self.call(self.server.look(looks), never)
    }

    fn sizes<'a>(&'a self, queues: &'a [CountedKeys]) -> Call<'a, (Option<i64>, Vec<Option<RestingSize>>)> {
        self.call(self.server.sizes(queues), never)
    }

    fn share_looks<'a>(&'a self, own: &'a LookerNote) -> Call<'a, Vec<LookerNote>> {
        self.call(self.server.share_looks(own), never)
    }

    fn forget_lookers<'a>(&'a self, daemons: &'a [Bytes]) -> Call<'a, ()> {
        self.call(self.server.forget_lookers(daemons), never)
    }

    fn lengths<'a>(&'a self, lists: &'a [Bytes]) -> Call<'a, Vec<Result<i64, StoreError>>> {
        self.call(self.server.lengths(lists), never)
    }

    fn listeners<'a>(&'a self, channels: &'a [Arc<str>]) -> Call<'a, Vec<i64>> {
        self.call(self.server.listeners(channels), never)
    }

    fn look_at_memory(&self) -> Call<'_, ()> {
        self.call(self.server.look_at_memory(), never)
    }
}
