//! The messages in a queue of ElasticMQ.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use brokers::ElasticMq;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::oracle::Delivery;

/// The time for which a message that was taken is hidden from others. One whose answer was lost comes again after it.
const HIDDEN: Duration = Duration::from_secs(30);
/// The time for which a server is asked again that answers with errors, or not at all. A busy ElasticMQ answers 500 after 21 s,
/// and has hidden or deleted what it was asked for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The wait before it is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// The messages that were taken out of queues, each once.
#[derive(Default)]
pub struct TakenMessages {
    /// What they carry, in the order in which they were taken.
    pub deliveries: Vec<Delivery>,
    /// Their identities, which SQS gives each message that is sent.
    known: HashSet<String>,
}

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
pub fn ask(server: &ElasticMq, action: &str, parameters: &Value) -> Result<Value, String> {
    let answer = server.ask(action, &parameters.to_string()).map_err(|e| e.to_string())?;
    Ok(serde_json::from_str(&answer).unwrap_or_default())
}

/// Takes all messages out of a queue, and puts them behind those that were taken before.
pub fn take(server: &ElasticMq, name: &str, taken: &mut TakenMessages) -> Result<(), String> {
    let url = server.queue_url(name);
    let begun = Instant::now();
    // Until then messages may be hidden whose answer was lost.
    let mut hidden_until: Option<Instant> = None;
    loop {
        match take_some(server, &url, taken) {
            Ok(0) if hidden_until.is_none_or(|until| Instant::now() >= until) => return Ok(()),
            Ok(0) => thread::sleep(AGAIN),
            Ok(_) => {}
            Err(problem) if begun.elapsed() > PATIENCE => return Err(problem),
            Err(_) => {
                thread::sleep(AGAIN);
                hidden_until = Some(Instant::now() + HIDDEN);
            }
        }
    }
}

/// Takes up to ten messages, and returns their number.
fn take_some(server: &ElasticMq, url: &str, taken: &mut TakenMessages) -> Result<usize, String> {
    let question = json!({
        "QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": HIDDEN.as_secs(), "WaitTimeSeconds": 0,
        "MessageAttributeNames": ["All"], "AttributeNames": ["All"],
    });
    let answer = ask(server, "ReceiveMessage", &question)?;
    let messages = answer["Messages"].as_array().map_or(&[][..], Vec::as_slice);
    if messages.is_empty() {
        return Ok(0);
    }
    for message in messages {
        if taken.known.insert(message["MessageId"].as_str().expect("an identity").to_owned()) {
            taken.deliveries.push(delivery(message));
        }
    }
    let entry = |(place, message): (usize, &Value)| json!({ "Id": place.to_string(), "ReceiptHandle": message["ReceiptHandle"] });
    let entries: Vec<_> = messages.iter().enumerate().map(entry).collect();
    // Of a group of FIFO nothing more comes before that.
    ask(server, "DeleteMessageBatch", &json!({ "QueueUrl": url, "Entries": entries }))?;
    Ok(messages.len())
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
    let id = headers.remove("delaybridge-id");
    let queue = headers.remove("delaybridge-queue");
    let due = headers.remove("delaybridge-due-ms");
    let attempt = headers.remove("delaybridge-attempt");
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
