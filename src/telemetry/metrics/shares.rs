//! Which queues have series of their own: the first [`OWN`] that have anything to show. The rest share one label, so that the
//! memory and the size of a scrape are bounded, however many queues there are.
//!
//! Counters and histograms of the rest add up by themselves. A gauge is a state, so each queue's value is kept here, and a
//! scrape shows what they come to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{GaugeVec, IntGaugeVec};

use crate::telemetry::catalogue::Family;

/// Queues with series of their own.
pub const OWN: usize = 1_000;
/// The label of the rest. No queue has this name, because ids have no spaces.
pub const OTHERS: &str = "other queues";

/// What the gauges of several queues come to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Together {
    /// Their sum.
    Sum,
    /// The greatest of them.
    Max,
    /// The least of them, where 0 is none.
    Earliest,
}

impl Together {
    fn of(self, values: impl Iterator<Item = f64>) -> f64 {
        match self {
            Together::Sum => values.sum(),
            Together::Max => values.fold(0.0, f64::max),
            Together::Earliest => values.filter(|value| *value > 0.0).reduce(f64::min).unwrap_or(0.0),
        }
    }
}

/// A family of gauges, of whole numbers or not.
pub(super) trait GaugeFamily: Family {
    /// Sets the series with these values of all labels.
    fn show(&self, labels: &[&str], value: f64);
}

impl GaugeFamily for IntGaugeVec {
    fn show(&self, labels: &[&str], value: f64) {
        self.with_label_values(labels).set(value as i64);
    }
}

impl GaugeFamily for GaugeVec {
    fn show(&self, labels: &[&str], value: f64) {
        self.with_label_values(labels).set(value);
    }
}

/// The family's number in the registry, and the labels behind the queue.
type Key = (u64, Option<&'static str>);

/// One gauge of all queues that share the label.
struct Shared {
    together: Together,
    values: HashMap<Arc<str>, f64>,
    /// Shows the value, or removes the series.
    show: Box<dyn Fn(Option<f64>) + Send + Sync>,
}

impl Shared {
    fn show(&self) {
        let any = !self.values.is_empty();
        (self.show)(any.then(|| self.together.of(self.values.values().copied())));
    }
}

/// The queues with series of their own, and the gauges of the rest.
#[derive(Default)]
pub(super) struct Shares {
    own: Mutex<HashSet<Arc<str>>>,
    gauges: Mutex<HashMap<Key, Shared>>,
}

impl Shares {
    /// Whether the queue has series of its own; it keeps them until it is removed.
    pub(super) fn is_own(&self, queue: &Arc<str>) -> bool {
        let mut own = self.own.lock();
        own.contains(queue) || own.len() < OWN && own.insert(queue.clone())
    }

    /// The label of a queue that has one already, or has none of its own.
    pub(super) fn label<'a>(&self, queue: &'a str) -> &'a str {
        let own = self.own.lock();
        if own.contains(queue) || own.len() < OWN { queue } else { OTHERS }
    }

    /// The value of one of the queues that share the label.
    pub(super) fn set<F: GaugeFamily>(
        &self,
        family: &F,
        state: Option<&'static str>,
        queue: &Arc<str>,
        (together, value): (Together, f64),
    ) {
        let mut gauges = self.gauges.lock();
        let shared = gauges.entry(key(family, state)).or_insert_with(|| {
            let family = family.clone();
            let show = move |value: Option<f64>| {
                let labels = labels(OTHERS, state);
                match value {
                    Some(value) => family.show(&labels, value),
                    None => family.remove(&labels),
                }
            };
            Shared { together, values: HashMap::new(), show: Box::new(show) }
        });
        shared.values.insert(queue.clone(), value);
    }

    /// Nothing is known of this gauge of the queue.
    pub(super) fn clear<F: GaugeFamily>(&self, family: &F, state: Option<&'static str>, queue: &str) {
        if let Some(shared) = self.gauges.lock().get_mut(&key(family, state)) {
            shared.values.remove(queue);
        }
    }

    /// These queues are gone: others may have series of their own instead.
    pub(super) fn forget(&self, queues: &HashSet<&str>) {
        self.own.lock().retain(|queue| !queues.contains(&**queue));
        self.gauges.lock().values_mut().for_each(|shared| shared.values.retain(|queue, _| !queues.contains(&**queue)));
    }

    /// Shows the gauges of the rest.
    pub(super) fn show(&self) {
        self.gauges.lock().values().for_each(Shared::show);
    }
}

fn key<F: GaugeFamily>(family: &F, state: Option<&'static str>) -> Key {
    (Collector::desc(family).first().map_or(0, |desc| desc.id), state)
}

/// The values of a family's labels.
pub(super) fn labels<'a>(queue: &'a str, state: Option<&'a str>) -> Vec<&'a str> {
    std::iter::once(queue).chain(state).collect()
}
