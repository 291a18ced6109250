//! A program that publishes delayed messages, as users write it, with confirmations.

use lapin::options::{
    BasicGetOptions, BasicNackOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};

/// A connection of a publisher.
pub struct Publisher {
    _connection: Connection,
    channel: Channel,
}

/// A text in a header.
pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// A table of headers or arguments.
pub fn table(pairs: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert((*name).into(), value.clone());
    }
    table
}

impl Publisher {
    /// Connects, and asks for confirmations.
    pub async fn connect(url: &str) -> Result<Publisher, String> {
        let text = |error: lapin::Error| error.to_string();
        let connection = Connection::connect(url, ConnectionProperties::default()).await.map_err(text)?;
        let channel = connection.create_channel().await.map_err(text)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(text)?;
        Ok(Publisher { _connection: connection, channel })
    }

    /// Declares the queue of an input with a dead-letter exchange, the exchange `delayed` that fills it with every routing key,
    /// and the queues that messages go on to.
    pub async fn declare(&self, input: &str, others: &[&str]) {
        self.declare_with(input, &[], others).await;
    }

    /// The same, and the queue of the input has these arguments too.
    pub async fn declare_with(&self, input: &str, further: &[(&str, AMQPValue)], others: &[&str]) {
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let refused = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("refused"))];
        let to_refused = table(&[&refused[..], further].concat());
        for (name, arguments) in [(input, to_refused), ("refused", FieldTable::default())]
            .into_iter()
            .chain(others.iter().map(|name| (*name, FieldTable::default())))
        {
            self.channel.queue_declare(name.into(), durable, arguments).await.expect("declare a queue");
        }
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declared =
            self.channel.exchange_declare("delayed".into(), ExchangeKind::Topic, options, FieldTable::default());
        declared.await.expect("declare the exchange");
        let bind = QueueBindOptions::default();
        self.channel
            .queue_bind(input.into(), "delayed".into(), "#".into(), bind, FieldTable::default())
            .await
            .expect("bind");
    }

    /// Takes all messages of a queue; returns how many there were, and how many had been handed out before.
    pub async fn take_all(&self, queue: &str) -> (usize, usize) {
        let mut all = 0;
        let mut handed_out = 0;
        let no_ack = BasicGetOptions { no_ack: true };
        while let Some(message) = self.channel.basic_get(queue.into(), no_ack).await.expect("take a message") {
            all += 1;
            handed_out += usize::from(message.redelivered);
        }
        (all, handed_out)
    }

    /// Takes all messages of a queue and returns them, as a consumer does that ends; returns how many there were.
    pub async fn hand_out(&self, queue: &str) -> usize {
        let mut all = 0;
        while self.channel.basic_get(queue.into(), BasicGetOptions::default()).await.expect("take a message").is_some()
        {
            all += 1;
        }
        let everything = BasicNackOptions { multiple: true, requeue: true };
        self.channel.basic_nack(0, everything).await.expect("return them");
        all
    }

    /// Publishes a message, and waits until the broker has it.
    pub async fn publish(
        &self,
        (exchange, key): (&str, &str),
        properties: BasicProperties,
        headers: &[(&str, AMQPValue)],
        body: &str,
    ) -> Result<(), String> {
        let properties = properties.with_delivery_mode(2).with_headers(table(headers));
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sent = self.channel.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties);
        let confirmed = sent.await.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
        if confirmed.is_ack() { Ok(()) } else { Err(format!("not confirmed: {confirmed:?}")) }
    }
}
