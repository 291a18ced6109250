//! The memory of large answers, from when they are made until their clients have read them.
//!
//! A client that asks and does not read keeps its answer in our memory until it is cut off. So what is larger than [`FREE`] takes
//! room of a total, and of the share of its caller, and is replaced by a refusal where there is none. The room is given back when the
//! last byte was handed to the operating system, or the connection has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::problem::{Problem, ProblemKind};
use super::shares::{CallerShares, SHARES, Who};

/// Bytes of an answer that need no room.
const FREE: usize = 16 << 10;
/// The time that an answer waits for room, in which nothing bounds the number of those that wait: not long.
const PATIENCE: Duration = Duration::from_millis(250);

/// The room of all answers.
#[derive(Debug)]
pub struct AnswerMemory {
    /// Room for all, in KiB.
    all: Arc<Semaphore>,
    /// Room of one caller, in KiB.
    shares: CallerShares,
}

/// The room of one answer, until it is dropped.
#[derive(Debug)]
pub struct AnswerRoom {
    _all: OwnedSemaphorePermit,
    /// The caller's part, which lives as long as this.
    _share: (Arc<Semaphore>, OwnedSemaphorePermit),
}

impl AnswerMemory {
    /// Creates a memory of this many bytes.
    pub fn new(room: usize) -> AnswerMemory {
        let kib = (room / 1024).max(SHARES);
        AnswerMemory { all: Arc::new(Semaphore::new(kib)), shares: CallerShares::new(kib / SHARES) }
    }

    /// Takes room for an answer of this many bytes; one that is larger than a share takes all of it. `None`: it needs
    /// none.
    ///
    /// # Errors
    /// There is none: answers that their clients do not read take it.
    pub async fn take(&self, who: &Who, bytes: usize) -> Result<Option<AnswerRoom>, Problem> {
        if bytes <= FREE {
            return Ok(None);
        }
        let kib = u32::try_from(bytes.div_ceil(1024).min(self.shares.each())).unwrap_or(u32::MAX);
        let share = self.shares.of(who);
        let room = async {
            // The semaphores are never closed.
            let of_share = share.clone().acquire_many_owned(kib).await.ok()?;
            let all = self.all.clone().acquire_many_owned(kib).await.ok()?;
            Some((all, of_share))
        };
        match timeout(PATIENCE, room).await {
            Ok(Some((all, of_share))) => Ok(Some(AnswerRoom { _all: all, _share: (share, of_share) })),
            Ok(None) | Err(_) => {
                let detail = "send the answer: there is no room for it beside large answers that were not read yet; read them, and ask \
                              again, or for less at once";
                Err(Problem::new(ProblemKind::TooMany, detail).retry_after(Duration::from_secs(1)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Who {
        Who::Token(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_not_read_take_the_share_of_their_caller_and_no_more() {
        let memory = AnswerMemory::new(64 << 20);
        let small = memory.take(&who("a"), FREE).await.unwrap();
        assert!(small.is_none());
        // Larger than a share, it takes all of it.
        let unread = memory.take(&who("a"), 24 << 20).await.unwrap();
        let refused = memory.take(&who("a"), FREE + 1).await.unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ProblemKind::TooMany, Some(Duration::from_secs(1))));
        let mut others = Vec::new();
        for name in ["b", "c", "d"] {
            others.push(memory.take(&who(name), 16 << 20).await.unwrap());
        }
        assert!(memory.take(&who("e"), 1 << 20).await.is_err(), "the room of all is taken");
        drop(unread);
        assert!(memory.take(&who("e"), 16 << 20).await.is_ok());
    }
}
