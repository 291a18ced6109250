//! The choice of queues with series of their own: the first [`OWN`] that have anything to show. The others share one
//! label, so that memory and the size of a scrape are bounded, however many queues there are.
//!
//! The counters and histograms of the others add up by themselves. A gauge is a state, so the value of each queue is
//! kept here, and a scrape shows the aggregate.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{GaugeVec, IntGaugeVec};

use crate::family::Family;

/// Maximum number of queues with series of their own.
pub const OWN: usize = 1_000;
/// The label of the others. No queue has this name, because ids contain no spaces.
pub const OTHERS: &str = "other queues";

/// The aggregation of a gauge over several queues.
#[derive(Debug, Clone, Copy)]
pub(super) enum Together {
    Sum,
    Max,
    /// The minimum of the values other than 0, which means none.
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

/// A family of gauges, of integers or floats.
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

/// The family's number in the registry, and the label after the queue.
type Key = (u64, Option<&'static str>);

/// The value of a queue that has none. No gauge is ever set to it.
const NONE: f64 = f64::NAN;

/// One gauge of all queues that share the label.
struct Shared {
    together: Together,
    /// By the places of the queues, up to the last that ever had one. A map with the queues' names in each gauge takes five times as much.
    values: Vec<f64>,
    /// Shows the value; `None` removes the series.
    show: Box<dyn Fn(Option<f64>) + Send + Sync>,
}

impl Shared {
    fn set(&mut self, place: usize, value: f64) {
        if self.values.len() <= place {
            self.values.resize(place + 1, NONE);
        }
        self.values[place] = value;
    }

    fn clear(&mut self, place: usize) {
        if let Some(value) = self.values.get_mut(place) {
            *value = NONE;
        }
    }

    fn show(&self) {
        let mut values = self.values.iter().copied().filter(|value| !value.is_nan()).peekable();
        let any = values.peek().is_some();
        (self.show)(any.then(|| self.together.of(values)));
    }
}

/// The gauges of the queues that share the label.
#[derive(Default)]
struct SharedGauges {
    /// The place of each queue in the values of every gauge.
    places: HashMap<Arc<str>, usize>,
    /// The places of queues that were removed.
    free: Vec<usize>,
    gauges: HashMap<Key, Shared>,
}

impl SharedGauges {
    /// Finds the place of a queue; one that has none gets a free one.
    fn place(&mut self, queue: &Arc<str>) -> usize {
        if let Some(place) = self.places.get(queue) {
            return *place;
        }
        // Each place belongs to a queue or is free.
        let place = self.free.pop().unwrap_or(self.places.len());
        self.places.insert(queue.clone(), place);
        place
    }

    fn forget(&mut self, queue: &str) {
        let Some(place) = self.places.remove(queue) else { return };
        self.gauges.values_mut().for_each(|shared| shared.clear(place));
        self.free.push(place);
    }
}

/// The series that were assigned to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assigned {
    /// Whether the series are its own.
    pub(super) is_own: bool,
    /// Whether the label has no series yet.
    pub(super) is_new: bool,
}

/// The labels that have series.
#[derive(Default)]
struct Labels {
    own: HashSet<Arc<str>>,
    /// Whether any queue shares its label.
    has_others: bool,
}

/// The queues with series of their own, and the gauges of the others.
#[derive(Default)]
pub(super) struct Shares {
    labels: Mutex<Labels>,
    others: Mutex<SharedGauges>,
}

impl Shares {
    /// Assigns series of its own to the queue, which it keeps until it is removed, or the shared ones if there is no room.
    pub(super) fn assign(&self, queue: &Arc<str>) -> Assigned {
        let mut labels = self.labels.lock();
        if labels.own.contains(queue) {
            Assigned { is_own: true, is_new: false }
        } else if labels.own.len() < OWN {
            labels.own.insert(queue.clone());
            Assigned { is_own: true, is_new: true }
        } else {
            Assigned { is_own: false, is_new: !std::mem::replace(&mut labels.has_others, true) }
        }
    }

    /// Returns the label of a queue, without assigning series to it.
    pub(super) fn label<'a>(&self, queue: &'a str) -> &'a str {
        let own = &self.labels.lock().own;
        if own.contains(queue) || own.len() < OWN { queue } else { OTHERS }
    }

    /// Sets the value of one of the queues that share the label.
    pub(super) fn set<F: GaugeFamily>(
        &self,
        family: &F,
        state: Option<&'static str>,
        queue: &Arc<str>,
        (together, value): (Together, f64),
    ) {
        let mut others = self.others.lock();
        let place = others.place(queue);
        let shared = others.gauges.entry(key(family, state)).or_insert_with(|| {
            let family = family.clone();
            let show = move |value: Option<f64>| {
                let labels = labels(OTHERS, state);
                match value {
                    Some(value) => family.show(&labels, value),
                    None => family.remove(&labels),
                }
            };
            Shared { together, values: Vec::new(), show: Box::new(show) }
        });
        shared.set(place, value);
    }

    /// Removes the value of one of the queues that share the label.
    pub(super) fn clear<F: GaugeFamily>(&self, family: &F, state: Option<&'static str>, queue: &str) {
        let mut others = self.others.lock();
        let Some(place) = others.places.get(queue).copied() else { return };
        if let Some(shared) = others.gauges.get_mut(&key(family, state)) {
            shared.clear(place);
        }
    }

    /// Removes these queues, so that others may have series of their own instead.
    pub(super) fn forget(&self, queues: &HashSet<&str>) {
        self.labels.lock().own.retain(|queue| !queues.contains(&**queue));
        let mut others = self.others.lock();
        queues.iter().for_each(|queue| others.forget(queue));
    }

    /// Shows the gauges of the others.
    pub(super) fn show(&self) {
        self.others.lock().gauges.values().for_each(Shared::show);
    }
}

fn key<F: GaugeFamily>(family: &F, state: Option<&'static str>) -> Key {
    (Collector::desc(family).first().map_or(0, |desc| desc.id), state)
}

/// Returns the values of a family's labels.
pub(super) fn labels<'a>(queue: &'a str, state: Option<&'a str>) -> Vec<&'a str> {
    std::iter::once(queue).chain(state).collect()
}
