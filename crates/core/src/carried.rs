//! A message of a broker that waits as the body of a job: its address, headers and properties in front of its body.
//!
//! An input makes it, a queue that delivers the job opens it. Every text is kept as it came, and headers that are no text
//! as the bytes of their protocol. Numbers are little endian:
//!
//! ```text
//! "dbm1" | fields 2 | fields | body            field: kind 1 | n 2 | name n | m 4 | value m
//! ```
//!
//! A record of Kafka whose value or headers are not all texts has them once more in a field of its own, for a destination in Kafka:
//!
//! ```text
//! null value 1 | headers          header: n 4 | name n | null 1 | m 4 | value m
//! ```
//!
//! A field of a kind that is not known is skipped, so that a newer daemon may add some.

use std::borrow::Cow;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The media type of a job whose body is such a message.
pub const CONTENT_TYPE: &str = "application/vnd.delaybridge.message";

const MAGIC: &[u8; 4] = b"dbm1";

/// Header of ours with the queue's id in the configuration.
pub const QUEUE: &str = "delaybridge-queue";
/// Header of ours with the due time in milliseconds since the epoch; absent where it is not known.
pub const DUE_MS: &str = "delaybridge-due-ms";
/// Headers that tell the input what to do, in every spelling. They are not delivered.
pub const OWN_HEADERS: [&str; 3] = [DELAY, DUE, TO];
/// Header with the delay in milliseconds.
pub const DELAY: &str = "x-delay";
/// Header with the due time: milliseconds since 1970, or RFC 3339.
pub const DUE: &str = "x-due";
/// Header with the address: a routing key, topic or queue.
pub const TO: &str = "x-delay-to";
/// Header with the priority of the job, 0 to 9. It is delivered too.
pub const PRIORITY: &str = "x-priority";

/// A message without its body: address, headers and properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The address in its header `x-delay-to`.
    pub to: Option<String>,
    /// The place it was published to, by name: `exchange` and `routing_key`, or `topic`, `partition` and `offset`.
    pub origin: Vec<(String, String)>,
    /// The key of its record.
    pub key: Option<Bytes>,
    /// The headers that are texts.
    pub headers: Vec<(String, String)>,
    /// The properties of its protocol, by name.
    pub properties: Vec<(String, String)>,
    /// The headers that are no texts, as a table of AMQP or one by one, in the bytes of the protocol.
    pub others: Vec<(String, Bytes)>,
    /// The record of Kafka that it was, if texts do not say all of it.
    pub record: Option<KafkaRecord>,
}

/// A record of Kafka without its key, and without its value where it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaRecord {
    /// Whether its value is null: a tombstone. The body is empty.
    pub is_null: bool,
    /// All headers in their order; `None` for a header whose value is null.
    pub headers: Vec<(String, Option<Bytes>)>,
}

impl KafkaRecord {
    fn pack(&self) -> Option<Bytes> {
        let mut packed = BytesMut::new();
        packed.put_u8(self.is_null.into());
        for (name, value) in &self.headers {
            packed.put_u32_le(u32::try_from(name.len()).ok()?);
            packed.put_slice(name.as_bytes());
            let text = value.as_deref().unwrap_or_default();
            packed.put_u8(value.is_none().into());
            packed.put_u32_le(u32::try_from(text.len()).ok()?);
            packed.put_slice(text);
        }
        Some(packed.freeze())
    }

    fn open(mut rest: Bytes) -> Result<KafkaRecord, NotCarried> {
        let mut record = KafkaRecord { is_null: take(&mut rest, 1)?[0] != 0, headers: Vec::new() };
        while !rest.is_empty() {
            let name = text(take_sized(&mut rest)?)?;
            let is_null = take(&mut rest, 1)?[0] != 0;
            let value = take_sized(&mut rest)?;
            record.headers.push((name, (!is_null).then_some(value)));
        }
        Ok(record)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    To = 1,
    Origin = 2,
    Key = 3,
    Header = 4,
    Property = 5,
    Other = 6,
    Record = 7,
}

/// The error for bytes that are no such message, or one that was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the job is no message of an input, or a damaged one")]
pub struct NotCarried;

impl Carried {
    /// Returns the bytes of the job's body; `None` if there are more fields than can be kept, or one is too long.
    pub fn pack(&self, body: &[u8]) -> Option<Bytes> {
        let record = match &self.record {
            Some(record) => Some(record.pack()?),
            None => None,
        };
        let mut packed = BytesMut::with_capacity(256 + body.len());
        packed.put_slice(MAGIC);
        packed.put_u16_le(0);
        // A message without one of its fields would be another message.
        let mut fields = Some(0_u16);
        let mut put = |kind: Kind, name: &str, value: &[u8]| {
            let (Ok(long), Ok(large)) = (u16::try_from(name.len()), u32::try_from(value.len())) else {
                fields = None;
                return;
            };
            packed.put_u8(kind as u8);
            packed.put_u16_le(long);
            packed.put_slice(name.as_bytes());
            packed.put_u32_le(large);
            packed.put_slice(value);
            fields = fields.and_then(|fields| fields.checked_add(1));
        };
        self.to.iter().for_each(|to| put(Kind::To, "", to.as_bytes()));
        self.origin.iter().for_each(|(name, value)| put(Kind::Origin, name, value.as_bytes()));
        self.key.iter().for_each(|key| put(Kind::Key, "", key));
        self.headers.iter().for_each(|(name, value)| put(Kind::Header, name, value.as_bytes()));
        self.properties.iter().for_each(|(name, value)| put(Kind::Property, name, value.as_bytes()));
        self.others.iter().for_each(|(name, value)| put(Kind::Other, name, value));
        record.iter().for_each(|record| put(Kind::Record, "", record));
        packed.put_slice(body);
        packed[4..6].copy_from_slice(&fields?.to_le_bytes());
        Some(packed.freeze())
    }

    /// Takes the bytes apart: what was beside the body, and the body, which shares their memory.
    ///
    /// # Errors
    /// The bytes are no such message.
    pub fn open(packed: &Bytes) -> Result<(Carried, Bytes), NotCarried> {
        let mut rest = packed.clone();
        if rest.len() < 6 || &rest[..4] != MAGIC {
            return Err(NotCarried);
        }
        rest.advance(4);
        let mut found = Carried::default();
        for _ in 0..rest.get_u16_le() {
            let kind = take(&mut rest, 1)?[0];
            let long = take(&mut rest, 2)?.get_u16_le();
            let name = text(take(&mut rest, long.into())?)?;
            let value = take_sized(&mut rest)?;
            match kind {
                1 => found.to = Some(text(value)?),
                2 => found.origin.push((name, text(value)?)),
                3 => found.key = Some(value),
                4 => found.headers.push((name, text(value)?)),
                5 => found.properties.push((name, text(value)?)),
                6 => found.others.push((name, value)),
                7 => found.record = Some(KafkaRecord::open(value)?),
                _ => {}
            }
        }
        Ok((found, rest))
    }

    /// Returns the value at this path of a template: `exchange`, `routing_key`, `topic`, `key`, `header.NAME`,
    /// `property.NAME`.
    pub fn field(&self, path: &str) -> Option<Cow<'_, str>> {
        let of = |pairs: &'_ [(String, String)], name: &str| -> Option<String> {
            pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        if let Some(name) = path.strip_prefix("header.") {
            return of(&self.headers, name).map(Cow::Owned);
        }
        if let Some(name) = path.strip_prefix("property.") {
            return of(&self.properties, name).map(Cow::Owned);
        }
        match path {
            "key" => std::str::from_utf8(self.key.as_ref()?).ok().map(Cow::Borrowed),
            _ => of(&self.origin, path).map(Cow::Owned),
        }
    }

    /// Returns the property of this name.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the priority: the header `x-priority`, else the property `priority`. 0 for none, or one that is no
    /// number.
    pub fn priority(&self) -> u64 {
        let header = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(PRIORITY));
        let given = header.map(|(_, value)| value.as_str()).or_else(|| self.property("priority"));
        given.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Returns whether templates may name this path.
    pub fn has_field(path: &str) -> bool {
        let named = |prefix| path.strip_prefix(prefix).is_some_and(|name: &str| !name.is_empty());
        ["exchange", "routing_key", "topic", "partition", "offset", "key"].contains(&path)
            || named("header.")
            || named("property.")
    }
}

fn take(rest: &mut Bytes, count: usize) -> Result<Bytes, NotCarried> {
    if rest.len() < count { Err(NotCarried) } else { Ok(rest.split_to(count)) }
}

/// Takes bytes that have their length in front of them.
fn take_sized(rest: &mut Bytes) -> Result<Bytes, NotCarried> {
    let size = take(rest, 4)?.get_u32_le();
    take(rest, usize::try_from(size).map_err(|_| NotCarried)?)
}

fn text(bytes: Bytes) -> Result<String, NotCarried> {
    String::from_utf8(bytes.into()).map_err(|_| NotCarried)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Carried {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Carried {
            to: Some("orders".to_owned()),
            origin: vec![pair("exchange", "delayed"), pair("routing_key", "order.due")],
            key: Some(Bytes::from_static(b"k")),
            headers: vec![pair("tenant", "ü"), pair("empty", "")],
            properties: vec![pair("priority", "5")],
            others: vec![("count".to_owned(), Bytes::from_static(b"\x00\xff"))],
            record: Some(KafkaRecord {
                is_null: true,
                headers: vec![
                    ("count".to_owned(), Some(Bytes::from_static(b"\x00\xff"))),
                    ("tenant".to_owned(), Some(Bytes::new())),
                    ("tenant".to_owned(), None),
                ],
            }),
        }
    }

    #[test]
    fn a_message_reads_back_and_its_body_shares_the_memory() {
        for carried in [full(), Carried::default()] {
            let packed = carried.pack(b"body \xff").unwrap();
            let (read, body) = Carried::open(&packed).unwrap();
            assert_eq!((read, &body[..]), (carried, &b"body \xff"[..]));
            assert_eq!(body.as_ptr_range().end, packed.as_ptr_range().end);
        }
    }

    #[test]
    fn fields_that_cannot_be_kept_are_no_message() {
        let with = |headers| Carried { headers, ..Carried::default() }.pack(b"body");
        let many = |count: usize| vec![(String::new(), String::new()); count];
        let (kept, body) = Carried::open(&with(many(65_535)).unwrap()).unwrap();
        assert_eq!((kept.headers.len(), &body[..]), (65_535, &b"body"[..]));
        assert_eq!(with(many(65_536)), None);
        assert!(with(vec![("n".repeat(65_535), String::new())]).is_some());
        assert_eq!(with(vec![("n".repeat(65_536), String::new())]), None);
    }

    #[test]
    fn bytes_that_were_cut_off_are_refused() {
        let packed = full().pack(b"").unwrap();
        for end in 0..packed.len() {
            assert_eq!(Carried::open(&packed.slice(..end)), Err(NotCarried), "{end}");
        }
        assert_eq!(Carried::open(&Bytes::from_static(b"{\"a\":\"body\"}")), Err(NotCarried));
    }

    #[test]
    fn a_field_of_a_newer_kind_is_skipped() {
        let mut packed = full().pack(b"body").unwrap().to_vec();
        packed[6] = 200;
        let (read, body) = Carried::open(&packed.into()).unwrap();
        assert_eq!((read, &body[..]), (Carried { to: None, ..full() }, &b"body"[..]));
    }

    #[test]
    fn the_priority_is_that_of_the_header_before_that_of_the_property() {
        let with = |header: Option<&str>, property: Option<&str>| {
            let pair = |name: &str, value: Option<&str>| value.map(|value| (name.to_owned(), value.to_owned()));
            let headers = pair("X-Priority", header);
            let properties = pair("priority", property);
            let headers = headers.into_iter().collect();
            Carried { headers, properties: properties.into_iter().collect(), ..Carried::default() }.priority()
        };
        for (header, property, expected) in [
            (None, None, 0),
            (None, Some("5"), 5),
            (Some("7"), Some("5"), 7),
            (Some(" 255 "), None, 255),
            (Some("high"), Some("5"), 0),
            (Some("-1"), None, 0),
        ] {
            assert_eq!(with(header, property), expected, "{header:?} {property:?}");
        }
    }

    #[test]
    fn templates_find_the_parts_by_name() {
        let carried = full();
        let found = |path| carried.field(path).map(Cow::into_owned);
        assert_eq!(found("routing_key").as_deref(), Some("order.due"));
        assert_eq!(found("header.Tenant").as_deref(), Some("ü"));
        assert_eq!(found("property.priority").as_deref(), Some("5"));
        assert_eq!(found("key").as_deref(), Some("k"));
        assert_eq!((found("topic"), found("header.none")), (None, None));
        for (path, known) in [("header.", false), ("header.x", true), ("exchange", true), ("to", false), ("", false)] {
            assert_eq!(Carried::has_field(path), known, "{path}");
        }
    }
}
