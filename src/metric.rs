//! What a metric is called and what it means: plain data, for telemetry, which registers and documents it, and for sources,
//! which bring their own.

/// The name and the meaning of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    /// Full name, with the prefix and the unit.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// Label names, in the order in which values are bound.
    pub labels: &'static [&'static str],
    /// Upper bounds of the buckets; empty unless it is a histogram.
    pub buckets: &'static [f64],
    /// One or two sentences.
    pub help: &'static str,
}

impl Definition {
    /// A gauge of each queue.
    pub const fn of_queues(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Definition { name, kind: "gauge", unit, labels: &["queue"], buckets: &[], help }
    }
}

/// What a kind of source calls the things that only it has: the names of its gauges, and its lines in the log.
#[derive(Debug, PartialEq)]
pub struct SourceTerms {
    /// What claims left behind, until upkeep removes it.
    pub leftovers: Definition,
    /// Age of the oldest of them.
    pub oldest_leftover: Definition,
    /// Entries without an element that no claim recorded.
    pub orphans: Definition,
    /// The log line when there are more of them than before.
    pub orphans_found: &'static str,
    /// Entries that the source's own clients could not read, met by a rescue.
    pub unreadable: Definition,
    /// The log line when there are more of them than before.
    pub unreadable_found: &'static str,
}

impl SourceTerms {
    /// Its metrics, in the order of the documentation.
    pub fn metrics(&self) -> [Definition; 4] {
        [self.leftovers, self.oldest_leftover, self.orphans, self.unreadable]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Definition, SourceTerms};

    /// The terms of a source that is none.
    pub(crate) static TERMS: SourceTerms = SourceTerms {
        leftovers: Definition::of_queues("delaybridge_test_leftovers", "entries", "Leftovers."),
        oldest_leftover: Definition::of_queues("delaybridge_test_oldest_leftover_age_seconds", "seconds", "Their age."),
        orphans: Definition::of_queues("delaybridge_test_orphans", "entries", "Orphans."),
        orphans_found: "entries without an element are kept",
        unreadable: Definition::of_queues("delaybridge_test_unreadable_entries", "entries", "Unreadable entries."),
        unreadable_found: "unreadable entries are kept",
    };
}
