//! Questions without an answer: publications of elements, and those to the server.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use delaybridge_core::message::Failure;
use delaybridge_sink::worker_queue::WorkItem;

/// An answer to a question of the sink itself; `None` if the subject has no responders.
pub(super) type Reply = Result<Option<Bytes>, Failure>;

/// A question to the server that is not a publication.
pub struct NatsQuestion {
    /// The subject; empty for one that only asks whether the server is there.
    pub(super) subject: String,
    pub(super) body: Vec<u8>,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// A question without an answer.
pub(super) enum OpenQuestion {
    Element(WorkItem),
    /// A question of the sink itself.
    Question(oneshot::Sender<Reply>),
    /// The question which stream takes the subject, for elements of it that had no responders.
    WhichStream {
        subject: Arc<str>,
        items: Vec<WorkItem>,
    },
}

/// All questions of a connection, by their numbers.
#[derive(Default)]
pub(super) struct OpenQuestions {
    open: HashMap<u64, (Instant, OpenQuestion)>,
    /// The times after which they are late.
    times: BTreeSet<(Instant, u64)>,
    /// The question about the stream of each subject.
    about_streams: HashMap<Arc<str>, u64>,
    last: u64,
}

impl OpenQuestions {
    /// Returns the number that the next question gets.
    pub(super) fn next(&self) -> u64 {
        self.last + 1
    }

    /// Keeps a question under the next number.
    pub(super) fn put(&mut self, late_at: Instant, waiting: OpenQuestion) {
        self.last += 1;
        if let OpenQuestion::WhichStream { subject, .. } = &waiting {
            self.about_streams.insert(subject.clone(), self.last);
        }
        self.open.insert(self.last, (late_at, waiting));
        self.times.insert((late_at, self.last));
    }

    pub(super) fn take(&mut self, number: u64) -> Option<OpenQuestion> {
        let (late_at, waiting) = self.open.remove(&number)?;
        self.times.remove(&(late_at, number));
        if let OpenQuestion::WhichStream { subject, .. } = &waiting {
            self.about_streams.remove(subject);
        }
        Some(waiting)
    }

    /// Takes the question that is late for longest, with its number.
    pub(super) fn late(&mut self, now: Instant) -> Option<(u64, OpenQuestion)> {
        let (late_at, number) = *self.times.first()?;
        let late = (late_at <= now).then_some(number)?;
        Some((late, self.take(late)?))
    }

    /// Returns the elements that wait for the answer about the stream of this subject.
    pub(super) fn about_stream(&mut self, of: &str) -> Option<&mut Vec<WorkItem>> {
        match self.open.get_mut(self.about_streams.get(of)?) {
            Some((_, OpenQuestion::WhichStream { items, .. })) => Some(items),
            _ => None,
        }
    }

    /// Returns the numbers of the questions that this is true of, in their order.
    pub(super) fn numbers(&self, of: impl Fn(&OpenQuestion) -> bool) -> Vec<u64> {
        let found = self.open.iter().filter(|(_, (_, one))| of(one));
        let mut numbers: Vec<u64> = found.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Takes all questions that are left, in their order.
    pub(super) fn drain(&mut self) -> Vec<OpenQuestion> {
        self.numbers(|_| true).into_iter().filter_map(|number| self.take(number)).collect()
    }
}
