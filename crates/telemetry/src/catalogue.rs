//! The table of all metrics: names, labels and help texts are defined here and nowhere else.
//!
//! The registered families and the page `docs/metrics.md` are generated from this table, so they cannot differ. It does
//! not depend on the code that counts.

use std::collections::HashSet;
use std::fmt::Write as _;

use prometheus::{CounterVec, GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Registry};

use super::family::Family;
use super::labels::DeadReason;
use super::metrics::shares::OWN;
pub use delaybridge_core::metric::{Definition, SourceTerms};

/// Buckets from the due time to the acknowledgement: 1 ms is the best that polling can reach, an hour is an outage.
pub(super) const LATENESS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];
/// Buckets of a delivery: from a local Redis up to the longest reasonable time-out.
const ACKS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Buckets of a script: 5 ms is the rule for small elements, 1 s is a batch of the largest ones.
const SCRIPTS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

/// Buckets of a request to the job queue: from an answer of a local Redis up to a long poll.
const REQUESTS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Appends the common end of the help of a gauge that every daemon on a queue reads from the same keys.
macro_rules! shared {
    ($help:literal) => {
        concat!($help, " Same for all daemons: max by (queue).")
    };
}

macro_rules! catalogue {
    ($($field:ident: $type:ty, $name:literal, $unit:literal, $labels:expr, $buckets:expr, $help:expr;)*) => {
        /// All metrics, in the order of the documentation.
        pub const CATALOGUE: &[Definition] = &[$(Definition {
            name: $name, kind: <$type as Family>::KIND, unit: $unit, labels: &$labels, buckets: $buckets, help: $help,
        }),*];

        /// The registered families. A series is created when its labels are bound.
        pub(super) struct Families { $(pub(super) $field: $type,)* }

        impl Families {
            pub(super) fn register(registry: &Registry) -> prometheus::Result<Families> {
                let mut definitions = CATALOGUE.iter();
                Ok(Families { $($field: add::<$type>(registry, definitions.next())?,)* })
            }

            /// Removes every series with one of these values of the label.
            pub(super) fn forget(&self, label: &str, values: &HashSet<&str>) {
                let mut definitions = CATALOGUE.iter();
                $(forget(&self.$field, definitions.next(), label, values);)*
            }
        }
    };
}

impl Families {
    /// Creates the counters of a queue that the alerts of `deploy/prometheus/rules.yaml` need. Without those of stalls:
    /// ten for each queue, which only a defect counts.
    pub(super) fn begin_queue(&self, queue: &str) {
        let of_queue = [
            &self.delivered,
            &self.possible_duplicates,
            &self.leases_expired,
            &self.dead_letters_trimmed,
            &self.panics,
        ];
        for family in of_queue {
            family.with_label_values(&[queue]).inc_by(0);
        }
        for reason in DeadReason::ALL {
            self.dead_lettered.with_label_values(&[queue, reason.as_str()]).inc_by(0);
        }
    }
}

/// Removes the series of a family with one of these values of the label.
pub(super) fn forget<F: Family>(family: &F, definition: Option<&Definition>, label: &str, values: &HashSet<&str>) {
    let Some(definition) = definition.filter(|definition| definition.labels.contains(&label)) else { return };
    for metric in family.collect().iter().flat_map(|family| family.get_metric()) {
        let value = |name: &str| metric.get_label().iter().find(|pair| pair.name() == name).map(|pair| pair.value());
        if value(label).is_some_and(|found| values.contains(found)) {
            let all: Vec<_> = definition.labels.iter().map(|name| value(name).unwrap_or_default()).collect();
            family.remove(&all);
        }
    }
}

fn add<F: Family>(registry: &Registry, definition: Option<&Definition>) -> prometheus::Result<F> {
    let definition = definition.ok_or_else(|| prometheus::Error::Msg("the catalogue is too short".into()))?;
    let family = F::build(definition)?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

catalogue! {
    messages: IntGaugeVec, "delaybridge_queue_messages", "elements", ["queue", "state"], &[],
        shared!("Elements by state; each is in exactly one. In flight is a lower bound above 1,000 claims.");
    oldest_due_age: GaugeVec, "delaybridge_queue_oldest_due_age_seconds", "seconds", ["queue"], &[],
        "Age of the oldest due element since its due time: unclaimed, in flight, or waiting for a retry; 0 when nothing is due. A daemon knows only its own in flight: max by (queue).";
    oldest_due_age_by_state: GaugeVec, "delaybridge_queue_oldest_due_age_by_state_seconds", "seconds", ["queue", "state"], &[],
        "The same by state; of retries, those with the next attempts count. Max by (queue, state).";
    next_due: GaugeVec, "delaybridge_queue_next_due_timestamp_seconds", "seconds since the epoch", ["queue"], &[],
        shared!("Due time of the next element; 0 when nothing is scheduled.");
    due_within: IntGaugeVec, "delaybridge_queue_due_within", "elements", ["queue", "horizon"], &[],
        shared!("Elements that fall due within the horizon; a longer horizon includes the shorter ones.");
    last_due: GaugeVec, "delaybridge_queue_last_due_timestamp_seconds", "seconds since the epoch", ["queue"], &[],
        shared!("Due time of the last element, exact to a second or 0.1 % of the time until then; 0 when nothing is scheduled.");
    absurd_due: IntGaugeVec, "delaybridge_queue_absurd_due", "elements", ["queue"], &[],
        shared!("Scheduled elements due before 2001 or more than a year ahead: check the unit (seconds or milliseconds). Absent until there was one.");
    expires: GaugeVec, "delaybridge_queue_expires_seconds", "seconds", ["queue"], &[],
        shared!("Time until Redis deletes a key of the queue's source with its elements, because another program set EXPIRE. Absent otherwise.");
    forecast_lateness: GaugeVec, "delaybridge_queue_forecast_lateness_seconds", "seconds", ["queue"], &[],
        "Greatest lateness to expect within the next hour, at this daemon's highest rate of the last day while it could not keep up, at most `max_rate`. Absent without such a rate. Of several daemons take min by (queue); together they are faster.";
    lateness: HistogramVec, "delaybridge_delivery_lateness_seconds", "seconds", ["queue", "sink"], LATENESS,
        "Time from the due time to the acknowledgement of delivered elements: alert on it. Elements of the ready list have no due time and do not count.";
    attempts: IntCounterVec, "delaybridge_delivery_attempts_total", "attempts", ["queue", "sink", "class"], &[],
        "Delivery attempts, by the class of the sink's answer; class ok is a success.";
    sink_errors: IntCounterVec, "delaybridge_sink_errors_total", "errors", ["sink", "class", "code"], &[],
        "Failed deliveries, by the class and the code of the sink's answer.";
    claimed: IntCounterVec, "delaybridge_claimed_messages_total", "elements", ["queue", "from"], &[],
        "Claimed elements, by their place before: due in the sorted set, on the ready list, waiting for a retry, or under an expired lease.";
    recovered: IntCounterVec, "delaybridge_recovered_messages_total", "elements", ["queue"], &[],
        "Elements of claims with a lost reply that were found again.";
    returned: IntCounterVec, "delaybridge_returned_messages_total", "elements", ["queue"], &[],
        "Settled elements that were in their claim again after Redis had lost writes. They are delivered again, as attempt 2 or later.";
    missing: IntCounterVec, "delaybridge_missing_messages_total", "elements", ["queue"], &[],
        "Elements in flight that were missing from their claim after Redis had lost writes. The log has their ids.";
    delivered: IntCounterVec, "delaybridge_delivered_messages_total", "elements", ["queue"], &[],
        "Elements that every sink has confirmed and that have left Redis.";
    dead_lettered: IntCounterVec, "delaybridge_dead_lettered_messages_total", "elements", ["queue", "reason"], &[],
        "Elements stored as dead letters, by reason.";
    dead_letters_forwarded: IntCounterVec, "delaybridge_dead_letters_forwarded_total", "dead letters", ["queue", "sink", "class"], &[],
        "Dead letters sent to the sink of dead_letter, by the class of its answer; after class ok they leave the stream.";
    operated: IntCounterVec, "delaybridge_operator_messages_total", "elements", ["queue", "operation"], &[],
        "Elements that operators have killed, cancelled, purged or redriven over the admin API and the page of this daemon. Commands without --daemon work on Redis and are not counted here; `delaybridge audit` lists both.";
    released: IntCounterVec, "delaybridge_released_messages_total", "elements", ["queue", "reason"], &[],
        "Elements released to Redis, without a counted attempt.";
    skipped: IntCounterVec, "delaybridge_skipped_messages_total", "elements", ["queue"], &[],
        "Elements for which no `when` holds; dead letters or removed, by `on_skipped`.";
    headers_left_out: IntCounterVec, "delaybridge_headers_left_out_total", "headers", ["queue", "sink", "reason"], &[],
        "Headers of inputs' messages that their destination did not get, at each attempt: control would steer it, or has a name of the sink's own; unfit cannot be carried; rule does not pass headers_from_message.";
    audited: IntCounterVec, "delaybridge_audit_records_total", "records", ["queue", "fate"], &[],
        "Records confirmed by the sink of `audit`, by the element's fate.";
    without_body: IntCounterVec, "delaybridge_jobs_without_body_total", "jobs", ["queue"], &[],
        "Due jobs of a job pool without a body: deleted by their users, not delivered.";
    put_back: IntCounterVec, "delaybridge_jobs_put_back_total", "jobs", ["queue"], &[],
        "Due jobs of a job pool that are due later by their own record, and went back to a bucket.";
    ids_by_hash: IntCounterVec, "delaybridge_ids_by_hash_total", "elements", ["queue"], &[],
        "Elements of a plain sorted set without a text for the template of `id`: their id is a hash.";
    possible_duplicates: IntCounterVec, "delaybridge_possible_duplicates_total", "elements", ["queue"], &[],
        "Retried deliveries that the sink may have accepted before. With expired leases, an upper bound for elements that arrive more than once.";
    duplicates_avoided: IntCounterVec, "delaybridge_duplicates_avoided_total", "elements", ["sink"], &[],
        "Elements that their destination had already: found with `duplicates: look`, or recognised by NATS within a stream's duplicate_window.";
    lookups: IntCounterVec, "delaybridge_lookups_total", "elements", ["sink", "result"], &[],
        "Elements looked for at their destination before a resend (`duplicates: look`): there (not sent), absent, held (they wait: the destination could not be asked), or failed (sent: that lasted five minutes, or cannot end).";
    leases_expired: IntCounterVec, "delaybridge_leases_expired_total", "elements", ["queue"], &[],
        "Claimed elements with an expired lease: their daemon died or stalled.";
    stale_acks: IntCounterVec, "delaybridge_stale_acks_total", "elements", ["queue"], &[],
        "Refused verdicts: another claim had taken the element over.";
    expired_deliveries: IntCounterVec, "delaybridge_expired_deliveries_total", "elements", ["queue"], &[],
        "Attempts to deliver elements later than max_lateness, with on_expired: deliver.";
    dead_letters_trimmed: IntCounterVec, "delaybridge_dead_letters_trimmed_total", "elements", ["queue"], &[],
        "Dead letters dropped by the stream's max_len. They are lost.";
    unknown_acks: IntCounterVec, "delaybridge_unknown_acks_total", "elements", ["queue"], &[],
        "Verdicts with a lost answer and nothing left to settle after the lease: written before, or the element was taken over. They are in no other counter.";
    late_acks: IntCounterVec, "delaybridge_late_acks_total", "elements", ["queue"], &[],
        "Verdicts accepted after the end of the lease: no other claim had taken the element over.";
    stale_drops: IntCounterVec, "delaybridge_stale_drops_total", "elements", ["queue"], &[],
        "Elements not sent because their lease was nearly over; they come back after it.";
    panics: IntCounterVec, "delaybridge_panics_total", "panics", ["queue"], &[],
        "Panics during work on an element; the element is retried.";
    decode_errors: IntCounterVec, "delaybridge_decode_errors_total", "elements", ["queue", "codec"], &[],
        "Payloads that the queue's codec has refused.";
    wakeups: IntCounterVec, "delaybridge_wakeups_total", "wake-ups", ["queue", "reason"], &[],
        "Wake-ups of the claimer, by their cause.";
    stalls: IntCounterVec, "delaybridge_queue_stalls_total", "stalls", ["queue", "waits_for"], &[],
        "Times that nothing was claimed for long although elements were due and nothing was in the way, by what the claimer waited for. A defect: /livez fails until the next claim.";
    throttled: CounterVec, "delaybridge_throttled_seconds_total", "seconds", ["queue", "sink"], &[],
        "Time that elements waited for max_rate; sink is empty for the queue's own rate.";
    shadowed: IntCounterVec, "delaybridge_shadow_messages_total", "elements", ["queue", "fate"], &[],
        "Elements due in mode: shadow, by the outcome that delivery would have.";
    rescued: IntCounterVec, "delaybridge_rescued_messages_total", "elements", ["queue"], &[],
        "Overdue elements that mode: rescue has moved to the ready list.";
    unknown_entries: IntGaugeVec, "delaybridge_unknown_entries", "entries", ["queue"], &[],
        "Entries in a newer format, left for the newer daemon that wrote them.";
    unknown_claims: IntGaugeVec, "delaybridge_unknown_claims", "claims", ["queue"], &[],
        "Claims with expired leases and names of a newer format, left for the newer daemon that made them.";
    slot_migrations: IntCounterVec, "delaybridge_slot_migrations_total", "moves", ["queue"], &[],
        "Times that nothing could be claimed because the Redis Cluster moved the queue's slot. No attempt is counted.";
    queue_held: IntGaugeVec, "delaybridge_queue_held", "0 or 1", ["queue"], &[],
        "1 while this daemon claims nothing until a cause is fixed. /readyz has the reason.";
    queue_paused: IntGaugeVec, "delaybridge_queue_paused", "0 or 1", ["queue"], &[],
        "1 while the queue or a sink of it is paused: no daemon claims anything. Absent until the first pause. /readyz has who and why.";
    queue_active: IntGaugeVec, "delaybridge_queue_active", "0 or 1", ["queue"], &[],
        "For a queue with order: 1 at the daemon that delivers, 0 at one that waits to take over. Absent until the daemon has asked.";
    sink_up: IntGaugeVec, "delaybridge_sink_up", "0 or 1", ["sink"], &[],
        "1 while the sink takes elements or answers probes, else 0. Absent until it answered or failed once.";
    sink_blocked: IntGaugeVec, "delaybridge_sink_blocked", "0 or 1", ["sink"], &[],
        "1 while the sink says that it takes no more for now.";
    destinations_in_trouble: IntGaugeVec, "delaybridge_sink_destinations_in_trouble", "destinations", ["sink"], &[],
        "Destinations (topics, partitions, routing keys, lists, paths) that do not work; only their elements wait.";
    ack_duration: HistogramVec, "delaybridge_sink_ack_duration_seconds", "seconds", ["sink"], ACKS,
        "Time from the delivery to the sink to its answer.";
    script_duration: HistogramVec, "delaybridge_script_duration_seconds", "seconds", ["script"], SCRIPTS,
        "Time from the call of a script to its reply.";
    offered_overdue: HistogramVec, "delaybridge_offered_overdue_seconds", "seconds", ["queue"], LATENESS,
        "Least lateness of elements that were overdue when offered, by Redis's clock: the producer's clock is behind, or the offer took long. A clock ahead looks like a longer delay.";
    clock_skew: GaugeVec, "delaybridge_clock_skew_seconds", "seconds", ["redis"], &[],
        "Lead of this machine's clock over Redis's; negative if behind. Exact to half of a round trip. Producers beside a sidecar have the same clock.";
    jobs: IntGaugeVec, "delaybridge_jobs", "jobs", ["topic", "place"], &[],
        "Jobs of the job queue by place; each is in exactly one. Of 200 topics at most, those of the configuration first. Same for all daemons: max by (topic, place).";
    oldest_ready_age: GaugeVec, "delaybridge_jobs_oldest_ready_age_seconds", "seconds", ["topic"], &[],
        "Time since the first ready job became ready; 0 when none is. Same for all daemons: max by (topic).";
    jobs_ended: IntCounterVec, "delaybridge_jobs_ended_total", "jobs", ["topic", "how"], &[],
        "Jobs whose time to run, last try, time to live or time as a dead job ended, or that were too many dead. And jobs that this version could not read: they are dead, with their bytes.";
    job_operations: IntCounterVec, "delaybridge_jobs_operations_total", "jobs", ["topic", "operation"], &[],
        "Operations of this daemon on jobs: added, taken (handed out), finished, released, buried, deleted. Of 200 topics at most.";
    firings: IntCounterVec, "delaybridge_jobs_firings_total", "firings", ["topic", "outcome"], &[],
        "Firings of recurring jobs by this daemon: a job was added, or the firing was missed and its rule adds none.";
    unreadable_topics: IntGaugeVec, "delaybridge_jobs_unreadable_topics", "members", [], &[],
        "Members of delaybridge:jobs:topics that are no topic names, from another program. They are ignored.";
    input_messages: IntCounterVec, "delaybridge_input_messages_total", "messages", ["input", "result"], &[],
        "Messages of an input: scheduled in Redis, known already, or refused to the broker's dead letters; counted before they are settled at the broker. And records that Kafka removed before they were read (missed).";
    input_resets: IntCounterVec, "delaybridge_input_resets_total", "partitions", ["input", "reason"], &[],
        "Kafka partitions that an input does not continue after the last record: later ones are gone (gap), the offset is beyond the end, or the topic was made anew.";
    input_up: IntGaugeVec, "delaybridge_input_up", "0 or 1", ["input"], &[],
        "1 while an input takes messages; 0 while its broker is away, or Redis has no room for their jobs.";
    input_lag: IntGaugeVec, "delaybridge_input_lag_messages", "messages", ["input"], &[],
        "Messages that wait at an input's broker, as last seen: of an AMQP queue, or of all partitions of its Kafka topics. Same for all daemons: max by (input).";
    input_partition_lag: IntGaugeVec, "delaybridge_input_partition_lag_messages", "messages", ["input", "topic", "partition"], &[],
        "Records of a Kafka partition after the committed offset of the input's group, up to an open transaction. Of the first 1000 partitions, asked every 5 seconds. Same for all daemons: max by (input, topic, partition).";
    redis_up: IntGaugeVec, "delaybridge_redis_up", "0 or 1", ["redis"], &[],
        "1 while the Redis of the queues answers; of a cluster, while all masters in use do. The label is its name in the configuration, else default.";
    api_requests: IntCounterVec, "delaybridge_api_requests_total", "requests", ["route", "status"], &[],
        "Requests to the job queue's HTTP API and to the admin API (admin_...), by endpoint and status; the endpoint is none for an unknown path.";
    api_duration: HistogramVec, "delaybridge_api_request_duration_seconds", "seconds", ["route"], REQUESTS,
        "Time from the head of a request to its answer, with the wait of pop for a job.";
    api_connections: IntGaugeVec, "delaybridge_api_connections", "connections", [], &[],
        "Open connections to the job queue's HTTP API and to the admin API.";
    out_of_descriptors: IntCounterVec, "delaybridge_out_of_descriptors_total", "attempts", [], &[],
        "Connections that were not accepted or opened for lack of file descriptors of process or machine.";
    file_age: GaugeVec, "delaybridge_file_age_seconds", "seconds", ["file"], &[],
        "Time since a file that is read each second, by its key in the configuration, was last in use as it is. It grows while the file is unreadable, hangs or is wrong.";
    reload_successful: IntGaugeVec, "delaybridge_config_last_reload_successful", "0 or 1", [], &[],
        "0 if the last reload was refused and the previous configuration stays, else 1. /readyz has the reason.";
    reload_success_timestamp: GaugeVec, "delaybridge_config_last_reload_success_timestamp_seconds", "seconds since the epoch", [], &[],
        "Load time of the active configuration, by this machine's clock.";
    trace_spans: IntCounterVec, "delaybridge_trace_spans_total", "spans", ["outcome"], &[],
        "Spans of traced elements: sent to the collector, or dropped because it was away, too slow or refused them.";
    build_info: IntGaugeVec, "delaybridge_build_info", "1", ["version", "revision"], &[],
        "Always 1; the labels have the running version.";
}

/// The section about the series of configurations with thousands of queues.
const MANY: &str = "\
The memory of the metrics and the size of a scrape are bounded:

- Up to OWN queues have series of their own: the first with anything to show, until a reload removes the queue or the daemon
  restarts.
- The others share the label `queue=\"other queues\"`. Counters and histograms add up; gauges show the sum (messages, entries), the
  greatest (ages, 0 or 1) or the earliest (next due time).
- With more than OWN queues, empty queues from which nothing was ever claimed have no gauges.
- The gauges of 500 queues are read every 5 seconds, of 1000 every 10 seconds, of more at least once a minute, up to 12,000. Daemons with
  the same queues share the work: of 3, each reads the gauges of 500 queues every 15 seconds. After a start, and after Redis was away, a
  daemon first reads all of them.
- Of a queue at rest only the size is read while it does not change, for a tenth of the time until its first element is due and ten
  minutes at most: by that much what is due within the next hours can be behind.
- A queue with series of its own has one histogram of the lateness for each sink.

`delaybridge queues`, `top`, the page of operators and `/readyz` show every queue by its name. Daemons may choose different queues for
the label: above OWN used queues, add up within one daemon, not across daemons. Topics of the job queue are a label of 200 at most; the
counters of the rest are under `other topics`.
";

/// Returns all metrics: the catalogue, then those of these sources.
pub fn all(sources: &[&SourceTerms]) -> Vec<Definition> {
    CATALOGUE.iter().copied().chain(sources.iter().flat_map(|terms| terms.metrics())).collect()
}

/// Renders the reference page, `docs/metrics.md`, with the metrics of these sources.
pub fn reference(sources: &[&SourceTerms]) -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         <!-- Generated by a test from crates/telemetry/src/catalogue.rs; change it there. -->\n\n\
         `GET /metrics` answers in the text format of Prometheus, or of OpenMetrics 1.0 if `Accept` asks for it, and with gzip.\n\n\
         A series appears with its first value; only the counters of the alerts begin at 0 for each queue, so that `increase` sees the first dead letter (of more than 1,000 queues, with the first activity). Labels are names from the configuration or fixed words. Where a meaning says \"same for all daemons\", all read one value from Redis: aggregate with `max`.\n\n\
         | name | type | unit | labels | meaning |\n|---|---|---|---|---|\n",
    );
    for metric in all(sources) {
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        // Writing to a String cannot fail.
        let _ =
            writeln!(page, "| `{}` | {} | {} | {labels} | {} |", metric.name, metric.kind, metric.unit, metric.help);
    }
    page.push_str(
        "\nThe standard `process_*` metrics show CPU, memory, threads, file descriptors and start time.\n\n\
         ## Words used as labels\n\n",
    );
    for (label, words) in super::labels::documented() {
        let words = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(page, "- {label}: {words}");
    }
    page.push_str(&format!("\n## Many queues\n\n{}", MANY.replace("OWN", &OWN.to_string())));
    page.push_str("\n## Buckets\n\n");
    for metric in CATALOGUE.iter().filter(|metric| !metric.buckets.is_empty()) {
        let bounds = metric.buckets.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(page, "- `{}`: {bounds}", metric.name);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_that_dashboards_use() {
        let names: Vec<_> = CATALOGUE.iter().map(|metric| metric.name.trim_start_matches("delaybridge_")).collect();
        // A renamed metric breaks users' alerts: note it in the changelog before you change this list.
        let pinned = "queue_messages queue_oldest_due_age_seconds queue_oldest_due_age_by_state_seconds queue_next_due_timestamp_seconds \
             queue_due_within queue_last_due_timestamp_seconds queue_absurd_due queue_expires_seconds queue_forecast_lateness_seconds \
             delivery_lateness_seconds delivery_attempts_total sink_errors_total claimed_messages_total \
             recovered_messages_total returned_messages_total missing_messages_total delivered_messages_total dead_lettered_messages_total dead_letters_forwarded_total operator_messages_total released_messages_total skipped_messages_total headers_left_out_total audit_records_total jobs_without_body_total jobs_put_back_total ids_by_hash_total \
             possible_duplicates_total duplicates_avoided_total lookups_total leases_expired_total stale_acks_total expired_deliveries_total dead_letters_trimmed_total \
             unknown_acks_total late_acks_total stale_drops_total \
             panics_total decode_errors_total wakeups_total queue_stalls_total throttled_seconds_total \
             shadow_messages_total rescued_messages_total \
             unknown_entries unknown_claims slot_migrations_total queue_held queue_paused queue_active sink_up sink_blocked sink_destinations_in_trouble sink_ack_duration_seconds \
             script_duration_seconds offered_overdue_seconds clock_skew_seconds \
             jobs jobs_oldest_ready_age_seconds jobs_ended_total jobs_operations_total jobs_firings_total jobs_unreadable_topics \
             input_messages_total input_resets_total input_up input_lag_messages input_partition_lag_messages redis_up \
             api_requests_total api_request_duration_seconds api_connections out_of_descriptors_total file_age_seconds \
             config_last_reload_successful config_last_reload_success_timestamp_seconds trace_spans_total build_info";
        assert_eq!(names.join(" "), pinned);
    }

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for metric in CATALOGUE {
            assert!(metric.name.starts_with("delaybridge_"), "{}", metric.name);
            assert_eq!(metric.kind == "counter", metric.name.ends_with("_total"), "{}", metric.name);
            assert_eq!(metric.kind == "histogram", !metric.buckets.is_empty(), "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}
