//! Takeovers: what a claim holds that let its lease run out goes to another process.

use super::*;
use delaybridge_ledger::claims::{Confirmed, Whole};

/// A claim of one process with three bare elements, an entry that waited and one that was noted.
async fn expired_claim(rig: &mut impl Rig) -> Vec<Mine> {
    offer(rig, [1]).await;
    let waiting = take_one(rig, A, 1).await;
    settle_one(rig, &waiting, waiting.retry(ms(0))).await;
    offer(rig, 2..6).await;
    let mut mine = take(rig, A, 2).await;
    let noted = mine.pop().expect("an element");
    assert_eq!(settle_one(rig, &noted, noted.progress(7)).await, Answer::Done);
    let member = noted.element.under(&match noted.progress(7) {
        SettleOp::Progress { header } => header,
        _ => unreachable!("progress"),
    });
    let score_ms = noted.element.score_ms;
    let mut element = Element::entry(member, score_ms).expect("an entry");
    element.body = noted.element.body.clone();
    mine.push(Mine { element, ..noted });
    rig.advance(LEASE).await;
    // Entries first, each part in its order.
    mine.sort_by_key(|mine| (mine.element.part() == Part::Bare, mine.element.score_ms, mine.element.member.clone()));
    mine
}

fn elements(mine: &[Mine]) -> Vec<Element> {
    mine.iter().map(|mine| mine.element.clone()).collect()
}

async fn reply(rig: &impl Rig, request: &TakeOverRequest) -> TakeOverReply {
    rig.store(request.new.owner[0]).take_over(request).await.expect("the server answers")
}

pub async fn a_whole_claim_is_taken_over(mut rig: impl Rig) {
    let before = expired_claim(&mut rig).await;
    let old = rig.places().await.held(name(A, 2));
    let request = takeover(name(A, 2), B, 1);
    let (taken, left) = take_over(&rig, &request).await;
    assert_eq!((elements(&taken), left), (elements(&before), 0), "the same members");
    assert_eq!((request.new.owner, request.new.number, request.new.expiries), ([B; 8], 1, 1));
    let places = rig.places().await;
    assert_eq!((places.held(request.new), places.held(name(A, 2))), (old, Parts::default()));
    assert_eq!((places.lease(request.new), places.lease(name(A, 2))), (Some(rig.now_ms() + 10_000), None));
    let verdicts: Vec<_> = taken.iter().map(|mine| mine.verdict(SettleOp::Confirm)).collect();
    assert_eq!(settle(&rig, &verdicts).await, [Answer::Done; 5]);
}

pub async fn a_takeover_takes_what_there_is_room_for_entries_first(mut rig: impl Rig) {
    let before = expired_claim(&mut rig).await;
    let lease = rig.places().await.lease(name(A, 2));
    let part = |number, most| TakeOverRequest { most, ..takeover(name(A, 2), B, number) };
    let mut at = 0;
    for (number, most) in [(1, 1), (2, 3)] {
        let (taken, left) = take_over(&rig, &part(number, most)).await;
        assert_eq!(elements(&taken), elements(&before[at..at + most]));
        at += most;
        assert_eq!(left as usize, 5 - at);
        assert_eq!(rig.places().await.lease(name(A, 2)), lease, "the rest is still there, and still expired");
    }
    // A late verdict of the former owner: welcome on what stayed, and on nothing else.
    let answers: Vec<_> = before.iter().map(|mine| mine.verdict(mine.release())).collect();
    assert_eq!(settle(&rig, &answers).await[..4], [Answer::NotMine; 4]);
    assert_eq!(rig.places().await.of(&before[4].element.bytes()), ["waiting"]);
    let reply = reply(&rig, &part(3, 3)).await;
    assert!(matches!(reply, TakeOverReply::Nothing { .. }), "{reply:?}");
}

pub async fn a_takeover_takes_no_more_bytes_than_it_may_but_always_one_element(mut rig: impl Rig) {
    let due_ms = rig.now_ms();
    let large = [b'x'; 1_000];
    let payloads = [&large[..], &large, &large, &large, &large[..100]].into_iter().zip(0..);
    let elements: Vec<_> = payloads.map(|(payload, n)| rig.element(id(n), payload)).collect();
    for element in &elements {
        rig.offer(element, due_ms).await;
    }
    let mine = take(&rig, A, 1).await;
    for mine in &mine[..2] {
        assert_eq!(settle_one(&rig, mine, mine.progress(7)).await, Answer::Done);
    }
    rig.advance(LEASE).await;
    // What is small does not go before the entries.
    for (number, limit, expected) in [(1, 1_500, 0..1), (2, 10, 1..2), (3, 10, 2..3), (4, 1 << 20, 3..5)] {
        let request = TakeOverRequest { bytes: limit, ..takeover(name(A, 1), B, number) };
        let (taken, left) = take_over(&rig, &request).await;
        assert_eq!((bytes(&taken), left as usize), (elements[expected.clone()].to_vec(), 5 - expected.end));
    }
}

pub async fn after_three_expiries_elements_are_taken_over_alone(mut rig: impl Rig) {
    offer(&mut rig, 0..3).await;
    take(&rig, A, 1).await;
    let mut old = name(A, 1);
    for number in 2..4 {
        rig.advance(LEASE).await;
        let request = takeover(old, B, number);
        assert!(!request.new.is_suspect());
        assert_eq!(take_over(&rig, &request).await.0.len(), 3);
        old = request.new;
    }
    rig.advance(LEASE).await;
    for (number, left_then) in [(4, 2), (5, 1), (6, 0)] {
        let request = TakeOverRequest { most: 1, ..takeover(old, C, number) };
        assert!(request.new.is_suspect());
        let (taken, left) = take_over(&rig, &request).await;
        assert_eq!((taken.len(), left), (1, left_then));
    }
    // Each goes its own way, to the end.
    let mut old = takeover(old, C, 4).new;
    for number in 7..14 {
        rig.advance(LEASE).await;
        let request = takeover(old, C, number);
        assert_eq!(take_over(&rig, &request).await.0.len(), 1);
        old = request.new;
    }
    assert!(old.is_exhausted());
}

pub async fn nothing_is_taken_over_from_a_claim_that_lives_or_is_gone_or_empty(mut rig: impl Rig) {
    offer(&mut rig, [1]).await;
    let mine = take_one(&rig, A, 1).await;
    rig.advance(LEASE.saturating_sub(ms(1))).await;
    let before = rig.places().await;
    for old in [name(A, 1), name(A, 2)] {
        let reply = reply(&rig, &takeover(old, B, 1)).await;
        assert!(matches!(reply, TakeOverReply::Nothing { now_ms } if now_ms == rig.now_ms()), "{old}: {reply:?}");
        assert_eq!(rig.places().await, before, "{old}");
    }
    settle_one(&rig, &mine, SettleOp::Confirm).await;
    rig.advance(ms(1)).await;
    assert_eq!(rig.places().await.leases.len(), 1);
    let reply = reply(&rig, &takeover(name(A, 1), B, 1)).await;
    assert!(matches!(reply, TakeOverReply::Nothing { .. }), "{reply:?}");
    assert_eq!(rig.places().await.leases, [], "the lease of the empty one is gone, and there is no new one");
}

pub async fn a_takeover_that_is_late_or_sent_twice_does_nothing(mut rig: impl Rig) {
    expired_claim(&mut rig).await;
    let before = rig.places().await;
    let late = TakeOverRequest { not_after_ms: rig.now_ms() - 1, ..takeover(name(A, 2), B, 1) };
    let answer = reply(&rig, &late).await;
    assert!(matches!(answer, TakeOverReply::Late { now_ms } if now_ms == rig.now_ms()), "{answer:?}");
    assert_eq!(rig.places().await, before);
    // In parts, and whole.
    for (number, most) in [(1, 2), (2, 500)] {
        let request = TakeOverRequest { most, ..takeover(name(A, 2), B, number) };
        let (taken, _) = take_over(&rig, &request).await;
        for settled in [false, true] {
            if settled {
                let all: Vec<_> = taken.iter().map(|mine| mine.verdict(SettleOp::Confirm)).collect();
                settle(&rig, &all).await;
            }
            let before = rig.places().await;
            let answer = reply(&rig, &request).await;
            assert!(matches!(answer, TakeOverReply::Twice { now_ms } if now_ms == rig.now_ms()), "{answer:?}");
            assert_eq!(rig.places().await, before, "settled: {settled}");
        }
    }
}

pub async fn who_lost_a_claim_can_do_nothing_to_it(mut rig: impl Rig) {
    let lost = expired_claim(&mut rig).await;
    let (taken, _) = take_over(&rig, &takeover(name(A, 2), B, 1)).await;
    let before = rig.places().await;
    for mine in &lost[1..3] {
        for step in mine.all_steps() {
            assert_eq!(settle_one(&rig, mine, step.clone()).await, Answer::NotMine, "{step:?}");
        }
    }
    let store = rig.store(A);
    assert_eq!(extend(&store, LEASE * 2, &[name(A, 2)]).await, [false]);
    assert!(store.contents(name(A, 2)).await.expect("the server reads").elements.is_empty());
    let whole = [Whole { name: name(A, 2), bare: 3, entries: 2 }];
    assert_eq!(store.confirm(&whole).await.expect("the server answers"), [Confirmed::Gone]);
    assert_eq!(rig.places().await, before);
    assert_eq!(settle_one(&rig, &taken[0], SettleOp::Confirm).await, Answer::Done);
}
