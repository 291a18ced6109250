//! The answers to a batch of elements, gathered as they come.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use delaybridge_core::message::{Failure, Outcome};

/// The answers of a sink to a batch. Clones share them; any thread may answer.
///
/// The waiting task is not woken by each answer, only by the last; it may take answers earlier.
#[derive(Debug, Clone)]
pub struct Answers(Arc<SharedAnswers>);

#[derive(Debug)]
struct SharedAnswers {
    state: Mutex<AnswerState>,
    complete: Notify,
}

#[derive(Debug)]
struct AnswerState {
    /// Whether each element is without an answer.
    open: Vec<bool>,
    left: usize,
    some: Answered,
}

/// Answers that have come.
#[derive(Debug, Default)]
pub struct Answered {
    /// Places of elements that were confirmed.
    pub confirmed: Vec<usize>,
    /// The number of those that the destination had already, and has not stored again.
    pub known: u64,
    /// Places of elements that failed, with why.
    pub failed: Vec<(usize, Failure)>,
    /// Places of elements on which the sink's work panicked.
    pub panicked: Vec<usize>,
}

impl Answered {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.confirmed.is_empty() && self.failed.is_empty() && self.panicked.is_empty()
    }
}

impl Answers {
    /// Creates the answers for this many elements.
    pub fn new(count: usize) -> Self {
        let state = AnswerState { open: vec![true; count], left: count, some: Answered::default() };
        Answers(Arc::new(SharedAnswers { state: Mutex::new(state), complete: Notify::new() }))
    }

    /// Puts the answer to the element at this place; a second one is ignored.
    pub fn put(&self, place: usize, outcome: Outcome) {
        self.add(place, |answered| match outcome {
            Ok(()) => answered.confirmed.push(place),
            Err(failure) => answered.failed.push((place, failure)),
        });
    }

    /// Confirms an element that the destination has from an earlier attempt and has not stored again.
    pub fn put_known(&self, place: usize) {
        self.add(place, |answered| {
            answered.confirmed.push(place);
            answered.known += 1;
        });
    }

    /// Puts the answers of a part of the batch, by the places that its elements have in the batch.
    pub fn put_all(&self, part: Answered, places: &[usize]) {
        let Answered { confirmed, known, failed, panicked } = part;
        for place in confirmed {
            self.put(places[place], Ok(()));
        }
        for (place, failure) in failed {
            self.put(places[place], Err(failure));
        }
        for place in panicked {
            self.put_panic(places[place]);
        }
        self.0.state.lock().some.known += known;
    }

    /// Records that the sink's work on this element panicked.
    pub fn put_panic(&self, place: usize) {
        self.add(place, |answered| answered.panicked.push(place));
    }

    fn add(&self, place: usize, answer: impl FnOnce(&mut Answered)) {
        let mut state = self.0.state.lock();
        match state.open.get_mut(place) {
            Some(open) if *open => *open = false,
            _ => return,
        }
        state.left -= 1;
        answer(&mut state.some);
        let is_complete = state.left == 0;
        // What wakes may run code of the waiting side: not under the lock.
        drop(state);
        if is_complete {
            self.0.complete.notify_one();
        }
    }

    /// Returns the places of elements without an answer.
    pub fn open(&self) -> Vec<usize> {
        let state = self.0.state.lock();
        (0..state.open.len()).filter(|place| state.open[*place]).collect()
    }

    /// Takes the answers that have come since the last time.
    pub fn take(&self) -> Answered {
        std::mem::take(&mut self.0.state.lock().some)
    }

    /// Returns whether every element has its answer.
    pub fn is_complete(&self) -> bool {
        self.0.state.lock().left == 0
    }

    /// Waits until every element has its answer. Cancel safe.
    pub async fn complete(&self) {
        while !self.is_complete() {
            self.0.complete.notified().await;
        }
        // Another that waits.
        self.0.complete.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn answers_are_taken_as_they_come_and_the_last_one_wakes() {
        let answers = Answers::new(3);
        answers.put(1, Ok(()));
        answers.put(1, Err(Failure::stale()));
        assert!(answers.complete().now_or_never().is_none());
        let some = answers.take();
        assert_eq!((some.confirmed, some.failed.len()), (vec![1], 0));
        answers.put(0, Err(Failure::stale()));
        assert_eq!(answers.open(), [2]);
        answers.put(2, Ok(()));
        answers.complete().await;
        let some = answers.take();
        assert_eq!((some.confirmed, some.failed.len()), (vec![2], 1));
        answers.put(7, Ok(()));
        assert!(answers.take().confirmed.is_empty());
    }

    #[tokio::test]
    async fn an_answer_from_another_thread_wakes_the_task() {
        let answers = Answers::new(1);
        let other = answers.clone();
        std::thread::spawn(move || other.put(0, Ok(())));
        answers.complete().await;
        assert_eq!(answers.take().confirmed, [0]);
    }
}
