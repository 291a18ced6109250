//! The input `amqp`: the messages of one queue.
//!
//! `arrival` reads a delivery, `consumer` takes and settles them on a connection of the sink's supervisor, `window` says how many
//! at a time, `aside` keeps refused ones that cannot be rejected now. `questions` asks the broker about the queue, `declared` how it
//! was declared, `dead_lettering` whether the broker keeps what is rejected.

mod arrival;
mod aside;
mod consumer;
mod dead_lettering;
mod declared;
mod questions;
#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::{BROKER_KEYS, broker};
use crate::target::unfit_text;
use crate::{AmqpSpec, NAME, codes};
use consumer::AmqpInput;
use delaybridge_core::codes::Codes;
use delaybridge_input::{Input, InputConnector, InputKind, RedeliveryPlace};
use delaybridge_settings::keys::{Group, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::words;
use delaybridge_settings::{Settings, secrets};
use delaybridge_sink::Connector;

/// The kind.
pub static KIND: InputKind = InputKind {
    key: key(NAME, Kind::Section(&input_amqp::TABLE), "A queue of an AMQP 0-9-1 broker (RabbitMQ)."),
    tables: &[&input_amqp::TABLE],
    read: Some(read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

static BROKER: &[Group] = &[Group { of: None, keys: BROKER_KEYS }];

/// A queue whose messages wait in Redis until they are due. A message is acknowledged when Redis has its job; a refused
/// one is rejected to the queue's dead-letter exchange.
#[derive(Debug, Clone, Settings)]
#[settings(input_amqp, at = "inputs.NAME.amqp", offered = BROKER)]
pub struct AmqpInputSpec {
    /// The queue. It must exist.
    #[key(Kind::Text, required)]
    pub queue: String,
    /// Unacknowledged messages at most, held in memory.
    #[key(count(1, 65_535), default = "500")]
    pub prefetch: u32,
    /// Bytes of unacknowledged messages, by the largest of the last 1,000 (at first `max_body` of the topic). A single
    /// message may be larger.
    #[key(Kind::Size, default = "64MiB")]
    pub prefetch_bytes: u64,
    /// Origin of the queue's dead-letter exchange. `argument`: declared as `x-dead-letter-exchange`; if it is missing,
    /// refused messages are held, because the broker would drop them. `policy`: set by a policy of the broker, which is
    /// not checked.
    #[key(word::<DeadLetterExchange>(), default = "argument")]
    pub dead_letter_exchange: DeadLetterExchange,
    /// The broker and the login.
    #[settings(later = Arc::new(broker(section)))]
    pub broker: Arc<AmqpSpec>,
}

words! {
    /// The ways in which a queue gets its dead-letter exchange.
    pub enum DeadLetterExchange {
        /// A policy of the broker.
        Policy = "policy",
        /// An argument of its declaration.
        Argument = "argument",
    }
}

fn read(section: &Section<'_>) -> Arc<dyn InputConnector> {
    let spec = AmqpInputSpec::of(section);
    if let Some(problem) = unfit_text(&spec.queue) {
        section.cx.report.problem(&section.spot(&input_amqp::QUEUE), problem, "AMQP cannot carry more");
    }
    Arc::new(spec)
}

impl InputConnector for AmqpInputSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn input(&self) -> Arc<dyn Input> {
        Arc::new(AmqpInput::new(self.clone()))
    }

    fn settings(&self) -> Map<String, Value> {
        let broker = self.broker.settings();
        let of_broker = |name: &str| BROKER_KEYS.iter().any(|key| key.name == name) || name == "vhost";
        let hidden = [secrets::PASSWORD.name, secrets::PASSWORD_FILE.name];
        let broker = broker.into_iter().filter(|(name, _)| of_broker(name) || hidden.contains(&name.as_str()));
        broker.chain(self.shown()).chain([(input_amqp::QUEUE.name.to_owned(), json!(self.queue))]).collect()
    }

    fn address(&self) -> String {
        format!("queue {} at {}", self.queue, self.broker.address())
    }

    fn takes_from(&self, place: &RedeliveryPlace<'_>) -> bool {
        let to_queue = place.text("exchange") == Some("") && place.text("routing_key") == Some(&self.queue);
        place.kind == NAME && to_queue && place.address == self.broker.address()
    }
}
