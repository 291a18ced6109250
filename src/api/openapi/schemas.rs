//! The schemas of what is sent and answered.

use serde_json::{Value, json};

use crate::api::v1::add::BATCH;

/// A schema of this name.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A topic, or several with commas between.
pub fn topic() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

/// A job's id.
pub fn id() -> Value {
    json!({ "type": "string", "minLength": 3 })
}

/// The token of a reservation.
pub fn token() -> Value {
    json!({ "type": "string", "minLength": 16, "maxLength": 16 })
}

/// A duration with its unit.
pub fn time() -> Value {
    text("A duration with its unit: `500ms`, `30s`, `1h30m`, `7d`")
}

pub fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub fn whole(description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "description": description })
}

pub fn list(of: &str) -> Value {
    json!({ "type": "array", "items": reference(of) })
}

/// An object with these fields and no others; those that begin with `?` may be missing.
pub fn object(fields: &[(&str, Value)]) -> Value {
    let required: Vec<_> = fields.iter().map(|(name, _)| *name).filter(|name| !name.starts_with('?')).collect();
    let properties = fields.iter().map(|(name, schema)| (name.trim_start_matches('?').to_owned(), schema.clone()));
    let properties = Value::Object(properties.collect());
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Fields of a body in an answer.
fn body() -> [(&'static str, Value); 3] {
    [
        ("?body", text("The body, if it is text")),
        ("?body_base64", text("The body in base64, if it is not")),
        ("?content_type", text("What the client said that the body is")),
    ]
}

/// The numbers of a topic.
pub fn of_topic() -> Vec<(&'static str, Value)> {
    vec![
        ("topic", text("Its name")),
        ("delay", whole("Jobs that wait for their due time")),
        ("ready", whole("Jobs that are due")),
        ("reserved", whole("Jobs that a consumer has")),
        ("dead", whole("Jobs that are dead")),
        ("?oldest_ready_ms", whole("How long the first ready job has been ready")),
        ("?next_due_ms", whole("When the next job becomes ready")),
        ("?oldest_dead_ms", whole("When the oldest dead job died")),
        ("paused", json!({ "type": "boolean", "description": "Whether nothing is handed out" })),
    ]
}

/// All of them by name.
pub fn all() -> Value {
    let problem = json!({
        "type": "object",
        "description": "RFC 9457",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": text("The kind, as an address of its description"),
            "title": text("The kind in words"),
            "status": { "type": "integer" },
            "detail": text("What was attempted, what happened, what to do"),
        },
    });
    let new_job = object(&[
        ("?id", text("The client's own id; letters, digits, `_`, `.`, `:`, `~`, `-`")),
        (
            "?body",
            json!({ "description": "A text, which is the body, or any other JSON value, whose JSON is the body" }),
        ),
        ("?body_base64", text("The body in base64, for bytes that are no text")),
        ("?content_type", text("What the body is; handed out with it")),
        ("?delay", time()),
        ("?delay_ms", whole("How long it waits")),
        (
            "?due",
            json!({ "type": "string", "format": "date-time", "description": "When it becomes ready, instead of a delay" }),
        ),
        ("?due_ms", whole("The same in milliseconds since 1970")),
        ("?ttr", time()),
        ("?ttr_ms", whole("How long a consumer may have it")),
        ("?tries", whole("How often it is handed out before it is dead")),
        ("?ttl", time()),
        ("?ttl_ms", whole("How long after now it is dropped if it is not finished; 0 is never")),
    ]);
    let [text_body, bytes_body, content_type] = body();
    let popped = object(&[
        ("id", text("The job")),
        ("topic", text("Its topic")),
        ("token", text("What settles the job has to name it")),
        text_body.clone(),
        bytes_body.clone(),
        content_type.clone(),
        ("attempt", whole("How often it was handed out, this time included")),
        ("tries_left", whole("How often it will be if this attempt fails")),
        ("ttr_ms", whole("How long the consumer may have it")),
        ("deadline_ms", whole("When that is over")),
        ("added_ms", whole("When it was added")),
        ("?expires_ms", whole("When it is dropped if it is not finished")),
    ]);
    let job = object(&[
        ("id", text("The job")),
        ("topic", text("Its topic")),
        ("state", json!({ "type": "string", "enum": ["delay", "ready", "reserved", "dead", "forwarding"] })),
        ("?due_ms", whole("When it becomes or became ready, while it waits")),
        ("?deadline_ms", whole("When its reservation ends")),
        ("?died_ms", whole("When it died")),
        ("?reserved_ms", whole("When it was handed out last")),
        ("added_ms", whole("When it was added")),
        ("?expires_ms", whole("When it is dropped if it is not finished")),
        ("attempts", whole("How often it was handed out")),
        ("tries", whole("How often it is before it is dead")),
        ("ttr_ms", whole("How long a consumer may have it")),
        ("?reason", text("Why its last reservation ended")),
        text_body,
        bytes_body,
        content_type,
    ]);
    let limits = object(&[
        ("ttr_ms", whole("Time to run of a job that does not say")),
        ("tries", whole("Tries of a job that does not say")),
        ("?ttl_ms", whole("Time to live of a job that does not say")),
        ("?max_jobs", whole("Most jobs that are not dead")),
        ("max_body", whole("Most bytes of a body")),
        ("?dead_max_len", whole("Most dead jobs; beyond it the oldest are removed")),
        ("?dead_ttl_ms", whole("How long a dead job is kept")),
        (
            "set",
            json!({ "type": "array", "items": { "type": "string" }, "description": "Those that were set over the API" }),
        ),
    ]);
    let new_limits = object(&[
        ("?ttr_ms", whole("Time to run of a job that has none of its own")),
        ("?tries", whole("Tries of a job that has none of its own")),
        ("?ttl_ms", whole("Time to live of a job that has none of its own; 0 is for ever")),
        ("?max_jobs", whole("Most jobs that are not dead; 0 is no limit")),
        ("?max_body", whole("Most bytes of a body")),
        ("?dead_max_len", whole("Most dead jobs; 0 is no limit")),
        ("?dead_ttl_ms", whole("How long a dead job is kept; 0 is for ever")),
    ]);
    let topic = object(&[of_topic(), vec![("limits", reference("Limits"))]].concat());
    let added = object(&[
        ("id", text("The job")),
        ("created", json!({ "type": "boolean", "description": "False if a job with this id was there already" })),
        (
            "?conflict",
            json!({ "type": "boolean", "description": "In a batch: a job with this id and another body is there; nothing was added" }),
        ),
        ("?due_ms", whole("When it becomes ready")),
        (
            "?state",
            json!({
                "type": "string",
                "enum": ["delay", "ready", "reserved", "dead", "forwarding", "gone"],
                "description": "Its state; `gone` if it was finished lately; not there for a job of a batch that was there already",
            }),
        ),
    ]);
    let ids = json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 1000 });
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": 1000, "description": "So many of the oldest" });
    let released = object(&[
        ("outcome", json!({ "type": "string", "enum": ["released", "dead", "expired"] })),
        ("?due_ms", whole("When it becomes ready")),
    ]);
    json!({
        "Problem": problem,
        "NewJob": new_job,
        "NewJobs": object(&[("jobs", json!({ "type": "array", "items": reference("NewJob"), "minItems": 1, "maxItems": BATCH }))]),
        "AddedJob": added,
        "AddedJobs": object(&[("jobs", list("AddedJob"))]),
        "PoppedJob": popped,
        "PoppedJobs": object(&[("jobs", list("PoppedJob"))]),
        "ReleasedJob": released,
        "TouchedJob": object(&[("deadline_ms", whole("When the time to run is over"))]),
        "Job": job,
        "Jobs": object(&[("jobs", list("Job"))]),
        "Limits": limits,
        "NewLimits": new_limits,
        "Topic": topic,
        "Topics": object(&[("topics", list("Topic")), ("?next", text("Ask for those after this name"))]),
        "Redrive": object(&[("?ids", ids.clone()), ("?limit", limit.clone()), ("?ttl_ms", whole("Their new time to live; 0 is for ever"))]),
        "Purge": object(&[("?ids", ids), ("?limit", limit)]),
        "Count": object(&[("count", whole("How many it were"))]),
    })
}
