//! The room of one claim, in its two budgets.

use crate::limits::budget::{Budget, Reservation, Room};

/// Room for one claim: in its queue's budget, and in the one that all queues share.
#[derive(Debug)]
pub struct RoomReserved {
    queue: Reservation,
    process: Reservation,
}

impl RoomReserved {
    /// Waits for room in both: in the queue's budget first, so that a queue that is full holds nothing of the process's,
    /// and then, after `then`, as much in the process's. Cancel safe.
    pub async fn of(queue: &Budget, then: impl FnOnce(), process: &Budget, want: Room) -> RoomReserved {
        let queue = queue.reserve(want).await;
        then();
        let process = process.reserve(queue.room()).await;
        RoomReserved { queue, process }
    }

    /// Creates an empty reservation in both budgets, for what takes its room without waiting.
    pub fn none(queue: &Budget, process: &Budget) -> RoomReserved {
        RoomReserved { queue: queue.none(), process: process.none() }
    }

    /// Returns the room that is held in both.
    pub fn room(&self) -> Room {
        let queue = self.queue.room();
        let process = self.process.room();
        Room { count: queue.count.min(process.count), bytes: queue.bytes.min(process.bytes) }
    }

    /// Holds so much from now on, in both: see [`Reservation::set`].
    pub fn set(&mut self, room: Room) {
        self.queue.set(room);
        self.process.set(room);
    }

    /// Releases a part, in both.
    pub fn release(&mut self, room: Room) {
        self.queue.release(room);
        self.process.release(room);
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
    async fn room_of_a_claim_is_in_both_budgets_and_no_more_than_the_smaller_has() {
        let queue = Budget::new(10, 100);
        let process = Budget::new(4, 1_000);
        let mut claim = RoomReserved::of(&queue, || (), &process, room(50, 60)).await;
        assert_eq!(claim.room(), room(4, 60));
        claim.set(room(2, 50));
        claim.release(room(1, 30));
        assert_eq!((queue.used(), process.used()), (room(1, 20), room(1, 20)));
        drop(claim);
        assert_eq!((queue.used(), process.used()), (room(0, 0), room(0, 0)));
        let _full = queue.reserve(room(10, 1)).await;
        assert!(RoomReserved::of(&queue, || (), &process, room(1, 1)).now_or_never().is_none());
        assert_eq!(process.used(), room(0, 0), "a queue that is full holds nothing of the process's");
    }
}
