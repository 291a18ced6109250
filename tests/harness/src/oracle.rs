//! The verdict on deliveries: everything offered arrived at least once, nothing else did, and no byte changed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use base64::Engine;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamRangeReply};

use super::logs::Lines;
use super::redisson::Element;

/// The beginning of a verdict that a promise was not kept: `make test` never runs such a test again.
const BROKEN: &str = "broken promise: ";

/// One element as it arrived at a sink.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delivery {
    /// The id, if the sink shows it.
    pub id: Option<String>,
    /// The body.
    pub payload: Vec<u8>,
    /// The queue's id, if the sink shows it.
    pub queue: Option<String>,
    /// The due time, in ms since the epoch.
    pub due_ms: Option<i64>,
    /// The number of the attempt.
    pub attempt: Option<u32>,
    /// The lateness in ms, only on standard output.
    pub late_ms: Option<f64>,
    /// The time of the stream's entry, by Redis's clock in ms.
    pub arrived_ms: Option<i64>,
    /// Further fields of a stream entry, and further headers of a record or message: the user's headers.
    pub headers: BTreeMap<String, Vec<u8>>,
    /// The key of a Kafka record, the routing key of an AMQP message.
    pub key: Option<Vec<u8>>,
    /// The partition of a Kafka record.
    pub partition: Option<i32>,
}

/// Reads all deliveries in a list.
pub async fn read_list(redis: &mut MultiplexedConnection, key: &str) -> Vec<Delivery> {
    let payloads: Vec<Vec<u8>> = redis.lrange(key, 0, -1).await.expect("read the sink's list");
    payloads.into_iter().map(|payload| Delivery { payload, ..Delivery::default() }).collect()
}

/// Reads all deliveries in a stream.
pub async fn read_stream(redis: &mut MultiplexedConnection, key: &str) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    let mut from = "-".to_owned();
    loop {
        // In pages: a reply of a million entries would block the server for a second.
        let page: StreamRangeReply = redis.xrange_count(key, &from, "+", 5000).await.expect("read the sink's stream");
        let Some(last) = page.ids.last() else { return deliveries };
        from = format!("({}", last.id);
        deliveries.extend(page.ids.into_iter().map(of_stream));
    }
}

fn of_stream(entry: StreamId) -> Delivery {
    let mut fields: BTreeMap<String, Vec<u8>> = entry
        .map
        .into_iter()
        .map(|(name, value)| (name, redis::from_redis_value(value).expect("a stream field holds bytes")))
        .collect();
    let mut take = |name: &str| fields.remove(name);
    let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).expect("a field of text"));
    let payload = take("payload").expect("a stream entry without payload");
    let id = text(take("id"));
    let queue = text(take("queue"));
    let due = text(take("due_ms"));
    let attempt = text(take("attempt"));
    Delivery {
        id,
        payload,
        queue,
        due_ms: due.map(|due| due.parse().expect("due_ms is a number")),
        attempt: attempt.map(|attempt| attempt.parse().expect("attempt is a number")),
        late_ms: None,
        arrived_ms: entry.id.split('-').next().and_then(|ms| ms.parse().ok()),
        headers: fields,
        ..Delivery::default()
    }
}

/// Reads all deliveries on the daemon's standard output.
pub fn read_stdout(lines: &Lines) -> Vec<Delivery> {
    lines.all().iter().map(|line| of_line(line)).collect()
}

/// Parses one line of the stdout sink.
pub fn of_line(line: &str) -> Delivery {
    let object: serde_json::Value = serde_json::from_str(line)
        .unwrap_or_else(|e| panic!("standard output is not one JSON object a line: {e}: {line}"));
    let text = |name: &str| object.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let payload = match (object.get("payload"), text("payload_base64")) {
        (Some(serde_json::Value::String(text)), _) => text.clone().into_bytes(),
        (Some(json), _) => json.to_string().into_bytes(),
        (None, Some(encoded)) => {
            base64::engine::general_purpose::STANDARD.decode(encoded).expect("payload_base64 is base64")
        }
        (None, None) => panic!("a line without payload: {line}"),
    };
    Delivery {
        id: text("id"),
        payload,
        queue: text("queue"),
        due_ms: object.get("due_ms").and_then(|value| value.as_i64()),
        attempt: object.get("attempt").and_then(|value| value.as_u64()).and_then(|n| u32::try_from(n).ok()),
        late_ms: object.get("late_ms").and_then(|value| value.as_f64()),
        ..Delivery::default()
    }
}

/// The offers.
#[derive(Debug, Default)]
pub struct Oracle {
    by_id: HashMap<String, Vec<u8>>,
    /// Payloads of the ready list, with their numbers: they have no id before the daemon gives them one.
    ready: HashMap<Vec<u8>, usize>,
    offered: usize,
}

impl Oracle {
    /// An oracle without any offers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records elements of the sorted set.
    pub fn offered<'a>(&mut self, elements: impl IntoIterator<Item = &'a Element>) {
        for element in elements {
            let before = self.by_id.insert(element.id_text(), element.payload.clone());
            assert!(before.is_none(), "the test offered {} twice", element.id_text());
            self.offered += 1;
        }
    }

    /// Records payloads of the ready list.
    pub fn pushed_ready<'a>(&mut self, payloads: impl IntoIterator<Item = &'a Vec<u8>>) {
        for payload in payloads {
            *self.ready.entry(payload.clone()).or_default() += 1;
            self.offered += 1;
        }
    }

    /// Number of offers.
    pub fn count(&self) -> usize {
        self.offered
    }

    /// Judges deliveries with ids (stream, stdout).
    pub fn judge(&self, deliveries: &[Delivery]) -> Report {
        let mut report = Report { offered: self.offered, deliveries: deliveries.len(), ..Report::default() };
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut ready_left = self.ready.clone();
        for delivery in deliveries {
            let id = delivery.id.as_deref().expect("a delivery with an id; lists are judged by `judge_payloads`");
            let times = seen.entry(id).or_default();
            *times += 1;
            let repeated = *times > 1;
            report.repeated += usize::from(*times == 2);
            match self.by_id.get(id) {
                Some(payload) if *payload != delivery.payload => report.altered.push(id.to_owned()),
                Some(_) if repeated => report.duplicates += 1,
                Some(_) => report.arrived += 1,
                None if !self.ready.contains_key(&delivery.payload) => report.foreign.push(id.to_owned()),
                None if repeated => report.duplicates += 1,
                None => match ready_left.get_mut(&delivery.payload) {
                    Some(left @ 1..) => {
                        *left -= 1;
                        report.arrived += 1;
                    }
                    // More ids than elements with this payload: one of them got a second id.
                    _ => report.foreign.push(id.to_owned()),
                },
            }
        }
        report.missing = self.by_id.keys().filter(|id| !seen.contains_key(id.as_str())).cloned().collect();
        let ready = ready_left.into_iter().filter(|(_, left)| *left > 0);
        report.missing.extend(ready.map(|(payload, left)| format!("{left} times {}", show(&payload))));
        report
    }

    /// Judges bare payloads (lists) by their numbers of arrivals.
    pub fn judge_payloads(&self, deliveries: &[Delivery]) -> Report {
        let mut expected: HashMap<&[u8], usize> = HashMap::new();
        for payload in self.by_id.values() {
            *expected.entry(payload).or_default() += 1;
        }
        for (payload, times) in &self.ready {
            *expected.entry(payload).or_default() += times;
        }
        let mut report = Report { offered: self.offered, deliveries: deliveries.len(), ..Report::default() };
        let mut arrived: HashMap<&[u8], usize> = HashMap::new();
        for delivery in deliveries {
            match expected.get(&delivery.payload[..]) {
                None => report.foreign.push(show(&delivery.payload)),
                Some(_) => *arrived.entry(&delivery.payload).or_default() += 1,
            }
        }
        for (payload, times) in expected {
            let came = arrived.get(payload).copied().unwrap_or(0);
            report.arrived += came.min(times);
            report.duplicates += came.saturating_sub(times);
            if came < times {
                report.missing.push(format!("{} times {}", times - came, show(payload)));
            }
        }
        report
    }
}

fn show(payload: &[u8]) -> String {
    let beginning = &payload[..payload.len().min(40)];
    format!("{:?} ({} bytes)", String::from_utf8_lossy(beginning), payload.len())
}

/// The verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of offered elements.
    pub offered: usize,
    /// Number of judged deliveries.
    pub deliveries: usize,
    /// Number of elements that arrived.
    pub arrived: usize,
    /// Number of deliveries beyond the first of each element.
    pub duplicates: usize,
    /// Number of elements with such deliveries; only for deliveries with an id.
    pub repeated: usize,
    /// The elements that did not arrive.
    pub missing: Vec<String>,
    /// The elements that were never offered.
    pub foreign: Vec<String>,
    /// The elements that arrived with other bytes.
    pub altered: Vec<String>,
}

impl Report {
    /// Whether everything arrived, nothing else, and no byte changed; duplicates are allowed.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.foreign.is_empty() && self.altered.is_empty()
    }

    /// Panics unless everything arrived, nothing else, and with at most this many duplicates.
    pub fn assert_complete(&self, most_duplicates: usize) {
        let kept = self.is_complete() && self.duplicates <= most_duplicates;
        assert!(kept, "{BROKEN}{self} (allowed: {most_duplicates})");
    }

    /// Panics unless everything arrived, nothing else, and at most this many elements more than once.
    pub fn assert_repeated(&self, most: usize) {
        let kept = self.is_complete() && self.repeated <= most;
        assert!(kept, "{BROKEN}{self}, of {} elements (allowed: {most})", self.repeated);
    }

    /// For [`eventually`](super::eventually()): `Ok` if everything has arrived.
    pub fn complete(self) -> Result<Self, String> {
        if self.is_complete() { Ok(self) } else { Err(self.to_string()) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { offered, deliveries, arrived, duplicates, repeated: _, missing, foreign, altered } = self;
        write!(f, "{offered} offered, {arrived} arrived in {deliveries} deliveries, {duplicates} duplicates")?;
        for (what, which) in [("missing", missing), ("foreign", foreign), ("altered", altered)] {
            if !which.is_empty() {
                write!(f, ", {} {what}: {:?}", which.len(), &which[..which.len().min(5)])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redisson::Layout;

    fn element(id: u8, payload: &str) -> Element {
        let member = Layout::New.pack([id; 8], payload.as_bytes());
        Element { id: [id; 8], payload: payload.into(), due_ms: 0, member }
    }

    fn delivery(id: u8, payload: &str) -> Delivery {
        Delivery { id: Some(hex::encode([id; 8])), payload: payload.into(), ..Delivery::default() }
    }

    fn check(deliveries: &[Delivery], verdict: &str) {
        let mut oracle = Oracle::new();
        oracle.offered(&[element(1, "a"), element(2, "b")]);
        oracle.pushed_ready(&[b"r".to_vec(), b"r".to_vec()]);
        assert_eq!(oracle.judge(deliveries).to_string(), verdict);
    }

    #[test]
    fn the_oracle_finds_what_is_lost_foreign_altered_or_doubled() {
        let a = delivery(1, "a");
        let b = delivery(2, "b");
        let r8 = delivery(8, "r");
        let r9 = delivery(9, "r");
        let all = [a.clone(), b.clone(), r8.clone(), r9.clone()];
        check(&all, "4 offered, 4 arrived in 4 deliveries, 0 duplicates");
        check(&[&all[..], &[a.clone(), r9.clone()]].concat(), "4 offered, 4 arrived in 6 deliveries, 2 duplicates");
        check(
            &[a.clone(), r8.clone(), r9.clone()],
            "4 offered, 3 arrived in 3 deliveries, 0 duplicates, 1 missing: [\"0202020202020202\"]",
        );
        check(
            &all[..3],
            "4 offered, 3 arrived in 3 deliveries, 0 duplicates, 1 missing: [\"1 times \\\"r\\\" (1 bytes)\"]",
        );
        check(
            &[&all[..], &[delivery(7, "r")]].concat(),
            "4 offered, 4 arrived in 5 deliveries, 0 duplicates, 1 foreign: [\"0707070707070707\"]",
        );
        check(
            &[a, delivery(2, "x"), r8, r9],
            "4 offered, 3 arrived in 4 deliveries, 0 duplicates, 1 altered: [\"0202020202020202\"]",
        );
    }

    #[test]
    fn bare_payloads_are_judged_by_how_often_they_came() {
        let mut oracle = Oracle::new();
        oracle.pushed_ready(&vec![b"same".to_vec(); 3]);
        let came = |times: usize| vec![Delivery { payload: b"same".to_vec(), ..Delivery::default() }; times];
        assert_eq!(oracle.judge_payloads(&came(2)).missing.len(), 1);
        assert!(oracle.judge_payloads(&came(3)).is_complete());
        assert_eq!(oracle.judge_payloads(&came(5)).duplicates, 2);
    }
}
