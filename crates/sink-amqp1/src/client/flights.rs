//! Deliveries without an outcome, in the order of their numbers, which wrap.

use std::collections::VecDeque;

use tokio::time::Instant;

use delaybridge_sink::worker_queue::WorkItem;

struct SentDelivery {
    /// The element, until it has its answer.
    item: Option<WorkItem>,
    late_at: Instant,
    /// The place in the connection's output behind its last byte; absent while that is not written.
    ends_at: Option<u64>,
}

/// The deliveries of a link from the oldest without an outcome on.
#[derive(Default)]
pub(super) struct Flights {
    deliveries: VecDeque<SentDelivery>,
    /// The number of the first delivery.
    first: u32,
    open: usize,
}

impl Flights {
    /// Returns the number that the next delivery gets.
    pub(super) fn next(&self) -> u32 {
        self.first.wrapping_add(self.deliveries.len() as u32)
    }

    /// Returns the number of deliveries without an outcome.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Keeps a delivery under the next number.
    pub(super) fn push(&mut self, item: WorkItem, late_at: Instant) {
        self.deliveries.push_back(SentDelivery { item: Some(item), late_at, ends_at: None });
        self.open += 1;
    }

    /// Records that the newest delivery is written up to this place of the output.
    pub(super) fn written(&mut self, ends_at: u64) {
        if let Some(newest) = self.deliveries.back_mut() {
            newest.ends_at = Some(ends_at);
        }
    }

    /// Takes the elements of a range of numbers, those that are under way.
    pub(super) fn take(&mut self, first: u32, last: u32) -> Vec<WorkItem> {
        let from = first.wrapping_sub(self.first) as usize;
        let to = last.wrapping_sub(self.first) as usize;
        // A range that begins before the first here: what is older has its answer.
        let from = if from > to { 0 } else { from };
        let upper = to.saturating_add(1).min(self.deliveries.len());
        let found: Vec<WorkItem> = if from < upper {
            self.deliveries.range_mut(from..upper).filter_map(|delivery| delivery.item.take()).collect()
        } else {
            Vec::new()
        };
        self.open -= found.len();
        self.shrink();
        found
    }

    /// Takes the element that is late for longest, and the place of its last byte.
    pub(super) fn late(&mut self, now: Instant) -> Option<(WorkItem, Option<u64>)> {
        let oldest = self.deliveries.iter_mut().find(|delivery| delivery.item.is_some())?;
        if oldest.late_at > now {
            return None;
        }
        let found = (oldest.item.take()?, oldest.ends_at);
        self.open -= 1;
        self.shrink();
        Some(found)
    }

    /// Takes all elements, in their order.
    pub(super) fn drain(&mut self) -> Vec<WorkItem> {
        self.open = 0;
        self.deliveries.drain(..).filter_map(|delivery| delivery.item).collect()
    }

    /// Forgets the oldest deliveries that have their answers.
    fn shrink(&mut self) {
        while self.deliveries.front().is_some_and(|delivery| delivery.item.is_none()) {
            self.deliveries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use delaybridge_sink::Answers;
    use delaybridge_sink::worker_queue::WorkerQueue;
    use delaybridge_testing::sink::{anywhere, outbound};
    use futures_util::FutureExt;

    fn items(count: u64) -> (Vec<WorkItem>, impl Sized) {
        let (queue, mut taken) = WorkerQueue::new("test", Duration::from_secs(1), 64);
        let answers = Answers::new(count as usize);
        let batch = (0..count).map(|id| outbound(id, anywhere(), "x")).collect();
        let queue: &'static WorkerQueue = Box::leak(Box::new(queue));
        let answers: &'static Answers = Box::leak(Box::new(answers));
        let mut delivery = Box::pin(queue.deliver_all(batch, answers));
        assert!(delivery.as_mut().now_or_never().is_none());
        ((0..count).map(|_| taken.try_recv().unwrap()).collect(), delivery)
    }

    fn numbers(items: &[WorkItem]) -> Vec<u64> {
        items.iter().map(|item| u64::from_be_bytes(item.message().id.id.0)).collect()
    }

    #[tokio::test]
    async fn ranges_end_what_is_in_them_and_numbers_wrap() {
        let (items, _delivery) = items(8);
        let mut flights = Flights { first: u32::MAX - 2, ..Flights::default() };
        for item in items {
            flights.push(item, Instant::now());
        }
        assert_eq!((flights.next(), flights.open()), (5, 8));
        let first = u32::MAX - 2;
        assert_eq!(numbers(&flights.take(first + 1, first + 1)), [1]);
        assert_eq!((flights.deliveries.len(), flights.open()), (8, 7), "the oldest is still open");
        assert_eq!(numbers(&flights.take(first, first)), [0]);
        assert_eq!((flights.deliveries.len(), flights.open()), (6, 6));
        assert!(flights.take(first, first + 1).is_empty(), "both are known");
        assert_eq!(numbers(&flights.take(u32::MAX, 1)), [2, 3, 4]);
        assert_eq!(numbers(&flights.take(first, 2)), [5], "a range from before the first");
        assert!(flights.take(4, 1000).len() == 1, "a range beyond the last");
        assert!(flights.take(100, 200).is_empty());
        assert_eq!(numbers(&flights.drain()), [6]);
        assert_eq!((flights.deliveries.len(), flights.open()), (0, 0));
    }

    #[tokio::test]
    async fn the_oldest_is_late_first() {
        let (items, _delivery) = items(2);
        let mut flights = Flights::default();
        let now = Instant::now();
        for (place, item) in items.into_iter().enumerate() {
            flights.push(item, now + Duration::from_secs(place as u64));
            if place == 0 {
                flights.written(77);
            }
        }
        let (item, ends_at) = flights.late(now).unwrap();
        assert_eq!((numbers(&[item]), ends_at), (vec![0], Some(77)));
        assert!(flights.late(now).is_none());
        assert_eq!(flights.late(now + Duration::from_secs(1)).unwrap().1, None);
        assert_eq!(flights.open(), 0);
    }
}
