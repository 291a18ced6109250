//! The messages in a queue of ActiveMQ Artemis.

use std::collections::BTreeMap;

use brokers::{Artemis, ArtemisMessage};

use super::oracle::Delivery;

/// All messages in a queue, in their order.
pub fn read_queue(artemis: &Artemis, queue: &str) -> Result<Vec<Delivery>, String> {
    let messages = artemis.messages(queue).map_err(|e| e.to_string())?;
    Ok(messages.into_iter().map(|message| delivery(message, queue)).collect())
}

/// Takes all messages of a queue, in their order.
pub fn take_from_queue(artemis: &Artemis, queue: &str) -> Result<Vec<Delivery>, String> {
    let messages = artemis.take(queue).map_err(|e| e.to_string())?;
    Ok(messages.into_iter().map(|message| delivery(message, queue)).collect())
}

fn delivery(message: ArtemisMessage, queue: &str) -> Delivery {
    let mut headers: BTreeMap<String, Vec<u8>> =
        message.properties.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
    let mut take = |name: &str| headers.remove(name).map(|value| String::from_utf8(value).expect("text"));
    let id = take("delaybridge-id");
    let name = take("delaybridge-queue");
    assert_eq!(id.as_deref(), Some(message.id.as_str()), "the message's own id is the element's");
    let due = take("delaybridge-due-ms");
    let attempt = take("delaybridge-attempt");
    Delivery {
        id,
        payload: message.body,
        queue: name,
        due_ms: due.map(|due| due.parse().expect("a due time is a number")),
        attempt: attempt.map(|attempt| attempt.parse().expect("an attempt is a number")),
        arrived_ms: Some(message.arrived_ms).filter(|ms| *ms > 0),
        headers,
        key: Some(queue.as_bytes().to_vec()),
        ..Delivery::default()
    }
}
