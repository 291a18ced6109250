//! The list of queues in the order and by the filter of a page, however many there are: from what this daemon last saw of them, so that
//! only those on the page are read from Redis. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use delaybridge_model::{Config, QueueSpec};
use delaybridge_ops::operations::ListQueues;
use delaybridge_ops::overview::SinkList;
use delaybridge_ops::queue_order::QueueFilter;
use delaybridge_ops::trouble::{Standing, arrange};
use delaybridge_telemetry::recent::Lately;
use delaybridge_telemetry::status::Look;

/// Numbers of queues by filter, in the order of [`QueueFilter::ALL`].
pub type Fit = [usize; QueueFilter::ALL.len()];

/// The queues of a list, and how many there would be by each filter.
pub fn queue_list(
    config: &Config,
    which: &ListQueues,
    sinks: &SinkList,
    look: &Look,
    lately: &HashMap<Arc<str>, Lately>,
) -> (Vec<Arc<QueueSpec>>, Fit) {
    let mut all: Vec<(Arc<QueueSpec>, Standing)> = which
        .named(&config.queues)
        .map(|spec| (spec.clone(), standing(spec, sinks, look, lately.get(&spec.id))))
        .collect();
    let fit = QueueFilter::ALL.map(|filter| all.iter().filter(|(_, standing)| filter.takes(standing)).count());
    all.retain(|(_, standing)| which.show.takes(standing));
    arrange(&mut all, which.sort, |(spec, standing)| (&spec.id, *standing));
    (all.into_iter().map(|(spec, _)| spec).collect(), fit)
}

/// Returns the standing of a queue as this daemon last saw it.
fn standing(spec: &QueueSpec, sinks: &SinkList, look: &Look, lately: Option<&Lately>) -> Standing {
    let lately = lately.copied().unwrap_or_default();
    let bad = |name: &str| sinks.sinks.iter().any(|sink| *sink.sink == *name && sink.is_in_trouble());
    Standing {
        held: look.held.contains_key(&spec.id),
        sink: spec.to.iter().any(|to| bad(&to.sink)),
        input: look.inputs.get(&spec.id).is_some_and(|input| !matches!(input.state, "up" | "unknown")),
        paused: look.paused.contains(&spec.id),
        overdue_ms: lately.look.overdue_ms,
        due: lately.look.due,
        absurd: lately.look.absurd,
        dead: lately.look.dead,
        delivered_per_second: lately.delivered_per_second,
        failed_per_second: lately.failed_per_second,
    }
}
