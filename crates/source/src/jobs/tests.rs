//! What the source makes of ids and records; claims, verdicts and kills are tested with the daemon (`tests/it/jobs`).

use bytes::Bytes;

use super::{JobsSource, JobsSpec};
use delaybridge_ledger::claims::Body;
use delaybridge_ledger::{Bodies, CompanionKey, NoPayload, Search};

const NOW: i64 = 1_800_000_000_000;

fn source(topic: &str) -> JobsSource {
    JobsSource::of(&JobsSpec::of(&topic.parse().expect("a topic")))
}

/// A record with this end of its time to live, and the body `hello`.
fn record(own: bool, expires_ms: i64) -> Bytes {
    let mut bytes = vec![1, u8::from(own)];
    bytes.extend_from_slice(&NOW.to_le_bytes());
    bytes.extend_from_slice(&expires_ms.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(b"\x04texthello");
    bytes.into()
}

fn open(source: &JobsSource, member: &'static str, bytes: Bytes) -> (String, Result<Bytes, NoPayload>) {
    let body = Body::Here { bytes, read_ms: NOW };
    let (id, payload) = source.open_body(&Bytes::from_static(member.as_bytes()), &body);
    (id.to_string(), payload)
}

#[test]
fn a_record_has_the_body_behind_its_head_and_the_job_its_id() {
    let orders = source("orders");
    assert_eq!(open(&orders, "o-7", record(true, 0)), ("orders~o-7".to_owned(), Ok(Bytes::from_static(b"hello"))));
    assert_eq!(orders.identity("orders~o-7"), orders.identity("o-7"));
    // Too long for a header with its topic: the id alone.
    let long = source(&"t".repeat(255));
    assert_eq!(open(&long, "o-7", record(true, 0)).0, "o-7");
    assert!(matches!(open(&orders, "o-7", Bytes::from_static(b"cut")).1, Err(NoPayload::Junk(_))));
}

#[test]
fn a_job_past_its_time_to_live_is_no_job_unless_it_died_before() {
    let orders = source("orders");
    assert_eq!(open(&orders, "a", record(true, NOW)).1, Err(NoPayload::Missing));
    assert!(open(&orders, "a", record(true, NOW + 1)).1.is_ok());
    assert!(open(&orders, "a", orders.revived(record(true, NOW))).1.is_ok());
}

#[test]
fn what_belongs_to_a_job_goes_with_it_and_its_client_s_id_is_remembered() {
    let orders = source("orders");
    let kinds = |own, expires_ms| {
        let companions = orders.companions(&Bytes::from_static(b"a"), &record(own, expires_ms));
        let kind = |companion: &CompanionKey| match companion {
            CompanionKey::Whole { .. } => 'u',
            CompanionKey::Field { .. } => 'h',
            CompanionKey::Member { .. } => 'z',
            CompanionKey::Remembered { ms, .. } => {
                assert_eq!(*ms, 600_000);
                'k'
            }
        };
        companions.iter().map(kind).collect::<String>()
    };
    assert_eq!((kinds(false, 0), kinds(true, 0), kinds(true, NOW)), ("h".into(), "hk".into(), "hzk".into()));
}
