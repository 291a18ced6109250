//! Destinations in trouble, as the board shows them. Their names have no word of a payload in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{LISTED, Reason, age};
use crate::clock::Instant;

/// Destinations in trouble, by sink and key.
#[derive(Default)]
pub(super) struct Destinations(BTreeMap<(Arc<str>, u64), Destination>);

/// A destination in trouble. The name has no word of a payload in it.
struct Destination {
    name: String,
    reason: Reason,
    since: Instant,
}

impl Destinations {
    /// Whether this is news.
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

    /// Forgets those of a sink.
    pub(super) fn remove_all(&mut self, sink: &Arc<str>) {
        self.0.retain(|(of, _), _| of != sink);
    }

    /// Those of one name together: templates make many destinations of one.
    pub(super) fn shown(&self) -> Value {
        let mut named: BTreeMap<(&str, &str), (usize, &Destination)> = BTreeMap::new();
        for ((sink, _), found) in &self.0 {
            let (count, _) = named.entry((sink, &found.name)).or_insert((0, found));
            *count += 1;
        }
        let entry = |((sink, name), (count, found)): (&(&str, &str), &(usize, &Destination))| json!({ "sink": sink, "destination": name, "count": count, "reason": found.reason.text, "seconds": age(found.since) });
        let listed: Vec<Value> = named.iter().take(LISTED).map(entry).collect();
        json!({ "in_trouble": self.0.len(), "reasons": listed, "not_listed": named.len().saturating_sub(LISTED) })
    }
}
