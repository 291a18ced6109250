//! Destinations in trouble, as the board shows them. Their names contain nothing of a payload.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::{LISTED, Reason, age};
use delaybridge_core::clock::Instant;

/// Destinations in trouble, by sink and key.
#[derive(Default)]
pub(super) struct Destinations(BTreeMap<(Arc<str>, u64), Destination>);

/// A destination in trouble. The name contains nothing of a payload.
struct Destination {
    name: String,
    reason: Reason,
    since: Instant,
}

/// The destinations in trouble that have one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The sink.
    pub sink: String,
    /// The name, without anything of a payload.
    pub destination: String,
    /// Number of such destinations.
    pub count: usize,
    /// The problem of one of them.
    pub reason: String,
    /// The duration of the trouble, in seconds.
    pub seconds: u64,
}

impl Destinations {
    /// Sets or clears the trouble of a destination; returns whether this is news.
    pub(super) fn set(&mut self, sink: &Arc<str>, key: u64, trouble: Option<(String, Reason)>) -> bool {
        let key = (sink.clone(), key);
        let Some((name, reason)) = trouble else { return self.0.remove(&key).is_some() };
        match self.0.get_mut(&key) {
            Some(known) => {
                let news = known.reason != reason;
                known.reason = reason;
                news
            }
            None => {
                self.0.insert(key, Destination { name, reason, since: Instant::now() });
                true
            }
        }
    }

    pub(super) fn remove_all(&mut self, sink: &Arc<str>) {
        self.0.retain(|(of, _), _| of != sink);
    }

    /// Returns the destinations in trouble, grouped by name, because templates make many destinations of one; at most
    /// [`LISTED`], and the number of further names.
    pub(super) fn listed(&self) -> (Vec<Trouble>, usize) {
        let mut named: BTreeMap<(&str, &str), (usize, &Destination)> = BTreeMap::new();
        for ((sink, _), found) in &self.0 {
            let (count, _) = named.entry((sink, &found.name)).or_insert((0, found));
            *count += 1;
        }
        let more = named.len().saturating_sub(LISTED);
        let trouble = |((sink, name), (count, found)): ((&str, &str), (usize, &Destination))| Trouble {
            sink: sink.to_owned(),
            destination: name.to_owned(),
            count,
            reason: found.reason.text.clone(),
            seconds: age(found.since),
        };
        (named.into_iter().take(LISTED).map(trouble).collect(), more)
    }

    /// Lists the destinations in trouble as JSON, for a probe.
    pub(super) fn shown(&self) -> Value {
        let (listed, more) = self.listed();
        let entry = |found: Trouble| {
            json!({ "sink": found.sink, "destination": found.destination, "count": found.count, "reason": found.reason,
                    "seconds": found.seconds })
        };
        let listed: Vec<Value> = listed.into_iter().map(entry).collect();
        json!({ "in_trouble": self.0.len(), "reasons": listed, "not_listed": more })
    }
}
