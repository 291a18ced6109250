//! The records of a Kafka topic, read by a consumer without a group.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::oracle::Delivery;

/// Time-out of a broker.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads all records of the topic, partition by partition in order; none if the topic does not exist.
pub async fn read_topic(bootstrap: &str, topic: &str) -> Result<Vec<Delivery>, String> {
    let bootstrap = bootstrap.to_owned();
    let topic = topic.to_owned();
    let read = move || read(&bootstrap, &topic).map_err(|e| e.to_string());
    tokio::task::spawn_blocking(read).await.expect("the consumer does not panic")
}

/// Counts the records of the topic.
pub async fn count_topic(bootstrap: &str, topic: &str) -> Result<usize, String> {
    let bootstrap = bootstrap.to_owned();
    let topic = topic.to_owned();
    let count = move || {
        let ends = ends(&consumer(&bootstrap), &topic).map_err(|e| e.to_string())?;
        Ok(ends.into_iter().map(|(_, low, high)| usize::try_from(high - low).unwrap_or(0)).sum())
    };
    tokio::task::spawn_blocking(count).await.expect("the consumer does not panic")
}

fn consumer(bootstrap: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "nobody")
        .set("enable.auto.commit", "false")
        .set("allow.auto.create.topics", "false")
        // Large batches of the daemon must be readable.
        .set("fetch.message.max.bytes", "20000000")
        .set("receive.message.max.bytes", "100000000")
        .create()
        .expect("make a consumer")
}

/// The first and the next offset of every partition.
fn ends(consumer: &BaseConsumer, topic: &str) -> KafkaResult<Vec<(i32, i64, i64)>> {
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE)?;
    let Some(topic_metadata) = metadata.topics().first().filter(|topic| topic.error().is_none()) else {
        return Ok(Vec::new());
    };
    let ends = topic_metadata.partitions().iter().map(|partition| {
        let (low, high) = consumer.fetch_watermarks(topic, partition.id(), PATIENCE)?;
        Ok((partition.id(), low, high))
    });
    ends.collect()
}

fn read(bootstrap: &str, topic: &str) -> KafkaResult<Vec<Delivery>> {
    let consumer = consumer(bootstrap);
    let mut deliveries = Vec::new();
    for (partition, low, high) in ends(&consumer, topic)? {
        if low == high {
            continue;
        }
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(topic, partition, Offset::Offset(low))?;
        consumer.assign(&assignment)?;
        loop {
            let Some(message) = consumer.poll(PATIENCE) else {
                return Err(KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut));
            };
            let message = message?;
            deliveries.push(delivery(&message));
            if message.offset() + 1 >= high {
                break;
            }
        }
    }
    Ok(deliveries)
}

fn delivery(message: &BorrowedMessage<'_>) -> Delivery {
    let mut headers: BTreeMap<String, Vec<u8>> = message
        .headers()
        .map(|headers| headers.iter().map(|h| (h.key.to_owned(), h.value.unwrap_or_default().to_vec())).collect())
        .unwrap_or_default();
    let mut take = |name: &str| headers.remove(name).map(|value| String::from_utf8(value).expect("a header of text"));
    let id = take("delaybridge-id");
    let queue = take("delaybridge-queue");
    let due = take("delaybridge-due-ms");
    let attempt = take("delaybridge-attempt");
    Delivery {
        id,
        payload: message.payload().expect("a tombstone: the value is null, not empty").to_vec(),
        queue,
        due_ms: due.map(|due| due.parse().expect("a due time is a number")),
        attempt: attempt.map(|attempt| attempt.parse().expect("an attempt is a number")),
        late_ms: None,
        arrived_ms: message.timestamp().to_millis(),
        headers,
        key: message.key().map(<[u8]>::to_vec),
        partition: Some(message.partition()),
    }
}
