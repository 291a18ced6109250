//! What each preset reads, in bytes that the programs wrote. `tests/vectors/job_pools.jsonl` says where each is from.

use serde_json::Value;

use super::*;
use crate::job_pool::PRESETS;
use crate::job_pool::layout::Layout;
use delaybridge_ledger::NoPayload;
use delaybridge_ledger::claims::{Body, BodyAt};

fn bytes(value: &Value) -> Bytes {
    match value {
        Value::String(text) => text.clone().into(),
        Value::Object(fields) => hex::decode(fields["hex"].as_str().expect("digits")).expect("hex").into(),
        other => panic!("{other} is neither a text nor hex"),
    }
}

fn vectors() -> Vec<Value> {
    let lines = include_str!("../../../../../tests/vectors/job_pools.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn preset(name: &str, of: &str) -> JobPoolSpec {
    let (_, default, fill) = PRESETS.iter().find(|preset| preset.0 == name).expect("a preset");
    JobPoolSpec::of(fill(if of.is_empty() { default } else { of }))
}

#[test]
fn every_preset_finds_and_reads_what_its_program_wrote() {
    let vectors = vectors();
    for (name, ..) in PRESETS {
        assert!(vectors.iter().any(|vector| vector["preset"] == name), "no vector of {name}");
    }
    for vector in &vectors {
        let text = |name: &str| vector[name].as_str().unwrap_or_default();
        let spec = preset(text("preset"), text("name"));
        let pool = JobPool::of(&spec);
        let member = bytes(&vector["member"]);
        assert!(pool.buckets.contains(&bytes(&vector["bucket"])), "{vector}: {:?}", spec.buckets);
        let at = pool.body_at(&member).expect("a place");
        assert_eq!(at.key(), &bytes(&vector["key"]), "{vector}");
        assert_eq!(at.field().cloned(), vector.get("field").map(bytes), "{vector}");
        assert_eq!(matches!(at, BodyAt::Shared { .. }), vector["shared"] == true, "{vector}");
        let read_ms = i64::MAX;
        let body = Body::Here { bytes: bytes(&vector["job"]), read_ms };
        assert_eq!(spec.layout.payload(&body), Ok(bytes(&vector["payload"])), "{vector}");
        assert_eq!(spec.layout.topic(&body).as_deref(), vector["topic"].as_str(), "{vector}");
        assert_eq!(spec.layout.tries(&body).map(i64::from), vector["tries"].as_i64(), "{vector}");
        assert_eq!(spec.layout.id(&member).expect("an id").bytes, bytes(&vector["id"]), "{vector}");
        let score = Score::parse(text("score")).expect("a score");
        assert_eq!(Some(pool.unit().due_ms(score)), vector["due_ms"].as_i64(), "{vector}");
    }
}

/// Every part of a job in bytes that are cut, or have one byte changed: an answer, and no panic.
#[test]
fn damaged_jobs_are_read_or_refused() {
    let mut random = fastrand::Rng::with_seed(17);
    for vector in vectors() {
        let spec = preset(vector["preset"].as_str().expect("a name"), vector["name"].as_str().unwrap_or_default());
        let pool = JobPool::of(&spec);
        for whole in [bytes(&vector["job"]), bytes(&vector["member"])] {
            for _ in 0..500 {
                let mut damaged = whole.to_vec();
                if !damaged.is_empty() {
                    let at = random.usize(..damaged.len());
                    damaged[at] = random.u8(..);
                    damaged.truncate(random.usize(..=damaged.len()));
                }
                let damaged = Bytes::from(damaged);
                let _ = (
                    pool.body_at(&damaged),
                    pool.open(delaybridge_core::message::Origin::Delayed, MessageId([0; 8]), &damaged),
                );
                let body = Body::Here { bytes: damaged, read_ms: 0 };
                let _ = (spec.layout.payload(&body), spec.layout.topic(&body));
            }
        }
    }
}

#[test]
fn a_job_that_is_due_later_by_its_own_record_is_not_delivered() {
    let spec = preset("ouqiang", "");
    let record = b"\x85\xa11\xa5order\xa12\xa17\xa13\xce\x6b\x02\x94\xd0\xa14\x03\xa15\xa4body";
    let job = |read_ms| spec.layout.payload(&Body::Here { bytes: Bytes::from_static(record), read_ms });
    assert_eq!(job(1_795_331_279_999), Err(NoPayload::NotDue(1_795_331_280_000)));
    assert_eq!(job(1_795_331_280_000), Ok(Bytes::from_static(b"body")));
    assert_eq!(spec.layout.payload(&Body::Missing), Err(NoPayload::Missing));
    assert_eq!(spec.layout.payload(&Body::NoRoom(5)), Err(NoPayload::NoRoom));
}

#[test]
fn ids_are_read_in_every_way_and_bounded() {
    let id = |id: IdIn, member: &str| {
        let layout = JobPoolSpec::of(Preset { id, ..plain() }).layout;
        layout.id(&Bytes::from(member.to_owned())).map(|id| String::from_utf8_lossy(&id.bytes).into_owned()).ok()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(id(IdIn::Member, "a b"), some("a b"));
    assert_eq!((id(IdIn::Behind("job:".into()), "job:7"), id(IdIn::Behind("job:".into()), "jo:7")), (some("7"), None));
    assert_eq!((id(IdIn::Before("#".into()), "a-7#2#3"), id(IdIn::Before("#".into()), "a-7")), (some("a-7"), None));
    let json = || IdIn::Field(Format::Json, "id".to_owned());
    assert_eq!((id(json(), r#"{"id":7}"#), id(json(), r#"{"id":"x"}"#)), (some("7"), some("x")));
    for bad in ["{}", r#"{"id":[1,2,3]}"#, r#"{"id":""}"#, "7", ""] {
        assert_eq!(id(json(), bad), None, "{bad}");
    }
    assert_eq!((id(IdIn::Member, ""), id(IdIn::Member, &"x".repeat(1_025))), (None, None));
}

#[test]
fn pools_without_a_common_hash_tag_are_known() {
    let why = |name: &str, of: &str| preset(name, of).why_not_in_cluster().is_some();
    assert!(why("ouqiang", "") && why("ice", "") && why("yii2", "") && why("bullmq", "mail") && why("youzan", ""));
    assert!(why("hdt3213", "mail") && !why("hdt3213", "{dp:mail}"));
    assert!(!why("asynq", "mail") && !why("yii2", "{queue}") && !why("bullmq", "{mail}"));
    assert!(JobPoolSpec::of(plain()).why_not_in_cluster().is_none());
}

/// `asynq.NewTask("t:a", nil, asynq.MaxRetry(0))`, and a job of a program that writes all of its fields.
#[test]
fn a_job_without_a_body_has_an_empty_one() {
    let read = |bytes: &'static [u8]| Body::Here { bytes: Bytes::from_static(bytes), read_ms: i64::MAX };
    let asynq = preset("asynq", "default").layout;
    let task = read(b"\x0a\x03t:a\x1a\x04id-7\x22\x07default");
    assert_eq!((asynq.payload(&task), asynq.tries(&task)), (Ok(Bytes::new()), Some(1)));
    let wanted = Wanted { body: Some("body".to_owned()), ..Wanted::default() };
    let json = Layout { record: Format::Json, wanted, ..asynq };
    assert_eq!(json.payload(&read(br#"{"id":7,"body":null}"#)), Ok(Bytes::new()));
    let msgpack = Layout { record: Format::Msgpack, ..json.clone() };
    assert_eq!(msgpack.payload(&read(b"\x82\xa2id\x07\xa4body\xc0")), Ok(Bytes::new()));
    // A field that is not there at all is a wrong setting, or another program's record.
    assert!(json.payload(&read(br#"{"id":7}"#)).is_err());
    assert!(msgpack.payload(&read(b"\x81\xa2id\x07")).is_err());
}

/// A job is written as its program would have written it: what the recordings show is read of it again.
#[test]
fn what_is_written_into_a_pool_is_read_as_it_was() {
    use crate::job_pool::{Leaving, Program};
    let body = Bytes::from_static(b"{\"orderId\":7}");
    for (preset, name) in [
        ("ouqiang", ""),
        ("ice", ""),
        ("yii2", ""),
        ("hdt3213", "mail"),
        ("youzan_json", ""),
        ("bullmq", "mail"),
        ("asynq", "default"),
    ] {
        let program = Some(Program { preset, name: name.to_owned() });
        let spec = JobPoolSpec { program, ..self::preset(preset, name) };
        let pool = JobPool::of(&spec);
        let job = Leaving {
            id: "4711",
            topic: "order",
            body: &body,
            added_ms: 1_000,
            due_ms: 2_001,
            ttr_ms: 1_500,
            retries: 3,
        };
        let written = pool.write(&job).unwrap_or_else(|why| panic!("{preset}: {why}"));
        let read = Body::Here { bytes: written.record().clone(), read_ms: i64::MAX };
        assert_eq!(spec.layout.payload(&read), Ok(body.clone()), "{preset}");
        let topic = spec.layout.wanted.topic.as_ref().map(|_| "order");
        assert_eq!(spec.layout.topic(&read).as_deref(), topic, "{preset}");
        let tries = spec.layout.wanted.retries.as_ref().map(|_| 4);
        assert_eq!(spec.layout.tries(&read), tries, "{preset}");
        assert!(pool.unit().due_ms(written.score()) >= 2_001, "{preset}: never before its time");
        assert!(pool.buckets.contains(written.bucket()), "{preset}");
        // Bytes that are no text: only where a record can hold them.
        let binary = Bytes::from_static(b"\xff");
        let fits = pool.write(&Leaving { body: &binary, ..job }).is_ok();
        assert_eq!(fits, ["yii2", "hdt3213", "asynq"].contains(&preset), "{preset}");
    }
}
