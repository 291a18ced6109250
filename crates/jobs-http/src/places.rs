//! Places for connections. When all are taken, the oldest connection without a request gives its place up: clients that only hold
//! connections keep nobody out.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The places of a listener.
pub struct ConnectionSlots {
    free: Arc<Semaphore>,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    /// Connections without a request, by the number of their last turn, the oldest first.
    idle: BTreeMap<u64, CancellationToken>,
    last: u64,
    /// Whether a connection waits for a place.
    wanted: bool,
}

impl ConnectionSlots {
    /// So many.
    pub fn new(count: usize) -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots { free: Arc::new(Semaphore::new(count)), state: Mutex::default() })
    }

    /// A place. If there is none, `crowded` is called, and the first connection without a request has to go. Cancel-safe: a
    /// place that is taken is given back.
    pub async fn take(self: &Arc<Self>, crowded: impl FnOnce()) -> ConnectionSlot {
        let permit = match self.free.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                crowded();
                let _wanted = SlotWanted::new(self);
                // The semaphore is never closed.
                self.free.clone().acquire_owned().await.ok()
            }
        };
        let place = ConnectionSlot {
            places: self.clone(),
            leave: CancellationToken::new(),
            turn: Mutex::new(None),
            _permit: permit,
        };
        place.idle();
        place
    }
}

/// A connection that waits for a place, until this is dropped.
struct SlotWanted<'a>(&'a ConnectionSlots);

impl<'a> SlotWanted<'a> {
    fn new(places: &'a ConnectionSlots) -> SlotWanted<'a> {
        let mut state = places.state.lock();
        match state.idle.pop_first() {
            Some((_, leave)) => leave.cancel(),
            None => state.wanted = true,
        }
        SlotWanted(places)
    }
}

impl Drop for SlotWanted<'_> {
    fn drop(&mut self) {
        self.0.state.lock().wanted = false;
    }
}

/// The place of one connection, until it is dropped.
pub struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    leave: CancellationToken,
    /// The number among the idle connections, while there is no request.
    turn: Mutex<Option<u64>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl ConnectionSlot {
    /// Becomes ready when the place is needed for another connection.
    pub fn leave(&self) -> &CancellationToken {
        &self.leave
    }

    /// A request began; it lasts until the result is dropped.
    pub fn busy(self: &Arc<Self>) -> Busy {
        if let Some(turn) = self.turn.lock().take() {
            self.places.state.lock().idle.remove(&turn);
        }
        Busy(self.clone())
    }

    fn idle(&self) {
        let mut state = self.places.state.lock();
        if std::mem::take(&mut state.wanted) {
            self.leave.cancel();
            return;
        }
        state.last += 1;
        let turn = state.last;
        state.idle.insert(turn, self.leave.clone());
        drop(state);
        *self.turn.lock() = Some(turn);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.lock().take() {
            self.places.state.lock().idle.remove(&turn);
        }
    }
}

/// A request under way. A connection has one at a time.
pub struct Busy(Arc<ConnectionSlot>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.idle();
    }
}

/// The body of an answer: its request is under way until all of it was taken for writing.
pub struct Answering<B> {
    body: B,
    _busy: Busy,
}

impl<B> Answering<B> {
    /// This body, of this request.
    pub fn new(body: B, busy: Busy) -> Answering<B> {
        Answering { body, _busy: busy }
    }
}

impl<B: Body<Data = Bytes, Error = Infallible> + Unpin> Body for Answering<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
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

    async fn none(places: &Arc<ConnectionSlots>) -> bool {
        timeout(Duration::from_secs(1), places.take(|| {})).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_without_a_request_goes_first() {
        let places = ConnectionSlots::new(3);
        let [one, two, three] =
            [places.take(|| {}).await, places.take(|| {}).await, places.take(|| {}).await].map(Arc::new);
        // The first has had a request since, so that it is the youngest.
        drop(one.busy());
        let _busy = three.busy();
        assert!(none(&places).await);
        assert!(two.leave().is_cancelled() && !one.leave().is_cancelled() && !three.leave().is_cancelled());
        drop(two);
        let four = places.take(|| panic!("there is a place")).await;
        drop(four);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_the_place_of_the_next_that_is_done() {
        let places = ConnectionSlots::new(1);
        let one = Arc::new(places.take(|| {}).await);
        let busy = one.busy();
        assert!(none(&places).await, "a request is not cut off");
        assert!(!one.leave().is_cancelled());
        let mut crowded = false;
        let (_, ()) = tokio::join!(places.take(|| crowded = true), async {
            tokio::task::yield_now().await;
            drop(busy);
            assert!(one.leave().is_cancelled());
            drop(one);
        });
        assert!(crowded);
        assert!(places.state.lock().idle.is_empty() && !places.state.lock().wanted);
    }
}
