//! The ledger against a model of the library: a queue of returns, answers to several messages in random order, and a
//! reader that lags behind.

use std::collections::{HashMap, HashSet, VecDeque};

use super::*;

type Book = Ledger<u64>;

fn returned(number: u64) -> Returned {
    Returned { number, code: 312, text: "NO_ROUTE".to_owned() }
}

fn verdicts(settled: Vec<(u64, Verdict)>) -> Vec<(u64, bool)> {
    settled.into_iter().map(|(number, verdict)| (number, verdict == Verdict::Arrived)).collect()
}

#[test]
fn a_bare_answer_is_believed_after_the_mark_only() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=3).for_each(|number| book.publish(number, number));
    book.answered(2, Answer::Ack, None, &mut settled);
    assert!(book.mark() && !book.mark());
    // The answer that was resolved before it, and looked at after it, held its return.
    book.answered(1, Answer::Ack, Some(returned(2)), &mut settled);
    book.marked(&mut settled);
    assert_eq!(verdicts(settled), [(2, false)]);
    assert_eq!((book.unanswered(), book.oldest()), (1, Some(&1)));
}

#[test]
fn an_answer_beside_a_strangers_return_waits_for_a_younger_bare_one() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=4).for_each(|number| book.publish(number, number));
    book.answered(1, Answer::Ack, Some(returned(2)), &mut settled);
    assert_eq!(verdicts(std::mem::take(&mut settled)), [(2, false)]);
    // Older than the answer to 1: the queue may have been empty before that and filled since.
    book.answered(3, Answer::Ack, None, &mut settled);
    assert!(book.mark());
    book.marked(&mut settled);
    assert_eq!(verdicts(std::mem::take(&mut settled)), [(3, true)]);
    book.publish(5, 5);
    book.answered(5, Answer::Ack, None, &mut settled);
    assert!(book.mark());
    book.marked(&mut settled);
    assert_eq!(verdicts(settled), [(5, true), (1, true)]);
}

#[test]
fn the_last_answer_settles_everything() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=3).for_each(|number| book.publish(number, number));
    book.answered(1, Answer::Ack, Some(returned(3)), &mut settled);
    book.answered(3, Answer::Ack, Some(returned(2)), &mut settled);
    book.answered(2, Answer::Ack, None, &mut settled);
    assert_eq!(verdicts(settled), [(3, false), (2, false), (1, true)]);
    assert_eq!(book.oldest(), None);
}

#[test]
fn a_refusal_is_final_even_if_its_return_comes_elsewhere() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=2).for_each(|number| book.publish(number, number));
    book.answered(1, Answer::Nack, None, &mut settled);
    book.answered(2, Answer::Ack, Some(returned(1)), &mut settled);
    assert_eq!(settled, [(1, Verdict::Refused), (2, Verdict::Arrived)]);
}

#[test]
fn what_is_lost_with_the_channel_has_no_verdict() {
    let mut book = Book::new();
    let mut settled = Vec::new();
    (1..=4).for_each(|number| book.publish(number, number));
    book.answered(1, Answer::Ack, None, &mut settled);
    book.answered(2, Answer::Ack, Some(returned(9)), &mut settled);
    assert_eq!(book.lost(3), Some(3));
    assert_eq!(book.lost(4), Some(4));
    book.all_seen(&mut settled);
    assert_eq!(settled, [(1, Verdict::Arrived)]);
    assert_eq!(book.abandon(), [2]);
}

/// What lies in the queue of the set of futures.
#[derive(Clone, Copy, PartialEq)]
enum Woken {
    Message(u64),
    Mark,
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
    resolved: HashMap<u64, Option<u64>>,
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
        let mut answered: Vec<u64> = Vec::new();
        for (number, returned) in self.at_broker.iter_mut().take(count + 5) {
            if std::mem::take(returned) {
                self.returns.push_back(*number);
            }
        }
        answered.extend(self.at_broker.drain(..count).map(|(number, _)| number));
        self.random.shuffle(&mut answered);
        for number in answered {
            let beside = self.returns.pop_front();
            self.resolved.insert(number, beside);
            self.wake(Woken::Message(number));
        }
    }
}

/// Publishes `total` messages, at most `window` unanswered, and gives what the ledger said of each, what was true, and
/// how many the library's own pairing would have got wrong.
fn play(seed: u64, total: u64, window: usize, unroutable: fn(u64, &mut fastrand::Rng) -> bool) -> u64 {
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
    let (mut truth, mut said) = (HashSet::new(), HashMap::new());
    let (mut next, mut wrong_pairs) = (1, 0);
    while (said.len() as u64) < total || book.unanswered() > 0 {
        if next <= total
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
        }
        for _ in 0..world.random.u8(0..6) {
            let mut settled = Vec::new();
            match world.woken.pop_front() {
                Some(Woken::Mark) => book.marked(&mut settled),
                Some(Woken::Message(number)) => {
                    if let Some(beside) = world.resolved.remove(&number) {
                        wrong_pairs += u64::from(beside.is_some() != truth.contains(&number));
                        book.answered(number, Answer::Ack, beside.map(returned), &mut settled);
                    }
                }
                None => {}
            }
            for (number, verdict) in settled {
                let earlier = said.insert(number, verdict == Verdict::Arrived);
                assert_eq!(earlier, None, "seed {seed}: two verdicts for {number}");
            }
            if book.mark() {
                world.wake(Woken::Mark);
            }
        }
    }
    for (number, arrived) in said {
        assert_eq!(arrived, !truth.contains(&number), "seed {seed}: message {number}");
    }
    assert_eq!((book.unanswered(), book.oldest()), (0, None), "seed {seed}");
    wrong_pairs
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
    let mut wrong_pairs = 0;
    for seed in 0..60 {
        for unroutable in kinds {
            wrong_pairs += play(seed, 300, [1, 10, 100][seed as usize % 3], unroutable);
        }
    }
    assert!(wrong_pairs > 1000, "the model no longer shows the fault that the ledger is for: {wrong_pairs}");
}
