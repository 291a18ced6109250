//! The message of an element, up to its body: header, properties, application properties. Pure.

use bytes::{BufMut, BytesMut};

use super::types::{describe, list, map};
use delaybridge_sink::Outbound;
use delaybridge_sink::headers::{IdText, Standard};

/// Name of a route's header that is the property of the message, not one of the application.
const CONTENT_TYPE: &str = "content-type";

/// Puts everything before the bytes of the body at the end. `to` is the address, where the link has none.
pub(super) fn head(out: &mut BytesMut, message: &Outbound, content_type: Option<&str>, to: Option<&str>) {
    let own = message.headers.iter().find(|(name, _)| is_content_type(name)).map(|(_, value)| value.as_str());
    list(out, 0x70, |header| {
        // Durable.
        header.flag(true);
    });
    list(out, 0x73, |properties| {
        properties.text(IdText::of(&message.id).as_str()).null();
        match to {
            Some(to) => properties.text(to),
            None => properties.null(),
        };
        properties.nulls(3);
        match own.or(content_type) {
            Some(content_type) => properties.symbol(content_type),
            None => properties.null(),
        };
        properties.nulls(2).timestamp(message.now_ms);
    });
    map(out, 0x74, |properties| {
        for (name, value) in Standard::of(message).iter() {
            properties.text(name).text(value);
        }
        for (name, value) in message.headers.iter().filter(|(name, _)| !is_content_type(name)) {
            properties.text(name).text(value);
        }
    });
    describe(out, 0x75);
    match u8::try_from(message.body.len()) {
        Ok(length) => out.put_slice(&[0xa0, length]),
        Err(_) => {
            out.put_u8(0xb0);
            out.put_u32(message.body.len() as u32);
        }
    }
}

fn is_content_type(name: &str) -> bool {
    name.eq_ignore_ascii_case(CONTENT_TYPE)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::types::WireValue;
    use super::*;
    use delaybridge_testing::sink::{anywhere, outbound};

    fn sections(message: &Outbound, content_type: Option<&str>, to: Option<&str>) -> Vec<WireValue> {
        let mut out = BytesMut::new();
        head(&mut out, message, content_type, to);
        out.extend_from_slice(&message.body);
        let mut bytes: Bytes = out.freeze();
        let sections = (0..4).map(|_| WireValue::take(&mut bytes).unwrap()).collect();
        assert!(bytes.is_empty());
        sections
    }

    #[test]
    fn a_message_is_durable_and_has_its_id_and_headers() {
        let mut message = outbound(0xab, anywhere(), "x".repeat(300));
        message.headers = vec![("tenant".into(), "t 1".to_owned()), ("Content-Type".into(), "text/plain".to_owned())];
        let read = sections(&message, Some("application/json"), None);
        assert_eq!(
            read.iter().map(|section| section.descriptor.unwrap()).collect::<Vec<_>>(),
            [0x70, 0x73, 0x74, 0x75]
        );
        assert!(read[0].fields().unwrap().flag(0));
        let properties = read[1].fields().unwrap();
        let text = |place: usize| properties.get(place).and_then(WireValue::text);
        assert_eq!(
            (text(0).as_deref(), text(2), text(6).as_deref()),
            (Some("00000000000000ab"), None, Some("text/plain"))
        );
        message.headers.clear();
        message.body = Bytes::from_static(b"short");
        let read = sections(&message, Some("application/json"), Some("orders"));
        let properties = read[1].fields().unwrap();
        let text = |place: usize| properties.get(place).and_then(WireValue::text);
        assert_eq!((text(2).as_deref(), text(6).as_deref()), (Some("orders"), Some("application/json")));
    }
}
