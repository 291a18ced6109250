//! Publishers, as programs are written that must not lose a message: what is not confirmed is sent again, with its identity.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{GatewayBook, Published, Way};
use crate::offers::now_ms;
use harness::publisher::Publisher;

/// Messages of a round, and the time of a round.
const ROUND: usize = 10;
const PAUSE: Duration = Duration::from_millis(200);
/// The time that a broker has for a confirmation.
const PATIENCE: Duration = Duration::from_secs(5);

/// A message before it is sent: its name, and its header.
#[derive(Debug, Clone)]
struct Outgoing {
    name: String,
    header: (&'static str, i64),
}

/// Makes a message, and writes it into the book: half of them say when they are due, the others how much later.
fn next(way: Way, number: usize, random: &mut fastrand::Rng, book: &GatewayBook) -> Outgoing {
    let name = format!("{}-{number}", if way == Way::Amqp { "a" } else { "k" });
    let now = now_ms();
    let delay = random.i64(0..3_000);
    let header = if random.bool() { ("x-due", now + delay) } else { ("x-delay", delay) };
    book.published().insert(name.clone(), Published { way, from_ms: now + delay, confirmed: false });
    Outgoing { name, header }
}

/// Publishes a message; returns whether the broker has confirmed it.
async fn send(publisher: &Publisher, Outgoing { name, header: (header, value) }: &Outgoing) -> bool {
    let properties = BasicProperties::default().with_message_id(name.as_str().into());
    let headers = [(*header, AMQPValue::LongLongInt(*value))];
    let sent = publisher.publish(("delayed", "orders"), properties, &headers, name);
    matches!(tokio::time::timeout(PATIENCE, sent).await, Ok(Ok(())))
}

/// Publishes to RabbitMQ until `end`, and until everything is confirmed.
pub async fn amqp(url: String, seed: u64, end: Instant, book: Arc<GatewayBook>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut connected = None;
    let mut open = Vec::new();
    let mut number = 0;
    while Instant::now() < end || !open.is_empty() {
        if Instant::now() < end && open.len() < 20 * ROUND {
            open.extend((number..number + ROUND).map(|number| next(Way::Amqp, number, &mut random, &book)));
            number += ROUND;
        }
        if connected.is_none() {
            connected = tokio::time::timeout(PATIENCE, Publisher::connect(&url)).await.ok().and_then(Result::ok);
        }
        if let Some(publisher) = &connected {
            let sent = open.iter().map(|message| send(publisher, message));
            let mut confirmed = futures_util::future::join_all(sent).await.into_iter();
            open.retain(|Outgoing { name, .. }| match confirmed.next() {
                Some(true) => {
                    book.confirm(name);
                    false
                }
                _ => true,
            });
            if !open.is_empty() {
                connected = None;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Notes what Kafka has confirmed, and keeps what it has not.
struct Confirmations {
    book: Arc<GatewayBook>,
    again: Mutex<VecDeque<Outgoing>>,
}

impl ClientContext for Confirmations {}

impl ProducerContext for Confirmations {
    type DeliveryOpaque = Box<Outgoing>;

    fn delivery(&self, result: &DeliveryResult<'_>, message: Box<Outgoing>) {
        match result {
            Ok(_) => self.book.confirm(&message.name),
            Err(_) => self.again.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_back(*message),
        }
    }
}

/// Publishes to Kafka until `end`, and until everything is confirmed, or until the run is `over`.
pub fn kafka(bootstrap: &str, seed: u64, end: std::time::Instant, over: &CancellationToken, book: &Arc<GatewayBook>) {
    let context = Confirmations { book: book.clone(), again: Mutex::default() };
    let producer: BaseProducer<Confirmations> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        // Short, so that messages are sent again by this program too, which Kafka cannot recognise.
        .set("message.timeout.ms", "8000")
        .create_with_context(context)
        .expect("a producer");
    let mut random = fastrand::Rng::with_seed(!seed);
    let mut open = VecDeque::new();
    let mut number = 0;
    loop {
        let publishes = std::time::Instant::now() < end;
        if publishes && open.len() < 20 * ROUND {
            open.extend((number..number + ROUND).map(|number| next(Way::Kafka, number, &mut random, book)));
            number += ROUND;
        }
        while let Some(message) = open.pop_front() {
            let header = message.header.0;
            let value = message.header.1.to_string();
            let headers = OwnedHeaders::new()
                .insert(Header { key: header, value: Some(&value) })
                .insert(Header { key: "x-message-id", value: Some(&message.name) });
            let name = message.name.clone();
            let opaque = Box::new(message);
            let record = BaseRecord::with_opaque_to("delay-in", opaque).key(&name).payload(&name).headers(headers);
            if let Err((_, record)) = producer.send(record) {
                open.push_front(*record.delivery_opaque);
                break;
            }
        }
        producer.poll(PAUSE);
        open.extend(producer.context().again.lock().unwrap_or_else(std::sync::PoisonError::into_inner).drain(..));
        if over.is_cancelled() || !publishes && open.is_empty() && producer.in_flight_count() == 0 {
            return;
        }
    }
}
