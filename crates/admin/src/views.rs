//! The views of the daemon: queues with what this daemon knows of them, topics, sinks.

use std::convert::Infallible;
use std::sync::Arc;

use super::Admin;
use super::queue_list::queue_list;
use delaybridge_ops::Error;
use delaybridge_ops::jobs::no_jobs;
use delaybridge_ops::operations::{ListQueues, ListTopics, TopicPage};
use delaybridge_ops::overview::{
    ClockSkew, DestinationTrouble, Here, Hold, InputRow, Overview, SinkList, SinkRow, TopicInput, overview_of,
};
use delaybridge_telemetry::events::inputs::InputCounts;
use delaybridge_telemetry::recent::Lately;
use delaybridge_telemetry::status::{self, InputLook, Look};

impl Admin {
    /// Returns a page of queues, at most a second old.
    pub(super) async fn overview(&self, which: &ListQueues) -> Arc<Overview> {
        let read = async |which: &ListQueues| {
            let session = self.session();
            let look = self.status.look();
            let lately = self.recent.lately();
            let (wanted, fit) = queue_list(&session.config, which, &self.sinks(), &look, &lately);
            let mut page = overview_of(&session, wanted, which.after.as_deref(), which.limit).await;
            let clock =
                |(redis, ahead): &(Arc<str>, f64)| ClockSkew { redis: redis.to_string(), ahead_seconds: ahead.round() };
            page.clocks = look.clocks.iter().map(clock).collect();
            page.fit = fit;
            page.inputs = self.inputs(&look);
            for row in &mut page.queues {
                row.add(self.here_of(&row.state.queue, &look, lately.get(row.state.queue.as_str()).copied()));
            }
            Ok(page)
        };
        let page: Result<_, Infallible> = self.cache.page(|cache| &cache.queues, which.clone(), read).await;
        page.unwrap_or_else(|never| match never {})
    }

    /// Returns a page of topics, at most a second old.
    pub(super) async fn topic_page(&self, which: &ListTopics) -> Result<Arc<TopicPage>, Error> {
        let read = async |which: &ListTopics| which.read(&self.session().jobs().ok_or_else(no_jobs)?).await;
        self.cache.page(|cache| &cache.topics, which.clone(), read).await
    }

    /// The sinks, as the board has them.
    pub fn sinks(&self) -> SinkList {
        let look = self.status.look();
        let session = self.session();
        let trouble = |found: &status::Trouble| DestinationTrouble {
            destination: found.destination.clone(),
            count: found.count,
            reason: found.reason.clone(),
            seconds: found.seconds,
        };
        let of_sink = |spec: &Arc<delaybridge_sink::SinkSpec>| {
            let seen = look.sinks.get(&spec.name);
            let delivers = |queue: &&Arc<delaybridge_model::QueueSpec>| queue.to.iter().any(|to| to.sink == spec.name);
            let of = |found: &&status::Trouble| *found.sink == *spec.name;
            SinkRow {
                sink: spec.name.to_string(),
                kind: spec.kind().to_owned(),
                state: seen.map_or("unknown", |seen| seen.state).to_owned(),
                reason: seen.and_then(|seen| seen.reason.clone()),
                seconds: seen.map_or(0, |seen| seen.seconds),
                last_problem: seen.and_then(|seen| seen.last_problem.as_ref()).map(|(text, _)| text.clone()),
                last_problem_seconds: seen.and_then(|seen| seen.last_problem.as_ref()).map(|(_, ago)| *ago),
                queues: session.config.queues.iter().filter(delivers).count(),
                max_rate: spec.max_rate,
                destinations: look.destinations.iter().filter(of).map(trouble).collect(),
                held_queues: look.held_by_sink.get(&*spec.name).map_or(0, |held| held.queues),
                hold: look
                    .held_by_sink
                    .get(&*spec.name)
                    .map(|held| Hold { reason: held.reason.clone(), seconds: held.seconds }),
            }
        };
        let mut sinks: Vec<_> = session.config.sinks.iter().map(of_sink).collect();
        sinks.sort_by(|a, b| a.sink.cmp(&b.sink));
        SinkList { sinks }
    }
}

impl Admin {
    /// Returns the inputs whose jobs no queue delivers, in the order of the file.
    pub fn inputs(&self, look: &Look) -> Vec<TopicInput> {
        let session = self.session();
        let has_queue = |name: &str| session.config.queues.iter().any(|queue| *queue.id == *name);
        let free = session.config.inputs.iter().filter(|spec| !has_queue(&spec.name));
        let shown = free.filter_map(|spec| {
            let input = input(look.inputs.get(&spec.name)?, &self.metrics.input(&spec.name));
            Some(TopicInput { name: spec.name.to_string(), topic: spec.topic.to_string(), input })
        });
        shown.collect()
    }

    /// Returns the state and the recent work of this daemon at a queue.
    pub(super) fn here_of(&self, queue: &str, look: &Look, lately: Option<Lately>) -> Here {
        let input = look.inputs.get(queue).map(|seen| input(seen, &self.metrics.input(queue)));
        Here { input, ..here(queue, look, lately) }
    }
}

/// Returns an input, as the board and the counters have it.
fn input(seen: &InputLook, counts: &InputCounts) -> InputRow {
    let InputCounts { scheduled, duplicates, refused, lag, .. } = *counts;
    InputRow {
        state: seen.state.to_owned(),
        reason: seen.reason.clone(),
        seconds: seen.seconds,
        received: scheduled + duplicates + refused,
        scheduled,
        duplicates,
        refused,
        lag,
    }
}

/// Returns the work of this daemon at a queue.
fn here(queue: &str, look: &Look, lately: Option<Lately>) -> Here {
    let held = look.held.get(queue).map(|(reason, seconds)| Hold { reason: reason.clone(), seconds: *seconds });
    let lately = lately.unwrap_or_default();
    let ms = |seconds: f64| (seconds * 10_000.0).round() / 10.0;
    let rate = |rate: f64| (rate * 100.0).round() / 100.0;
    Here {
        held,
        delivered_per_second: rate(lately.delivered_per_second),
        failed_per_second: rate(lately.failed_per_second),
        lateness_p50_ms: lately.late_p50.map(ms),
        lateness_p99_ms: lately.late_p99.map(ms),
        in_flight_oldest_due_age_ms: (lately.oldest_in_flight * 1_000.0) as u64,
        input: None,
    }
}
