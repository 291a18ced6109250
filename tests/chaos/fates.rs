//! Runs with conditions and an audit trail: each element has one route or none, and leaves a record of its fate.
//!
//! The key of the payload decides, so the fate of an element follows from its number alone.

use std::collections::{BTreeSet, HashMap};

use crate::evidence::Evidence;
use crate::judge::{Found, Rule};
use crate::offers::{Answer, Kind, QUEUES};
use crate::payload::key;
use crate::target::{Target, place};
use harness::oracle::Delivery;

/// The sink of the records, and the stream at the server of the destinations.
const TRAIL: &str = "trail";

/// The queue whose elements have their ids in the payload.
const UNNAMED: usize = 1;

/// The destination of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The first of its queue.
    First,
    /// The second.
    Second,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The id of the element.
    pub id: String,
    pub queue: String,
    pub fate: String,
}

/// The route of an element; none for a skipped one.
pub fn route(n: u64) -> Option<Route> {
    match key(n) {
        0..=2 => Some(Route::First),
        3 => Some(Route::Second),
        _ => None,
    }
}

/// The name of the second destination of a queue.
pub fn second(queue: &str) -> String {
    format!("{}-second", place(queue))
}

/// The destinations of a queue, with their conditions, and its trail. `more`: further keys of each destination.
pub fn destinations(queue: &str, more: &str) -> String {
    format!(
        "to: [{{ sink: out, stream: {}, when: 'payload.k < 3'{more} }}, {{ sink: out, stream: {}, when: 'payload.k == 3'{more} }}], \
         on_skipped: drop, audit: {{ sink: {TRAIL}, on: [delivered, skipped, dead] }}",
        place(queue),
        second(queue)
    )
}

/// The sink of the records: as that of the destinations, with a stream.
pub fn sink(out: &str) -> String {
    let keys = out.trim_end().strip_suffix('}').expect("the keys of a sink end with a brace");
    format!("{TRAIL}: {{ {keys}, stream: {TRAIL} }} }}")
}

/// The records, in their order.
pub async fn records(target: &Target) -> Vec<Record> {
    let record = |delivery: Delivery| {
        let fields: serde_json::Value = serde_json::from_slice(&delivery.payload).expect("a record is JSON");
        let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        Record { id: text("id"), queue: text("queue"), fate: text("fate") }
    };
    target.stream(TRAIL).await.into_iter().map(record).collect()
}

/// Judges routes and records.
pub fn judge(evidence: &Evidence, found: &mut Found) {
    if !evidence.plan.settings.trail {
        return;
    }
    let taken = evidence.arrivals.iter().filter_map(|arrival| Some((arrival.n?, arrival.route)));
    let strays: Vec<_> = taken.filter(|(n, taken)| route(*n) != Some(*taken)).collect();
    found.all(Rule::Route, "messages took the route of others (number, route)", &strays);
    if evidence.stuck.is_some() {
        return;
    }
    let mut fates: HashMap<(&str, &str), BTreeSet<&str>> = HashMap::new();
    for record in &evidence.records {
        fates.entry((&record.queue, &record.id)).or_default().insert(&record.fate);
    }
    let dead: BTreeSet<u64> = evidence.dead.iter().filter_map(|dead| dead.n).collect();
    let mut wrong = Vec::new();
    let mut unnamed = 0;
    for (offer, n) in evidence.offers.iter().zip(0u64..) {
        let known = fates.remove(&(QUEUES[offer.queue], &*offer.id)).unwrap_or_default();
        // This queue's ids are in the payloads, and this one cannot be read.
        if offer.kind == Kind::Undecodable && offer.queue == UNNAMED {
            unnamed += usize::from(offer.taken == Answer::Yes && offer.withdrawn.is_none());
            continue;
        }
        // Of what may never have been there, or was made unreadable, nothing is certain.
        if offer.taken != Answer::Yes || offer.withdrawn == Some(Answer::Unknown) || offer.kind == Kind::Junk {
            continue;
        }
        let expected = match (offer.withdrawn, route(n)) {
            (Some(Answer::Yes), _) => None,
            _ if dead.contains(&n) => Some("dead"),
            (_, Some(_)) => Some("delivered"),
            (_, None) => Some("skipped"),
        };
        let is_right = match expected {
            None => known.is_empty(),
            // A dead letter may have been delivered before, where the answer was lost.
            Some(fate) => known.contains(fate) && (fate == "dead" || known.len() == 1),
        };
        if !is_right {
            wrong.push((n, expected, known));
        }
    }
    found.all(Rule::Trail, "elements have other records than that of their fate (number, fate, records)", &wrong);
    // What cannot be read has an id of its own, and is a dead letter.
    let (letters, strangers): (Vec<_>, Vec<_>) =
        fates.into_iter().partition(|(_, fates)| *fates == BTreeSet::from(["dead"]));
    found.all(Rule::Trail, "records are of no element", &strangers);
    let letters = letters.iter().filter(|((queue, _), _)| *queue == QUEUES[UNNAMED]).count();
    if letters < unnamed {
        let few = [(letters, unnamed)];
        found.all(Rule::Trail, "queue has too few records of what cannot be read (records, elements)", &few);
    }
}

#[test]
fn each_element_has_one_route_or_none() {
    let routes: Vec<_> = (0..15).map(|n| route(3 * n)).collect();
    let first = Some(Route::First);
    let second = Some(Route::Second);
    assert_eq!(routes[..6], [first, first, first, second, None, first]);
    assert_eq!(sink("redis: { url: u, timeout: 5ms }"), "trail: { redis: { url: u, timeout: 5ms , stream: trail } }");
}
