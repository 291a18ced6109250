//! The memory that bodies of requests may take, and the threads that read large ones.
//!
//! The first [`FREE`] bytes of a body belong to its connection, of which there are only so many. What is larger takes room of a total
//! as its bytes arrive, [`TIMES`] as much as they are: the bytes, what is made of them, and what is on its way to Redis. Before that it
//! takes its whole length of the share of its token, or of its address where there is no token: so bodies that are announced and do not
//! come keep nobody else waiting, and those of one caller never wait for each other half way. Those of several callers do not either:
//! where the room is taken, one body at a time goes on in a reserve that holds the largest one, and has to come quickly there.
//!
//! A large body is read on a thread of its own, few at a time, so that the workers answer other callers meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::answers::{AnswerMemory, AnswerRoom};
use super::problem::{Problem, ProblemKind};
use super::shares::{CallerShares, SHARES};

pub use super::shares::{MaybeNamed, Who, who};

/// Bytes of a body that need no room.
pub const FREE: usize = 16 << 10;
/// Bytes of room for a byte of a body.
const TIMES: usize = 3;
/// Room of all bodies of the job queue together, at the least.
pub const ROOM: usize = 64 << 20;
/// The time that a body waits for room.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time in which a body that has the reserve has to come.
const RESERVE_TIME: Duration = Duration::from_secs(1);

/// The memory for bodies. Clones share it.
#[derive(Clone, Debug)]
pub struct BodyMemory {
    /// Largest body, in bytes.
    pub max_body: usize,
    shared: Arc<SharedMemory>,
}

#[derive(Debug)]
struct SharedMemory {
    /// Room for all, in KiB, without the reserve.
    room: Arc<Semaphore>,
    /// The turn of the one body that the reserve holds.
    reserve: Arc<Semaphore>,
    /// Room of one caller, in KiB.
    shares: CallerShares,
    answers: AnswerMemory,
    /// Threads that may read bodies at the same time.
    readers: Arc<Semaphore>,
}

/// The room of one body, until it is dropped.
#[derive(Debug, Default)]
pub struct BodyRoom {
    /// The caller's share, which lives as long as this.
    share: Option<(Arc<Semaphore>, OwnedSemaphorePermit)>,
    held: Option<OwnedSemaphorePermit>,
    /// The permit of the reserve, which is room enough for all of the body, and when the body has to be there.
    reserve: Option<(OwnedSemaphorePermit, Instant)>,
}

/// Computes the room for a body of this many bytes, in KiB.
fn kib(bytes: usize) -> usize {
    bytes.saturating_mul(TIMES).div_ceil(1024)
}

impl BodyMemory {
    /// Creates this much room for bodies, at least for the largest one, and as much for answers.
    pub fn new(max_body: usize, room: usize) -> BodyMemory {
        let answers = AnswerMemory::new(room);
        let room = (room / 1024).max(2 * kib(max_body)).min(Semaphore::MAX_PERMITS);
        let readers = std::thread::available_parallelism().map_or(1, |threads| threads.get().div_ceil(2));
        let shared = SharedMemory {
            room: Arc::new(Semaphore::new(room - kib(max_body).min(room))),
            reserve: Arc::new(Semaphore::new(1)),
            shares: CallerShares::new((room / SHARES).max(kib(max_body)).min(room)),
            answers,
            readers: Arc::new(Semaphore::new(readers)),
        };
        BodyMemory { max_body, shared: Arc::new(shared) }
    }

    /// Runs what takes long on a thread of its own, when it is its turn.
    ///
    /// # Errors
    /// It panicked: a defect of this program.
    pub async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        // The semaphore is never closed. The turn goes along: the work goes on if its request is given up.
        let turn = self.shared.readers.clone().acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.map_err(|_| {
            Problem::new(ProblemKind::Unexpected, "read the body: this program has a defect; its log has the place")
        })
    }

    /// Takes room for an answer of this many bytes.
    ///
    /// # Errors
    /// There is none.
    pub async fn answer(&self, who: &Who, bytes: usize) -> Result<Option<AnswerRoom>, Problem> {
        self.shared.answers.take(who, bytes).await
    }
}

impl BodyRoom {
    /// Takes room for the bytes that are there, of a body that may have `whole` bytes; `whole` counts at the first
    /// call.
    ///
    /// # Errors
    /// There is none for a while.
    pub async fn hold(&mut self, memory: &BodyMemory, who: &Who, whole: usize, there: usize) -> Result<(), Problem> {
        if self.share.is_none() {
            let share = memory.shared.shares.of(who);
            let permit = take(&share, kib(whole).min(memory.shared.shares.each())).await?;
            self.share = Some((share, permit));
        }
        let more = kib(there).saturating_sub(self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if more == 0 || self.reserve.is_some() {
            return Ok(());
        }
        // Order: room before the reserve. Cancel-safe: what is not taken is given back.
        let taken = tokio::select! {
            biased;
            taken = take(&memory.shared.room, more) => taken?,
            reserve = take(&memory.shared.reserve, 1) => {
                self.reserve = Some((reserve?, Instant::now() + RESERVE_TIME));
                return Ok(());
            }
        };
        match &mut self.held {
            Some(held) => held.merge(taken),
            None => self.held = Some(taken),
        }
        Ok(())
    }

    /// Waits for the next part of the body, not for long in the reserve.
    ///
    /// # Errors
    /// It does not come in time.
    pub async fn next<T>(&self, part: impl Future<Output = T>) -> Result<T, Problem> {
        let Some((_, until)) = &self.reserve else { return Ok(part.await) };
        timeout_at(*until, part).await.map_err(|_| no_room())
    }
}

fn no_room() -> Problem {
    let detail = "read the body: there is no room for it beside the large bodies that are under way; send it again";
    Problem::new(ProblemKind::TooMany, detail).retry_after(Duration::from_secs(1))
}

async fn take(from: &Arc<Semaphore>, permits: usize) -> Result<OwnedSemaphorePermit, Problem> {
    let permits = u32::try_from(permits).unwrap_or(u32::MAX);
    match timeout(PATIENCE, from.clone().acquire_many_owned(permits)).await {
        // The semaphore is never closed.
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => Err(no_room()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Who {
        Who::Token(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_takes_its_share_and_not_the_room_of_all() {
        let memory = BodyMemory::new(4 << 20, ROOM);
        let mut rooms: Vec<BodyRoom> = Vec::new();
        // It announces much, and sends little.
        for _ in 0..2 {
            let mut room = BodyRoom::default();
            let held = room.hold(&memory, &who("greedy"), 4 << 20, FREE + 1).await;
            rooms.push(room);
            assert_eq!(held.is_ok(), rooms.len() == 1, "{held:?}");
        }
        let left = memory.shared.room.available_permits();
        assert!(left > 51 << 10, "{left} KiB are left: only what is there is charged");
        for n in 0..5 {
            let mut room = BodyRoom::default();
            room.hold(&memory, &who(&n.to_string()), 4 << 20, 4 << 20).await.unwrap();
            rooms.push(room);
        }
        let full = BodyRoom::default().hold(&memory, &who("late"), 4 << 20, 4 << 20).await.unwrap_err();
        assert_eq!((full.kind, full.retry_after), (ProblemKind::TooMany, Some(Duration::from_secs(1))));
        drop(rooms);
        assert!(BodyRoom::default().hold(&memory, &who("greedy"), 4 << 20, 4 << 20).await.is_ok());
        assert!(memory.shared.shares.known().0 <= 3, "shares that nobody uses are forgotten");
    }

    /// Sixteen callers whose bodies have come half way when the room is taken: each of them gets on, one after the
    /// other.
    #[tokio::test(start_paused = true)]
    async fn bodies_of_many_callers_do_not_wait_for_each_other_half_way() {
        let memory = BodyMemory::new(4 << 20, ROOM);
        let bodies = (0..16).map(|n| {
            let memory = &memory;
            async move {
                let mut room = BodyRoom::default();
                for there in (1..=8).map(|part| part << 19) {
                    room.hold(memory, &who(&n.to_string()), 4 << 20, there).await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok::<_, Problem>(())
            }
        });
        let done = futures_util::future::join_all(bodies).await;
        assert!(done.iter().all(Result::is_ok), "{done:?}");
        assert_eq!(memory.shared.reserve.available_permits(), 1);
    }

    /// Bodies of all other tenants come slowly: they fill the room, and one of them has the reserve.
    #[tokio::test(start_paused = true)]
    async fn slow_bodies_keep_no_other_out() {
        let memory = BodyMemory::new(4 << 20, ROOM);
        let memory = &memory;
        let slow = (0..8).map(|n: usize| async move {
            let mut room = BodyRoom::default();
            for there in (1..=20).map(|part| part * (200 << 10)) {
                room.hold(memory, &who(&n.to_string()), 4 << 20, there).await?;
                room.next(tokio::time::sleep(Duration::from_secs(1))).await?;
            }
            Ok::<_, Problem>(())
        });
        // From before the room is taken until long afterwards.
        let other = async {
            for second in 0..60 {
                let began = Instant::now();
                let mut room = BodyRoom::default();
                let held = room.hold(memory, &who("other"), 1 << 20, 1 << 20).await;
                let took = began.elapsed();
                assert!(held.is_ok() && took < Duration::from_secs(4), "{second}: {held:?}, {took:?}");
                drop(room);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let (slow, ()) = tokio::join!(futures_util::future::join_all(slow), other);
        let done = slow.iter().filter(|one| one.is_ok()).count();
        assert!((1..8).contains(&done), "{done} slow bodies came where there was room");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_grows_takes_what_it_needs_and_gives_all_back() {
        let memory = BodyMemory::new(1 << 20, ROOM);
        let all = memory.shared.room.available_permits();
        let mut room = BodyRoom::default();
        for there in [20_000, 100_000, 100_000, 1 << 20] {
            room.hold(&memory, &who("a"), 1 << 20, there).await.unwrap();
            assert_eq!(all - memory.shared.room.available_permits(), kib(there));
        }
        drop(room);
        assert_eq!(memory.shared.room.available_permits(), all);
        // The largest body always has room.
        let large = BodyMemory::new(512 << 20, ROOM);
        assert!(BodyRoom::default().hold(&large, &who("a"), 512 << 20, 512 << 20).await.is_ok());
    }
}
