//! Messages as a broker takes them: one in a request, or several for one queue.

use std::collections::BTreeMap;

use bytes::{BufMut, BytesMut};

use super::frame::RemotingRequest;
use super::route::RouteQueue;
use super::{code, properties};
use crate::RocketMqDestination;
use delaybridge_sink::Outbound;

/// Longest body: brokers end a connection with a frame of 16 MiB, and answer nothing.
const MAX_BODY: usize = 15 << 20;
/// Bytes of a message in a batch beside body and properties.
const OVERHEAD: usize = 22;

/// A message that is ready to be sent, but for the permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadyMessage {
    properties: String,
    /// The number of its bytes in a batch.
    pub(crate) size: usize,
}

impl ReadyMessage {
    /// Builds the message of an element. An error is one with every broker.
    pub(crate) fn of(message: &Outbound, destination: &RocketMqDestination) -> Result<ReadyMessage, &'static str> {
        if message.body.len() > MAX_BODY {
            return Err("the body is longer than 15 MiB");
        }
        let properties = properties::text(message, destination)?;
        let size = OVERHEAD + message.body.len() + properties.len();
        Ok(ReadyMessage { properties, size })
    }
}

/// Builds the request that sends messages to a queue of a topic, for producers of this group.
pub(crate) fn send<'a>(
    group: &str,
    topic: &str,
    queue: &RouteQueue,
    messages: impl ExactSizeIterator<Item = (&'a Outbound, &'a ReadyMessage)> + Clone,
) -> RemotingRequest {
    let mut bytes = messages.clone();
    let first = bytes.next();
    // A request without a body is an error to brokers: an empty message goes as a batch of one.
    let alone = first.filter(|(message, _)| messages.len() == 1 && !message.body.is_empty());
    let born_ms = first.map_or(0, |(message, _)| message.now_ms);
    let mut fields = BTreeMap::from([
        ("a", group.to_owned()),
        ("b", topic.to_owned()),
        // The topic whose settings a missing one would be made with: none, so that none is made.
        ("c", String::new()),
        ("d", "4".to_owned()),
        ("e", queue.number.to_string()),
        ("f", "0".to_owned()),
        ("g", born_ms.to_string()),
        ("h", "0".to_owned()),
        ("j", "0".to_owned()),
        ("k", "false".to_owned()),
        ("m", alone.is_none().to_string()),
        ("n", queue.broker.to_string()),
    ]);
    match alone {
        Some((message, wire)) => {
            fields.insert("i", wire.properties.clone());
            RemotingRequest { code: code::SEND, fields, body: message.body.clone() }
        }
        None => {
            fields.insert("i", String::new());
            RemotingRequest { code: code::SEND_BATCH, fields, body: batch(messages).freeze() }
        }
    }
}

/// Writes for each message its length, three numbers that the broker makes anew, body and properties.
fn batch<'a>(messages: impl Iterator<Item = (&'a Outbound, &'a ReadyMessage)> + Clone) -> BytesMut {
    let mut out = BytesMut::with_capacity(messages.clone().map(|(_, wire)| wire.size).sum());
    for (message, wire) in messages {
        out.put_u32(wire.size as u32);
        out.put_bytes(0, 12);
        out.put_u32(message.body.len() as u32);
        out.put_slice(&message.body);
        out.put_u16(wire.properties.len() as u16);
        out.put_slice(wire.properties.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;
    use delaybridge_testing::sink::{anywhere, outbound};

    fn request(bodies: &[&str]) -> RemotingRequest {
        let destination = RocketMqDestination { topic: "t".into(), tags: None, keys: None, sharding_key: None };
        let messages: Vec<_> = (0..).zip(bodies).map(|(id, body)| outbound(id, anywhere(), body)).collect();
        let wire: Vec<_> = messages.iter().map(|message| ReadyMessage::of(message, &destination).unwrap()).collect();
        let queue = RouteQueue { broker: "b".into(), number: 3, master: None };
        send("g", "t", &queue, messages.iter().zip(&wire))
    }

    #[test]
    fn one_message_is_the_body_and_several_are_a_batch() {
        let one = request(&["body"]);
        assert_eq!((one.code, &one.body[..], &*one.fields["e"], &*one.fields["m"]), (310, &b"body"[..], "3", "false"));
        assert!(one.fields["i"].starts_with("KEYS\u{1}0000000000000000\u{2}"));
        assert_eq!(one.fields["c"], "", "no topic is made");
        for bodies in [&["one", ""][..], &[""][..]] {
            let many = request(bodies);
            assert_eq!((many.code, &*many.fields["m"], &*many.fields["i"]), (320, "true", ""));
            let mut rest = many.body;
            for body in bodies {
                let length = rest.get_u32() as usize;
                assert_eq!((rest.get_u64(), rest.get_u32()), (0, 0));
                let length_of_body = rest.get_u32() as usize;
                assert_eq!(&rest.split_to(length_of_body)[..], body.as_bytes());
                let properties = rest.get_u16() as usize;
                assert_eq!(length, 22 + length_of_body + properties);
                rest.advance(properties);
            }
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_body_that_would_end_the_connection_is_refused() {
        let destination = RocketMqDestination { topic: "t".into(), tags: None, keys: None, sharding_key: None };
        let message = outbound(1, anywhere(), vec![0; MAX_BODY + 1]);
        assert_eq!(ReadyMessage::of(&message, &destination), Err("the body is longer than 15 MiB"));
    }
}
