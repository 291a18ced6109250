//! From a record of Kafka to an arrival. Pure.

use std::sync::Arc;

use bytes::Bytes;
use delivery_status::RawHeader;
use rdkafka::message::Message;
use xxhash_rust::xxh3::Xxh3;

use super::{DelayFrom, IdentityFrom, KafkaInputSpec};
use delaybridge_core::carried::{Carried, KafkaRecord};
use delaybridge_input::{Arrival, FormerId};

const MESSAGE_ID: &str = "x-message-id";

pub(super) type Partition = (String, i32);

/// The id of a topic, which tells it from an earlier one of the same name.
pub(super) type TopicId = Arc<str>;

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
    /// Returns the place as an id. Other records may have had it: of an earlier topic of the name, or of another
    /// cluster.
    pub(super) fn id(&self) -> String {
        format!("{}-{}-{}", self.topic, self.partition, self.offset)
    }
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Returns the hash of all that a record is, and of the id of its cluster: it tells a record from another one at the
/// same place. It is the same for good, because a record never changes. The id of the topic is no part of it: brokers
/// before Kafka 2.8 have none, and a client learns late that a topic was made again.
fn hash(cluster_id: &str, record: &impl Message, headers: &[RawHeader]) -> u128 {
    let mut hash = Xxh3::new();
    let mut add = |part: Option<&[u8]>| {
        hash.update(&part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
        hash.update(part.unwrap_or_default());
    };
    let written_ms = record.timestamp().to_millis().map(i64::to_le_bytes);
    for part in [Some(cluster_id.as_bytes()), written_ms.as_ref().map(|ms| &ms[..]), record.key(), record.payload()] {
        add(part);
    }
    for (name, value) in headers {
        add(Some(name));
        add(value.as_deref());
    }
    hash.digest128()
}

/// Reads a record with these headers, in the cluster with this id, as an arrival and its place.
pub(super) fn arrival(
    spec: &KafkaInputSpec,
    cluster_id: &str,
    record: &impl Message,
    headers: Vec<RawHeader>,
) -> (RecordPlace, Arrival) {
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
    let hash = hash(cluster_id, record, &headers);
    let key = record.key().map(Bytes::copy_from_slice);
    let is_text = |(_, value): &RawHeader| value.as_deref().is_some_and(|value| std::str::from_utf8(value).is_ok());
    let is_plain = record.payload().is_some() && headers.iter().all(is_text);
    let exact = (!is_plain).then(|| KafkaRecord {
        is_null: record.payload().is_none(),
        headers: headers.iter().map(|(name, value)| (lossy(name), value.clone().map(Bytes::from))).collect(),
    });
    let mut carried = Carried { origin, key, record: exact, ..Carried::default() };
    let mut is_partial = false;
    for (name, value) in headers {
        let name = String::from_utf8(name).unwrap_or_else(|odd| {
            is_partial = true;
            lossy(odd.as_bytes())
        });
        match String::from_utf8(value.unwrap_or_default()) {
            Ok(text) => carried.headers.push((name, text)),
            Err(bytes) => carried.others.push((name, bytes.into_bytes().into())),
        }
    }
    let written_ms = record.timestamp().to_millis();
    let of_header = || carried.field(&format!("header.{MESSAGE_ID}")).map(|id| id.into_owned());
    let of_key = || record.key().and_then(|key| std::str::from_utf8(key).ok()).map(str::to_owned);
    let own = match spec.identity {
        IdentityFrom::Position => None,
        IdentityFrom::Header => of_header(),
        IdentityFrom::Key => of_key(),
    };
    let (id, former) = match own.filter(|id| !id.is_empty()) {
        Some(own) => (own, None),
        None => {
            let former = FormerId { id: place.id(), written_ms: written_ms.unwrap_or_default() };
            (format!("{}~{hash:032x}", former.id), Some(former))
        }
    };
    let published_ms = written_ms.filter(|_| spec.delay_from == DelayFrom::Timestamp);
    let body = Bytes::copy_from_slice(record.payload().unwrap_or_default());
    // An id made of the record comes again only with the record.
    let is_redelivered = former.is_some();
    (place, Arrival { id: Some(id), former, published_ms, is_partial, is_redelivered, ..Arrival::of(carried, body) })
}

#[cfg(test)]
mod tests {
    use rdkafka::message::{OwnedMessage, Timestamp};

    use super::*;
    use crate::input::tests::spec;

    const WRITTEN: Timestamp = Timestamp::CreateTime(1000);

    fn record(timestamp: Timestamp, key: Option<&str>, value: Option<&str>) -> OwnedMessage {
        let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        OwnedMessage::new(bytes(value), bytes(key), "delay-in".to_owned(), timestamp, 3, 15, None)
    }

    fn read(spec: &KafkaInputSpec, headers: &[(&[u8], &[u8])]) -> (RecordPlace, Arrival) {
        let record = record(WRITTEN, Some("k-1"), Some("body"));
        let headers = headers.iter().map(|(name, value)| (name.to_vec(), Some(value.to_vec())));
        arrival(spec, "cluster", &record, headers.collect())
    }

    #[test]
    fn a_name_that_is_no_text_is_kept_as_far_as_it_can_be_and_said() {
        let (_, arrival) = read(&spec(), &[(b"x-delay", b"5000"), (b"t\xff", b"a")]);
        assert!(arrival.is_partial);
        assert_eq!(arrival.carried.headers, [("t\u{fffd}".to_owned(), "a".to_owned())]);
    }

    #[test]
    fn a_record_keeps_its_key_and_headers_and_is_known_by_its_place_and_what_it_is() {
        let headers: [(&[u8], &[u8]); 4] =
            [(b"x-delay", b"5000"), (b"x-delay-to", b"orders"), (b"tenant", b"a"), (b"binary", b"\xff\x00")];
        let (place, arrival) = read(&spec(), &headers);
        assert!(!arrival.is_partial);
        assert_eq!(place.id(), "delay-in-3-15");
        // It is the same in every version.
        assert_eq!(arrival.id.as_deref(), Some("delay-in-3-15~44e9ffa2c2f93331cc0ce450a76b38ba"));
        assert_eq!(arrival.former, Some(FormerId { id: "delay-in-3-15".to_owned(), written_ms: 1000 }));
        assert_eq!((arrival.delay.as_deref(), arrival.carried.to.as_deref()), (Some("5000"), Some("orders")));
        assert_eq!(arrival.carried.headers, [("tenant".to_owned(), "a".to_owned())]);
        assert_eq!(arrival.carried.others, [("binary".to_owned(), Bytes::from_static(b"\xff\x00"))]);
        assert_eq!((arrival.carried.key.as_deref(), arrival.published_ms), (Some(&b"k-1"[..]), None));
    }

    #[test]
    fn a_record_that_texts_do_not_say_is_kept_as_it_is_too() {
        let exact = |value: Option<&str>, headers: &[(&str, Option<&[u8]>)]| {
            let headers = headers.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.map(<[u8]>::to_vec)));
            arrival(&spec(), "cluster", &record(WRITTEN, None, value), headers.collect()).1.carried.record
        };
        assert_eq!(exact(Some(""), &[("a", Some(b"1")), ("a", Some(b""))]), None);
        assert_eq!(exact(None, &[]), Some(KafkaRecord { is_null: true, headers: Vec::new() }));
        let bytes = |text: &'static [u8]| Some(Bytes::from_static(text));
        let headers = vec![("a".to_owned(), bytes(b"1")), ("a".to_owned(), None), ("b".to_owned(), bytes(b"\xff"))];
        let given: [(&str, Option<&[u8]>); 3] = [("a", Some(b"1")), ("a", None), ("b", Some(b"\xff"))];
        assert_eq!(exact(Some("x"), &given), Some(KafkaRecord { is_null: false, headers }));
    }

    #[test]
    fn records_at_the_same_place_differ_if_anything_differs() {
        let header = |value: Option<&str>| vec![(b"h".to_vec(), value.map(|value| value.as_bytes().to_vec()))];
        let one = || record(WRITTEN, Some("k"), Some("v"));
        let rows = [
            ("a", one(), header(Some("1"))),
            ("b", one(), header(Some("1"))),
            ("a", record(Timestamp::CreateTime(1001), Some("k"), Some("v")), header(Some("1"))),
            ("a", record(Timestamp::NotAvailable, Some("k"), Some("v")), header(Some("1"))),
            ("a", record(WRITTEN, None, Some("v")), header(Some("1"))),
            ("a", record(WRITTEN, Some(""), Some("v")), header(Some("1"))),
            ("a", record(WRITTEN, Some("k"), None), header(Some("1"))),
            ("a", record(WRITTEN, Some("k"), Some("")), header(Some("1"))),
            ("a", record(WRITTEN, Some("kv"), Some("")), header(Some("1"))),
            ("a", one(), header(None)),
            ("a", one(), header(Some(""))),
            ("a", one(), Vec::new()),
            ("a", one(), [header(Some("1")), header(Some("1"))].concat()),
        ];
        let ids: std::collections::HashSet<_> = rows
            .iter()
            .map(|(cluster, record, headers)| arrival(&spec(), cluster, record, headers.clone()).1.id)
            .collect();
        assert_eq!(ids.len(), rows.len());
    }

    #[test]
    fn the_identity_and_the_begin_of_a_delay_are_chosen() {
        let headers: &[(&[u8], &[u8])] = &[(MESSAGE_ID.as_bytes(), b"m-1")];
        let of = |identity, headers| {
            let spec = KafkaInputSpec { identity, delay_from: DelayFrom::Timestamp, ..spec() };
            let (_, arrival) = read(&spec, headers);
            assert_eq!(arrival.published_ms, Some(1000));
            (arrival.id.expect("an id"), arrival.former.is_some())
        };
        assert_eq!(of(IdentityFrom::Header, headers), ("m-1".to_owned(), false));
        let (id, has_former) = of(IdentityFrom::Header, &[]);
        assert!(id.starts_with("delay-in-3-15~") && has_former, "{id}");
        assert_eq!(of(IdentityFrom::Key, headers), ("k-1".to_owned(), false));
    }
}
