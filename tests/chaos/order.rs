//! Queues with order: their choice, and the rule for their deliveries.
//!
//! An element goes to its sinks only after the verdict on the one before it, whoever delivers, and whatever arrives
//! twice. So the first deliveries of two elements are in the order of their due times, if the earlier one was certainly
//! offered before the other could be claimed: before its due time, by the clock of Redis.

use std::collections::{HashMap, HashSet};
use std::fmt;

use fastrand::Rng;

use crate::clock::latest;
use crate::evidence::{Arrival, Evidence};
use crate::judge::{Found, Rule};
use crate::offers::{Answer, Kind, QUEUES};
use crate::payload::key;
use crate::profile::Profile;
use crate::target::Target;

/// Maximum elements/s of queues with order: after a fault they are delivered one after the other, in total or by key.
const RATE: u32 = 8;
const RATE_BY_KEY: u32 = 20;

/// The order of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `order: none`.
    None,
    /// `order: queue`.
    Queue,
    /// `order: key`.
    Key,
}

impl Order {
    /// Parses the value of `order`.
    pub fn named(name: &str) -> Result<Order, String> {
        match name {
            "none" => Ok(Order::None),
            "queue" => Ok(Order::Queue),
            "key" => Ok(Order::Key),
            _ => Err(format!("--order {name}: there are none, queue, key")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orders(pub [Order; QUEUES.len()]);

impl Orders {
    pub const NONE: Orders = Orders([Order::None; QUEUES.len()]);

    /// One queue with `order: queue` and one with `order: key`; in half of the seeds, none.
    pub fn random(seed: u64) -> Orders {
        let mut random = Rng::with_seed(seed.wrapping_mul(151));
        let mut places: Vec<usize> = (0..QUEUES.len()).collect();
        random.shuffle(&mut places);
        let mut orders = Orders::NONE;
        if random.bool() {
            orders.0[places[0]] = Order::Queue;
            orders.0[places[1]] = Order::Key;
        }
        orders
    }

    /// The additions to the configuration of a queue's destination, and of the queue.
    pub fn yaml(self, queue: usize, target: &Target) -> (&'static str, &'static str) {
        match self.0[queue] {
            Order::None => ("", ""),
            Order::Queue => ("", "order: queue, "),
            // The key of a record is also the key of the order.
            Order::Key => match target {
                // One of them has a key anyway.
                Target::Kafka(_) if target.route(QUEUES[queue]).contains("key:") => ("", "order: key, "),
                Target::Kafka(_) => (", key: \"${payload.k}\"", "order: key, "),
                _ => ("", "order: key, order_key: \"${payload.k}\", "),
            },
        }
    }

    /// Limits `rate`, the elements/s of a queue, by its order.
    pub fn rate(self, queue: usize, rate: u32) -> u32 {
        match self.0[queue] {
            Order::None => rate,
            Order::Queue => rate.min(RATE),
            Order::Key => rate.min(RATE_BY_KEY),
        }
    }

    /// The line of an element: elements of a line are delivered one after the other. `None` in a queue without order.
    fn line(self, queue: usize, n: u64) -> Option<(usize, u64)> {
        match self.0[queue] {
            Order::None => None,
            Order::Queue => Some((queue, 0)),
            Order::Key => Some((queue, key(n))),
        }
    }
}

impl fmt::Display for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (queue, order) in QUEUES.iter().zip(self.0) {
            match order {
                Order::None => {}
                Order::Queue => write!(f, ", {queue} in order")?,
                Order::Key => write!(f, ", {queue} in order by key")?,
            }
        }
        Ok(())
    }
}

/// The first arrival of an element of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
struct First {
    n: u64,
    due_ms: i64,
    /// The time by which the element was certainly in Redis: later ones could not be claimed before. `None` if it may
    /// be overtaken.
    there_ms: Option<i64>,
    at_ms: i64,
    /// The way in which it came: more than 1 if it was claimed before.
    attempt: u32,
    life: usize,
}

/// An element that arrived after a later one.
#[derive(Debug, PartialEq)]
struct Overtaken {
    n: u64,
    due_ms: i64,
    there_ms: i64,
    at_ms: i64,
    attempt: u32,
    life: usize,
    by: First,
}

/// Checks the rule `order`.
pub fn judge(evidence: &Evidence, found: &mut Found) {
    let orders = evidence.plan.settings.orders;
    let dead: HashSet<u64> = evidence.dead.iter().filter_map(|dead| dead.n).collect();
    let mut seen = HashSet::new();
    let mut lines: HashMap<(usize, u64), Vec<First>> = HashMap::new();
    for Arrival { queue, n, at_ms, attempt, life, .. } in in_turn(evidence) {
        let Some(n) = *n else { continue };
        let offer = usize::try_from(n).ok().and_then(|n| evidence.offers.get(n));
        let Some(offer) = offer.filter(|offer| matches!(offer.kind, Kind::Good | Kind::Large)) else { continue };
        let Some(line) = orders.line(*queue, n).filter(|_| seen.insert(n)) else { continue };
        // A dead letter lets the next one go, and so does a withdrawn element: a delivery under way may arrive later.
        let certain = offer.taken == Answer::Yes && offer.withdrawn.is_none() && !dead.contains(&n);
        let there_ms = certain.then(|| latest(&evidence.clock, offer.answered_ms).max(offer.due_ms));
        let first = First { n, due_ms: offer.due_ms, there_ms, at_ms: *at_ms, attempt: *attempt, life: *life };
        lines.entry(line).or_default().push(first);
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(line, _)| *line);
    for ((queue, _), line) in lines {
        let what = format!("elements of {} came behind one that was due later", QUEUES[queue]);
        found.all(Rule::Order, &what, &overtaken(&line));
    }
}

/// Arrivals in the order of delivery.
fn in_turn(evidence: &Evidence) -> Vec<&Arrival> {
    let mut arrivals: Vec<&Arrival> = evidence.arrivals.iter().collect();
    // Topics have several partitions. Records of the same ms may be in any order.
    if evidence.plan.settings.profile == Profile::Kafka {
        let due_ms = |arrival: &Arrival| Some(evidence.offers.get(usize::try_from(arrival.n?).ok()?)?.due_ms);
        arrivals.sort_by_key(|arrival| (arrival.at_ms, due_ms(arrival)));
    }
    arrivals
}

/// The overtaken elements of a line, in the order of the first deliveries.
fn overtaken(line: &[First]) -> Vec<Overtaken> {
    let mut latest: Option<First> = None;
    let mut overtaken = Vec::new();
    for first in line {
        let First { n, due_ms, there_ms, at_ms, attempt, life } = *first;
        if let (Some(by), Some(there_ms)) = (latest, there_ms)
            && by.due_ms > there_ms
        {
            overtaken.push(Overtaken { n, due_ms, there_ms, at_ms, attempt, life, by });
        }
        if latest.is_none_or(|latest| latest.due_ms < due_ms) {
            latest = Some(*first);
        }
    }
    overtaken
}

#[test]
fn what_was_there_in_time_is_overtaken_by_nothing() {
    let first = |n, due_ms, there_ms| First { n, due_ms, there_ms, at_ms: 0, attempt: 1, life: 1 };
    let who = |line: &[First]| overtaken(line).into_iter().map(|one| (one.n, one.by.n)).collect::<Vec<_>>();
    let there = |n, due_ms| first(n, due_ms, Some(due_ms));
    assert_eq!(who(&[there(1, 10), there(2, 20), there(3, 20), there(4, 30)]), []);
    assert_eq!(who(&[there(1, 10), there(3, 30), there(2, 20), there(4, 40)]), [(2, 3)]);
    // All elements that the latest one has overtaken.
    assert_eq!(who(&[there(9, 90), there(1, 10), there(2, 20)]), [(1, 9), (2, 9)]);
    // Equal due times.
    assert_eq!(who(&[there(2, 20), there(1, 20)]), []);
    // Offered when the later one may have been claimed already, not certainly offered, withdrawn, or dead.
    assert_eq!(who(&[there(2, 20), first(1, 10, Some(20))]), []);
    assert_eq!(who(&[there(2, 20), first(1, 10, None)]), []);
}

#[test]
fn half_of_the_seeds_have_two_different_queues_in_order() {
    let drawn: Vec<_> = (0..200).map(Orders::random).filter(|orders| *orders != Orders::NONE).collect();
    assert!((60..140).contains(&drawn.len()), "{}", drawn.len());
    let count = |orders: &Orders, order| orders.0.iter().filter(|one| **one == order).count();
    assert!(drawn.iter().all(|orders| (count(orders, Order::Queue), count(orders, Order::Key)) == (1, 1)));
    assert!((0..3).all(|queue| drawn.iter().any(|orders| orders.0[queue] == Order::Queue)));
}
