//! Bodies: read under the lease, bounded, gone with their elements and with no others.

use super::*;
use delaybridge_ledger::claims::{Body, ClaimReply, ClaimRequest, Element, SettleOp};
use delaybridge_ledger::store::Claims as _;
use delaybridge_ledger::{Answer, Bodies, NoPayload};
use delaybridge_testing::store::{
    claim, ms, name, offer, request, settle, settle_one, take, take_one, take_over, takeover,
};

const JOB: Bytes = Bytes::from_static(b"job-7");

async fn pool() -> PoolRig {
    PoolRig::new(plain()).await
}

async fn jobs(rig: &mut PoolRig, jobs: &[(&str, &[u8])]) {
    for (member, body) in jobs {
        let member = Bytes::from((*member).to_owned());
        rig.put(&member, body).await;
        rig.offer(&member, rig.now_ms()).await;
    }
}

#[tokio::test]
async fn a_body_goes_with_the_verdict_that_ends_its_element() {
    let mut rig = pool().await;
    for (number, end) in (1..).zip(["confirm", "dead", "push"]) {
        jobs(&mut rig, &[("job-7", b"body")]).await;
        let mine = take_one(&rig, A, number).await;
        assert_eq!(mine.element.body_bytes(), Some(&Bytes::from_static(b"body")));
        let mine = match number {
            // Also behind a retry, as an entry.
            1 => {
                assert_eq!(settle_one(&rig, &mine, mine.retry(ms(0))).await, Answer::Done);
                assert_eq!(rig.body(&JOB).await.as_deref(), Some(&b"body"[..]), "it waits in the pool");
                take_one(&rig, A, 10).await
            }
            _ => mine,
        };
        let step = match end {
            "confirm" => SettleOp::Confirm,
            "dead" => mine.dead(),
            _ => mine.push(),
        };
        assert_eq!(settle_one(&rig, &mine, step.clone()).await, Answer::Done);
        assert_eq!(rig.body(&JOB).await, None, "{end}");
        // The same verdict once more, when the job lives again.
        jobs(&mut rig, &[("job-7", b"body")]).await;
        assert_eq!(settle_one(&rig, &mine, step).await, Answer::NotMine);
        assert_eq!(rig.body(&JOB).await.as_deref(), Some(&b"body"[..]));
    }
}

#[tokio::test]
async fn a_body_that_was_written_anew_stays_and_so_does_that_of_a_job_that_is_scheduled_again() {
    let mut rig = pool().await;
    jobs(&mut rig, &[("job-7", b"first")]).await;
    let mine = take_one(&rig, A, 1).await;
    // Its program has written the job, and not yet the bucket.
    rig.put(&JOB, b"second").await;
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    assert_eq!(rig.body(&JOB).await.as_deref(), Some(&b"second"[..]));
    // The same body for another time.
    rig.offer(&JOB, rig.now_ms()).await;
    let mine = take_one(&rig, A, 2).await;
    rig.offer(&JOB, rig.now_ms() + 60_000).await;
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    assert_eq!(rig.body(&JOB).await.as_deref(), Some(&b"second"[..]));
    rig.advance(ms(60_000)).await;
    assert_eq!(take_one(&rig, A, 3).await.element.body_bytes(), Some(&Bytes::from_static(b"second")));
}

/// A job that is offered again while its first life is in flight, and claimed before that is confirmed: the same id and body.
#[tokio::test]
async fn a_second_life_keeps_its_body_whatever_ends_the_first() {
    let mut rig = pool().await;
    let there = Some(Bytes::from_static(b"body"));
    for (number, end) in (10..).step_by(10).zip(["confirm", "dead", "push"]) {
        jobs(&mut rig, &[("job-7", b"body")]).await;
        let first = take_one(&rig, A, number).await;
        jobs(&mut rig, &[("job-7", b"body")]).await;
        let second = take_one(&rig, A, number + 1).await;
        let step = match end {
            "confirm" => SettleOp::Confirm,
            "dead" => first.dead(),
            _ => first.push(),
        };
        assert_eq!(settle_one(&rig, &first, step.clone()).await, Answer::Done);
        assert_eq!(rig.body(&JOB).await, there, "{end}");
        assert_eq!(settle_one(&rig, &first, step).await, Answer::NotMine);
        assert_eq!(rig.body(&JOB).await, there, "{end}, sent twice");
        // Its retry finds the body, and takes it along.
        assert_eq!(settle_one(&rig, &second, second.retry(ms(0))).await, Answer::Done);
        let again = take_one(&rig, A, number + 2).await;
        assert_eq!(again.element.body_bytes(), there.as_ref());
        assert_eq!(settle_one(&rig, &again, SettleOp::Confirm).await, Answer::Done);
        assert_eq!(rig.body(&JOB).await, None, "{end}");
    }
    let lives: i64 = redis::cmd("EXISTS")
        .arg(&rig.redis.keys.lives()[..])
        .query_async(&mut rig.redis.admin)
        .await
        .expect("the server answers");
    assert_eq!(lives, 0, "lives are counted for what is in flight alone");
}

/// A job that was deleted while a life of it is in flight, and written and claimed again: whichever ends last, nothing is left, and a
/// body that was not delivered stays.
#[tokio::test]
async fn a_life_without_a_body_may_end_last() {
    let mut rig = pool().await;
    let there = Some(Bytes::from_static(b"body"));
    for (number, first_ends_last) in [(10, true), (20, false)] {
        rig.offer(&JOB, rig.now_ms()).await;
        let first = take_one(&rig, A, number).await;
        assert_eq!(first.element.body_bytes(), None);
        jobs(&mut rig, &[("job-7", b"body")]).await;
        let second = take_one(&rig, A, number + 1).await;
        let (one, other) = if first_ends_last { (&second, &first) } else { (&first, &second) };
        assert_eq!(settle_one(&rig, one, SettleOp::Confirm).await, Answer::Done);
        assert_eq!(rig.body(&JOB).await, there, "a life is in flight");
        assert_eq!(settle_one(&rig, other, SettleOp::Confirm).await, Answer::Done);
        assert_eq!(rig.body(&JOB).await, None, "{number}");
    }
    // Written, and not scheduled yet: no life was delivered with it.
    rig.offer(&JOB, rig.now_ms()).await;
    let mine = take_one(&rig, A, 30).await;
    rig.put(&JOB, b"body").await;
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    assert_eq!(rig.body(&JOB).await, there);
}

#[tokio::test]
async fn a_claim_reads_as_many_bodies_as_it_has_room_for_and_always_one() {
    let mut rig = pool().await;
    let body = vec![b'x'; 1_000];
    jobs(&mut rig, &[("a", &body), ("b", &body), ("c", &body), ("d", b"small")]).await;
    let limited = delaybridge_ledger::claims::ClaimRequest { bytes: 2_500, ..request(A, 1) };
    let claimed = claim(&rig, &limited).await;
    let states: Vec<_> = claimed.elements.iter().map(|element| *element.body.clone().expect("a body")).collect();
    assert!(
        matches!(&states[..], [Body::Here { .. }, Body::Here { .. }, Body::NoRoom(1_000), Body::NoRoom(5)]),
        "{states:?}"
    );
    assert!(claimed.more, "there is more to claim at once");
    // What had no room goes back uncounted, and its body is there.
    let left = &delaybridge_testing::store::Mine::all(name(A, 1), claimed.elements)[2..];
    assert_eq!(rig.redis(A).ledger().open(&left[0].element).1, Err(NoPayload::NoRoom));
    let verdicts: Vec<_> = left.iter().map(|mine| mine.verdict(mine.release())).collect();
    assert_eq!(settle(&rig, &verdicts).await, [Answer::Done; 2]);
    let tiny = delaybridge_ledger::claims::ClaimRequest { bytes: 10, ..request(A, 2) };
    let claimed = claim(&rig, &tiny).await;
    assert_eq!(claimed.elements[0].body_bytes().map(Bytes::len), Some(1_000));
}

/// The next claim takes as many as fit, should bodies be as large as the last.
#[tokio::test]
async fn large_bodies_make_small_claims() {
    let mut rig = pool().await;
    let body = vec![b'x'; 100_000];
    for n in 0..40 {
        jobs(&mut rig, &[(&format!("job-{n:02}"), &body)]).await;
    }
    let store = rig.redis(A);
    let first = claim_of(&store, &request(A, 1)).await;
    let read =
        |elements: &[delaybridge_ledger::claims::Element]| elements.iter().filter(|e| e.body_bytes().is_some()).count();
    assert_eq!((first.len(), read(&first)), (40, 10));
    let verdicts: Vec<_> = delaybridge_testing::store::Mine::all(name(A, 1), first)
        .into_iter()
        .skip(10)
        .map(|mine| mine.verdict(mine.release()))
        .collect();
    settle(&rig, &verdicts).await;
    let second = claim_of(&store, &request(A, 2)).await;
    assert_eq!((second.len(), read(&second)), (10, 10));
}

#[tokio::test]
async fn bodies_come_with_a_takeover_and_with_what_is_found_of_a_lost_claim() {
    let mut rig = pool().await;
    jobs(&mut rig, &[("a", b"body a"), ("b", b"body b")]).await;
    assert_eq!(take(&rig, A, 1).await.len(), 2);
    let found = rig.store(A).contents(name(A, 1)).await.expect("the server reads");
    let bodies = |elements: Vec<Bytes>| assert_eq!(elements, [&b"body a"[..], b"body b"]);
    bodies(found.elements.iter().filter_map(|element| element.body_bytes().cloned()).collect());
    rig.advance(ms(10_000)).await;
    let (mine, _) = take_over(&rig, &takeover(name(A, 1), delaybridge_testing::store::B, 1)).await;
    bodies(mine.iter().filter_map(|mine| mine.element.body_bytes().cloned()).collect());
}

#[tokio::test]
async fn a_job_that_its_user_deleted_is_missing_and_a_foreign_value_is_junk() {
    let mut rig = PoolRig::new(Preset { place: Place::Value("{pool}:job:{id}".to_owned()), ..plain() }).await;
    offer(&mut rig, [1]).await;
    rig.redis.run(redis::pipe().del("{pool}:job:0000000000000001")).await;
    let mine = take_one(&rig, A, 1).await;
    let open = |mine: &delaybridge_testing::store::Mine| rig.redis(A).ledger().open(&mine.element).1;
    assert_eq!(open(&mine), Err(NoPayload::Missing));
    // Deleted while it waits for a retry.
    assert_eq!(settle_one(&rig, &mine, mine.retry(ms(0))).await, Answer::Done);
    let mine = take_one(&rig, A, 2).await;
    assert_eq!(rig.redis(A).ledger().open(&mine.element).1, Err(NoPayload::Missing));
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    // A list where a job was: it stays, and jams nothing.
    rig.redis.run(redis::pipe().rpush("{pool}:job:x", "mine")).await;
    rig.offer(&Bytes::from_static(b"x"), rig.now_ms()).await;
    jobs(&mut rig, &[("y", b"body")]).await;
    let mine = take(&rig, A, 3).await;
    let opened: Vec<_> = mine.iter().map(|mine| rig.redis(A).ledger().open(&mine.element).1).collect();
    assert!(matches!(&opened[..], [Err(NoPayload::Junk(_)), Ok(_)]), "{opened:?}");
}

#[tokio::test]
async fn a_job_that_is_not_due_yet_goes_back_unless_it_is_scheduled_already() {
    let mut rig = pool().await;
    let at_ms = rig.now_ms() + 5_000;
    jobs(&mut rig, &[("job-7", b"body")]).await;
    let mine = take_one(&rig, A, 1).await;
    for answer in [Answer::Done, Answer::NotMine] {
        assert_eq!(settle_one(&rig, &mine, SettleOp::Return { at_ms }).await, answer);
        let places = rig.places().await;
        assert_eq!((places.of(&JOB), places.scheduled), (vec!["scheduled"], vec![(at_ms, JOB)]));
    }
    rig.advance(ms(5_000)).await;
    let mine = take_one(&rig, A, 2).await;
    settle_one(&rig, &mine, mine.retry(ms(0))).await;
    let mine = take_one(&rig, A, 3).await;
    rig.offer(&JOB, at_ms + 9).await;
    assert_eq!(settle_one(&rig, &mine, SettleOp::Return { at_ms: at_ms + 500 }).await, Answer::Done);
    assert_eq!(rig.places().await.scheduled, [(at_ms + 9, JOB)], "its program's own time counts");
    assert_eq!(rig.body(&JOB).await.as_deref(), Some(&b"body"[..]));
}

#[tokio::test]
async fn several_buckets_share_a_claim_and_a_job_in_two_of_them_is_one() {
    let buckets = (0..3).map(|n| format!("{{pool}}:bucket{n}")).collect::<Vec<_>>();
    let mut rig = PoolRig::new(Preset { buckets: buckets.clone(), ..plain() }).await;
    for n in 0..60 {
        let member = format!("job-{n:02}");
        rig.put(&member.clone().into(), member.as_bytes()).await;
        let due_ms = rig.now_ms() - 100 + n;
        rig.redis.run(redis::pipe().zadd(&buckets[n as usize % 3], &member, due_ms)).await;
    }
    // One job in two buckets, and one that is due later.
    let due_ms = rig.now_ms();
    rig.redis.run(redis::pipe().zadd(&buckets[2], "job-00", due_ms).zadd(&buckets[1], "later", due_ms + 700)).await;
    let claimed = claim(&rig, &delaybridge_ledger::claims::ClaimRequest { most: 30, ..request(A, 1) }).await;
    let members: Vec<_> = claimed.elements.iter().map(|element| element.member.clone()).collect();
    assert_eq!((members.len(), claimed.next_ms), (30, Some(rig.now_ms())));
    for n in 0..3 {
        let share =
            (0..60).filter(|job| job % 3 == n && members.contains(&Bytes::from(format!("job-{job:02}")))).count();
        assert!(share >= 6, "a share for each of five places: {share}");
    }
    let claimed = claim(&rig, &request(A, 2)).await;
    assert_eq!((claimed.elements.len(), claimed.next_ms), (31, Some(due_ms + 700)), "job-00 is in the other claim");
    let held = rig.store(A).in_flight().await.expect("the server counts");
    assert_eq!(held.elements, 61);
    // In one claim it is one element.
    rig.put(&JOB, b"body").await;
    for bucket in &buckets {
        rig.redis.run(redis::pipe().zadd(bucket, &JOB[..], due_ms)).await;
    }
    let mine = take_one(&rig, A, 3).await;
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    assert_eq!((rig.body(&JOB).await, rig.places().await.of(&JOB)), (None, vec![]));
}

#[tokio::test]
async fn a_dead_letter_has_the_body_and_brings_it_back() {
    for place in [
        Place::Shared("{pool}:jobs".to_owned()),
        Place::Value("{pool}:job:{id}".to_owned()),
        Place::Own("{pool}:job:{id}".to_owned(), "data".to_owned()),
    ] {
        let mut rig = PoolRig::new(Preset { place, ..plain() }).await;
        jobs(&mut rig, &[("job-7", b"body")]).await;
        let mine = take_one(&rig, A, 1).await;
        let text = |text: &str| Bytes::from(text.to_owned());
        let fields = vec![
            ("id", text("job-7")),
            ("origin", text("delayed")),
            ("due_ms", text("1800000000000")),
            ("element", mine.element.bytes()),
            ("body", mine.element.body_bytes().expect("a body").clone()),
        ];
        assert_eq!(settle_one(&rig, &mine, SettleOp::Dead { fields }).await, Answer::Done);
        assert_eq!(rig.body(&JOB).await, None);
        let letter = rig.places().await.dead.remove(0);
        let ledger = Ledger::new(rig.source.clone(), [A; 8]);
        let conn = rig.conn();
        assert_eq!(ledger.dead_payload(&letter).expect("a letter"), "body");
        // Another job has taken its id meanwhile.
        let member = letter.reborn().expect("a letter");
        rig.put(&JOB, b"another").await;
        assert!(!ledger.redrive(&conn, &letter, member.clone(), None).await.expect("the server answers"));
        assert_eq!(rig.places().await.of(&JOB), ["dead"]);
        let jobs = rig.source.body_at(&JOB).expect("a place").key().clone();
        rig.redis.run(redis::pipe().del(&jobs[..])).await;
        for moved in [true, false] {
            assert_eq!(ledger.redrive(&conn, &letter, member.clone(), None).await.expect("the server answers"), moved);
            assert_eq!(rig.places().await.of(&JOB), ["waiting"]);
            assert_eq!(rig.body(&JOB).await.as_deref(), Some(&b"body"[..]));
        }
        let mine = take_one(&rig, A, 2).await;
        assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
        assert_eq!((rig.body(&JOB).await, rig.places().await.of(&JOB)), (None, vec![]));
    }
}

/// What a claim took.
async fn claim_of(store: &RedisStore, request: &ClaimRequest) -> Vec<Element> {
    match store.claim(request).await.expect("the server claims") {
        ClaimReply::Claimed(claimed) => claimed.elements,
        reply => panic!("{reply:?}"),
    }
}
