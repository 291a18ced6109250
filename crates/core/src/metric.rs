//! The names and the meaning of metrics: plain data for telemetry, which registers and documents them, and for sources,
//! which add their own.

/// The name and the meaning of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    /// The full name, with prefix and unit.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// Label names, in the order in which values are bound.
    pub labels: &'static [&'static str],
    /// Upper bounds of the buckets; empty except for a histogram.
    pub buckets: &'static [f64],
    /// The help text: one or two sentences.
    pub help: &'static str,
}

impl Definition {
    /// Defines a gauge with the label `queue`.
    pub const fn of_queues(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Definition { name, kind: "gauge", unit, labels: &["queue"], buckets: &[], help }
    }
}

/// The terms of a kind of source: the names of its own gauges, and the words of its log lines.
#[derive(Debug, PartialEq)]
pub struct SourceTerms {
    /// The gauge of entries that claims left behind, until upkeep removes them.
    pub leftovers: Definition,
    /// The gauge of the age of the oldest leftover.
    pub oldest_leftover: Definition,
    /// The gauge of entries without an element that no claim recorded.
    pub orphans: Definition,
    /// The log line for an increase of orphans.
    pub orphans_found: &'static str,
    /// The gauge of entries that the source's own clients could not read, met by a rescue.
    pub unreadable: Definition,
    /// The log line for an increase of unreadable entries.
    pub unreadable_found: &'static str,
}

impl SourceTerms {
    /// Returns all metrics of the source, in the order of the documentation.
    pub fn metrics(&self) -> [Definition; 4] {
        [self.leftovers, self.oldest_leftover, self.orphans, self.unreadable]
    }
}

/// Terms for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::{Definition, SourceTerms};

    /// The terms of a source for tests.
    pub static TERMS: SourceTerms = SourceTerms {
        leftovers: Definition::of_queues("delaybridge_test_leftovers", "entries", "Leftovers."),
        oldest_leftover: Definition::of_queues("delaybridge_test_oldest_leftover_age_seconds", "seconds", "Their age."),
        orphans: Definition::of_queues("delaybridge_test_orphans", "entries", "Orphans."),
        orphans_found: "entries without an element are kept",
        unreadable: Definition::of_queues("delaybridge_test_unreadable_entries", "entries", "Unreadable entries."),
        unreadable_found: "unreadable entries are kept",
    };
}
