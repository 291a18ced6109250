//! The elements of a queue in order that are in hand, by their keys.
//!
//! The elements of a key wait for each other, in the order of their due times. What has to go back to Redis takes everything
//! that waits with it, because it would be overtaken otherwise; and while claims are taken over nothing begins.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::claim::claimed::ClaimedElement;
use crate::queue::Queue;

/// The elements of one queue that wait for others with their key. Bounded by what is in flight.
#[derive(Debug)]
pub struct KeyQueues {
    context: Arc<Queue>,
    /// The waiting elements by key, with an entry for each key that has an element at its sinks.
    queues: Mutex<HashMap<u64, VecDeque<ClaimedElement>>>,
    flow: watch::Sender<Flow>,
}

/// The way of elements that come and of those that wait.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    returning: Returning,
    /// Nothing begins: claims are taken over, and what is due first may be in the last of them.
    gathering: bool,
}

/// The elements that go back to Redis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Returning {
    #[default]
    Nothing,
    /// Elements that come; those that wait here already are delivered first.
    New,
    /// Everything in hand.
    All,
}

impl KeyQueues {
    /// No elements yet.
    pub fn new(context: Arc<Queue>) -> Self {
        KeyQueues { context, queues: Mutex::default(), flow: watch::Sender::new(Flow::default()) }
    }

    /// The context of the queue.
    pub fn context(&self) -> &Arc<Queue> {
        &self.context
    }

    /// Whether nothing is in hand.
    pub fn is_empty(&self) -> bool {
        self.queues.lock().is_empty()
    }

    /// Whether what comes from a claim goes back, and nothing may be claimed.
    pub fn returns(&self) -> bool {
        self.flow.borrow().returning != Returning::Nothing
    }

    /// Whether everything in hand goes back.
    pub fn returns_all(&self) -> bool {
        self.flow.borrow().returning == Returning::All
    }

    /// Returns to Redis what comes from now on.
    pub fn return_new(&self) {
        self.flow.send_modify(|flow| {
            if flow.returning == Returning::Nothing {
                flow.returning = Returning::New;
            }
        });
    }

    /// Returns everything in hand to Redis, and what comes from now on.
    pub fn return_all(&self) {
        self.flow.send_modify(|flow| flow.returning = Returning::All);
        let waiting: Vec<_> = self.queues.lock().values_mut().flat_map(std::mem::take).collect();
        // Dropped, they are released.
        drop(waiting);
    }

    /// Ends the return to Redis.
    pub fn returned_all(&self) {
        self.flow.send_modify(|flow| flow.returning = Returning::Nothing);
    }

    /// Whether new elements wait until everything is taken over.
    pub fn is_gathering(&self) -> bool {
        self.flow.borrow().gathering
    }

    /// Starts or stops holding new elements during a takeover.
    pub fn gather(&self, gathering: bool) {
        self.flow.send_if_modified(|flow| std::mem::replace(&mut flow.gathering, gathering) != gathering);
    }

    /// Waits until elements may begin. Cancel safe.
    pub async fn gathered(&self) {
        // The sender is here: the wait cannot fail.
        let begins = |flow: &Flow| !flow.gathering || flow.returning == Returning::All;
        drop(self.flow.subscribe().wait_for(begins).await);
    }

    /// Waits until everything in hand goes back. Cancel safe.
    pub async fn returning_all(&self) {
        drop(self.flow.subscribe().wait_for(|flow| flow.returning == Returning::All).await);
    }

    /// Whether a waiting element is due later than this.
    pub fn hold_later_than(&self, due_ms: Option<i64>) -> bool {
        let queues = self.queues.lock();
        due_ms.is_some() && queues.values().flatten().any(|element| element.due_ms() > due_ms)
    }

    /// Adds an element behind the others with its key that are not due later. Returns whether it is the first.
    pub fn push(&self, key: u64, mut element: ClaimedElement) -> bool {
        if self.is_gathering() {
            element.state().decoded = None;
        }
        match self.queues.lock().entry(key) {
            Entry::Occupied(mut waiting) => {
                // What waits has no room for that.
                element.state().decoded = None;
                let waiting = waiting.get_mut();
                let place = waiting.partition_point(|before| before.due_ms() <= element.due_ms());
                waiting.insert(place, element);
                false
            }
            Entry::Vacant(place) => {
                place.insert(VecDeque::from([element]));
                true
            }
        }
    }

    /// Takes the next element with this key. A key without one ends.
    pub fn next(&self, key: u64) -> Option<ClaimedElement> {
        let (next, is_empty) = {
            let mut queues = self.queues.lock();
            let next = queues.get_mut(&key).and_then(VecDeque::pop_front);
            if next.is_none() {
                queues.remove(&key);
            }
            (next, queues.is_empty())
        };
        if is_empty {
            self.context.came_to_rest();
        }
        next
    }
}
