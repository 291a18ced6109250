//! The messages in a RabbitMQ queue, taken out of it.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::message::BasicGetMessage;
use lapin::options::{BasicAckOptions, BasicGetOptions, ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};

use super::eventually::eventually;
use super::oracle::Delivery;

/// Time for a broker to show what it has confirmed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection of the test, and its only channel.
pub struct Rabbits {
    _connection: Connection,
    channel: Channel,
}

impl Rabbits {
    /// Connects to `amqp://...`.
    pub async fn connect(url: &str) -> Result<Self, String> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.map_err(|e| e.to_string())?;
        let channel = connection.create_channel().await.map_err(|e| e.to_string())?;
        Ok(Rabbits { _connection: connection, channel })
    }

    /// Number of messages in the queue; 0 if it does not exist.
    pub async fn count(&self, queue: &str) -> u32 {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
        queue.map_or(0, |queue| queue.message_count())
    }

    /// Waits until the queue has no message that waits for a consumer.
    pub async fn emptied(&self, queue: &str) {
        eventually("the queue to be empty", PATIENCE, async || match self.count(queue).await {
            0 => Ok(()),
            some => Err(format!("{queue} has {some}")),
        })
        .await;
    }

    /// Takes all messages in the queue.
    pub async fn take_all(&mut self, queue: &str) -> Result<Vec<Delivery>, String> {
        let mut deliveries = Vec::new();
        let no_ack = BasicGetOptions { no_ack: true };
        while let Some(message) = self.channel.basic_get(queue.into(), no_ack).await.map_err(|e| e.to_string())? {
            deliveries.push(delivery(message));
        }
        Ok(deliveries)
    }

    /// Takes all messages in the queue, and confirms each after it was passed to `take`: unconfirmed ones come again
    /// after a broken connection.
    pub async fn take_each(&self, queue: &str, mut take: impl FnMut(Delivery)) -> Result<(), String> {
        let text = |error: lapin::Error| error.to_string();
        while let Some(message) =
            self.channel.basic_get(queue.into(), BasicGetOptions::default()).await.map_err(text)?
        {
            let acker = message.delivery.acker.clone();
            take(delivery(message));
            acker.ack(BasicAckOptions::default()).await.map_err(text)?;
        }
        Ok(())
    }

    /// Declares a durable direct exchange, and optionally a queue bound with this key.
    pub async fn declare(&self, exchange: &str, queue: Option<&str>, key: &str) {
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let table = FieldTable::default;
        let made = self.channel.exchange_declare(exchange.into(), ExchangeKind::Direct, durable, table()).await;
        made.expect("declare the exchange");
        if let Some(queue) = queue {
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            self.channel.queue_declare(queue.into(), durable, table()).await.expect("declare the queue");
            self.bind(exchange, queue, key).await;
        }
    }

    /// Declares a durable queue with these arguments.
    pub async fn declare_queue(&self, queue: &str, arguments: FieldTable) {
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), durable, arguments).await.expect("declare the queue");
    }

    /// Binds an existing queue.
    pub async fn bind(&self, exchange: &str, queue: &str, key: &str) {
        let queue = queue.into();
        let exchange = exchange.into();
        let key = key.into();
        let bound = self.channel.queue_bind(queue, exchange, key, Default::default(), FieldTable::default());
        bound.await.expect("bind the queue");
    }

    /// Deletes an exchange with its bindings.
    pub async fn delete_exchange(&self, exchange: &str) {
        self.channel.exchange_delete(exchange.into(), Default::default()).await.expect("delete the exchange");
    }
}

fn delivery(message: BasicGetMessage) -> Delivery {
    let message = message.delivery;
    let table = message.properties.headers().clone().unwrap_or_default();
    let mut headers: BTreeMap<String, Vec<u8>> =
        table.inner().iter().map(|(name, value)| (name.to_string(), bytes(value))).collect();
    for (name, value) in [
        ("message_id", message.properties.message_id()),
        ("app_id", message.properties.app_id()),
        ("content_type", message.properties.content_type()),
        ("correlation_id", message.properties.correlation_id()),
    ] {
        if let Some(value) = value {
            headers.insert(format!("property:{name}"), value.as_str().as_bytes().to_vec());
        }
    }
    for (name, value) in [
        ("timestamp", *message.properties.timestamp()),
        ("delivery_mode", message.properties.delivery_mode().map(u64::from)),
        ("priority", message.properties.priority().map(u64::from)),
    ] {
        if let Some(value) = value {
            headers.insert(format!("property:{name}"), value.to_string().into_bytes());
        }
    }
    let mut take = |name: &str| headers.remove(name).map(|value| String::from_utf8(value).expect("a header of text"));
    let id = take("delaybridge-id");
    let queue = take("delaybridge-queue");
    let due = take("delaybridge-due-ms");
    let attempt = take("delaybridge-attempt");
    Delivery {
        id,
        payload: message.data,
        queue,
        due_ms: due.map(|due| due.parse().expect("a due time is a number")),
        attempt: attempt.map(|attempt| attempt.parse().expect("an attempt is a number")),
        headers,
        key: Some(message.routing_key.as_str().as_bytes().to_vec()),
        ..Delivery::default()
    }
}

fn bytes(value: &AMQPValue) -> Vec<u8> {
    match value {
        AMQPValue::LongString(text) => text.as_bytes().to_vec(),
        other => format!("{other:?}").into_bytes(),
    }
}
