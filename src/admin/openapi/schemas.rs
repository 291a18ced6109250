//! The schemas of what is sent and answered.

use serde_json::{Value, json};

use crate::api::openapi::schemas::{list, object, of_topic, text, whole};
use crate::telemetry::tail::Fate;

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn rate(description: &str) -> Value {
    json!({ "type": "number", "description": description })
}

/// The same, or null.
fn or_null(mut schema: Value) -> Value {
    if let Some(name) = schema.get("type").cloned() {
        schema["type"] = json!([name, "null"]);
    }
    schema
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "description": description, "items": { "type": "string" } })
}

/// A list of objects.
fn open_list() -> Value {
    json!({ "type": "array", "items": { "type": "object" } })
}

/// An object with further fields that are not listed.
fn open(fields: &[(&str, Value)]) -> Value {
    let mut schema = object(fields);
    schema["additionalProperties"] = json!(true);
    schema
}

/// The numbers of a queue.
fn of_queue() -> Vec<(&'static str, Value)> {
    vec![
        ("queue", text("Its id in the configuration")),
        ("now_ms", whole("Redis time")),
        ("scheduled", whole("Elements that are not due yet")),
        ("due", whole("Elements that are due and not claimed")),
        ("in_flight", whole("Elements under a lease")),
        ("in_flight_at_least", flag("There are too many claims to count: at least so many are in flight")),
        ("retry", whole("Elements that wait for another attempt")),
        ("dead", whole("Dead letters")),
        ("ready", whole("Elements on the ready list")),
        ("next_due_ms", or_null(whole("Due time of the first element, also where it is overdue"))),
        (
            "oldest_overdue_ms",
            or_null(whole(
                "How long the oldest element is due: scheduled, waiting for a retry, or in flight at this daemon",
            )),
        ),
        ("paused", list("PauseState")),
        ("mode", text("deliver, shadow or rescue")),
        ("sinks", texts("The sinks that it delivers to")),
        ("?here", crate::api::openapi::schemas::reference("Here")),
    ]
}

/// All of them by name.
pub fn all() -> Value {
    let problem = json!({
        "type": "object",
        "description": "RFC 9457",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string", "description": "The kind; the last word behind # is stable" },
            "title": { "type": "string", "description": "The kind in words" },
            "status": { "type": "integer", "description": "The status of the answer" },
            "detail": { "type": "string", "description": "What was attempted, what happened, what to do" },
        },
    });
    let mut queue = of_queue();
    queue.extend([
        ("daemons", or_null(whole("Daemons that deliver from it; null where that cannot be asked"))),
        ("schedule", crate::api::openapi::schemas::reference("Schedule")),
        ("settings", json!({ "type": "object", "description": "Its settings in effect" })),
    ]);
    json!({
        "Problem": problem,
        "Row": open(&of_queue()),
        "Queue": open(&queue),
        "Queues": object(&[
            ("queues", list("Row")),
            ("errors", list("QueueError")),
            ("?clocks", list("ClockSkew")),
            ("?next", text("There may be more: ask for those after it")),
        ]),
        "ClockSkew": object(&[
            ("redis", text("The name of the Redis in the configuration")),
            ("ahead_seconds", rate("By how much the clock of this daemon's machine is ahead; negative if it is behind")),
        ]),
        "QueueError": object(&[("queue", text("The queue")), ("message", text("Why it could not be read"))]),
        "Here": object(&[
            ("held", json!({ "type": ["object", "null"], "description": "Why this daemon claims nothing from it: reason, seconds" })),
            ("delivered_per_second", rate("Delivered by this daemon, over the last minute")),
            ("failed_per_second", rate("Failed attempts of this daemon, over the last minute")),
            ("lateness_p50_ms", or_null(rate("Median of the lateness over the last minute"))),
            ("lateness_p99_ms", or_null(rate("99th percentile of the lateness over the last minute"))),
            ("in_flight_oldest_due_age_ms", whole("How long the oldest element is due that this daemon has in flight; 0 if none is")),
        ]),
        "PauseState": object(&[
            ("?sink", text("The sink, if it is not the queue")),
            ("by", text("Who paused it")),
            ("why", text("Why")),
            ("since_ms", whole("Since when")),
            ("until_ms", or_null(whole("When it ends by itself"))),
        ]),
        "Pause": object(&[
            ("?why", text("The reason, for everybody who wonders why nothing moves")),
            ("?by", text("Who, if not the token's name; that is added")),
            ("?for", text("How long, as in 2h 30m; without it, until it is resumed")),
            ("?until_ms", whole("The end, by the clock of Redis")),
        ]),
        "PauseChanges": object(&[("queues", list("PauseChange")), ("errors", list("QueueError"))]),
        "PauseChange": object(&[
            ("queue", text("The queue")),
            ("?sink", text("The sink, where one is paused or resumed")),
            ("pause", json!({ "type": ["object", "null"], "description": "The pause from now on" })),
            ("before", json!({ "type": ["object", "null"], "description": "The pause that was there before" })),
            ("announced", flag("Whether the daemons heard it at once; else they see it within a minute")),
        ]),
        "Schedule": object(&[
            ("queue", text("The queue")),
            ("now_ms", whole("Redis time")),
            ("overdue", list("Bar")),
            ("ahead", list("Bar")),
        ]),
        "Bar": object(&[
            ("from_ms", or_null(whole("From then on; null for all times before"))),
            ("until_ms", or_null(whole("Before then; null for all times after"))),
            ("count", whole("Elements that fall due in between")),
        ]),
        "Elements": open(&[("queue", text("The queue")), ("now_ms", whole("Redis time")), ("total", whole("How many there are in this state")), ("?next", text("There are more: ask for those after it"))]),
        "DeadLetters": open(&[("queue", text("The queue")), ("now_ms", whole("Redis time"))]),
        "DeadLetter": open(&[("queue", text("The queue"))]),
        "WhichLetters": object(&[
            ("?ids", texts("Places in the stream, or ids of elements; 1,000 at most")),
            ("?all", flag("All current dead letters")),
            ("?filter", crate::api::openapi::schemas::reference("LetterFilter")),
            ("?dry_run", flag("Only count them")),
            ("?rate", whole("At most so many a second")),
        ]),
        "Redriven": open(&[("queue", text("The queue")), ("redriven", whole("How many were redriven"))]),
        "Purged": open(&[("queue", text("The queue")), ("purged", whole("How many were removed"))]),
        "Reload": open(&[
            ("dry_run", flag("Nothing was changed: only the question was asked")),
            ("queues", json!({ "type": "object", "description": "added, changed, removed, unchanged" })),
            ("sinks", json!({ "type": "object", "description": "added, changed, removed, unchanged" })),
            ("seconds", rate("How long it took")),
        ]),
        "Element": open(&[("queue", text("The queue")), ("now_ms", whole("Redis time")), ("elements", open_list())]),
        "Acted": open(&[("queue", text("The queue")), ("now_ms", whole("Redis time")), ("elements", open_list())]),
        "Reschedule": object(&[
            ("?in", text("How long from now, as 2h 30m")),
            ("?at_ms", whole("When, by the clock of Redis")),
        ]),
        "Kill": object(&[
            ("?why", text("Why; it is kept with the dead letter")),
            ("?by", text("Who, if not the token's name; that is added")),
        ]),
        "Counted": open(&[
            ("queue", text("The queue")),
            ("matched", whole("Letters that fit")),
            ("examined", whole("Letters that were looked at")),
            ("totals", open_list()),
        ]),
        "LetterFilter": object(&[
            ("?reason", texts("Why they died; a text or a list")),
            ("?class", texts("Class of the last failure")),
            ("?code", texts("Code of the last failure")),
            ("?sink", texts("The sink that decided")),
            ("?older_than", text("Dead for longer than this, as 2h")),
            ("?newer_than", text("Dead for less than this, as 2h")),
            ("?id_prefix", text("How the element's id begins")),
            ("?field", texts("What the decoded payload has, as orderId=7")),
        ]),
        "Event": open(&[
            ("number", whole("One more than that of the event before")),
            ("left_out", whole("Events that were left out since then: more than 100 in a second")),
            ("at_ms", whole("When, by the clock of Redis")),
            ("queue", text("The queue")),
            ("id", text("The element")),
            ("fate", json!({ "type": "string", "enum": Fate::ALL.map(Fate::as_str), "description": "What became of it" })),
            ("sink", or_null(text("The sinks that confirmed it, or the one that decided"))),
            ("due_ms", or_null(whole("When it was due"))),
            ("late_ms", or_null(whole("How late that is"))),
            ("attempt", whole("The number of the attempt")),
            ("next_ms", or_null(whole("When it is tried again, at the earliest"))),
            ("class", or_null(text("Class of the failure"))),
            ("code", or_null(text("Code of the failure"))),
            ("?message", text("What the sink said; with a token")),
            ("size", whole("Bytes of the payload")),
            ("?payload", text("The payload as text, up to 4096 bytes; with a token")),
            ("?payload_base64", text("The same where it is no text")),
        ]),
        "Topics": object(&[
            ("now_ms", whole("Redis time")),
            ("topics", list("TopicState")),
            ("next", or_null(text("Ask for those after this name"))),
        ]),
        "TopicState": object(&of_topic()),
        "Topic": object(
            &[
                of_topic(),
                vec![("now_ms", whole("Redis time")), ("limits", json!({ "type": "object", "description": "What it allows" }))],
            ]
            .concat(),
        ),
        "Jobs": object(&[("now_ms", whole("Redis time")), ("jobs", open_list())]),
        "TopicPause": object(&[("topic", text("The topic")), ("paused", flag("Whether nothing of it is handed out"))]),
        "Sinks": object(&[("sinks", list("Sink"))]),
        "Sink": object(&[
            ("sink", text("Its name in the configuration")),
            ("kind", text("kafka, http, ...")),
            ("state", json!({ "type": "string", "enum": ["unknown", "up", "blocked", "down"], "description": "What it is" })),
            ("reason", or_null(text("Why it is blocked or down"))),
            ("seconds", whole("For how long it has been in this state")),
            ("last_problem", or_null(text("Why it was blocked or down the last time"))),
            ("last_problem_seconds", or_null(whole("How long ago that was reported"))),
            ("queues", whole("Queues that deliver to it")),
            ("destinations", list("Trouble")),
        ]),
        "Trouble": object(&[
            ("destination", text("Destinations of this name; where a template makes it, the template")),
            ("count", whole("How many of them are in trouble; the others are served")),
            ("reason", text("What is wrong with one of them")),
            ("seconds", whole("For how long")),
        ]),
    })
}
