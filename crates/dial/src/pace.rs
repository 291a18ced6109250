//! How fast a server may send: so many bytes in a moment, and then others have their turn.
//!
//! The budget that the runtime gives a task is not enough: a server that always has bytes ready takes a whole thread, and a few of
//! them take all.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep};

/// A moment.
const TICK: Duration = Duration::from_millis(10);

/// The bytes that the connections of one client may read in a moment, all of them together: a server that floods many connections
/// takes no more than one that floods a single one.
#[derive(Debug)]
pub struct ReadBudget(Mutex<ReadMoment>);

#[derive(Debug)]
struct ReadMoment {
    /// Bytes that may be read in a moment.
    most: u64,
    /// Bytes that are left of this one; what was read beyond them is missing in the next.
    left: i64,
    /// The beginning of this moment.
    tick: Instant,
}

impl ReadBudget {
    /// Bytes in a moment for a server that answers and confirms: ten times what the fastest of them was seen to send.
    pub const ANSWERS: u64 = 128 << 10;

    /// Creates a budget of this many bytes in 10 ms.
    pub fn new(most: u64) -> Arc<ReadBudget> {
        Arc::new(ReadBudget(Mutex::new(ReadMoment { most, left: signed(most), tick: Instant::now() })))
    }

    /// Returns the time at which more may be read; `None` for now.
    fn next(&self) -> Option<Instant> {
        let mut moment = self.0.lock();
        while moment.left <= 0 {
            let now = Instant::now();
            let ticks = now.saturating_duration_since(moment.tick).as_millis() / TICK.as_millis();
            if ticks == 0 {
                return Some(moment.tick + TICK);
            }
            let more = moment.most.saturating_mul(u64::try_from(ticks).unwrap_or(u64::MAX));
            moment.left = moment.left.saturating_add(signed(more)).min(signed(moment.most));
            moment.tick = now;
        }
        None
    }
}

/// The pace of one connection. It is made on the runtime, and may be polled elsewhere.
#[derive(Debug)]
pub struct Pace {
    budget: Arc<ReadBudget>,
    rest: Pin<Box<Sleep>>,
}

impl Pace {
    /// Creates the pace of a connection that shares this budget.
    pub fn of(budget: Arc<ReadBudget>) -> Pace {
        Pace { budget, rest: Box::pin(sleep(TICK)) }
    }

    /// Creates the pace of a connection with a budget of its own, of this many bytes in 10 ms.
    pub fn new(most: u64) -> Pace {
        Pace::of(ReadBudget::new(most))
    }

    /// Changes the number of bytes of the budget.
    pub fn change(&mut self, most: u64) {
        self.budget.0.lock().most = most;
    }

    /// Counts bytes that were read.
    pub fn spend(&mut self, count: usize) {
        let mut moment = self.budget.0.lock();
        moment.left = moment.left.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Waits until more may be read.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(next) = self.budget.next() {
            self.rest.as_mut().reset(next);
            ready!(self.rest.as_mut().poll(cx));
        }
        Poll::Ready(())
    }

    /// Waits for room. Cancel safe.
    pub async fn room(&mut self) {
        std::future::poll_fn(|cx| self.poll_room(cx)).await;
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    /// Measures the milliseconds until more may be read.
    async fn waits(pace: &mut Pace) -> u128 {
        let before = Instant::now();
        pace.room().await;
        before.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_too_fast_is_waited_for() {
        let mut pace = Pace::new(1_000);
        for (read, waited) in [(400, 0), (599, 0), (1, 10), (1_000, 10), (3_500, 30), (999, 10), (2_000, 20)] {
            pace.spend(read);
            assert!(waits(&mut pace).await.abs_diff(waited) <= 1, "after {read}");
        }
        // What was not read is not saved up.
        tokio::time::advance(Duration::from_secs(1)).await;
        pace.spend(2_000);
        assert_eq!(waits(&mut pace).await, 0, "of the time before");
        pace.spend(1_000);
        assert!(waits(&mut pace).await > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_holds_from_the_next_moment_on() {
        let mut pace = Pace::new(1_000);
        pace.change(10_000);
        pace.spend(1_000);
        pace.room().await;
        pace.spend(9_999);
        assert_eq!(waits(&mut pace).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_one_client_share_what_is_read_in_a_moment() {
        let budget = ReadBudget::new(1_000);
        let read = Arc::new(Mutex::new([0_u64; 8]));
        let mut tasks = JoinSet::<()>::new();
        for connection in 0..8 {
            let mut pace = Pace::of(budget.clone());
            let read = read.clone();
            tasks.spawn(async move {
                loop {
                    pace.room().await;
                    pace.spend(100);
                    read.lock()[connection] += 100;
                    tokio::task::yield_now().await;
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let read = *read.lock();
        assert!((99_000..=102_000).contains(&read.iter().sum::<u64>()), "{read:?}");
        assert!(read.iter().all(|read| *read > 5_000), "each has its turn: {read:?}");
    }
}
