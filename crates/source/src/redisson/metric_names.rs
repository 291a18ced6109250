//! The names of Redisson's own gauges and log lines.

use delaybridge_core::metric::{Definition, SourceTerms};

/// The names of what Redisson's queues have and others have not.
pub static METRIC_NAMES: SourceTerms = SourceTerms {
    leftovers: Definition::of_queues(
        "delaybridge_redisson_ghosts",
        "entries",
        "Entries of Redisson's list with claimed elements; the sweep removes them. Same for all daemons: max by (queue).",
    ),
    oldest_leftover: Definition::of_queues(
        "delaybridge_redisson_oldest_ghost_age_seconds",
        "seconds",
        "Upper bound for the age of the oldest ghost; 0 when there is none. Same for all daemons: max by (queue).",
    ),
    orphans: Definition::of_queues(
        "delaybridge_redisson_orphans",
        "entries",
        "Entries of Redisson's list in no sorted set and no recorded claim. They are kept. Same for all daemons: max by (queue).",
    ),
    orphans_found: "entries of Redisson's list are in no sorted set, and no claim recorded them: they are kept, because they \
                    may be the last copies of elements whose sorted set was deleted or evicted",
    unreadable: Definition::of_queues(
        "delaybridge_redisson_unreadable_entries",
        "entries",
        "Overdue entries without a Redisson layout, which mode: rescue skips. Redisson's own clients cannot get past \
         them.",
    ),
    unreadable_found: "overdue entries have no Redisson layout: they are kept; Redisson clients cannot get past them",
};
