//! The body of a job as its consumer sees it: a job of an input has the message's own body, with what was beside it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use delaybridge_core::carried::{CONTENT_TYPE, Carried};

/// A message of a broker that an input has scheduled, without its body.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Message")]
pub struct MessageShape {
    /// The address in its header `x-delay-to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// The place where it was published: `exchange` and `routing_key`, or `topic`, `partition` and `offset`.
    origin: BTreeMap<String, String>,
    /// The key of its record, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The key of its record in base64, if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    /// The headers that have a text.
    headers: BTreeMap<String, String>,
    /// The properties of its protocol.
    properties: BTreeMap<String, String>,
}

impl From<Carried> for MessageShape {
    fn from(carried: Carried) -> MessageShape {
        let Carried { to, origin, key, headers, properties, others: _, record: _ } = carried;
        let key = key.map(|key| std::str::from_utf8(&key).map(str::to_owned).map_err(|_| STANDARD.encode(&key)));
        let (key, key_base64) = match key {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(base64)) => (None, Some(base64)),
        };
        let table = |pairs: Vec<(String, String)>| pairs.into_iter().collect();
        MessageShape {
            to,
            origin: table(origin),
            key,
            key_base64,
            headers: table(headers),
            properties: table(properties),
        }
    }
}

/// A job's body, its content type, and what was beside it if it is a message of an input.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenBody {
    /// The body.
    pub body: Bytes,
    /// The content type that the client, or the publisher, gave.
    pub content_type: String,
    /// The rest of the message.
    pub message: Option<MessageShape>,
}

impl OpenBody {
    /// Opens the body of a job with this content type. What claims to be a message of an input but cannot be read as
    /// one is a plain body.
    pub fn of(body: &Bytes, content_type: &str) -> OpenBody {
        let carried = if content_type == CONTENT_TYPE { Carried::open(body).ok() } else { None };
        match carried {
            None => OpenBody { body: body.clone(), content_type: content_type.to_owned(), message: None },
            Some((carried, body)) => OpenBody {
                body,
                content_type: carried.property("content_type").unwrap_or_default().to_owned(),
                message: Some(carried.into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_an_input_is_opened_and_nothing_else_is() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let carried = Carried {
            origin: vec![pair("exchange", "delayed")],
            key: Some(Bytes::from_static(b"\xff")),
            headers: vec![pair("tenant", "a")],
            properties: vec![pair("content_type", "application/json"), pair("priority", "5")],
            ..Carried::default()
        };
        let packed = carried.pack(b"{}").unwrap();
        let open = OpenBody::of(&packed, CONTENT_TYPE);
        assert_eq!((&open.body[..], &*open.content_type), (&b"{}"[..], "application/json"));
        let message = open.message.expect("a message");
        assert_eq!((message.headers["tenant"].as_str(), message.properties["priority"].as_str()), ("a", "5"));
        assert_eq!((message.key, message.key_base64.as_deref()), (None, Some("/w==")));
        for (body, content_type) in [(packed, "text/plain"), (Bytes::from_static(b"dbm1"), CONTENT_TYPE)] {
            let expected = OpenBody { body: body.clone(), content_type: content_type.to_owned(), message: None };
            assert_eq!(OpenBody::of(&body, content_type), expected);
        }
    }
}
