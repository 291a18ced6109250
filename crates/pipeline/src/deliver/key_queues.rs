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
use crate::claim::record::Claim;
use crate::deliver::together::Together;
use crate::queue::Queue;

/// The elements of one queue that wait for others with their key. Bounded by what is in flight.
#[derive(Debug)]
pub struct KeyQueues {
    context: Arc<Queue>,
    together: Together,
    /// The waiting elements by key, with an entry for each key that has an element at its sinks.
    queues: Mutex<HashMap<u64, VecDeque<ClaimedElement>>>,
    flow: watch::Sender<Flow>,
}

/// The next elements of a key.
#[derive(Debug)]
pub enum NextOfKey {
    /// An element by itself.
    Alone(ClaimedElement),
    /// Consecutive elements of one claim that go together, with those of other keys too.
    Run(Arc<Claim>, Vec<ClaimedElement>),
}

/// A key that has an element at its sinks, or is about to. Dropped before its end, by a panic or with its process, what waits with
/// it goes back, and everything else in hand.
#[derive(Debug)]
pub struct KeyInHand {
    queues: Arc<KeyQueues>,
    key: u64,
    ended: bool,
}

impl KeyInHand {
    /// Returns the queues of all keys.
    pub fn queues(&self) -> &Arc<KeyQueues> {
        &self.queues
    }

    /// Takes what is next with this key. Without anything the key ends.
    pub fn next(mut self) -> Option<(KeyInHand, NextOfKey)> {
        match self.queues.next(self.key) {
            Some(next) => Some((self, next)),
            None => {
                self.ended = true;
                None
            }
        }
    }

    /// Puts an element that was next back before the others with its key.
    pub fn put_back(&self, element: ClaimedElement) {
        self.queues.put_back(self.key, element);
    }
}

impl Drop for KeyInHand {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        while let Some(left) = self.queues.next(self.key) {
            drop(left);
        }
        self.queues.return_all();
    }
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
    /// Creates queues without elements.
    pub fn new(context: Arc<Queue>) -> Self {
        let together = context.together();
        if together == Together::Runs {
            context.routes.iter().for_each(|route| route.handle.prepare_runs());
        }
        KeyQueues { context, together, queues: Mutex::default(), flow: watch::Sender::new(Flow::default()) }
    }

    /// Returns the context of the queue.
    pub fn context(&self) -> &Arc<Queue> {
        &self.context
    }

    /// Returns the degree to which elements go to their sink together.
    pub fn together(&self) -> Together {
        self.together
    }

    fn goes_in_runs(&self) -> bool {
        self.together == Together::Runs
    }

    /// Returns whether nothing is in hand.
    pub fn is_empty(&self) -> bool {
        self.queues.lock().is_empty()
    }

    /// Returns whether what comes from a claim goes back, and nothing may be claimed.
    pub fn returns(&self) -> bool {
        self.flow.borrow().returning != Returning::Nothing
    }

    /// Returns whether everything in hand goes back.
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

    /// Returns these elements, which were not sent because too little of their lease is left, and all that is behind them. Left to a
    /// lease that still runs, they would be overtaken by the next claim. Where another owner has them, Redis refuses the verdicts.
    pub fn return_stale(&self, stale: Vec<ClaimedElement>) {
        self.context.events.stale_drops(stale.len() as u64);
        // Dropped, they are released.
        drop(stale);
        self.return_all();
    }

    /// Ends the return to Redis.
    pub fn returned_all(&self) {
        self.flow.send_modify(|flow| flow.returning = Returning::Nothing);
    }

    /// Returns whether new elements wait until everything is taken over.
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
        let _ = self.flow.subscribe().wait_for(begins).await;
    }

    /// Waits until everything in hand goes back. Cancel safe.
    pub async fn returning_all(&self) {
        let _ = self.flow.subscribe().wait_for(|flow| flow.returning == Returning::All).await;
    }

    /// Returns whether a waiting element is due later than this.
    pub fn hold_later_than(&self, due_ms: Option<i64>) -> bool {
        let queues = self.queues.lock();
        due_ms.is_some() && queues.values().flatten().any(|element| element.due_ms() > due_ms)
    }

    /// Adds an element behind the others with its key that are not due later. Returns the key if nothing of it was in hand.
    pub fn push(self: &Arc<Self>, key: u64, mut element: ClaimedElement) -> Option<KeyInHand> {
        if self.is_gathering() {
            element.decoded = None;
        }
        match self.queues.lock().entry(key) {
            Entry::Occupied(mut waiting) => {
                let waiting = waiting.get_mut();
                if !waiting.back().is_some_and(|last| self.goes_in_runs() && begins_with(last, &element)) {
                    element.decoded = None;
                }
                let place = waiting.partition_point(|before| before.due_ms() <= element.due_ms());
                waiting.insert(place, element);
                None
            }
            Entry::Vacant(place) => {
                place.insert(VecDeque::from([element]));
                Some(KeyInHand { queues: self.clone(), key, ended: false })
            }
        }
    }

    fn put_back(&self, key: u64, mut element: ClaimedElement) {
        element.decoded = None;
        self.queues.lock().entry(key).or_default().push_front(element);
    }

    /// Takes what is next with this key. A key without anything ends.
    fn next(&self, key: u64) -> Option<NextOfKey> {
        let (next, is_empty) = {
            let mut queues = self.queues.lock();
            let next = queues.get_mut(&key).and_then(|waiting| self.take(waiting));
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

    fn take(&self, waiting: &mut VecDeque<ClaimedElement>) -> Option<NextOfKey> {
        let first = waiting.pop_front()?;
        if first.is_by_itself() || self.together == Together::Never {
            return Some(NextOfKey::Alone(first));
        }
        let others = waiting.iter().take_while(|next| self.goes_in_runs() && go_together(&first, next)).count();
        let claim = first.claim().clone();
        Some(NextOfKey::Run(claim, std::iter::once(first).chain(waiting.drain(..others)).collect()))
    }
}

/// Returns whether two elements are of one claim, and neither goes by itself.
fn go_together(one: &ClaimedElement, other: &ClaimedElement) -> bool {
    !one.is_by_itself() && !other.is_by_itself() && Arc::ptr_eq(one.claim(), other.claim())
}

/// Returns whether an element is about to begin, together with the one that comes right behind it.
fn begins_with(first: &ClaimedElement, next: &ClaimedElement) -> bool {
    first.decoded.is_some() && go_together(first, next)
}
