//! The elements of a queue in order that are in hand, by their keys.
//!
//! The elements of a key wait for each other, in the order of their due times. What has to go back to Redis takes everything
//! that waits with it, because it would be overtaken otherwise; and while claims are taken over nothing begins.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use redisson_codecs::Payload;
use tokio::sync::watch;

use crate::claim::claimed::ClaimedElement;
use crate::claim::place::ClaimedPlace;
use crate::claim::record::Claim;
use crate::deliver::together::Together;
use crate::queue::Queue;

/// The elements of one queue that wait for others with their key. Bounded by what is in flight.
#[derive(Debug)]
pub struct KeyQueues {
    context: Arc<Queue>,
    together: Together,
    /// The waiting elements by key, with an entry for each key that has an element at its sinks.
    queues: Mutex<HashMap<u64, VecDeque<QueuedElement>>>,
    flow: watch::Sender<Flow>,
}

/// An element that waits for its turn.
#[derive(Debug)]
pub enum QueuedElement {
    /// An element that may go together with others.
    Place(ClaimedPlace),
    /// An element that goes by itself: it has failed, or was sent behind one that has; it may kill the process, or finds
    /// something out.
    Alone(ClaimedElement),
}

/// The next elements of a key.
#[derive(Debug)]
pub enum NextOfKey {
    /// An element by itself.
    Alone(ClaimedElement),
    /// Consecutive elements of one claim that go together, with those of other keys too.
    Run(Arc<Claim>, Vec<ClaimedPlace>),
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
    pub fn put_back(&self, element: QueuedElement) {
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

impl QueuedElement {
    /// Keeps what was decoded for its key, in case that it is delivered at once.
    pub fn set_decoded(&mut self, decoded: Option<Box<Payload>>) {
        match self {
            QueuedElement::Place(place) => place.decoded = decoded,
            QueuedElement::Alone(element) => element.state().decoded = decoded,
        }
    }

    fn due_ms(&self) -> Option<i64> {
        match self {
            QueuedElement::Place(place) => place.due_ms(),
            QueuedElement::Alone(element) => element.due_ms(),
        }
    }

    fn is_place_of(&self, claim: &Arc<Claim>) -> bool {
        matches!(self, QueuedElement::Place(place) if Arc::ptr_eq(place.claim(), claim))
    }

    /// Returns whether it is about to begin, together with those of its claim that come right behind it.
    fn begins_with(&self, next: &QueuedElement) -> bool {
        matches!((self, next), (QueuedElement::Place(place), QueuedElement::Place(next))
            if place.decoded.is_some() && Arc::ptr_eq(place.claim(), next.claim()))
    }

    /// Drops what was decoded for its key: what waits has no room for that.
    fn forget_decoded(&mut self) {
        self.set_decoded(None);
    }
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
    pub fn push(self: &Arc<Self>, key: u64, mut element: QueuedElement) -> Option<KeyInHand> {
        if self.is_gathering() {
            element.forget_decoded();
        }
        match self.queues.lock().entry(key) {
            Entry::Occupied(mut waiting) => {
                let waiting = waiting.get_mut();
                if !waiting.back().is_some_and(|last| self.goes_in_runs() && last.begins_with(&element)) {
                    element.forget_decoded();
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

    fn put_back(&self, key: u64, mut element: QueuedElement) {
        element.forget_decoded();
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

    fn take(&self, waiting: &mut VecDeque<QueuedElement>) -> Option<NextOfKey> {
        let first = match waiting.pop_front()? {
            QueuedElement::Alone(element) => return Some(NextOfKey::Alone(element)),
            QueuedElement::Place(place) if self.together == Together::Never => {
                return place.into_element().map(NextOfKey::Alone);
            }
            QueuedElement::Place(place) => place,
        };
        let others = waiting.iter().take_while(|next| self.goes_in_runs() && next.is_place_of(first.claim()));
        let goes_along = others.count();
        let others = waiting.drain(..goes_along).filter_map(|next| match next {
            QueuedElement::Place(place) => Some(place),
            QueuedElement::Alone(_) => None,
        });
        Some(NextOfKey::Run(first.claim().clone(), std::iter::once(first).chain(others).collect()))
    }
}
