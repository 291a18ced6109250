//! The rows of the dashboard, in the order of the questions during an incident.
//!
//! A panel names metrics of the catalogue, from which unit, description and filter labels are taken. An unknown name
//! panics, and a metric without a panel fails a test, so the two stay consistent.

use delaybridge_telemetry::catalogue::Definition;

use super::catalogue;

/// A heading with its panels.
pub struct Row {
    pub title: &'static str,
    pub panels: Vec<Panel>,
}

pub struct Panel {
    pub title: &'static str,
    pub description: String,
    /// The unit, with its name in Grafana.
    pub unit: &'static str,
    pub look: Look,
    pub queries: Vec<Query>,
}

/// The form of a panel.
#[derive(Clone, Copy, PartialEq)]
pub enum Look {
    /// One number, good or bad.
    Number(Good),
    /// Lines over time.
    Lines,
}

/// The range of good numbers.
#[derive(Clone, Copy, PartialEq)]
pub enum Good {
    /// Only zero.
    Zero,
    /// Up to this number.
    UpTo(u32),
    /// One or more.
    AtLeastOne,
}

/// A query to Prometheus.
pub struct Query {
    pub expr: String,
    pub legend: String,
}

/// The whole dashboard.
pub fn rows() -> Vec<Row> {
    let row = |title, panels| Row { title, panels };
    vec![
        row(
            "Is anything late or stuck?",
            vec![
                number("Daemons", "build_info", Good::AtLeastOne, "count({}) or vector(0)"),
                number("Daemons without Redis", "redis_up", Good::Zero, "count({} == 0) or vector(0)"),
                number("Reloads refused", "config_last_reload_successful", Good::Zero, "sum(1 - {}) or vector(0)"),
                number("Queues on hold", "queue_held", Good::Zero, "sum(max by (queue) ({})) or vector(0)"),
                number("Sinks down", "sink_up", Good::Zero, "count(min by (sink) ({}) == 0) or vector(0)"),
                number("Oldest due element", "queue_oldest_due_age_seconds", Good::UpTo(60), "max({})"),
                number("Dead letters", "queue_messages", Good::Zero, "sum(max by (queue) ({state=\"dead\"}))"),
                gauge("Oldest due element by queue", "queue_oldest_due_age_seconds", &["queue"]),
                gauge("Oldest due element by state", "queue_oldest_due_age_by_state_seconds", &["queue", "state"]),
                number("Stalled queues", "queue_stalls_total", Good::Zero, "sum(increase({}[1h])) or vector(0)"),
                gauge("Elements by queue and state", "queue_messages", &["queue", "state"]),
                lines("Time until the next element falls due", "queue_next_due_timestamp_seconds", "s", &["queue"])
                    .ask("clamp_min(max by (queue) ({} > 0) - time(), 0)", "{{queue}}"),
            ],
        ),
        row(
            "What is ahead?",
            vec![
                gauge("Elements that fall due within", "queue_due_within", &["queue", "horizon"]),
                lines("Lateness to expect within the hour", "queue_forecast_lateness_seconds", "s", &["queue"])
                    .ask("min by (queue) ({})", "{{queue}}"),
                lines("Time until the last element falls due", "queue_last_due_timestamp_seconds", "s", &["queue"])
                    .ask("clamp_min(max by (queue) ({} > 0) - time(), 0)", "{{queue}}"),
                rare("Due times that are hardly meant", "queue_absurd_due", &["queue"]),
                lines("Time until Redis deletes a key (0: never)", "queue_expires_seconds", "s", &["queue"])
                    .ask("min by (queue) ({}) or vector(0)", "{{queue}}"),
            ],
        ),
        row(
            "Lateness",
            vec![
                quantiles("Lateness by queue and sink", "delivery_lateness_seconds", &["queue", "sink"]),
                lines("Share of elements later than 5 s", "delivery_lateness_seconds", "percentunit", &["queue"])
                    // Prometheus 3 writes the bound as 5.0.
                    .ask(
                        "1 - sum by (queue) (rate({bucket,le=~\"5|5.0\"}[$__rate_interval])) \
                         / sum by (queue) (rate({count}[$__rate_interval]))",
                        "{{queue}}",
                    ),
                quantiles("Already overdue when offered", "offered_overdue_seconds", &["queue"]),
            ],
        ),
        row(
            "Throughput by stage",
            vec![
                rate("Claimed, by origin", "claimed_messages_total", &["from"]),
                rate("Delivery attempts", "delivery_attempts_total", &["class"]),
                rate("Delivered", "delivered_messages_total", &["queue"]),
                rate("Released, not counted", "released_messages_total", &["queue", "reason"]),
                rate("Skipped", "skipped_messages_total", &["queue"]),
                rate("Headers left out", "headers_left_out_total", &["sink", "reason"]),
                rate("Audit records", "audit_records_total", &["queue", "fate"]),
                rate("Jobs without a body", "jobs_without_body_total", &["queue"]),
                rate("Jobs put back", "jobs_put_back_total", &["queue"]),
                rate("Ids that are hashes", "ids_by_hash_total", &["queue"]),
                rate("Wake-ups of the claimer", "wakeups_total", &["reason"]),
                lines("Elements that wait for max_rate", "throttled_seconds_total", "short", &["queue", "sink"])
                    .ask("sum by (queue, sink) (rate({}[$__rate_interval])) or vector(0)", "{{queue}} {{sink}}"),
            ],
        ),
        row(
            "Outcomes by sink",
            vec![
                rate("Answers by sink", "delivery_attempts_total", &["sink", "class"]),
                rate("Failures by code", "sink_errors_total", &["sink", "class", "code"]),
                quantiles("Time to the answer", "sink_ack_duration_seconds", &["sink"]),
            ],
        ),
        row(
            "Holds and open breakers",
            vec![
                rare("Queue on hold", "queue_held", &["queue"]),
                rare("Queue paused", "queue_paused", &["queue"]),
                rare("Delivers in order", "queue_active", &["queue"]),
                rate("Slots on the move", "slot_migrations_total", &["queue"]),
                lines("Sink up", "sink_up", "short", &["sink"]).ask("min by (sink) ({})", "{{sink}}"),
                gauge("Sink full", "sink_blocked", &["sink"]),
                gauge("Destinations in trouble", "sink_destinations_in_trouble", &["sink"]),
            ],
        ),
        row(
            "Dead letters",
            vec![
                lines("Dead letters in the stream", "queue_messages", "short", &["queue"])
                    .ask("max by (queue) ({state=\"dead\"})", "{{queue}}"),
                total("New dead letters, by reason", "dead_lettered_messages_total", &["queue", "reason"]),
                total("Forwarded to a sink", "dead_letters_forwarded_total", &["queue", "sink", "class"]),
                total("Killed, cancelled, purged or redriven", "operator_messages_total", &["queue", "operation"]),
                total("Dropped by max_len", "dead_letters_trimmed_total", &["queue"]),
                total("Payloads that the codec refused", "decode_errors_total", &["queue", "codec"]),
                total("Delivered although expired", "expired_deliveries_total", &["queue"]),
            ],
        ),
        row(
            "Duplicates and leases",
            vec![
                total("Possible duplicates", "possible_duplicates_total", &["queue"]),
                total("Repeats that a sink recognised", "duplicates_avoided_total", &["sink"]),
                total("Looks before sending again", "lookups_total", &["sink", "result"]),
                total("Expired leases", "leases_expired_total", &["queue"]),
                total("Refused verdicts", "stale_acks_total", &["queue"]),
                total("Verdicts that may have been written", "unknown_acks_total", &["queue"]),
                total("Late verdicts, accepted", "late_acks_total", &["queue"]),
                total("Not sent, lease nearly over", "stale_drops_total", &["queue"]),
                total("Recovered after a lost reply", "recovered_messages_total", &["queue"]),
                total("Came back after Redis lost writes", "returned_messages_total", &["queue"]),
                total("Gone from Redis while in flight", "missing_messages_total", &["queue"]),
                total("Panics", "panics_total", &["queue"]),
            ],
        ),
        row(
            "Job queue",
            vec![
                gauge("Jobs by topic and place", "jobs", &["topic", "place"]),
                gauge("Oldest ready job", "jobs_oldest_ready_age_seconds", &["topic"]),
                total("Jobs whose time was over", "jobs_ended_total", &["topic", "how"]),
                rate("Jobs by operation", "jobs_operations_total", &["topic", "operation"]),
                total("Firings of recurring jobs", "jobs_firings_total", &["topic", "outcome"]),
                lines("Unreadable names of topics", "jobs_unreadable_topics", "short", &["instance"])
                    .ask("max by (instance) ({})", "{{instance}}"),
                rate("Requests by endpoint and status", "api_requests_total", &["route", "status"]),
                quantiles("Time to the answer, by endpoint", "api_request_duration_seconds", &["route"]),
                gauge("Connections to the API", "api_connections", &["instance"]),
            ],
        ),
        row(
            "Inputs",
            vec![
                rate("Messages by result", "input_messages_total", &["input", "result"]),
                total("Partitions read from another place", "input_resets_total", &["input", "reason"]),
                rare("Input takes messages", "input_up", &["input"]),
                rare("Waiting at the broker", "input_lag_messages", &["input"]),
                rare("Waiting, by partition", "input_partition_lag_messages", &["input", "topic", "partition"]),
            ],
        ),
        row(
            "Redis",
            vec![
                lines("Redis answers", "redis_up", "short", &["instance"])
                    .ask("min by (instance) ({})", "{{instance}}"),
                quantiles("Script times", "script_duration_seconds", &["script"]),
                lines("Script calls", "script_duration_seconds", "cps", &["script"])
                    .ask("sum by (script) (rate({count}[$__rate_interval]))", "{{script}}"),
                lines("Reconnects, by queue", "wakeups_total", "short", &["queue"])
                    .ask("sum by (queue) ({reason=\"reconnect\"}) or vector(0)", "{{queue}}"),
                lines("Clock ahead of Redis's", "clock_skew_seconds", "s", &["instance"])
                    .ask("max by (instance) ({})", "{{instance}}"),
                gauge("Ghosts in Redisson's list", "redisson_ghosts", &["queue"]),
                gauge("Oldest ghost", "redisson_oldest_ghost_age_seconds", &["queue"]),
                gauge("Orphans in Redisson's list", "redisson_orphans", &["queue"]),
                rare("Entries of a newer version", "unknown_entries", &["queue"]),
                rare("Claims with unreadable names", "unknown_claims", &["queue"]),
            ],
        ),
        row(
            "Memory and in flight",
            vec![
                lines("In flight", "queue_messages", "short", &["queue"])
                    .ask("max by (queue) ({state=\"in_flight\"})", "{{queue}}"),
                process("Memory", "bytes", "process_resident_memory_bytes", "Resident memory of each daemon."),
                process("CPU", "percentunit", "rate(process_cpu_seconds_total[$__rate_interval])", "Share of a core."),
                process("File descriptors", "short", "process_open_fds", "Open file descriptors of each daemon."),
                lines("Connections without a file descriptor", "out_of_descriptors_total", "cps", &[])
                    .ask("sum by (instance) (rate({}[$__rate_interval]))", "{{instance}}"),
                lines("Files that cannot be read again", "file_age_seconds", "s", &["file"])
                    .ask("max by (instance, file) ({}) or vector(0)", "{{instance}} {{file}}"),
                lines("Age of the configuration", "config_last_reload_success_timestamp_seconds", "s", &[])
                    .ask("time() - {}", "{{instance}}"),
                lines("Versions", "build_info", "short", &["version", "revision"])
                    .ask("count by (version, revision) ({})", "{{version}} {{revision}}"),
                rate("Spans to the collector of traces", "trace_spans_total", &["outcome"]),
            ],
        ),
        row(
            "Shadow and rescue",
            vec![
                rate("Outcomes in mode: shadow", "shadow_messages_total", &["queue", "fate"]),
                rate("Moved by mode: rescue", "rescued_messages_total", &["queue"]),
                rare("Skipped by mode: rescue", "redisson_unreadable_entries", &["queue"]),
            ],
        ),
    ]
}

/// The metric with this name without the prefix.
fn metric(name: &str) -> Definition {
    catalogue()
        .into_iter()
        .find(|metric| metric.name.strip_prefix("delaybridge_") == Some(name))
        .unwrap_or_else(|| panic!("{name} is not in the catalogue"))
}

/// The unit of a metric's own values, with its name in Grafana.
fn unit(metric: &Definition) -> &'static str {
    if metric.unit == "seconds" { "s" } else { "short" }
}

/// The template, with `{}` replaced by the metric and its filters. `{bucket}` and `{count}` are those parts of a
/// histogram, `{state="dead"}` adds a filter, `{bucket,le="5"}` does both.
fn filled(template: &str, metric: &Definition) -> String {
    let mut filters = vec!["job=~\"$job\"".to_owned()];
    let chosen = ["queue", "sink"].into_iter().filter(|label| metric.labels.contains(label));
    filters.extend(chosen.map(|label| format!("{label}=~\"${label}\"")));
    let (before, rest) = template.split_once('{').expect("a place for the metric");
    let (inside, after) = rest.split_once('}').expect("its end");
    let (part, labels) = match inside.split_once(',') {
        Some((part, labels)) => (part, labels),
        None if inside.contains('=') => ("", inside),
        None => (inside, ""),
    };
    filters.extend((!labels.is_empty()).then(|| labels.to_owned()));
    let part = if part.is_empty() { String::new() } else { format!("_{part}") };
    let filled = format!("{before}{}{part}{{{}}}", metric.name, filters.join(", "));
    if after.contains("{count}") { filled + &self::filled(after, metric) } else { filled + after }
}

fn legend(labels: &[&str]) -> String {
    labels.iter().map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ")
}

fn panel(title: &'static str, name: &str, unit: &'static str, look: Look) -> (Panel, Definition) {
    let metric = metric(name);
    (Panel { title, description: metric.help.to_owned(), unit, look, queries: Vec::new() }, metric)
}

/// A panel with one number from all series of the metric.
fn number(title: &'static str, name: &str, good: Good, template: &str) -> Panel {
    let (mut panel, metric) = panel(title, name, unit(&metric(name)), Look::Number(good));
    panel.queries.push(Query { expr: filled(template, &metric), legend: String::new() });
    panel
}

/// Begins a panel with lines; its query follows.
fn lines(title: &'static str, name: &'static str, unit: &'static str, by: &[&str]) -> Lines {
    assert!(by.iter().all(|label| *label == "instance" || metric(name).labels.contains(label)), "labels of {name}");
    let (panel, metric) = panel(title, name, unit, Look::Lines);
    Lines { panel, metric }
}

/// A panel with lines that has no query yet.
struct Lines {
    panel: Panel,
    metric: Definition,
}

impl Lines {
    fn ask(mut self, template: &str, legend: &str) -> Panel {
        self.panel.queries.push(Query { expr: filled(template, &self.metric), legend: legend.to_owned() });
        self.panel
    }
}

/// A panel with the highest value of all daemons. Without a daemon there is no line, because a zero would look like
/// good news.
fn gauge(title: &'static str, name: &'static str, by: &[&str]) -> Panel {
    lines(title, name, unit(&metric(name)), by).ask(&format!("max by ({}) ({{}})", by.join(", ")), &legend(by))
}

/// The same for a gauge that appears with its first event: 0 until then.
fn rare(title: &'static str, name: &'static str, by: &[&str]) -> Panel {
    let template = format!("max by ({}) ({{}}) or vector(0)", by.join(", "));
    lines(title, name, unit(&metric(name)), by).ask(&template, &legend(by))
}

/// A panel with counts per second, over all daemons. A counter appears with its first count: 0 until then.
fn rate(title: &'static str, name: &'static str, by: &[&str]) -> Panel {
    assert_eq!(metric(name).kind, "counter", "{name}");
    let by_list = by.join(", ");
    lines(title, name, "cps", by)
        .ask(&format!("sum by ({by_list}) (rate({{}}[$__rate_interval])) or vector(0)"), &legend(by))
}

/// A panel with the daemons' counts since their start, for rare events: a step is visible, but the rate of a series
/// that appears with its first count is not.
fn total(title: &'static str, name: &'static str, by: &[&str]) -> Panel {
    assert_eq!(metric(name).kind, "counter", "{name}");
    let template = format!("sum by ({}) ({{}}) or vector(0)", by.join(", "));
    lines(title, name, "short", by).ask(&template, &legend(by))
}

/// A panel with the median and the 99th percentile.
fn quantiles(title: &'static str, name: &'static str, by: &[&str]) -> Panel {
    assert_eq!(metric(name).kind, "histogram", "{name}");
    let by_list = by.join(", ");
    let (mut panel, metric) = panel(title, name, "s", Look::Lines);
    panel.queries = [("p50", 0.5), ("p99", 0.99)]
        .map(|(word, share)| Query {
            expr: filled(
                &format!("histogram_quantile({share}, sum by (le, {by_list}) (rate({{bucket}}[$__rate_interval])))"),
                &metric,
            ),
            legend: format!("{word} {}", legend(by)),
        })
        .into();
    panel
}

/// A panel with one of the standard metrics of a process.
fn process(title: &'static str, unit: &'static str, expr: &str, description: &str) -> Panel {
    let at = expr.find('[').unwrap_or(expr.len());
    let expr = format!("{}{{job=~\"$job\"}}{}", &expr[..at], &expr[at..]);
    let query = Query { expr, legend: legend(&["instance"]) };
    Panel { title, description: description.to_owned(), unit, look: Look::Lines, queries: vec![query] }
}
