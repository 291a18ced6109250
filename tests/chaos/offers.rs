//! The book of offers: each is recorded before it is sent, so that everything that arrives is in it.

use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// The queues of a run, one of each source.
pub const QUEUES: [&str; 3] = ["orders", "due", "pool"];

/// The server's answer to an offer or a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The server confirmed it.
    Yes,
    /// The server rejected it.
    No,
    /// There was no answer: it may be done, now or later.
    Unknown,
}

/// The kind of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A valid payload.
    Good,
    /// A payload that is no JSON: a dead letter.
    Undecodable,
    /// A payload that kills every process that sends it: a dead letter.
    Poison,
    /// A member that no known program wrote: a dead letter.
    Junk,
    /// A valid payload that may be too large for the settings: it arrives, or is a dead letter.
    Large,
}

#[derive(Debug, Clone)]
pub struct Offer {
    /// The index of the queue in [`QUEUES`].
    pub queue: usize,
    /// The id in messages.
    pub id: String,
    /// Size of the payload, in bytes.
    pub size: usize,
    pub due_ms: i64,
    pub kind: Kind,
    /// Whether it was accepted.
    pub taken: Answer,
    /// The time of that answer, in ms.
    pub answered_ms: i64,
    /// Whether it was withdrawn before its due time; `None` without an attempt.
    pub withdrawn: Option<Answer>,
}

/// All offers of a run; the number of an element is its index.
#[derive(Debug, Default)]
pub struct Book(Mutex<Vec<Offer>>);

impl Book {
    /// Records an offer before it is sent, and returns its number. `id` makes its id from the number.
    pub fn note(&self, queue: usize, size: usize, due_ms: i64, kind: Kind, id: impl FnOnce(u64) -> String) -> u64 {
        let mut offers = self.lock();
        let n = offers.len() as u64;
        let taken = Answer::Unknown;
        let answered_ms = 0;
        offers.push(Offer { queue, id: id(n), size, due_ms, kind, taken, answered_ms, withdrawn: None });
        n
    }

    /// Records the server's answer to an offer.
    pub fn taken(&self, n: u64, answer: Answer) {
        let mut offers = self.lock();
        offers[n as usize].taken = answer;
        offers[n as usize].answered_ms = now_ms();
    }

    /// Records the server's answer to a withdrawal.
    pub fn withdrawn(&self, n: u64, answer: Answer) {
        self.lock()[n as usize].withdrawn = Some(answer);
    }

    /// Marks the server's answers since this time as unknown, because it may have forgotten them.
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

    pub fn get(&self, n: u64) -> Option<Offer> {
        self.lock().get(usize::try_from(n).ok()?).cloned()
    }

    pub fn all(&self) -> Vec<Offer> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Offer>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The time of this machine in ms, which is the clock of both Redis servers.
#[expect(clippy::disallowed_methods, reason = "both Redis run on this machine, and one may be down")]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_millis()).expect("a clock of this age")
}
