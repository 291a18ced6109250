//! Matches the broker's answers to the messages of one channel, exactly, however the library pairs them.
//!
//! Pure: its input is what was published and what the library answered, its output the settled messages.
//!
//! **The problem.** The broker sends back an unroutable message (`basic.return`) before it confirms it, and names no
//! delivery tag. The library keeps returns in a queue and hands the oldest one out with whatever confirmation comes
//! next; several confirmations in one frame it takes in random order. So an unroutable message may look confirmed, and
//! a delivered one returned. A return carries the properties of its message, so it is recognised by `message_id`; what
//! has to be found out is when a confirmation *without* a return of its own may be believed.
//!
//! **What is certain.** Call a message's *answer* its own confirmation, and let an answer be *bare* if the library
//! attached no return to it.
//!
//! 1. A return that carries a message's id is about that message, with whichever answer it came.
//! 2. The broker sends a message's return before its answer. So when its answer is bare, the queue was empty, and its
//!    return, if there was one, was attached to an earlier answer. Once all answers that the library resolved
//!    earlier have been looked at, the message is known to have arrived.
//! 3. When its answer came with another message's return, its own may still wait in the queue. It is known to have arrived
//!    once the queue is seen empty later: at a bare answer of a message that was *published* after that (and rule 2's
//!    look at what came before it), or when no message of the channel waits for an answer any more. The latter empties
//!    the queue because every return has its answer behind it, and every answer takes one return. Where the channel
//!    has ended and an answer will never come, neither is used any more.
//!
//! **Looking at all earlier answers** costs no sweep over what is in flight. Answers wake their futures in the order in
//! which the library resolves them, and the set of futures is polled first woken, first polled; so the channel puts a
//! *mark* behind what is woken now and waits for it to come out ([`ChannelLedger::mark`], [`ChannelLedger::marked`]).
//!
//! A plain wait for whole batches would be exact as well, but there one message to a stuck queue keeps all others of
//! its batch from being settled.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokerAnswer {
    Ack,
    Nack,
}

/// A message that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReturnedMessage {
    /// The number in its `message_id`.
    pub(super) number: u64,
    /// Why, as a code of the protocol.
    pub(super) code: u16,
    pub(super) text: String,
}

/// The end of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MessageVerdict {
    /// The broker has taken it, and did not send it back.
    Arrived,
    Refused,
    /// The broker could not route it.
    Returned {
        /// Why, as a code of the protocol.
        code: u16,
        text: String,
    },
}

/// The progress of a message.
#[derive(Debug, PartialEq, Eq)]
enum AnswerProgress {
    Unanswered,
    /// Acknowledged; rule 2 or 3 has not let it go yet.
    Acknowledged,
}

#[derive(Debug)]
struct OpenMessage<T> {
    item: T,
    state: AnswerProgress,
}

/// The messages in flight on one channel. Numbers grow from message to message.
#[derive(Debug)]
pub(super) struct ChannelLedger<T> {
    /// Without a verdict, by number.
    open: BTreeMap<u64, OpenMessage<T>>,
    /// Unanswered published messages, including those with a verdict.
    unanswered: usize,
    /// Number of the last message published.
    last: u64,
    last_answered: u64,
    /// Bare answers since the last mark: rule 2.
    bare: Vec<u64>,
    /// Bare answers that wait for the current mark.
    bare_marked: Vec<u64>,
    mark_under_way: bool,
    /// An answer will never come: rule 3 has ended.
    broken: bool,
    /// Acknowledged together with another message's return: their numbers, and the last number published by then. Rule 3.
    beside: VecDeque<(u64, u64)>,
}

impl<T> ChannelLedger<T> {
    pub(super) fn new() -> Self {
        ChannelLedger {
            open: BTreeMap::new(),
            unanswered: 0,
            last: 0,
            last_answered: 0,
            bare: Vec::new(),
            bare_marked: Vec::new(),
            mark_under_way: false,
            broken: false,
            beside: VecDeque::new(),
        }
    }

    /// Returns the number of messages that occupy the window of the channel.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Returns the message that has waited longest for a verdict.
    pub(super) fn oldest(&self) -> Option<&T> {
        self.open.first_key_value().map(|(_, entry)| &entry.item)
    }

    /// Returns the message that has waited longest for its answer, and whether one that was published later has got
    /// one.
    pub(super) fn silent(&self) -> Option<(&T, bool)> {
        let mut open = self.open.iter();
        let (number, entry) = open.find(|(_, entry)| entry.state == AnswerProgress::Unanswered)?;
        Some((&entry.item, self.last_answered > *number))
    }

    /// Takes out the messages without an answer for which this holds: nobody waits for them any more. Their answers are still
    /// expected.
    pub(super) fn release(&mut self, matches: impl Fn(&T) -> bool) -> Vec<T> {
        let waits = |entry: &OpenMessage<T>| entry.state == AnswerProgress::Unanswered && matches(&entry.item);
        let numbers: Vec<u64> = self.open.iter().filter(|(_, entry)| waits(entry)).map(|(number, _)| *number).collect();
        numbers.iter().filter_map(|number| self.open.remove(number)).map(|entry| entry.item).collect()
    }

    /// Returns whether publishing has to pause so that rule 3 comes to an end: where nearly all messages come back, no
    /// answer may ever be bare.
    pub(super) fn must_drain(&self, window: usize) -> bool {
        self.beside.front().is_some_and(|(_, published)| self.last.saturating_sub(*published) >= window as u64)
    }

    /// Records a message that is about to be published. Numbers must grow.
    pub(super) fn publish(&mut self, number: u64, item: T) {
        debug_assert!(number > self.last);
        self.last = number;
        self.unanswered += 1;
        self.open.insert(number, OpenMessage { item, state: AnswerProgress::Unanswered });
    }

    /// Records that message `number` was answered, and the return that the library attached to it. Adds the messages
    /// that this settles.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: BrokerAnswer,
        beside: Option<ReturnedMessage>,
        settled: &mut Vec<(T, MessageVerdict)>,
    ) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.last_answered = self.last_answered.max(number);
        let bare = beside.is_none();
        if let Some(ReturnedMessage { number, code, text }) = beside {
            // Rule 1. A message that was refused as well, or given up, is not open any more.
            self.settle(number, MessageVerdict::Returned { code, text }, settled);
        }
        if bare {
            // Even of a message with a verdict: the queue was empty.
            self.bare.push(number);
        }
        match answer {
            BrokerAnswer::Nack => self.settle(number, MessageVerdict::Refused, settled),
            BrokerAnswer::Ack => {
                if let Some(entry) = self.open.get_mut(&number) {
                    entry.state = AnswerProgress::Acknowledged;
                    if !bare && !self.broken {
                        self.beside.push_back((number, self.last));
                    }
                }
            }
        }
        if self.unanswered == 0 && !self.broken {
            self.all_answered(settled);
        }
    }

    /// Gives up the answer to message `number`, which will never come; takes the message out if it has no verdict.
    ///
    /// Its return may be left in the library's queue, without an answer after it.
    pub(super) fn lost(&mut self, number: u64) -> Option<T> {
        self.broken = true;
        self.beside.clear();
        self.unanswered = self.unanswered.saturating_sub(1);
        self.open.remove(&number).map(|entry| entry.item)
    }

    /// Returns whether a mark has to be put behind the answers that are woken now; says so once.
    pub(super) fn mark(&mut self) -> bool {
        if self.mark_under_way || self.bare.is_empty() {
            return false;
        }
        std::mem::swap(&mut self.bare, &mut self.bare_marked);
        self.mark_under_way = true;
        true
    }

    /// Records that the mark has come out: everything that was woken before it has been looked at.
    pub(super) fn marked(&mut self, settled: &mut Vec<(T, MessageVerdict)>) {
        self.mark_under_way = false;
        let bare = std::mem::take(&mut self.bare_marked);
        let newest = bare.iter().copied().max().unwrap_or(0);
        for number in bare {
            self.arrived(number, settled);
        }
        while let Some((number, published)) = self.beside.front().copied() {
            if published >= newest {
                break;
            }
            self.beside.pop_front();
            self.arrived(number, settled);
        }
    }

    /// Settles all messages: the channel is gone, and all answers that ever came have been looked at.
    pub(super) fn all_seen(&mut self, settled: &mut Vec<(T, MessageVerdict)>) {
        self.bare_marked.append(&mut self.bare);
        self.marked(settled);
    }

    /// Takes out what has no verdict; nothing more will be known of the channel.
    pub(super) fn abandon(&mut self) -> Vec<T> {
        self.unanswered = 0;
        std::mem::take(&mut self.open).into_values().map(|entry| entry.item).collect()
    }

    /// Settles all messages as arrived: all answers have come and been looked at, so the queue of returns is empty.
    fn all_answered(&mut self, settled: &mut Vec<(T, MessageVerdict)>) {
        self.bare.clear();
        self.bare_marked.clear();
        self.beside.clear();
        for (_, entry) in std::mem::take(&mut self.open) {
            debug_assert_eq!(entry.state, AnswerProgress::Acknowledged);
            settled.push((entry.item, MessageVerdict::Arrived));
        }
    }

    fn arrived(&mut self, number: u64, settled: &mut Vec<(T, MessageVerdict)>) {
        if self.open.get(&number).is_some_and(|entry| entry.state == AnswerProgress::Acknowledged) {
            self.settle(number, MessageVerdict::Arrived, settled);
        }
    }

    fn settle(&mut self, number: u64, verdict: MessageVerdict, settled: &mut Vec<(T, MessageVerdict)>) {
        if let Some(entry) = self.open.remove(&number) {
            settled.push((entry.item, verdict));
        }
    }
}

#[cfg(test)]
mod tests;
