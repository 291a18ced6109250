//! Messages of RocketMQ as deliveries.

use std::collections::BTreeMap;

use brokers::RocketMqMessage;

use super::oracle::Delivery;

/// The delivery that a message is.
pub fn delivery(message: RocketMqMessage) -> Delivery {
    let mut headers: BTreeMap<String, String> = message.properties.into_iter().collect();
    let mut take = |name: &str| headers.remove(name);
    let id = take("delaybridge-id");
    let queue = take("delaybridge-queue");
    let key = take("__SHARDINGKEY");
    let due = take("delaybridge-due-ms");
    let attempt = take("delaybridge-attempt");
    Delivery {
        id,
        payload: message.body,
        queue,
        due_ms: due.map(|due| due.parse().expect("a due time is a number")),
        attempt: attempt.map(|attempt| attempt.parse().expect("an attempt is a number")),
        headers: headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
        key: key.map(String::into_bytes),
        arrived_ms: message.stored_ms,
        partition: i32::try_from(message.queue).ok(),
        ..Delivery::default()
    }
}
