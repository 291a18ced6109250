//! How much may be in flight, by count and by bytes (R4). Room is reserved before a claim, so that what cannot be held
//! is never taken out of Redis.
//!
//! Independent of queues. Each claim needs two budgets: the queue's and the process's. Waiting is first come,
//! first served, so that a queue with a million overdue elements does not starve another one.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::growing::Growing;

/// A bound on elements and bytes. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Mutex<BudgetState>>);

#[derive(Debug)]
pub(super) struct BudgetState {
    count: u64,
    pub(super) bytes: u64,
    count_limit: u64,
    pub(super) byte_limit: u64,
    waiting: VecDeque<RoomWaiter>,
    /// The growth of elements in flight; most queues never have any.
    pub(super) growth: Option<Box<Growing>>,
}

#[derive(Debug)]
struct RoomWaiter {
    want: Room,
    granted: oneshot::Sender<Room>,
}

/// An amount of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Room {
    /// Elements.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

impl BudgetState {
    /// Grants as much of `want` as there is, if that is at least one element and either the bytes wanted or, for
    /// something larger than the whole limit, all of them.
    fn grant(&mut self, want: Room) -> Option<Room> {
        let count = want.count.min(self.count_limit.saturating_sub(self.count));
        let bytes = want.bytes.min(self.byte_limit);
        if count == 0 || self.byte_limit.saturating_sub(self.bytes) < bytes {
            return None;
        }
        self.count += count;
        self.bytes += bytes;
        Some(Room { count, bytes })
    }

    /// Serves those in line, the first of each kind first. Elements that are in flight and grow go before claims: only
    /// when it ends is there room for more.
    pub(super) fn serve(&mut self) {
        if !self.serve_growth() {
            return;
        }
        while let Some(waiter) = self.waiting.front() {
            if waiter.granted.is_closed() {
                self.waiting.pop_front();
                continue;
            }
            let Some(room) = self.grant(waiter.want) else { return };
            if let Some(waiter) = self.waiting.pop_front()
                && waiter.granted.send(room).is_err()
            {
                self.count -= room.count;
                self.bytes -= room.bytes;
            }
        }
    }
}

impl Budget {
    /// Creates a budget of `count` elements and `bytes` bytes; zero is taken as one.
    pub fn new(count: u64, bytes: u64) -> Self {
        Budget(Arc::new(Mutex::new(BudgetState {
            count: 0,
            bytes: 0,
            count_limit: count.max(1),
            byte_limit: bytes.max(1),
            waiting: VecDeque::new(),
            growth: None,
        })))
    }

    /// Waits for room: some of `want.count`, and all of `want.bytes` or the whole limit if that is less.
    ///
    /// Cancel safe: what was granted to a future that is gone goes to the next one.
    pub async fn reserve(&self, want: Room) -> Reservation {
        let want = Room { count: want.count.max(1), bytes: want.bytes.max(1) };
        loop {
            let granted = {
                let mut state = self.lock();
                if state.waiting.is_empty()
                    && !state.is_growth_awaited()
                    && let Some(room) = state.grant(want)
                {
                    return self.reservation(room);
                }
                let (sender, receiver) = oneshot::channel();
                state.waiting.push_back(RoomWaiter { want, granted: sender });
                receiver
            };
            let mut pending = Pending { budget: self, granted };
            if let Ok(room) = (&mut pending.granted).await {
                return self.reservation(room);
            }
        }
    }

    /// Returns the room in use now.
    pub fn used(&self) -> Room {
        let state = self.lock();
        Room { count: state.count, bytes: state.bytes }
    }

    /// Returns whether more than half of it is in use, by count or by bytes.
    pub fn is_half_full(&self) -> bool {
        let state = self.lock();
        state.count * 2 > state.count_limit || state.bytes * 2 > state.byte_limit
    }

    /// Returns the bounds.
    pub fn limit(&self) -> Room {
        let state = self.lock();
        Room { count: state.count_limit, bytes: state.byte_limit }
    }

    /// Returns the bound on bytes.
    pub fn byte_limit(&self) -> u64 {
        self.lock().byte_limit
    }

    /// Moves the bound on elements; what is in flight above it stays.
    pub fn set_count_limit(&self, count: u64) {
        let mut state = self.lock();
        state.count_limit = count.max(1);
        state.serve();
    }

    /// Creates a reservation of nothing.
    pub fn none(&self) -> Reservation {
        self.reservation(Room::default())
    }

    fn reservation(&self, room: Room) -> Reservation {
        Reservation { budget: self.clone(), room }
    }

    fn give_back(&self, room: Room) {
        if room == Room::default() {
            return;
        }
        let mut state = self.lock();
        state.count = state.count.saturating_sub(room.count);
        state.bytes = state.bytes.saturating_sub(room.bytes);
        state.serve();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.0.lock()
    }
}

/// A place in the line; if it is left after the room was granted, the room is released.
struct Pending<'a> {
    budget: &'a Budget,
    granted: oneshot::Receiver<Room>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.granted.close();
        if let Ok(room) = self.granted.try_recv() {
            self.budget.give_back(room);
        }
    }
}

/// Room that is held until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    room: Room,
}

impl Reservation {
    /// Returns the room that is held.
    pub fn room(&self) -> Room {
        self.room
    }

    /// Holds so much from now on: what is too much is released. What is missing is taken from the budget all the same: the
    /// elements are here already, and the next reservation waits the longer.
    pub fn set(&mut self, room: Room) {
        let lacking = Room {
            count: room.count.saturating_sub(self.room.count),
            bytes: room.bytes.saturating_sub(self.room.bytes),
        };
        if lacking != Room::default() {
            let mut state = self.budget.lock();
            state.count += lacking.count;
            state.bytes += lacking.bytes;
        }
        let over = Room {
            count: self.room.count.saturating_sub(room.count),
            bytes: self.room.bytes.saturating_sub(room.bytes),
        };
        self.room = room;
        self.budget.give_back(over);
    }

    /// Releases a part of it.
    pub fn release(&mut self, room: Room) {
        let count = self.room.count.saturating_sub(room.count);
        let bytes = self.room.bytes.saturating_sub(room.bytes);
        self.set(Room { count, bytes });
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.room);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn room(count: u64, bytes: u64) -> Room {
        Room { count, bytes }
    }

    #[tokio::test]
    async fn what_is_reserved_comes_back_when_it_is_dropped() {
        let budget = Budget::new(10, 100);
        let mut all = budget.reserve(room(50, 60)).await;
        assert_eq!(all.room(), room(10, 60));
        all.set(room(3, 50));
        assert_eq!(budget.used(), room(3, 50));
        all.release(room(2, 30));
        assert_eq!(budget.used(), room(1, 20));
        drop(all);
        assert_eq!(budget.used(), room(0, 0));
    }

    #[tokio::test]
    async fn an_element_larger_than_its_reservation_is_counted_in_full() {
        let budget = Budget::new(10, 100);
        let mut held = budget.reserve(room(1, 10)).await;
        held.set(room(1, 500));
        assert_eq!(budget.used(), room(1, 500));
        assert!(budget.reserve(room(1, 1)).now_or_never().is_none());
        drop(held);
        assert!(budget.reserve(room(1, 1_000)).now_or_never().is_some(), "more than the limit means the whole limit");
    }

    #[tokio::test]
    async fn room_goes_to_the_first_in_line_and_past_those_that_left() {
        let budget = Budget::new(1, 100);
        let held = budget.reserve(room(1, 1)).await;
        let mut first = Box::pin(budget.reserve(room(1, 1)));
        let mut gone = Box::pin(budget.reserve(room(1, 1)));
        let mut last = Box::pin(budget.reserve(room(1, 1)));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(gone.as_mut().now_or_never().is_none());
        assert!(last.as_mut().now_or_never().is_none());
        drop(held);
        drop(gone);
        assert!(last.as_mut().now_or_never().is_none());
        drop(first.await);
        drop(last.await);
        assert_eq!(budget.used(), room(0, 0));
    }

    #[tokio::test]
    async fn room_granted_to_a_future_that_is_gone_is_not_lost() {
        let budget = Budget::new(1, 100);
        let held = budget.reserve(room(1, 1)).await;
        let mut waiting = Box::pin(budget.reserve(room(1, 1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(held);
        assert_eq!(budget.used(), room(1, 1), "granted, not yet taken");
        drop(waiting);
        assert_eq!(budget.used(), room(0, 0));
    }
}
