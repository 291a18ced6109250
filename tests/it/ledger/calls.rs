//! Each call once, and the answer to its repetition.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_core::message::Origin;
use delaybridge_ledger::Answer;
use delaybridge_ledger::claims::{
    Buried, ClaimName, ClaimReply, ClaimRequest, Confirmed, Element, Extended, Part, SettleCommand, SettleOp,
    TakeOverReply, TakeOverRequest, Whole, Writer,
};
use delaybridge_ledger::store::InFlight;
use delaybridge_link::Side;

use super::rig::{A, B, LEASE, Rig, bytes, element};

fn name(number: u64) -> ClaimName {
    ClaimName::new(A, number)
}

fn whole(number: u64, bare: usize, entries: usize) -> Whole {
    Whole { name: name(number), bare, entries }
}

fn verdict(number: u64, of: &Element, step: SettleOp) -> SettleCommand {
    SettleCommand { claim: name(number), part: of.part(), member: of.member.clone(), step, body: None }
}

#[tokio::test]
async fn a_claim_takes_what_is_due_once_and_is_confirmed() {
    for count in [1, 2, 3, 200] {
        let mut rig = Rig::start().await;
        let all: Vec<_> = (0..count).map(|n| (element(n), n as i64 - 300)).collect();
        rig.offer(&all).await;
        rig.offer(&[(element(999), 5_000)]).await;
        let claimed = rig.claim(1).await;
        let expected: Vec<Bytes> = all.iter().map(|(element, _)| element.clone().into()).collect();
        assert_eq!(bytes(&claimed.elements), expected);
        assert_eq!(claimed.next_ms, Some(rig.now_ms + 5_000));
        assert_eq!(rig.list().await, [element(999)]);
        let again = rig.claims().claim(&rig.conn, &rig.request(1)).await.unwrap();
        assert!(matches!(again, ClaimReply::Twice { .. }), "{again:?}");
        let contents = rig.claims().contents(&rig.conn, name(1)).await.unwrap();
        assert_eq!((contents.elements, contents.unknown), (claimed.elements, 0));
        let in_flight = rig.claims().in_flight(&rig.conn).await.unwrap();
        assert_eq!(in_flight, InFlight { elements: count, more: false });
        let whole = [whole(1, count as usize, 0)];
        let confirmed = rig.claims().confirm(&rig.conn, &whole).await.unwrap();
        assert_eq!(confirmed, [Confirmed::Done]);
        assert_eq!(rig.claims().confirm(&rig.conn, &whole).await.unwrap(), [Confirmed::Gone]);
        // The name outlives the keys until the claim can run no more.
        let again = rig.claims().claim(&rig.conn, &rig.request(1)).await.unwrap();
        assert!(matches!(again, ClaimReply::Twice { .. }), "{again:?}");
        let not_after_ms = rig.now_ms + 1_000;
        let early = rig.claims().bury(&rig.conn, not_after_ms, &[name(1)]).await.unwrap();
        assert!(matches!(early, Buried::Wait { .. }), "{early:?}");
        rig.advance(Duration::from_millis(1_001)).await;
        let request = ClaimRequest { not_after_ms, ..rig.request(1) };
        let late = rig.claims().claim(&rig.conn, &request).await.unwrap();
        assert!(matches!(late, ClaimReply::Late { .. }), "{late:?}");
        for _ in 0..2 {
            let buried = rig.claims().bury(&rig.conn, not_after_ms, &[name(1)]).await.unwrap();
            assert!(matches!(&buried, Buried::Done { kept, .. } if kept == &[false]), "{buried:?}");
        }
        let left: usize = rig.ask(redis::cmd("EXISTS").arg("delaybridge:leases:{orders}")).await;
        assert_eq!(left, 0);
    }
}

#[tokio::test]
async fn a_claim_that_takes_nothing_writes_nothing() {
    let mut rig = Rig::start().await;
    rig.offer(&[(element(1), 10)]).await;
    let before: i64 = changes(&mut rig).await;
    let claimed = rig.claim(1).await;
    assert_eq!((claimed.elements.len(), claimed.next_ms), (0, Some(rig.now_ms + 10)));
    assert_eq!(changes(&mut rig).await, before);
}

async fn changes(rig: &mut Rig) -> i64 {
    let info: String = rig.ask(redis::cmd("INFO").arg("persistence")).await;
    let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn payloads_of_the_ready_list_get_headers_and_ids() {
    let mut rig = Rig::start().await;
    let _: i64 = rig.ask(redis::cmd("RPUSH").arg("orders").arg("same").arg("same").arg("other")).await;
    rig.offer(&[(element(1), -1)]).await;
    let claimed = rig.claim(1).await;
    assert_eq!(bytes(&claimed.elements), [&b"same"[..], b"same", b"other", &element(1)]);
    let ids: std::collections::HashSet<_> = claimed.elements[..3].iter().map(|e| e.given_id().0).collect();
    assert_eq!(ids.len(), 3);
    for (n, element) in claimed.elements[..3].iter().enumerate() {
        let header = element.header();
        assert_eq!((header.origin, header.time_ms, header.attempts), (Origin::Ready, rig.now_ms, 0));
        assert_eq!((header.writer.owner, header.writer.claim, header.writer.place), (A, 1, n as u32 + 1));
        assert_eq!((element.part(), element.score_ms), (Part::Entries, rig.now_ms));
    }
    let contents = rig.claims().contents(&rig.conn, name(1)).await.unwrap();
    assert_eq!(contents.elements.len(), 4);
    assert_eq!(rig.ask::<i64>(redis::cmd("LLEN").arg("orders")).await, 0);
    let confirmed = rig.claims().confirm(&rig.conn, &[whole(1, 1, 3)]).await.unwrap();
    assert_eq!(confirmed, [Confirmed::Done]);
}

#[tokio::test]
async fn every_verdict_is_written_once() {
    let mut rig = Rig::start().await;
    let all: Vec<_> = (0..6).map(|n| (element(n), n as i64 - 10)).collect();
    rig.offer(&all).await;
    let e = rig.claim(1).await.elements;
    let header = |n: usize, place| {
        let mut header = e[n].header();
        header.attempts += 1;
        header.writer = Writer { owner: A, claim: 1, place };
        header
    };
    let push = Bytes::from_static(b"pushed");
    let batch = [
        verdict(1, &e[0], SettleOp::Confirm),
        verdict(1, &e[1], SettleOp::Retry { header: header(1, 1), delay_ms: 500 }),
        verdict(1, &e[2], SettleOp::Release { header: header(2, 2), at_ms: rig.now_ms - 8 }),
        verdict(1, &e[3], SettleOp::Progress { header: header(3, 3) }),
        verdict(1, &e[4], SettleOp::Dead { fields: vec![("element", e[4].bytes())] }),
        verdict(1, &e[5], SettleOp::Push { side: Side::Left, body: "body".into() }),
    ];
    let settled = rig.claims().settle(&rig.conn, &batch, Some(&push), Some(10)).await.unwrap();
    assert_eq!((settled.answers, settled.trimmed, settled.now_ms), (vec![Answer::Done; 6], 0, rig.now_ms));
    let settled = rig.claims().settle(&rig.conn, &batch, Some(&push), Some(10)).await.unwrap();
    let gone = Answer::NotMine;
    let again = Answer::Already;
    assert_eq!(settled.answers, [gone, again, again, again, gone, gone]);

    // The progress is in the claim, the released one is due, the retry is not due yet.
    let contents = rig.claims().contents(&rig.conn, name(1)).await.unwrap();
    assert_eq!(contents.elements.len(), 1);
    assert_eq!(contents.elements[0].header.as_deref(), Some(&header(3, 3)));
    assert_eq!(contents.elements[0].bytes(), e[3].bytes());
    let released = rig.claim(2).await;
    assert_eq!((bytes(&released.elements), released.retried), (vec![e[2].bytes()], 1));
    assert_eq!(released.elements[0].score_ms, rig.now_ms - 8);
    assert_eq!(released.next_ms, Some(rig.now_ms + 500));
    rig.advance(Duration::from_millis(500)).await;
    assert_eq!(bytes(&rig.claim(3).await.elements), [e[1].bytes()]);
    assert_eq!(rig.ask::<i64>(redis::cmd("XLEN").arg("delaybridge:dead:{orders}")).await, 1);
    assert_eq!(rig.ask::<Vec<String>>(redis::cmd("LRANGE").arg("pushed").arg(0).arg(-1)).await, ["body"]);

    // A key that is no list: nothing changes.
    let _: () = rig.ask(redis::cmd("SET").arg("text").arg("x")).await;
    let one = &contents.elements[0];
    let wrong = [verdict(1, one, SettleOp::Push { side: Side::Right, body: "b".into() })];
    let settled = rig.claims().settle(&rig.conn, &wrong, Some(&Bytes::from_static(b"text")), None).await.unwrap();
    assert_eq!(settled.answers, [Answer::WrongType]);
    let confirmed = rig.claims().confirm(&rig.conn, &[whole(2, 0, 1)]).await.unwrap();
    assert_eq!(confirmed, [Confirmed::Done]);
}

fn take_over(rig: &Rig, old: ClaimName, number: u64, most: usize) -> TakeOverRequest {
    TakeOverRequest {
        old,
        new: old.taken_over_by(B, number),
        not_after_ms: rig.now_ms + 1_000,
        lease: LEASE,
        most,
        bytes: 1 << 20,
        largest: 0,
    }
}

#[tokio::test]
async fn a_claim_is_taken_over_whole_or_in_part_once_its_lease_is_over() {
    let mut rig = Rig::start().await;
    let all: Vec<_> = (0..5).map(|n| (element(n), n as i64 - 10)).collect();
    rig.offer(&all).await;
    let claimed = rig.claim(1).await;
    let ask = async |rig: &Rig, request: &TakeOverRequest| rig.claims().take_over(&rig.conn, request).await.unwrap();
    let early = ask(&rig, &take_over(&rig, name(1), 1, 500)).await;
    assert!(matches!(early, TakeOverReply::Nothing { .. }), "{early:?}");
    // An extension moves the end.
    rig.advance(LEASE / 2).await;
    let extended = rig.claims().extend(&rig.conn, LEASE, rig.now_ms, &[name(1), name(7)]).await.unwrap();
    assert!(matches!(extended, Extended::Done { now_ms, held } if (now_ms, &held[..]) == (rig.now_ms, &[true, false])));
    rig.advance(LEASE / 2).await;
    assert_eq!(rig.claims().expired(&rig.conn, rig.now_ms, 8).await.unwrap(), (vec![], 0));
    rig.advance(LEASE / 2).await;
    assert_eq!(rig.claims().expired(&rig.conn, rig.now_ms, 8).await.unwrap(), (vec![name(1)], 0));
    assert_eq!(rig.claim(2).await.expired, [name(1)]);

    let part = take_over(&rig, name(1), 2, 2);
    let TakeOverReply::Taken { elements, left, unknown, .. } = ask(&rig, &part).await else { panic!("taken") };
    assert_eq!((elements, left, unknown), (claimed.elements[..2].to_vec(), 3, 0));
    let twice = ask(&rig, &part).await;
    assert!(matches!(twice, TakeOverReply::Twice { .. }), "{twice:?}");
    // The rest belongs to its owner until another one comes; the taken-over elements do not.
    let batch: Vec<_> = claimed.elements.iter().map(|e| verdict(1, e, SettleOp::Confirm)).collect();
    let settled = rig.claims().settle(&rig.conn, &[batch[0].clone(), batch[4].clone()], None, None).await.unwrap();
    assert_eq!(settled.answers, [Answer::NotMine, Answer::Done]);

    let rest = take_over(&rig, name(1), 3, 500);
    let TakeOverReply::Taken { elements, left, .. } = ask(&rig, &rest).await else { panic!("taken") };
    assert_eq!((elements, left), (claimed.elements[2..4].to_vec(), 0));
    let contents = rig.claims().contents(&rig.conn, rest.new).await.unwrap();
    assert_eq!(contents.elements, claimed.elements[2..4]);
    let gone = ask(&rig, &take_over(&rig, name(1), 4, 500)).await;
    assert!(matches!(gone, TakeOverReply::Nothing { .. }), "{gone:?}");
    assert_eq!(rig.claims().in_flight(&rig.conn).await.unwrap().elements, 4);
    // An empty claim disappears.
    let confirm = [Whole { name: rest.new, bare: 2, entries: 0 }];
    assert_eq!(rig.claims().confirm(&rig.conn, &confirm).await.unwrap(), [Confirmed::Done]);
    rig.advance(LEASE).await;
    let empty = ask(&rig, &take_over(&rig, rest.new, 5, 500)).await;
    assert!(matches!(empty, TakeOverReply::Nothing { .. }), "{empty:?}");
    assert_eq!(rig.claims().expired(&rig.conn, rig.now_ms, 8).await.unwrap(), (vec![part.new], 0));
}

#[tokio::test]
async fn names_of_other_versions_hide_no_known_ones() {
    let mut rig = Rig::start().await;
    let mut add = redis::cmd("ZADD");
    add.arg("delaybridge:leases:{orders}");
    for n in 0..20 {
        add.arg(n).arg(format!("2.{n}"));
    }
    add.arg(100).arg(name(3).to_string());
    let _: i64 = rig.ask(&mut add).await;
    let claimed = rig.claim(1).await;
    assert_eq!((claimed.expired, claimed.unknown, claimed.unknown_names), (vec![], 0, 8));
    assert_eq!(rig.claims().expired(&rig.conn, rig.now_ms, 8).await.unwrap(), (vec![name(3)], 20));
}
