//! From a record of Kafka to an arrival. Pure.

use bytes::Bytes;
use delivery_status::RawHeader;
use rdkafka::message::{Message, Timestamp};

use super::partitions::TopicId;
use super::{DelayFrom, IdentityFrom, KafkaInputSpec};
use delaybridge_core::carried::Carried;
use delaybridge_input::Arrival;

/// The header with the id of a message.
const MESSAGE_ID: &str = "x-message-id";

/// A partition of a topic.
pub(super) type Partition = (String, i32);

/// The place of a record, and when the partition was ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RecordPlace {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// The number of times that the partition had been taken away before.
    pub(super) term: u64,
    /// The id of the topic, as far as it is known.
    pub(super) topic_id: Option<TopicId>,
}

impl RecordPlace {
    /// The place as an id, which a record has for good.
    pub(super) fn id(&self) -> String {
        format!("{}-{}-{}", self.topic, self.partition, self.offset)
    }
}

/// The arrival that a record with these headers is, and its place.
pub(super) fn arrival(spec: &KafkaInputSpec, record: &impl Message, headers: Vec<RawHeader>) -> (RecordPlace, Arrival) {
    let place = RecordPlace {
        topic: record.topic().to_owned(),
        partition: record.partition(),
        offset: record.offset(),
        term: 0,
        topic_id: None,
    };
    let mut origin = vec![("topic".to_owned(), place.topic.clone())];
    // The same message at another place is the same message, if it has an identity of its own.
    if spec.identity == IdentityFrom::Position {
        origin.push(("partition".to_owned(), place.partition.to_string()));
        origin.push(("offset".to_owned(), place.offset.to_string()));
    }
    let key = record.key().map(Bytes::copy_from_slice);
    let mut carried = Carried { origin, key, ..Carried::default() };
    let mut is_partial = false;
    for (name, value) in headers {
        let name = String::from_utf8(name).unwrap_or_else(|odd| {
            is_partial = true;
            String::from_utf8_lossy(odd.as_bytes()).into_owned()
        });
        match String::from_utf8(value.unwrap_or_default()) {
            Ok(text) => carried.headers.push((name, text)),
            Err(bytes) => carried.others.push((name, bytes.into_bytes().into())),
        }
    }
    let written_ms = match record.timestamp() {
        Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => Some(ms),
        Timestamp::NotAvailable => None,
    };
    let of_header = || carried.field(&format!("header.{MESSAGE_ID}")).map(|id| id.into_owned());
    let of_key = || record.key().and_then(|key| std::str::from_utf8(key).ok()).map(str::to_owned);
    let own = match spec.identity {
        IdentityFrom::Position => None,
        IdentityFrom::Header => of_header(),
        IdentityFrom::Key => of_key(),
    };
    let id = own.filter(|id| !id.is_empty()).unwrap_or_else(|| place.id());
    let published_ms = written_ms.filter(|_| spec.delay_from == DelayFrom::Timestamp);
    let body = Bytes::copy_from_slice(record.payload().unwrap_or_default());
    (place, Arrival { id: Some(id), published_ms, is_partial, ..Arrival::of(carried, body) })
}

#[cfg(test)]
mod tests {
    use rdkafka::message::OwnedMessage;

    use super::*;
    use crate::input::tests::spec;

    fn read(spec: &KafkaInputSpec, headers: &[(&[u8], &[u8])]) -> (RecordPlace, Arrival) {
        let (value, key) = (Some(b"body".to_vec()), Some(b"k-1".to_vec()));
        let record = OwnedMessage::new(value, key, "delay-in".to_owned(), Timestamp::CreateTime(1000), 3, 15, None);
        arrival(spec, &record, headers.iter().map(|(name, value)| (name.to_vec(), Some(value.to_vec()))).collect())
    }

    #[test]
    fn a_name_that_is_no_text_is_kept_as_far_as_it_can_be_and_said() {
        let (_, arrival) = read(&spec(), &[(b"x-delay", b"5000"), (b"t\xff", b"a")]);
        assert!(arrival.is_partial);
        assert_eq!(arrival.carried.headers, [("t\u{fffd}".to_owned(), "a".to_owned())]);
    }

    #[test]
    fn a_record_keeps_its_key_and_headers_and_is_known_by_its_place() {
        let headers: [(&[u8], &[u8]); 4] =
            [(b"x-delay", b"5000"), (b"x-delay-to", b"orders"), (b"tenant", b"a"), (b"binary", b"\xff\x00")];
        let (place, arrival) = read(&spec(), &headers);
        assert!(!arrival.is_partial);
        assert_eq!((place.id().as_str(), arrival.id.as_deref()), ("delay-in-3-15", Some("delay-in-3-15")));
        assert_eq!((arrival.delay.as_deref(), arrival.carried.to.as_deref()), (Some("5000"), Some("orders")));
        assert_eq!(arrival.carried.headers, [("tenant".to_owned(), "a".to_owned())]);
        assert_eq!(arrival.carried.others, [("binary".to_owned(), Bytes::from_static(b"\xff\x00"))]);
        assert_eq!((arrival.carried.key.as_deref(), arrival.published_ms), (Some(&b"k-1"[..]), None));
    }

    #[test]
    fn the_identity_and_the_begin_of_a_delay_are_chosen() {
        let headers: &[(&[u8], &[u8])] = &[(MESSAGE_ID.as_bytes(), b"m-1")];
        let of = |identity, headers| {
            let spec = KafkaInputSpec { identity, delay_from: DelayFrom::Timestamp, ..spec() };
            let (_, arrival) = read(&spec, headers);
            assert_eq!(arrival.published_ms, Some(1000));
            arrival.id
        };
        assert_eq!(of(IdentityFrom::Header, headers).as_deref(), Some("m-1"));
        assert_eq!(of(IdentityFrom::Header, &[]).as_deref(), Some("delay-in-3-15"));
        assert_eq!(of(IdentityFrom::Key, headers).as_deref(), Some("k-1"));
    }
}
