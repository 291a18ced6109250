//! Places for connections. When all are taken, a connection without a request gives its place up at once: clients that only hold
//! connections, or send heads that never end, keep nobody out. The oldest goes of the address that has most of them, so that what
//! one address opens costs no other one its place.
//!
//! The caller is known once the head of a request is there. Requests without a token, those of strangers, then have at most half of
//! the places, and those from one address a quarter, so that a caller with a token finds a place.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The origin of a connection, as far as connections are counted together: an IPv4 address, or a /64 of IPv6, which one customer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin(u64);

impl Origin {
    /// Returns the origin of a connection from this address.
    pub fn of(ip: IpAddr) -> Origin {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Origin(u64::from(ip.to_bits())),
            // The upper half of an address that is not mapped from IPv4 is never below 2^32, except for the loopback.
            IpAddr::V6(ip) => Origin((ip.to_bits() >> 64) as u64),
        }
    }
}

/// The most connections that have given their place up and are not closed yet.
const LEAVING: usize = 16;

/// The places of a listener.
pub struct ConnectionSlots {
    free: Arc<Semaphore>,
    /// One for each connection until it is closed, also after it gave its place up: its socket is a descriptor of the process.
    open: Arc<Semaphore>,
    /// The most requests of strangers.
    strangers: usize,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    /// Connections without a request, by the number of their last turn, the oldest first.
    idle: BTreeMap<u64, IdleConnection>,
    last: u64,
    /// Requests of strangers under way, by their origin.
    strangers: HashMap<Option<Origin>, usize>,
    /// Whether a connection waits for a place.
    wanted: bool,
}

/// A connection without a request. Its place is here, where another connection can take it.
struct IdleConnection {
    leave: CancellationToken,
    origin: Option<Origin>,
    permit: Option<OwnedSemaphorePermit>,
}

impl SlotState {
    /// Takes the place of a connection without a request, which has to go: the oldest of the origin with most of them. Those without
    /// an origin stand for themselves.
    fn take_place(&mut self) -> Option<OwnedSemaphorePermit> {
        let mut counts: HashMap<Origin, usize> = HashMap::new();
        for origin in self.idle.values().filter_map(|idle| idle.origin) {
            *counts.entry(origin).or_default() += 1;
        }
        let count = |idle: &IdleConnection| idle.origin.map_or(1, |origin| counts[&origin]);
        let most = self.idle.values().map(count).max()?;
        let turn = self.idle.iter().find(|(_, idle)| count(idle) == most).map(|(turn, _)| *turn)?;
        let idle = self.idle.remove(&turn)?;
        idle.leave.cancel();
        idle.permit
    }
}

impl ConnectionSlots {
    /// Creates this many slots.
    pub fn new(count: usize) -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots {
            free: Arc::new(Semaphore::new(count)),
            open: Arc::new(Semaphore::new(count + LEAVING)),
            strangers: count.div_ceil(2),
            state: Mutex::default(),
        })
    }

    /// Takes a place for a connection from there. If there is none, `crowded` is called, and a connection without a
    /// request has to go; if there is none of these either, the next one that has no request. Waits while too many that had to go
    /// are not closed. Cancel-safe: a place that is taken is given back.
    pub async fn take(self: &Arc<Self>, origin: Option<Origin>, crowded: impl FnOnce()) -> ConnectionSlot {
        // First, so that a newcomer that waits here has not taken a place. Neither semaphore is ever closed.
        let open = self.open.clone().acquire_owned().await.ok();
        let free = self.free.clone().try_acquire_owned().ok();
        let permit = match free {
            Some(permit) => Some(permit),
            None => {
                crowded();
                let _wanted = SlotWanted(self);
                let taken = {
                    let mut state = self.state.lock();
                    let taken = state.take_place();
                    state.wanted = taken.is_none();
                    taken
                };
                match taken {
                    Some(permit) => Some(permit),
                    None => self.free.clone().acquire_owned().await.ok(),
                }
            }
        };
        let place = ConnectionSlot {
            places: self.clone(),
            leave: CancellationToken::new(),
            origin,
            _open: open,
            turn: Mutex::new(None),
            served: AtomicBool::new(false),
            stranger: AtomicBool::new(false),
        };
        place.idle(permit);
        place
    }
}

/// A connection that waits for a place, until this is dropped.
struct SlotWanted<'a>(&'a ConnectionSlots);

impl Drop for SlotWanted<'_> {
    fn drop(&mut self) {
        self.0.state.lock().wanted = false;
    }
}

/// The place of one connection, until it is dropped.
pub struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    leave: CancellationToken,
    origin: Option<Origin>,
    _open: Option<OwnedSemaphorePermit>,
    /// The number among the idle connections, while there is no request.
    turn: Mutex<Option<u64>>,
    /// Whether a request has come: before, no answer can be on its way.
    served: AtomicBool,
    /// Whether the request under way is a stranger's.
    stranger: AtomicBool,
}

impl ConnectionSlot {
    /// Returns whether a request has come so far.
    pub fn has_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Returns a token that is cancelled when the place is needed for another connection.
    pub fn leave(&self) -> &CancellationToken {
        &self.leave
    }

    /// Returns a request began; it lasts until the result is dropped.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.served.store(true, Ordering::Relaxed);
        let idle = self.turn.lock().take().and_then(|turn| self.places.state.lock().idle.remove(&turn));
        // Where another connection has the place already, this is its last request.
        Busy { permit: idle.and_then(|idle| idle.permit), slot: self.clone() }
    }

    /// Counts the request under way as a stranger's, until it ends. Returns false if strangers have as many as they may have.
    pub fn admits_stranger(&self) -> bool {
        let most = self.places.strangers;
        let mut state = self.places.state.lock();
        // Those without an origin are of many clients.
        let own = state.strangers.get(&self.origin).filter(|_| self.origin.is_some()).copied().unwrap_or_default();
        if state.strangers.values().sum::<usize>() >= most || own >= most.div_ceil(2) {
            return false;
        }
        *state.strangers.entry(self.origin).or_default() += 1;
        self.stranger.store(true, Ordering::Relaxed);
        true
    }

    fn idle(&self, permit: Option<OwnedSemaphorePermit>) {
        let mut state = self.places.state.lock();
        if self.stranger.swap(false, Ordering::Relaxed)
            && let Some(count) = state.strangers.get_mut(&self.origin)
        {
            *count -= 1;
            state.strangers.retain(|_, count| *count > 0);
        }
        if permit.is_none() || std::mem::take(&mut state.wanted) {
            self.leave.cancel();
            // Given back: whoever waits for a place has it.
            return;
        }
        state.last += 1;
        let turn = state.last;
        state.idle.insert(turn, IdleConnection { leave: self.leave.clone(), origin: self.origin, permit });
        drop(state);
        *self.turn.lock() = Some(turn);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.lock().take() {
            // Taken out of the lock first: the permit goes back with it.
            let idle = self.places.state.lock().idle.remove(&turn);
            drop(idle);
        }
    }
}

/// A request under way, with the place of its connection. A connection has one at a time.
pub struct Busy {
    slot: Arc<ConnectionSlot>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.slot.idle(self.permit.take());
    }
}

/// The body of an answer: its request is under way until all of it was taken for writing.
pub struct Answering<B> {
    body: B,
    _busy: Busy,
}

impl<B> Answering<B> {
    /// Wraps the body of the answer to a request.
    pub fn new(body: B, busy: Busy) -> Answering<B> {
        Answering { body, _busy: busy }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answering<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn from(ip: &str) -> Option<Origin> {
        Some(Origin::of(ip.parse().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_without_a_request_goes_first_and_at_once() {
        let places = ConnectionSlots::new(3);
        let take = || places.take(None, || {});
        let [one, two, three] = [take().await, take().await, take().await].map(Arc::new);
        // The first has had a request since, so that it is the youngest.
        let _ = one.busy();
        let busy = three.busy();
        // Nobody waits until the other has gone.
        let four = timeout(Duration::ZERO, take()).await.unwrap();
        assert!(two.leave().is_cancelled() && !one.leave().is_cancelled() && !three.leave().is_cancelled());
        drop((two, four, busy));
        let _five = places.take(None, || panic!("there is a place")).await;
    }

    /// Heads that never end, from one address: whoever comes from another one keeps its place until its head is there.
    #[tokio::test(start_paused = true)]
    async fn what_one_address_opens_costs_no_other_one_its_place() {
        let places = ConnectionSlots::new(8);
        let operator = Arc::new(places.take(from("192.0.2.1"), || {}).await);
        let other = places.take(from("2001:db8:1::1"), || {}).await;
        let proxied = [places.take(None, || {}).await, places.take(None, || {}).await];
        let stays = |slot: &ConnectionSlot| !slot.leave().is_cancelled();
        let (mut held, mut gone) = (Vec::new(), 0);
        for n in 0..1_000 {
            // The addresses of one customer.
            let ip = if n % 2 == 0 { "198.51.100.7".to_owned() } else { format!("2001:db8:2::{n:x}") };
            held.push(timeout(Duration::ZERO, places.take(from(&ip), || {})).await.unwrap());
            // Who has to go is closed.
            gone += held.len();
            held.retain(stays);
            gone -= held.len();
        }
        assert!(stays(&operator) && stays(&other) && proxied.iter().all(stays));
        assert_eq!((held.len(), gone), (4, 996));
        let _ = operator.busy();
        assert!(stays(&operator));
    }

    /// A connection that has to go keeps its descriptor until it is closed.
    #[tokio::test(start_paused = true)]
    async fn those_that_leave_are_few_beside_those_with_a_place() {
        let places = ConnectionSlots::new(2);
        let mut open = Vec::new();
        while let Ok(slot) = timeout(Duration::from_secs(1), places.take(None, || {})).await {
            open.push(slot);
        }
        assert_eq!(open.len(), 2 + LEAVING);
        // The newcomer that waits has not taken one.
        assert_eq!(open.iter().filter(|slot| !slot.leave().is_cancelled()).count(), 2);
        // One that was closed lets the next one in.
        drop(open.remove(0));
        timeout(Duration::ZERO, places.take(None, || {})).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_have_half_of_the_places_and_one_address_a_quarter() {
        let places = ConnectionSlots::new(8);
        let mut busy = Vec::new();
        let mut admitted = Vec::new();
        for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"] {
            let slot = Arc::new(places.take(from(ip), || {}).await);
            busy.push(slot.busy());
            admitted.push(slot.admits_stranger());
        }
        assert_eq!(admitted, [true, true, false, true, true, false]);
        // A request that ends leaves its place to another stranger.
        busy.remove(0);
        assert!(busy[1].slot.admits_stranger());
        busy.clear();
        assert!(places.state.lock().strangers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_the_place_of_the_next_that_is_done() {
        let places = ConnectionSlots::new(1);
        let one = Arc::new(places.take(None, || {}).await);
        let busy = one.busy();
        assert!(timeout(Duration::from_secs(1), places.take(None, || {})).await.is_err(), "a request is not cut off");
        assert!(!one.leave().is_cancelled());
        let mut crowded = false;
        let (two, ()) = tokio::join!(places.take(None, || crowded = true), async {
            tokio::task::yield_now().await;
            drop(busy);
            assert!(one.leave().is_cancelled());
        });
        assert!(crowded);
        // A request that came in the meantime has no place any more, and ends the connection.
        let _ = one.busy();
        drop((one, two));
        assert!(places.state.lock().idle.is_empty() && !places.state.lock().wanted);
        assert_eq!(places.free.available_permits(), 1);
    }

    #[test]
    fn addresses_of_one_customer_are_one_origin() {
        for (a, b, same) in [
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(from(a) == from(b), same, "{a} {b}");
        }
    }
}
