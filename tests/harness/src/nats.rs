//! The messages in a stream of NATS JetStream.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use brokers::Nats;
use serde_json::{Value, json};

use super::oracle::Delivery;

/// Asks JetStream.
pub fn ask(nats: &Nats, subject: &str, body: &Value) -> Result<Value, String> {
    let mut client = nats.client().map_err(|e| e.to_string())?;
    let answer = client.request(&format!("$JS.API.{subject}"), body.to_string().as_bytes());
    let answer: Value = serde_json::from_slice(&answer.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    match answer.get("error") {
        Some(error) => Err(error.to_string()),
        None => Ok(answer),
    }
}

/// Makes a stream on disk for these subjects; `more` has further settings.
pub fn make_stream(nats: &Nats, name: &str, subjects: &str, more: &Value) {
    let mut config = json!({
        "name": name, "subjects": [subjects], "retention": "limits", "storage": "file", "max_consumers": -1, "max_msgs": -1,
        "max_bytes": -1, "max_age": 0, "max_msg_size": -1, "discard": "new", "num_replicas": 1,
        "duplicate_window": 120_000_000_000_u64,
    });
    let more = more.as_object().expect("an object").clone();
    config.as_object_mut().expect("an object").extend(more);
    ask(nats, &format!("STREAM.CREATE.{name}"), &config).expect("make the stream");
}

/// All messages in a stream, in their order.
pub fn read_stream(nats: &Nats, stream: &str) -> Result<Vec<Delivery>, String> {
    let state = ask(nats, &format!("STREAM.INFO.{stream}"), &json!({}))?["state"].clone();
    let number = |name: &str| state[name].as_u64().expect("a number");
    let mut client = nats.client().map_err(|e| e.to_string())?;
    let mut deliveries = Vec::new();
    for number in number("first_seq").max(1)..=number("last_seq") {
        let body = json!({ "seq": number }).to_string();
        let answer = client.request(&format!("$JS.API.STREAM.MSG.GET.{stream}"), body.as_bytes());
        let answer: Value = serde_json::from_slice(&answer.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
        deliveries.push(delivery(&answer["message"]));
    }
    Ok(deliveries)
}

fn delivery(message: &Value) -> Delivery {
    let decoded = |name: &str| STANDARD.decode(message[name].as_str().unwrap_or_default()).expect("base64");
    let header = String::from_utf8(decoded("hdrs")).expect("text");
    let lines = header.lines().skip(1).filter_map(|line| line.split_once(": "));
    let mut headers: BTreeMap<String, Vec<u8>> =
        lines.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect();
    let mut take = |name: &str| headers.remove(name).map(|value| String::from_utf8(value).expect("text"));
    let id = take("delaybridge-id");
    let queue = take("delaybridge-queue");
    let due = take("delaybridge-due-ms");
    let attempt = take("delaybridge-attempt");
    Delivery {
        id,
        payload: decoded("data"),
        queue,
        due_ms: due.map(|due| due.parse().expect("a due time is a number")),
        attempt: attempt.map(|attempt| attempt.parse().expect("an attempt is a number")),
        arrived_ms: message["time"].as_str().map(unix_ms),
        headers,
        key: message["subject"].as_str().map(|subject| subject.as_bytes().to_vec()),
        ..Delivery::default()
    }
}

fn unix_ms(time: &str) -> i64 {
    let time = humantime::parse_rfc3339(time).expect("RFC 3339").duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(time.as_millis()).expect("a time of today")
}
