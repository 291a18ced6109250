//! What elements take in memory beyond the bytes that came (R4): decoded, unpacked and rendered bodies.
//!
//! How much that is shows only when a body is made. So a body for which there is no room is dropped, and made once more when there
//! is: memory holds what was granted, and one body that was just made.
//!
//! Who waits here has elements in flight, and whoever waits for room for a claim may wait for just these. So growth goes
//! before claims. It is granted where it fits, or where no other growth is held: an element that is larger than the budget, or
//! than what claims leave of it, goes alone. So the line always moves: who was granted growth waits for the guard and the sink
//! only, and both end.
//!
//! In flight counts what is in memory: the received bytes, the bodies made of them, and copies in client libraries
//! (`Sink::copies`). An element of more than 1 MiB counts three times, because the Redis client holds it twice more while
//! it is read or written (`room_of`). Elements behind one that waits for growth stay undecoded, in order and under their
//! lease. Later claims of the queue take fewer bytes, by the growth of the last ones.

use tokio::sync::oneshot;

use super::budget::{Budget, BudgetState};
use super::growing::{GrowthWaiter, Ratio};

impl BudgetState {
    pub(super) fn is_growth_awaited(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| !growth.waiting.is_empty())
    }

    /// Grants what fits to those in line; whether the line is empty.
    pub(super) fn serve_growth(&mut self) -> bool {
        loop {
            let Some(first) = self.growth.as_ref().and_then(|growth| growth.waiting.front()) else { return true };
            let bytes = first.bytes;
            let gone = first.granted.is_closed();
            if !gone && !self.may_grow(bytes) {
                return false;
            }
            let Some(waiter) = self.growth.as_mut().and_then(|growth| growth.waiting.pop_front()) else { return true };
            // A failure means that it has left the line just now.
            if !gone && waiter.granted.send(()).is_ok() {
                self.grow(bytes);
            }
        }
    }

    fn may_grow(&self, bytes: u64) -> bool {
        let alone = self.growth.as_ref().is_none_or(|growth| growth.granted == 0);
        alone || self.byte_limit.saturating_sub(self.bytes) >= bytes
    }

    fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.growth.get_or_insert_default().granted += bytes;
    }
}

impl Budget {
    fn try_grow(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        let granted = !state.is_growth_awaited() && state.may_grow(bytes);
        if granted {
            state.grow(bytes);
        }
        granted
    }

    /// Waits in line. Cancel safe.
    async fn grow(&self, bytes: u64) -> Grown {
        let granted = {
            let mut state = self.lock();
            if !state.is_growth_awaited() && state.may_grow(bytes) {
                state.grow(bytes);
                return Grown { budget: self.clone(), bytes };
            }
            let (sender, receiver) = oneshot::channel();
            state.growth.get_or_insert_default().waiting.push_back(GrowthWaiter { bytes, granted: sender });
            receiver
        };
        let mut place = Place { budget: self, bytes, granted };
        // The sender is in the line until it has sent.
        drop((&mut place.granted).await);
        Grown { budget: self.clone(), bytes }
    }

    fn shrink(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        if let Some(growth) = &mut state.growth {
            growth.granted = growth.granted.saturating_sub(bytes);
        }
        state.serve();
    }

    /// Notes by how much the elements of a claim grew.
    pub fn grew(&self, came: u64, grew: u64) {
        let mut state = self.lock();
        if grew > 0 || state.growth.is_some() {
            let growth = state.growth.get_or_insert_default();
            growth.ratio = growth.ratio.after(came, grew);
        }
    }

    /// Returns the bytes that may come, and what they will take in memory, if that is to be at most `bytes`; at least
    /// `least` and at most `most` may come.
    pub fn share(&self, bytes: u64, least: u64, most: u64) -> (u64, u64) {
        let ratio = self.lock().growth.as_ref().map_or(Ratio::default(), |growth| growth.ratio);
        let came = ratio.shrink(bytes).min(most).max(least).max(1);
        (came, ratio.grow(came).min(bytes).max(came))
    }
}

/// A place in the line; if it is left after the room was granted, the room is released.
struct Place<'a> {
    budget: &'a Budget,
    bytes: u64,
    granted: oneshot::Receiver<()>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.granted.close();
        if self.granted.try_recv().is_ok() {
            self.budget.shrink(self.bytes);
        }
    }
}

/// What is granted by one budget.
#[derive(Debug)]
struct Grown {
    budget: Budget,
    bytes: u64,
}

impl Drop for Grown {
    fn drop(&mut self) {
        self.budget.shrink(self.bytes);
    }
}

/// The growth of elements of a queue, in its two budgets, until it is dropped.
#[derive(Debug)]
pub struct Growth {
    queue: Grown,
    process: Grown,
    used: u64,
}

/// Room is asked for in pieces, for many elements of a few bytes.
const PIECE: u64 = 64 << 10;

impl Growth {
    /// Creates a growth that has taken nothing.
    pub fn none(queue: &Budget, process: &Budget) -> Growth {
        let none = |budget: &Budget| Grown { budget: budget.clone(), bytes: 0 };
        Growth { queue: none(queue), process: none(process), used: 0 }
    }

    /// Waits for room in both, in this order, so that a queue that is full holds nothing of the process's. Cancel safe.
    pub async fn of(queue: &Budget, process: &Budget, bytes: u64) -> Growth {
        let queue = queue.grow(bytes).await;
        Growth { queue, process: process.grow(bytes).await, used: 0 }
    }

    /// Takes so much of it, and more from the budgets if there is room; else nothing.
    pub fn take(&mut self, bytes: u64) -> bool {
        let lacking = self.used.saturating_add(bytes).saturating_sub(self.queue.bytes);
        let enough = lacking == 0 || lacking < PIECE && self.more(PIECE) || self.more(lacking);
        self.used += if enough { bytes } else { 0 };
        enough
    }

    /// Takes so much, whether there is room or not: for an element that nothing is in flight beside.
    pub fn take_anyway(&mut self, bytes: u64) {
        if !self.take(bytes) {
            let lacking = self.used.saturating_add(bytes).saturating_sub(self.queue.bytes);
            for grown in [&mut self.queue, &mut self.process] {
                grown.budget.lock().grow(lacking);
                grown.bytes += lacking;
            }
            self.used += bytes;
        }
    }

    /// Releases what was not taken; what was.
    pub fn settle(&mut self) -> u64 {
        for grown in [&mut self.queue, &mut self.process] {
            grown.budget.shrink(grown.bytes - self.used);
            grown.bytes = self.used;
        }
        self.used
    }

    fn more(&mut self, bytes: u64) -> bool {
        if !self.queue.budget.try_grow(bytes) {
            return false;
        }
        self.queue.bytes += bytes;
        if self.process.budget.try_grow(bytes) {
            self.process.bytes += bytes;
            return true;
        }
        self.queue.bytes -= bytes;
        self.queue.budget.shrink(bytes);
        false
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::limits::budget::Room;

    fn room(count: u64, bytes: u64) -> Room {
        Room { count, bytes }
    }

    fn budgets() -> (Budget, Budget) {
        (Budget::new(100, 1 << 20), Budget::new(100, 2 << 20))
    }

    #[test]
    fn growth_is_granted_as_far_as_there_is_room_and_comes_back() {
        let (queue, process) = budgets();
        let mut growth = Growth::none(&queue, &process);
        assert!(growth.take(600 << 10) && !growth.take(600 << 10) && growth.take(400 << 10));
        assert_eq!(growth.settle(), 1000 << 10);
        assert_eq!((queue.used(), process.used()), (room(0, 1000 << 10), room(0, 1000 << 10)));
        let mut other = Growth::none(&queue, &process);
        assert!(!other.take(100 << 10) && other.take(24 << 10));
        drop((growth, other));
        assert_eq!((queue.used(), process.used()), (room(0, 0), room(0, 0)));
    }

    #[test]
    fn small_growth_is_asked_for_in_pieces_and_what_is_left_of_them_released() {
        let (queue, process) = budgets();
        let mut growth = Growth::none(&queue, &process);
        assert!((0..100).all(|_| growth.take(100)));
        assert_eq!(queue.used().bytes, PIECE);
        assert_eq!(growth.settle(), 10_000);
        assert_eq!((queue.used().bytes, process.used().bytes), (10_000, 10_000));
    }

    #[tokio::test]
    async fn an_element_larger_than_the_budget_goes_alone() {
        let (queue, process) = budgets();
        let claim = queue.reserve(room(1, 1 << 20)).await;
        let mut first = Growth::none(&queue, &process);
        assert!(first.take(5 << 20), "no other has grown");
        let mut second = Box::pin(Growth::of(&queue, &process, 5 << 20));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
        drop(claim);
        assert_eq!((queue.used(), process.used()), (room(0, 0), room(0, 0)));
    }

    #[tokio::test]
    async fn what_grows_goes_before_what_is_to_be_claimed() {
        let (queue, process) = budgets();
        let _claimed = queue.reserve(room(1, 100)).await;
        let mut first = Growth::none(&queue, &process);
        assert!(first.take(1 << 20));
        // It would wait for the claim, whose elements wait behind it.
        let mut claim = Box::pin(queue.reserve(room(1, 1 << 20)));
        assert!(claim.as_mut().now_or_never().is_none());
        let mut second = Box::pin(Growth::of(&queue, &process, 1 << 20));
        assert!(second.as_mut().now_or_never().is_none());
        let third = Box::pin(queue.reserve(room(1, 1)));
        assert!(third.now_or_never().is_none(), "behind those in line");
        drop(first);
        assert!(claim.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_some());
        assert!(claim.as_mut().now_or_never().is_none(), "the claim still has its room");
    }

    #[tokio::test]
    async fn growth_granted_to_a_future_that_is_gone_is_not_lost() {
        let (queue, process) = budgets();
        let mut first = Growth::none(&queue, &process);
        assert!(first.take(1 << 20));
        let mut waiting = Box::pin(Growth::of(&queue, &process, 1 << 20));
        let mut last = Box::pin(Growth::of(&queue, &process, 1 << 20));
        assert!(waiting.as_mut().now_or_never().is_none() && last.as_mut().now_or_never().is_none());
        drop(first);
        drop(waiting);
        let _ = last.now_or_never().expect("its turn");
        assert_eq!((queue.used(), process.used()), (room(0, 0), room(0, 0)));
    }

    #[test]
    fn claims_take_less_while_elements_grow_and_more_when_they_do_not() {
        let budget = Budget::new(100, 1 << 20);
        assert_eq!(budget.share(1 << 20, 10, 1 << 19), (1 << 19, 1 << 19), "no growth is known");
        budget.grew(1_000, 999_000);
        let (came, takes) = budget.share(1 << 20, 10, 1 << 19);
        assert!((1_000..1_050).contains(&came) && (1 << 20) - takes < 2_000, "{came} {takes}");
        assert_eq!(budget.share(1_000, 700, 1 << 19), (700, 1_000), "the largest element in any case");
        for _ in 0..100 {
            budget.grew(1_000, 0);
        }
        assert_eq!(budget.share(1 << 20, 10, 1 << 19), (1 << 19, 1 << 19));
    }
}
