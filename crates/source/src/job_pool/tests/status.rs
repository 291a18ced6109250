//! The status in jobs: written while they are held, and when they go back; never in the way of anything.

use super::*;
use delaybridge_ledger::claims::{ClaimReply, Element, SettleOp};
use delaybridge_ledger::store::Claims;
use delaybridge_ledger::{Answer, BodyStatus, StatusWrite};
use delaybridge_testing::store::{ms, name, request, settle_one, take_one, take_over, takeover};

const JOB: Bytes = Bytes::from_static(b"job-7");

fn in_record(place: Place) -> Preset {
    Preset { place, record: Format::Json, status: Some(Box::new(states("status"))), ..plain() }
}

/// The three places of jobs.
fn all() -> [Preset; 3] {
    let own = Place::Own("{pool}:job:{id}".to_owned(), "record".to_owned());
    [
        in_record(Place::Shared("{pool}:jobs".to_owned())),
        in_record(Place::Value("{pool}:job:{id}".to_owned())),
        in_record(own),
    ]
}

fn record(status: &str) -> Bytes {
    format!(r#"{{"body":"DELAY","status":"{status}"}}"#).into()
}

#[tokio::test]
async fn a_job_says_reserved_while_it_is_held_and_goes_with_its_verdict() {
    for preset in all() {
        let mut rig = PoolRig::new(preset).await;
        rig.put(&JOB, &record("DELAY")).await;
        rig.offer(&JOB, rig.now_ms()).await;
        let mine = take_one(&rig, A, 1).await;
        assert_eq!(rig.body(&JOB).await, Some(record("RESERVED")));
        // What is delivered is what is there, so that its end is noticed.
        assert_eq!(mine.element.body_bytes(), Some(&record("RESERVED")));
        assert_eq!(settle_one(&rig, &mine, mine.retry(ms(0))).await, Answer::Done);
        assert_eq!(rig.body(&JOB).await, Some(record("RESERVED")), "it waits for its retry");
        // A takeover finds it so.
        let mine = take_one(&rig, A, 2).await;
        rig.advance(Duration::from_secs(3_600)).await;
        let (taken, _) = take_over(&rig, &takeover(mine.name, A + 1, 3)).await;
        assert_eq!(settle_one(&rig, &taken[0], SettleOp::Confirm).await, Answer::Done);
        assert_eq!(rig.body(&JOB).await, None);
    }
}

#[tokio::test]
async fn what_goes_back_waits_again() {
    let own = Place::Own("{pool}:job:{id}".to_owned(), "record".to_owned());
    let at = StatusAt::Hash("state".to_owned());
    let beside = Preset { place: own, status: Some(Box::new(Status { at, ..states("") })), ..plain() };
    for preset in all().into_iter().chain([beside]) {
        let mut rig = PoolRig::new(preset).await;
        rig.put(&JOB, &record("DELAY")).await;
        rig.offer(&JOB, rig.now_ms()).await;
        let mine = take_one(&rig, A, 1).await;
        assert_eq!(settle_one(&rig, &mine, mine.release()).await, Answer::Done);
        let places = rig.places().await;
        let conn = rig.conn();
        let ledger = Ledger::new(rig.source.clone(), [0; 8]);
        rig.forget_leases().await;
        let item = ledger.waiting(&places.waiting[0].1).expect("an entry");
        ledger.restore(&conn, &[item]).await.expect("the server restores");
        assert_eq!(rig.body(&JOB).await, Some(record("DELAY")));
        assert_eq!(rig.places().await.scheduled.len(), 1);
        let state: Option<String> =
            redis::Cmd::hget("{pool}:job:job-7", "state").query_async(&mut rig.redis.admin).await.unwrap_or_default();
        assert!(state.is_none_or(|state| state == "DELAY"));
    }
}

#[tokio::test]
async fn a_record_that_its_program_changes_meanwhile_stays_its_program_s() {
    let mut rig = PoolRig::new(in_record(Place::Shared("{pool}:jobs".to_owned()))).await;
    rig.put(&JOB, &record("DELAY")).await;
    let conn = rig.conn();
    let mut elements = [Element::bare(JOB, rig.now_ms())];
    let ledger = Ledger::new(rig.source.clone(), [A; 8]);
    ledger.fetch(&conn, &mut elements, 1 << 20).await.expect("the server reads");
    rig.put(&JOB, b"{\"status\":\"DELAY\",\"new\":1}").await;
    BodyStatus::write(&*rig.source, &conn, &mut elements, StatusWrite::Reserved).await.expect("an answer");
    assert_eq!(rig.body(&JOB).await.as_deref(), Some(&b"{\"status\":\"DELAY\",\"new\":1}"[..]));
    assert_eq!(elements[0].body_bytes(), Some(&record("DELAY")), "what was read is delivered");
}

/// A full server refuses to write. The job is claimed and settled all the same.
#[tokio::test]
async fn a_full_server_keeps_the_status_and_the_job_goes_on() {
    let mut rig = PoolRig::new(in_record(Place::Shared("{pool}:jobs".to_owned()))).await;
    rig.put(&JOB, &record("DELAY")).await;
    rig.offer(&JOB, rig.now_ms()).await;
    rig.redis.run(redis::pipe().cmd("CONFIG").arg("SET").arg("maxmemory").arg("1mb")).await;
    let ClaimReply::Claimed(claimed) = rig.redis(A).claim(&request(A, 1)).await.expect("a claim") else {
        panic!("late")
    };
    assert_eq!(claimed.elements.len(), 1);
    let mine = delaybridge_testing::store::Mine::all(name(A, 1), claimed.elements).remove(0);
    assert_eq!(mine.element.body_bytes(), rig.body(&JOB).await.as_ref());
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    assert_eq!(rig.body(&JOB).await, None);
}
