//! Jobs as lmstfy shows them, and the attributes that they may have.
//!
//! A job with attributes is stored in an envelope, as lmstfy does it. All others are stored as they are, so that consumers
//! of any API see the same bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::HeaderMap;
use serde_json::{Map, Value, json};

use crate::message::OpenBody;
use delaybridge_core::json::Json;
use delaybridge_http_server::problem::Problem;
use delaybridge_jobs::{JobInfo, Reserved};

/// The content type of the envelope.
const ENVELOPE: &str = "application/vnd.lmstfy.job+json";
const PREFIX: &str = "job-attr-";
const MOST: usize = 16;
const LONGEST_NAME: usize = 32;
const LONGEST_VALUE: usize = 128;

/// Names and values of a job's headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JobAttributes(Map<String, Value>);

impl JobAttributes {
    /// Reads the attributes of a request. Longer ones are cut off.
    pub fn of(headers: &HeaderMap) -> Result<JobAttributes, Problem> {
        if !headers.get("enable-job-version").is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"yes")) {
            return Ok(JobAttributes::default());
        }
        let mut attributes = Map::new();
        for name in headers.keys() {
            // The first of several values counts.
            let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            if let (Some(name), false) = (name.as_str().strip_prefix(PREFIX), value.is_empty()) {
                let cut = |text: &str, most: usize| text.get(..most).unwrap_or(text).to_owned();
                attributes.insert(cut(name, LONGEST_NAME), json!(cut(value, LONGEST_VALUE)));
            }
        }
        match attributes.len() {
            0..=MOST => Ok(JobAttributes(attributes)),
            _ => Err(Problem::bad("too many attributes, cannot exceed 16")),
        }
    }
}

/// Returns the body to store, and its content type.
pub fn envelope(body: Bytes, attributes: &JobAttributes) -> (Bytes, &'static str) {
    if attributes.0.is_empty() {
        return (body, "");
    }
    let envelope = json!({ "body": STANDARD.encode(&body), "attributes": attributes.0 });
    (envelope.to_string().into(), ENVELOPE)
}

/// Opens an envelope: the body in base64, and the attributes or `null`. What claims to be an envelope and is none is
/// a body: any client may say so of any bytes.
fn opened(body: &Bytes, content_type: &str) -> (String, Value) {
    let envelope = if content_type == ENVELOPE { read_envelope(body) } else { None };
    envelope.unwrap_or_else(|| (STANDARD.encode(OpenBody::of(body, content_type).body), Value::Null))
}

fn read_envelope(body: &Bytes) -> Option<(String, Value)> {
    let members = Json::read(body.clone()).ok()?.members(2).ok()?;
    let member = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, value)| value);
    let inner = String::from_utf8(member("body")?.text()?.to_vec()).ok()?;
    STANDARD.decode(&inner).ok()?;
    let mut attributes = Map::new();
    for (name, value) in member("attributes")?.members(MOST).ok()? {
        attributes.insert(name, String::from_utf8_lossy(&value.text()?).into());
    }
    Some((inner, attributes.into()))
}

/// Returns a job that was consumed.
pub fn consumed(job: &Reserved, namespace: &str, now_ms: i64) -> Value {
    let (data, attributes) = opened(&job.body, &job.content_type);
    json!({
        "msg": "new job",
        "namespace": namespace,
        "queue": queue(job.id.topic.as_str(), namespace),
        "job_id": job.id.local.as_str(),
        "data": data,
        "ttl": seconds_left(job.expires_ms, now_ms),
        "elapsed_ms": now_ms.saturating_sub(job.added_ms).max(0),
        "remain_tries": job.tries_left,
        "attributes": attributes,
    })
}

/// Returns a job that was looked at.
pub fn looked_at(job: &JobInfo, namespace: &str, now_ms: i64) -> Value {
    let (data, attributes) = opened(&job.body, &job.content_type);
    json!({
        "namespace": namespace,
        "queue": queue(job.id.topic.as_str(), namespace),
        "job_id": job.id.local.as_str(),
        "data": data,
        "ttl": seconds_left(job.expires_ms, now_ms),
        "elapsed_ms": now_ms.saturating_sub(job.added_ms).max(0),
        "remain_tries": job.tries.saturating_sub(job.attempts),
        "attributes": attributes,
    })
}

/// Returns the name behind the namespace.
fn queue<'a>(topic: &'a str, namespace: &str) -> &'a str {
    topic.get(namespace.len() + 1..).unwrap_or_default()
}

/// Returns the seconds left, rounded up; 0 means for ever.
fn seconds_left(expires_ms: Option<i64>, now_ms: i64) -> i64 {
    let left = |expires: i64| expires.saturating_sub(now_ms).max(1).saturating_add(999) / 1000;
    expires_ms.map_or(0, left)
}
