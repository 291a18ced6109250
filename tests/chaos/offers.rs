//! The book of what was offered: noted before it is sent, so that nothing arrives that is not in it.

use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// The queues of a run, one of each source.
pub const QUEUES: [&str; 3] = ["orders", "due", "pool"];

/// What is known of an offer or of its withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The server said that it is done.
    Yes,
    /// The server said that it is not done.
    No,
    /// No answer: it may be done, now or later.
    Unknown,
}

/// What was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A payload as it should be.
    Good,
    /// One that is no JSON: a dead letter.
    Undecodable,
    /// One that kills whoever sends it: a dead letter.
    Poison,
    /// A member that no program of ours wrote: a dead letter.
    Junk,
    /// A payload as it should be, which may be too large for the settings: it arrives, or is a dead letter.
    Large,
}

/// An element.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Its place in [`QUEUES`].
    pub queue: usize,
    /// Its id in messages.
    pub id: String,
    /// Size of its payload.
    pub size: usize,
    /// Due time in ms.
    pub due_ms: i64,
    /// What it is.
    pub kind: Kind,
    /// Whether it was taken.
    pub taken: Answer,
    /// When that was known, in ms.
    pub answered_ms: i64,
    /// Whether it was withdrawn before its due time; `None` if nobody tried.
    pub withdrawn: Option<Answer>,
}

/// All offers of a run; the number of an element is its place.
#[derive(Debug, Default)]
pub struct Book(Mutex<Vec<Offer>>);

impl Book {
    /// Notes an offer that is about to be sent, and answers its number. `id` makes its id from the number.
    pub fn note(&self, queue: usize, size: usize, due_ms: i64, kind: Kind, id: impl FnOnce(u64) -> String) -> u64 {
        let mut offers = self.lock();
        let n = offers.len() as u64;
        let (taken, answered_ms) = (Answer::Unknown, 0);
        offers.push(Offer { queue, id: id(n), size, due_ms, kind, taken, answered_ms, withdrawn: None });
        n
    }

    /// Notes what the server said to an offer.
    pub fn taken(&self, n: u64, answer: Answer) {
        let mut offers = self.lock();
        offers[n as usize].taken = answer;
        offers[n as usize].answered_ms = now_ms();
    }

    /// Notes what the server said to a withdrawal.
    pub fn withdrawn(&self, n: u64, answer: Answer) {
        self.lock()[n as usize].withdrawn = Some(answer);
    }

    /// The server may have forgotten what it has said since this time.
    pub fn forgotten_since(&self, from_ms: i64) {
        for offer in self.lock().iter_mut() {
            if offer.taken == Answer::Yes && offer.answered_ms >= from_ms {
                offer.taken = Answer::Unknown;
            }
            // An element is withdrawn shortly before its due time.
            if offer.withdrawn == Some(Answer::Yes) && offer.due_ms >= from_ms {
                offer.withdrawn = Some(Answer::Unknown);
            }
        }
    }

    /// One of them.
    pub fn get(&self, n: u64) -> Option<Offer> {
        self.lock().get(usize::try_from(n).ok()?).cloned()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Offer> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Offer>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Time of this machine in ms: both Redis have the same clock.
#[expect(clippy::disallowed_methods, reason = "both Redis run on this machine, and one may be down")]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_millis()).expect("a clock of this age")
}
