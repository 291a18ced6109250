//! The live events of single elements, for people who watch: the latest ones, and a feed of new ones.
//!
//! Recording starts when someone watches: a [`Listener`], or a page that was loaded within the last minute. Otherwise
//! the pipeline only reads a flag. Everything is bounded: the kept events, the events of a second, the listeners, and
//! the queue of each listener. Excess events are counted, and the next event carries their number.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use delaybridge_core::clock::Instant;
use delaybridge_core::message::Identity;

/// Number of events that are kept.
pub const KEPT: usize = 100;
/// Maximum number of listeners.
pub const LISTENERS: usize = 16;
/// Maximum number of listeners without a token; the others are reserved for callers with one.
pub const ANONYMOUS: usize = 4;
/// Capacity of a listener's queue.
const WAITING: usize = 256;
/// Maximum number of recorded events in a second, for deliveries and for all others each.
const A_SECOND: u64 = 100;
/// Time for which one look at the latest events keeps the recording on.
const LOOKED: Duration = Duration::from_secs(60);
/// Maximum length of a payload that is kept, in bytes.
pub const PAYLOAD: usize = 4_096;

/// The outcome of an attempt to deliver an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Every sink has confirmed it.
    Delivered,
    /// An attempt failed; the element is retried.
    Retry,
    /// The element's destination is in trouble; it comes back later without a counted attempt.
    Waits,
    /// The element became a dead letter.
    Dead,
    /// The element was released, and its queue is on hold.
    Held,
    /// The job has no body, because its user deleted it: nothing was left to deliver.
    Gone,
    /// No destination is meant for the element, and it was removed.
    Skipped,
}

impl Fate {
    /// Every outcome.
    pub const ALL: [Fate; 7] =
        [Fate::Delivered, Fate::Retry, Fate::Waits, Fate::Dead, Fate::Held, Fate::Gone, Fate::Skipped];

    /// Returns the word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Fate::Delivered => "delivered",
            Fate::Retry => "retry",
            Fate::Waits => "waits",
            Fate::Dead => "dead",
            Fate::Held => "held",
            Fate::Gone => "gone",
            Fate::Skipped => "skipped",
        }
    }
}

/// One event of an element.
#[derive(Debug, Clone)]
pub struct ElementEvent {
    /// The sequence number.
    pub number: u64,
    /// Number of suppressed events since the previous one.
    pub left_out: u64,
    /// The time of the event, in ms by Redis's clock.
    pub at_ms: i64,
    /// The queue.
    pub queue: Arc<str>,
    /// The element.
    pub id: Identity,
    /// The outcome.
    pub fate: Fate,
    /// The sinks that confirmed it, or the one that failed.
    pub sink: Option<String>,
    /// The due time, in ms since the epoch.
    pub due_ms: Option<i64>,
    /// The number of the attempt.
    pub attempt: u32,
    /// The earliest time of the next attempt, in ms by Redis's clock.
    pub next_ms: Option<i64>,
    /// The class and code of the failure.
    pub failure: Option<(&'static str, &'static str)>,
    /// The message of the sink or the stage. It may quote the payload.
    pub message: Option<String>,
    /// The payload, if it is at most [`PAYLOAD`] bytes long.
    pub payload: Option<Bytes>,
    /// The length of the payload, in bytes.
    pub size: usize,
}

/// The live events of all queues. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tail(Arc<Inner>);

#[derive(Default)]
struct Inner {
    watched: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: VecDeque<Arc<ElementEvent>>,
    number: u64,
    listeners: usize,
    /// Number of listeners without a token.
    anonymous: usize,
    /// Created by the first listener.
    feed: Option<broadcast::Sender<Arc<ElementEvent>>>,
    /// The time until which events are recorded for a loaded page.
    until: Option<Instant>,
    second: Second,
}

/// The counts of the current second.
#[derive(Default)]
struct Second {
    began: Option<Instant>,
    delivered: u64,
    others: u64,
    left_out: u64,
}

impl Second {
    fn admits(&mut self, fate: Fate, now: Instant) -> bool {
        if self.began.is_none_or(|began| now.since(began) >= Duration::from_secs(1)) {
            (self.began, self.delivered, self.others) = (Some(now), 0, 0);
        }
        let count = if fate == Fate::Delivered { &mut self.delivered } else { &mut self.others };
        *count += 1;
        let admitted = *count <= A_SECOND;
        self.left_out += u64::from(!admitted);
        admitted
    }
}

impl Tail {
    /// Returns whether events are recorded.
    pub fn is_watched(&self) -> bool {
        self.0.watched.load(Ordering::Relaxed)
    }

    /// Records the outcome of an element. The event is only built if someone watches.
    pub fn note(&self, fate: Fate, event: impl FnOnce() -> ElementEvent) {
        if self.is_watched() {
            self.note_at(fate, event, Instant::now());
        }
    }

    fn note_at(&self, fate: Fate, event: impl FnOnce() -> ElementEvent, now: Instant) {
        let mut state = self.0.state.lock();
        if state.listeners == 0 && state.until.is_none_or(|until| now >= until) {
            // The last watcher has gone. The sequence numbers continue.
            self.0.watched.store(false, Ordering::Relaxed);
            *state = State { number: state.number, feed: state.feed.take(), ..State::default() };
            return;
        }
        if !state.second.admits(fate, now) {
            return;
        }
        state.number += 1;
        let left_out = std::mem::take(&mut state.second.left_out);
        let event = Arc::new(ElementEvent { number: state.number, left_out, ..event() });
        if state.last.len() == KEPT {
            state.last.pop_front();
        }
        state.last.push_back(event.clone());
        if let Some(feed) = &state.feed {
            // Ignore the error: there is no receiver.
            let _ = feed.send(event);
        }
    }

    /// Returns the latest events, the oldest first. Keeps the recording on for a minute.
    pub fn look(&self) -> Vec<Arc<ElementEvent>> {
        let mut state = self.0.state.lock();
        state.until = Some(Instant::now().after(LOOKED));
        self.0.watched.store(true, Ordering::Relaxed);
        state.last.iter().cloned().collect()
    }

    /// Returns the kept events of an element, the oldest first. Does not keep the recording on.
    pub fn of(&self, queue: &str, id: &Identity) -> Vec<Arc<ElementEvent>> {
        let state = self.0.state.lock();
        state.last.iter().filter(|event| *event.queue == *queue && event.id.id == id.id).cloned().collect()
    }

    /// Subscribes to the kept events after this number and to all that follow. Returns `None` if there are too many
    /// listeners, or too many without a token.
    pub fn listen(&self, after: u64, named: bool) -> Option<Listener> {
        let mut state = self.0.state.lock();
        if state.listeners >= LISTENERS || !named && state.anonymous >= ANONYMOUS {
            return None;
        }
        state.listeners += 1;
        state.anonymous += usize::from(!named);
        self.0.watched.store(true, Ordering::Relaxed);
        let feed = state.feed.get_or_insert_with(|| broadcast::Sender::new(WAITING)).subscribe();
        let before = state.last.iter().filter(|event| event.number > after).cloned().collect();
        Some(Listener { tail: self.clone(), named, before, feed })
    }
}

/// A subscription to live events.
pub struct Listener {
    tail: Tail,
    named: bool,
    before: VecDeque<Arc<ElementEvent>>,
    feed: broadcast::Receiver<Arc<ElementEvent>>,
}

/// The error for a listener that was too slow: it has missed events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow;

impl Listener {
    /// Waits for the next event. Cancel safe.
    ///
    /// # Errors
    /// Returns an error if the listener was too slow.
    pub async fn next(&mut self) -> Result<Arc<ElementEvent>, TooSlow> {
        match self.before.pop_front() {
            Some(event) => Ok(event),
            // The sender lives as long as the tail, which this listener holds.
            None => self.feed.recv().await.map_err(|_| TooSlow),
        }
    }
}

impl Listener {
    /// Returns whether the listener has missed events, or will with the next one.
    pub fn is_behind(&self) -> bool {
        self.feed.len() >= WAITING
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.tail.0.state.lock();
        state.listeners -= 1;
        state.anonymous -= usize::from(!self.named);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::MessageId;

    fn event() -> ElementEvent {
        ElementEvent {
            number: 0,
            left_out: 0,
            at_ms: 1,
            queue: "q".into(),
            id: MessageId([7; 8]).into(),
            fate: Fate::Delivered,
            sink: None,
            due_ms: None,
            attempt: 1,
            next_ms: None,
            failure: None,
            message: None,
            payload: None,
            size: 0,
        }
    }

    #[test]
    fn without_a_watcher_no_event_is_made() {
        let tail = Tail::default();
        tail.note(Fate::Delivered, || panic!("it was made"));
        assert!(tail.look().is_empty());
        tail.note(Fate::Delivered, event);
        assert_eq!(tail.look().len(), 1);
        let of = |queue: &str, byte| tail.of(queue, &MessageId([byte; 8]).into()).len();
        assert_eq!((of("q", 7), of("q", 8), of("p", 7)), (1, 0, 0));
        // The page was closed: a minute later nothing is recorded any more.
        tail.note_at(Fate::Dead, || panic!("it was made"), Instant::now().after(LOOKED));
        assert!(!tail.is_watched());
        tail.note(Fate::Dead, || panic!("it was made"));
        let _ = tail.listen(0, true);
        tail.note_at(Fate::Dead, || panic!("it was made"), Instant::now());
        assert!(!tail.is_watched(), "the only listener has gone");
    }

    #[test]
    fn only_so_many_are_kept_and_only_so_many_of_a_second() {
        let tail = Tail::default();
        let _ = tail.look();
        let now = Instant::now();
        (0..500).for_each(|_| tail.note_at(Fate::Delivered, event, now));
        tail.note_at(Fate::Dead, event, now);
        let last = tail.look();
        assert_eq!(last.len(), KEPT);
        let dead = last.last().unwrap();
        assert_eq!((dead.number, dead.left_out), (A_SECOND + 1, 400), "deliveries do not push a failure out");
    }

    #[tokio::test]
    async fn a_listener_gets_what_it_missed_and_what_comes() {
        let tail = Tail::default();
        let _ = tail.look();
        (0..3).for_each(|_| tail.note(Fate::Delivered, event));
        let mut listener = tail.listen(1, true).unwrap();
        tail.note(Fate::Dead, event);
        let mut numbers = Vec::new();
        for _ in 0..3 {
            numbers.push(listener.next().await.unwrap().number);
        }
        assert_eq!(numbers, [2, 3, 4]);
    }

    #[tokio::test]
    async fn a_slow_listener_is_dropped_and_there_are_only_so_many() {
        let tail = Tail::default();
        let mut slow = tail.listen(0, true).unwrap();
        let now = Instant::now();
        for second in 0..5 {
            let at = now.after(Duration::from_secs(second));
            (0..A_SECOND).for_each(|_| tail.note_at(Fate::Retry, event, at));
        }
        assert!(slow.is_behind());
        assert_eq!(slow.next().await.unwrap_err(), TooSlow);
        let strangers: Vec<_> = (0..ANONYMOUS).map(|_| tail.listen(0, false).expect("a place")).collect();
        assert!(tail.listen(0, false).is_none());
        let all: Vec<_> = (1 + ANONYMOUS..LISTENERS).map(|_| tail.listen(0, true).expect("a place")).collect();
        assert!(tail.listen(0, true).is_none());
        drop((all, strangers));
        assert!(tail.listen(0, true).is_some() && tail.listen(0, false).is_some());
    }
}
