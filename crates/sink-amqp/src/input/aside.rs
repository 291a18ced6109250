//! Refused messages that are not settled yet: those that the broker would drop, and those that come back when they are rejected.

use std::collections::{HashSet, VecDeque};

use delaybridge_input::Arrival;

/// Rounds after which a refused message counts as one that comes back.
const ROUNDS: u64 = 10;
/// Ticks without such a message after which none comes back any more.
const QUIET: u32 = 5;
/// Refused messages that are known when they come again.
const KNOWN: usize = 65_536;
/// Messages that may be aside beyond the window of the consumer: of each only its number is in memory.
const MOST: usize = 65_536;

/// Returns whether a refused message that has made this many rounds is to be rejected later, one in a tick.
pub(super) fn is_to_wait(rounds: u64) -> bool {
    rounds >= ROUNDS
}

/// The refused messages of one channel, each as what settles it.
pub(super) struct Aside<A> {
    held: Vec<A>,
    coming_back: VecDeque<A>,
    /// Ticks since the last message that came back; `None` if none has.
    quiet: Option<u32>,
    /// Number of messages that were put aside since the consumer began: they take up its window.
    in_window: u32,
}

impl<A> Aside<A> {
    pub(super) fn new() -> Aside<A> {
        Aside { held: Vec::new(), coming_back: VecDeque::new(), quiet: None, in_window: 0 }
    }

    /// Keeps a message that must not be rejected. It stays unacknowledged, and goes back to the queue with the channel.
    pub(super) fn hold(&mut self, message: A) {
        self.held.push(message);
        self.in_window += 1;
    }

    /// Keeps a message that is rejected later.
    pub(super) fn delay(&mut self, message: A) {
        self.coming_back.push_back(message);
        self.quiet = Some(0);
        self.in_window += 1;
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes the message that is to be rejected in this tick.
    pub(super) fn tick(&mut self) -> Option<A> {
        let next = self.coming_back.pop_front();
        match (&next, &mut self.quiet) {
            (None, Some(ticks)) => *ticks += 1,
            (Some(_), Some(ticks)) => *ticks = 0,
            (_, None) => {}
        }
        next
    }

    /// Returns whether messages come back; `None` if that has just ended.
    pub(super) fn comes_back(&mut self) -> Option<bool> {
        match self.quiet {
            Some(QUIET..) => {
                self.quiet = None;
                None
            }
            quiet => Some(quiet.is_some()),
        }
    }

    /// Returns whether these messages take up so much of a window that the others need another consumer: the messages
    /// of one that was ended count in no window.
    pub(super) fn fills(&self, window: u16) -> bool {
        2 * self.in_window >= u32::from(window) && self.held.len() + self.coming_back.len() < MOST
    }

    /// Resets the window for another consumer.
    pub(super) fn begin(&mut self) {
        self.in_window = 0;
    }
}

/// The refused messages that this process has counted, as hashes.
#[derive(Default)]
pub(super) struct KnownRefused {
    hashes: HashSet<u128>,
    order: VecDeque<u128>,
}

impl KnownRefused {
    /// Returns whether a message that comes again was refused and counted before.
    pub(super) fn has(&self, arrival: &Arrival) -> bool {
        arrival.is_redelivered && !self.hashes.is_empty() && self.hashes.contains(&arrival.hash())
    }

    pub(super) fn add(&mut self, hash: u128) {
        if self.hashes.insert(hash) {
            self.order.push_back(hash);
        }
        if self.order.len() > KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(id: &str, body: &str) -> Arrival {
        Arrival { id: Some(id.to_owned()), body: body.to_owned().into(), is_redelivered: true, ..Arrival::default() }
    }

    #[test]
    fn one_message_that_comes_back_is_rejected_in_a_tick() {
        let mut aside = Aside::new();
        assert_eq!((aside.tick().is_some(), aside.comes_back()), (false, Some(false)));
        for _ in 0..3 {
            aside.delay(());
        }
        for _ in 0..3 {
            assert!(aside.tick().is_some());
            assert_eq!(aside.comes_back(), Some(true));
        }
        for _ in 1..QUIET {
            assert_eq!((aside.tick().is_some(), aside.comes_back()), (false, Some(true)));
        }
        assert_eq!((aside.tick().is_some(), aside.comes_back()), (false, None), "it has ended");
        assert_eq!(aside.comes_back(), Some(false));
        assert!(!is_to_wait(9) && is_to_wait(10));
    }

    #[test]
    fn messages_aside_leave_room_in_the_window() {
        let mut aside = Aside::new();
        assert!(!aside.fills(4));
        aside.hold(());
        aside.delay(());
        assert!(aside.fills(4) && !aside.fills(5));
        aside.begin();
        assert!(!aside.fills(4));
        assert_eq!(aside.held(), 1);
    }

    #[test]
    fn a_refused_message_is_known_when_it_comes_again() {
        let mut known = KnownRefused::default();
        known.add(arrival("a", "1").hash());
        assert!(known.has(&arrival("a", "1")));
        assert!(!known.has(&arrival("a", "2")) && !known.has(&arrival("b", "1")) && !known.has(&arrival("a1", "")));
        // The same text published once more is another message.
        assert!(!known.has(&Arrival { is_redelivered: false, ..arrival("a", "1") }));
        for n in 0..KNOWN {
            known.add(n as u128);
        }
        assert!(!known.has(&arrival("a", "1")));
    }
}
