//! The messages in a queue of ElasticMQ.

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use brokers::ElasticMq;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::oracle::Delivery;

/// A shared file of credentials, which ElasticMQ does not look at.
pub fn credentials() -> NamedTempFile {
    let mut file = NamedTempFile::with_prefix("delaybridge-aws-").expect("make a file");
    file.write_all(b"[default]\naws_access_key_id = AKIATEST\naws_secret_access_key = secret\n").expect("write a file");
    file
}

/// Makes a queue, FIFO by its name.
pub fn make_queue(server: &ElasticMq, name: &str) {
    let attributes = if name.ends_with(".fifo") { json!({ "FifoQueue": "true" }) } else { json!({}) };
    ask(server, "CreateQueue", &json!({ "QueueName": name, "Attributes": attributes })).expect("make the queue");
}

/// Asks SQS.
///
/// # Errors
///
/// It answers with an error, or not at all.
pub fn ask(server: &ElasticMq, action: &str, parameters: &Value) -> Result<Value, String> {
    let answer = server.ask(action, &parameters.to_string()).map_err(|e| e.to_string())?;
    Ok(serde_json::from_str(&answer).unwrap_or_default())
}

/// Takes all messages out of a queue, and puts them behind those that were taken before.
///
/// # Errors
///
/// The server is away.
pub fn take(server: &ElasticMq, name: &str, taken: &mut Vec<Delivery>) -> Result<(), String> {
    let url = server.queue_url(name);
    loop {
        let question = json!({
            "QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 600, "WaitTimeSeconds": 0,
            "MessageAttributeNames": ["All"], "AttributeNames": ["All"],
        });
        let answer = ask(server, "ReceiveMessage", &question)?;
        let messages = answer["Messages"].as_array().cloned().unwrap_or_default();
        if messages.is_empty() {
            return Ok(());
        }
        let entry = |(place, message): (usize, &Value)| json!({ "Id": place.to_string(), "ReceiptHandle": message["ReceiptHandle"] });
        let entries: Vec<_> = messages.iter().enumerate().map(entry).collect();
        taken.extend(messages.iter().map(delivery));
        // Of a group of FIFO nothing more comes before that.
        ask(server, "DeleteMessageBatch", &json!({ "QueueUrl": url, "Entries": entries }))?;
    }
}

fn delivery(message: &Value) -> Delivery {
    let attributes = message["MessageAttributes"].as_object().cloned().unwrap_or_default();
    let value = |value: &Value| value["StringValue"].as_str().unwrap_or_default().to_owned();
    let mut headers: BTreeMap<String, String> =
        attributes.iter().map(|(name, text)| (name.clone(), value(text))).collect();
    if let Some(more) = headers.remove("delaybridge-headers") {
        let more: BTreeMap<String, String> = serde_json::from_str(&more).expect("JSON");
        headers.extend(more);
    }
    let body = message["Body"].as_str().expect("a body");
    let payload = match headers.remove("delaybridge-encoding").as_deref() {
        None => body.as_bytes().to_vec(),
        Some("base64") => STANDARD.decode(body).expect("base64"),
        Some(_) => Vec::new(),
    };
    let (id, queue) = (headers.remove("delaybridge-id"), headers.remove("delaybridge-queue"));
    let (due, attempt) = (headers.remove("delaybridge-due-ms"), headers.remove("delaybridge-attempt"));
    Delivery {
        id,
        payload,
        queue,
        due_ms: due.map(|due| due.parse().expect("a due time is a number")),
        attempt: attempt.map(|attempt| attempt.parse().expect("an attempt is a number")),
        headers: headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
        arrived_ms: message["Attributes"]["SentTimestamp"].as_str().map(|ms| ms.parse().expect("a time is a number")),
        key: message["Attributes"]["MessageGroupId"].as_str().map(|group| group.as_bytes().to_vec()),
        ..Delivery::default()
    }
}
