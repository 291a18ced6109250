//! The effects of the calls on claims on a server, command by command: exactly what their rights allow. The other tests
//! show that no further right is needed, because they run with these rights.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_ledger::claims::{
    ClaimName, ClaimReply, ClaimRequest, Element, SettleCommand, SettleOp, TakeOverRequest, Whole,
};
use delaybridge_link::Side;

use super::rig::{A, B, LEASE, Rig, element};
use harness::monitor::{Executed, Monitor};

/// The commands executed by all variants of each call, on a queue `orders` in database 0, with this addition to the
/// configuration of its source, and with pushes to this list.
pub async fn executed(source: &str, pushes: Option<(&str, Side)>) -> Executed {
    let mut rig = Rig::with(source).await;
    let mut monitor = Monitor::start(&rig.server, &mut rig.redis).await;
    trickle(&mut rig).await;
    if !source.contains("consume: [ready]") {
        ghosts(&mut rig).await;
    }
    verdicts(&mut rig, pushes).await;
    takeovers(&mut rig).await;
    if !source.contains("consume: [delayed]") {
        rig.queue.note_others(&rig.conn, None, LEASE).await.unwrap();
        rig.queue.others(&rig.conn).await.unwrap();
    }
    monitor.executed(&mut rig.redis).await.clone()
}

/// Elements at both ends of the list and near them, one by one; then nothing.
async fn trickle(rig: &mut Rig) {
    rig.offer(&[(element(1), 90_000), (element(2), -1), (element(3), 90_000)]).await;
    rig.claim(1).await;
    rig.offer(&[(element(4), -1), (element(5), 90_000)]).await;
    rig.claim(2).await;
    rig.claim(3).await;
    let _: i64 = rig.ask(redis::cmd("RPUSH").arg("orders").arg("a").arg("b")).await;
    rig.claim(4).await;
}

/// Recorded ghosts at both ends, and claims that leave more of them because the budget of `LREM` is spent.
async fn ghosts(rig: &mut Rig) {
    let list = rig.queue.keys.list.clone();
    let ghosts = rig.queue.keys.ghosts.clone();
    let turn = rig.queue.keys.ghosts_turn.clone();
    let sweep = rig.queue.keys.sweep.clone();
    for (push, set, n) in [("LPUSH", &turn, 101), ("RPUSH", &ghosts, 102)] {
        let _: i64 = rig.ask(redis::cmd(push).arg(&list[..]).arg(element(n))).await;
        let _: i64 = rig.ask(redis::cmd("SADD").arg(&set[..]).arg(&element(n)[..9])).await;
    }
    // Far from both ends in the second round, near the head in the first.
    for round in 0..3 {
        let spent = redis::cmd("HSET").arg(&sweep[..]).arg("lrem_at").arg(i64::MAX / 4).arg("lrem_us").arg(0).clone();
        let _: i64 = rig.ask(&mut spent.clone()).await;
        let far = |from: u64| (from..from + 200).map(|n| (element(n), 90_000)).collect::<Vec<_>>();
        let due: Vec<_> = (0..10).map(|n| (element(2_000 + 100 * round + n), -10)).collect();
        if round > 0 {
            rig.offer(&far(10_000 + 1_000 * round)).await;
        }
        rig.offer(&due).await;
        if round > 0 {
            rig.offer(&far(20_000 + 1_000 * round)).await;
        }
        rig.claim(10 + round).await;
        if round == 2 {
            let budget = redis::cmd("HSET").arg(&sweep[..]).arg("lrem_at").arg(0).clone();
            let _: i64 = rig.ask(&mut budget.clone()).await;
            rig.offer(&(0..10).map(|n| (element(5_000 + n), -10)).collect::<Vec<_>>()).await;
            rig.offer(&far(30_000)).await;
            rig.claim(20).await;
        }
    }
    // Several at the head, all of them claimed.
    let _: i64 = rig.ask(redis::cmd("DEL").arg(&list[..]).arg(&rig.queue.keys.delayed[..])).await;
    rig.offer(&(0..100).map(|n| (element(40_000 + n), -10)).collect::<Vec<_>>()).await;
    rig.claim(21).await;
}

fn verdict(name: ClaimName, of: &Element, step: SettleOp) -> SettleCommand {
    SettleCommand { claim: name, part: of.part(), member: of.member.clone(), step, body: None }
}

/// Every verdict, each twice; then the claims of the retries.
async fn verdicts(rig: &mut Rig, pushes: Option<(&str, Side)>) {
    let name = ClaimName::new(A, 30);
    let _: i64 = rig.ask(redis::cmd("RPUSH").arg("orders").arg(&["e"; 20])).await;
    rig.offer(&(0..20).map(|n| (element(50_000 + n), -10)).collect::<Vec<_>>()).await;
    let claimed = rig.claim(30).await.elements;
    let header = |n: usize| {
        let mut header = claimed[n].header();
        header.writer.place = n as u32 + 1;
        header.writer.owner = A;
        header
    };
    let mut batch = vec![
        verdict(name, &claimed[0], SettleOp::Confirm),
        verdict(name, &claimed[1], SettleOp::Retry { header: header(1), delay_ms: 0 }),
        verdict(name, &claimed[2], SettleOp::Release { header: header(2), at_ms: rig.now_ms }),
        verdict(name, &claimed[3], SettleOp::Progress { header: header(3) }),
        verdict(name, &claimed[4], SettleOp::Dead { fields: vec![("element", Bytes::from_static(b"x"))] }),
        verdict(name, &claimed[5], SettleOp::Retry { header: header(5), delay_ms: 0 }),
        verdict(name, &claimed[6], SettleOp::Retry { header: header(6), delay_ms: 0 }),
        verdict(name, &claimed[7], SettleOp::Retry { header: header(7), delay_ms: 90_000 }),
    ];
    let list = pushes.map(|(list, side)| {
        batch.push(verdict(name, &claimed[8], SettleOp::Push { side, body: "body".into() }));
        Bytes::copy_from_slice(list.as_bytes())
    });
    for _ in 0..2 {
        rig.claims().settle(&rig.conn, &batch, list.as_ref(), Some(1)).await.unwrap();
    }
    rig.claim(31).await;
    // A large head of the retry set is read once, and counted from then on.
    let late = [&b"\xdb\x01"[..], &[0; 20_000]].concat();
    let _: i64 = rig.ask(redis::cmd("ZADD").arg("delaybridge:retry:{orders}").arg(rig.now_ms + 100).arg(late)).await;
    let hints = rig.claim(32).await.hints;
    let request = ClaimRequest { hints, ..rig.request(33) };
    let reply = rig.claims().claim(&rig.conn, &request).await.unwrap();
    assert!(matches!(reply, ClaimReply::Claimed(_)), "{reply:?}");
    rig.claims().contents(&rig.conn, name).await.unwrap();
    rig.claims().in_flight(&rig.conn).await.unwrap();
}

/// Takeovers of a claim with elements and entries: in parts, then the rest; then the end of both.
async fn takeovers(rig: &mut Rig) {
    let old = ClaimName::new(A, 30);
    rig.claims().extend(&rig.conn, LEASE, i64::MAX, &[old]).await.unwrap();
    rig.advance(LEASE).await;
    rig.claims().expired(&rig.conn, rig.now_ms, 8).await.unwrap();
    for (number, most) in [(1, 2), (2, 500)] {
        let request = TakeOverRequest {
            old,
            new: old.taken_over_by(B, number),
            not_after_ms: rig.now_ms,
            lease: LEASE,
            most,
            bytes: 1 << 20,
            largest: 0,
        };
        rig.claims().take_over(&rig.conn, &request).await.unwrap();
    }
    let name = old.taken_over_by(B, 2);
    let held = rig.claims().contents(&rig.conn, name).await.unwrap();
    let bare = held.elements.iter().filter(|element| element.header.is_none()).count();
    let claim = Whole { name, bare, entries: held.elements.len() - bare };
    rig.claims().confirm(&rig.conn, &[claim]).await.unwrap();
    let unlinked = Whole { name: old.taken_over_by(B, 1), bare: 1, entries: 1 };
    rig.claims().confirm(&rig.conn, &[unlinked]).await.unwrap();
    rig.advance(Duration::from_millis(1)).await;
    rig.claims().bury(&rig.conn, rig.now_ms - 1, &[name]).await.unwrap();
}
