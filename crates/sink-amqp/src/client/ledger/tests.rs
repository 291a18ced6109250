//! The ledger against a model of the library: a queue of returns, answers to several messages in random order, and a
//! reader that lags behind.

use std::collections::{HashMap, HashSet, VecDeque};

use super::*;

type Book = ChannelLedger<u64>;

fn returned(number: u64) -> ReturnedMessage {
    ReturnedMessage { number, code: 312, text: "NO_ROUTE".to_owned() }
}

fn verdicts(settled: Vec<(u64, MessageVerdict)>) -> Vec<(u64, bool)> {
    settled.into_iter().map(|(number, verdict)| (number, verdict == MessageVerdict::Arrived)).collect()
}

#[test]
fn a_bare_answer_is_believed_after_the_mark_only() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=3).for_each(|number| book.publish(number, number));
    book.answered(2, BrokerAnswer::Ack, None, &mut settled);
    assert!(book.mark() && !book.mark());
    // The answer that was resolved before it, and looked at after it, held its return.
    book.answered(1, BrokerAnswer::Ack, Some(returned(2)), &mut settled);
    book.marked(&mut settled);
    assert_eq!(verdicts(settled), [(2, false)]);
    assert_eq!((book.unanswered(), book.oldest()), (1, Some(&1)));
}

#[test]
fn the_oldest_without_an_answer_is_named_and_what_nobody_waits_for_is_still_expected() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    assert_eq!(book.silent(), None);
    (1..=4).for_each(|number| book.publish(number, number));
    assert_eq!(book.silent(), Some((&1, false)));
    book.answered(2, BrokerAnswer::Ack, None, &mut settled);
    assert_eq!(book.silent(), Some((&1, true)), "a later one has its answer");
    // 2 waits for the mark: it is not given away.
    assert_eq!(book.release(|number| *number != 1), [3, 4]);
    assert_eq!(book.unanswered(), 3);
    book.answered(3, BrokerAnswer::Ack, None, &mut settled);
    book.answered(4, BrokerAnswer::Nack, Some(returned(4)), &mut settled);
    assert!(settled.is_empty() && book.mark());
    book.marked(&mut settled);
    assert_eq!(verdicts(std::mem::take(&mut settled)), [(2, true)]);
    book.answered(1, BrokerAnswer::Ack, None, &mut settled);
    assert_eq!(verdicts(settled), [(1, true)]);
}

#[test]
fn an_answer_beside_a_strangers_return_waits_for_a_younger_bare_one() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=4).for_each(|number| book.publish(number, number));
    book.answered(1, BrokerAnswer::Ack, Some(returned(2)), &mut settled);
    assert_eq!(verdicts(std::mem::take(&mut settled)), [(2, false)]);
    // Older than the answer to 1: the queue may have been empty before that and filled since.
    book.answered(3, BrokerAnswer::Ack, None, &mut settled);
    assert!(book.mark());
    book.marked(&mut settled);
    assert_eq!(verdicts(std::mem::take(&mut settled)), [(3, true)]);
    book.publish(5, 5);
    book.answered(5, BrokerAnswer::Ack, None, &mut settled);
    assert!(book.mark());
    book.marked(&mut settled);
    assert_eq!(verdicts(settled), [(5, true), (1, true)]);
}

#[test]
fn the_last_answer_settles_everything() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=3).for_each(|number| book.publish(number, number));
    book.answered(1, BrokerAnswer::Ack, Some(returned(3)), &mut settled);
    book.answered(3, BrokerAnswer::Ack, Some(returned(2)), &mut settled);
    book.answered(2, BrokerAnswer::Ack, None, &mut settled);
    assert_eq!(verdicts(settled), [(3, false), (2, false), (1, true)]);
    assert_eq!(book.oldest(), None);
}

#[test]
fn a_refusal_is_final_even_if_its_return_comes_elsewhere() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=2).for_each(|number| book.publish(number, number));
    book.answered(1, BrokerAnswer::Nack, None, &mut settled);
    book.answered(2, BrokerAnswer::Ack, Some(returned(1)), &mut settled);
    assert_eq!(settled, [(1, MessageVerdict::Refused), (2, MessageVerdict::Arrived)]);
}

#[test]
fn after_a_loss_the_last_answer_settles_nothing_that_came_beside_a_return() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=4).for_each(|number| book.publish(number, number));
    assert_eq!(book.lost(1), Some(1));
    // The returns of 2 and 3 follow: the second one is left in the queue, for the answer that 1 does not get.
    book.answered(2, BrokerAnswer::Ack, Some(returned(9)), &mut settled);
    book.answered(3, BrokerAnswer::Ack, Some(returned(2)), &mut settled);
    book.answered(4, BrokerAnswer::Ack, None, &mut settled);
    assert_eq!(verdicts(std::mem::take(&mut settled)), [(2, false)]);
    book.all_seen(&mut settled);
    assert_eq!(verdicts(settled), [(4, true)]);
    assert_eq!(book.abandon(), [3]);
}

#[test]
fn what_is_lost_with_the_channel_has_no_verdict() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=4).for_each(|number| book.publish(number, number));
    book.answered(1, BrokerAnswer::Ack, None, &mut settled);
    book.answered(2, BrokerAnswer::Ack, Some(returned(9)), &mut settled);
    assert_eq!(book.lost(3), Some(3));
    assert_eq!(book.lost(4), Some(4));
    book.all_seen(&mut settled);
    assert_eq!(settled, [(1, MessageVerdict::Arrived)]);
    assert_eq!(book.abandon(), [2]);
}

/// The content of the queue of the set of futures.
#[derive(Clone, Copy, PartialEq)]
enum Woken {
    Message(u64),
    Mark,
}

/// What the library made of a message's answer.
enum Resolved {
    /// It came, with this return beside it.
    Answered(Option<u64>),
    /// The channel ended before.
    Lost,
}

/// The library, the broker behind it and the set of futures before it.
struct World {
    random: fastrand::Rng,
    unroutable: fn(u64, &mut fastrand::Rng) -> bool,
    /// Published and not answered by the broker, oldest first.
    at_broker: VecDeque<(u64, bool)>,
    /// The library's queue of returns.
    returns: VecDeque<u64>,
    /// Answers that were resolved and not looked at.
    resolved: HashMap<u64, Resolved>,
    woken: VecDeque<Woken>,
}

impl World {
    fn wake(&mut self, woken: Woken) {
        if !self.woken.contains(&woken) {
            self.woken.push_back(woken);
        }
    }

    /// The broker sends returns at once, and answers some later, several at a time.
    fn broker_answers(&mut self) {
        let count = self.random.usize(0..=self.at_broker.len().min(20));
        for (number, returned) in self.at_broker.iter_mut().take(count + 5) {
            if std::mem::take(returned) {
                self.returns.push_back(*number);
            }
        }
        let mut answered: Vec<u64> = self.at_broker.drain(..count).map(|(number, _)| number).collect();
        self.random.shuffle(&mut answered);
        for number in answered {
            let beside = self.returns.pop_front();
            self.resolved.insert(number, Resolved::Answered(beside));
            self.wake(Woken::Message(number));
        }
    }

    /// The channel ends; returns may be left in the library without an answer.
    fn channel_ends(&mut self) {
        let mut lost: Vec<u64> = self.at_broker.drain(..).map(|(number, _)| number).collect();
        self.random.shuffle(&mut lost);
        for number in lost {
            self.resolved.insert(number, Resolved::Lost);
            self.wake(Woken::Message(number));
        }
    }
}

/// Publishes `total` messages, at most `window` unanswered, and compares what the ledger said of each with what was true;
/// the channel ends after `last` of them, with the outstanding ones. Gives how many the library's own pairing would have got
/// wrong.
fn play(seed: u64, total: u64, last: u64, window: usize, unroutable: fn(u64, &mut fastrand::Rng) -> bool) -> u64 {
    let random = fastrand::Rng::with_seed(seed);
    let mut world = World {
        random,
        unroutable,
        at_broker: VecDeque::new(),
        returns: VecDeque::new(),
        resolved: HashMap::new(),
        woken: VecDeque::new(),
    };
    let mut book = Book::new();
    let mut truth = HashSet::new();
    let mut said = HashMap::new();
    let mut open = Vec::new();
    let mut next = 1;
    let mut wrong_pairs = 0;
    while next <= total.min(last) || book.unanswered() > 0 {
        if next <= total.min(last)
            && book.unanswered() < window
            && !(book.must_drain(window) && book.unanswered() > 0)
            && world.random.bool()
        {
            let lost = (world.unroutable)(next, &mut world.random);
            if lost {
                truth.insert(next);
            }
            book.publish(next, next);
            world.at_broker.push_back((next, lost));
            // Woken before it is answered as well: when it is new, and when it was written.
            world.wake(Woken::Message(next));
            next += 1;
        }
        if world.random.u8(0..4) == 0 {
            world.broker_answers();
            if next > last && last < total {
                world.channel_ends();
            }
        }
        for _ in 0..world.random.u8(0..6) {
            let mut settled = Vec::new();
            match world.woken.pop_front() {
                Some(Woken::Mark) => book.marked(&mut settled),
                Some(Woken::Message(number)) => match world.resolved.remove(&number) {
                    Some(Resolved::Answered(beside)) => {
                        wrong_pairs += u64::from(beside.is_some() != truth.contains(&number));
                        book.answered(number, BrokerAnswer::Ack, beside.map(returned), &mut settled);
                    }
                    Some(Resolved::Lost) => open.extend(book.lost(number)),
                    None => {}
                },
                None => {}
            }
            note(seed, &mut said, settled);
            if book.mark() {
                world.wake(Woken::Mark);
            }
        }
    }
    let mut settled = Vec::new();
    book.all_seen(&mut settled);
    note(seed, &mut said, settled);
    open.extend(book.abandon());
    for (number, arrived) in &said {
        assert_eq!(*arrived, !truth.contains(number), "seed {seed}: message {number}");
    }
    // Each has a verdict or is left open, and none without need.
    assert_eq!(said.len() + open.len(), next as usize - 1, "seed {seed}: {open:?}");
    assert!(open.iter().all(|number| !said.contains_key(number)), "seed {seed}: {open:?}");
    assert!(last < total || open.is_empty(), "seed {seed}: {open:?}");
    wrong_pairs
}

fn note(seed: u64, said: &mut HashMap<u64, bool>, settled: Vec<(u64, MessageVerdict)>) {
    for (number, verdict) in settled {
        let earlier = said.insert(number, verdict == MessageVerdict::Arrived);
        assert_eq!(earlier, None, "seed {seed}: two verdicts for {number}");
    }
}

#[test]
fn no_schedule_makes_it_believe_the_wrong_answer() {
    let kinds: [fn(u64, &mut fastrand::Rng) -> bool; 5] = [
        |number, _| number % 7 == 0,
        |_, random| random.bool(),
        |_, _| true,
        |_, _| false,
        |number, _| number % 50 != 0,
    ];
    let total = 300;
    let mut wrong_pairs = 0;
    for seed in 0..60 {
        for unroutable in kinds {
            let window = [1, 10, 100][seed as usize % 3];
            wrong_pairs += play(seed, total, total, window, unroutable);
            for last in [5, 40, 150] {
                wrong_pairs += play(seed, total, last, window, unroutable);
            }
        }
    }
    assert!(wrong_pairs > 1000, "the model no longer shows the fault that the ledger is for: {wrong_pairs}");
}
