//! What a queue says of itself, and the transfer in place of the source's clients.

use super::*;
use delaybridge_ledger::Stats;
use delaybridge_ledger::store::Rescued;

async fn stats(store: &dyn Store) -> Stats {
    store.stats().await.expect("the server counts")
}

pub async fn an_empty_queue_is_empty(rig: impl Rig) {
    let store = rig.store(A);
    let claimed = claim(&rig, &request(A, 1)).await;
    assert!(claimed.elements.is_empty() && claimed.expired.is_empty(), "{claimed:?}");
    assert_eq!((claimed.now_ms, claimed.next_ms, claimed.more), (rig.now_ms(), None, false));
    let stats = stats(&*store).await;
    assert!(stats.is_empty(), "{stats:?}");
    assert_eq!((stats.now_ms, stats.source.head_ms), (rig.now_ms(), None));
    assert!(store.scheduled(0, 0).await.expect("the server reads").elements.is_empty());
    assert_eq!(store.due_before(0, i64::MAX).await.expect("the server counts"), 0);
}

pub async fn a_poll_finds_what_a_claim_would_take(mut rig: impl Rig) {
    let (store, server) = (rig.store(A), rig.server());
    let found = async |now_ms: i64, ahead| {
        let answers = server.read(&store.poll(now_ms, ahead)).await.expect("the server reads");
        answers.into_iter().map(|answer| answer.expect("a number")).sum::<i64>()
    };
    let none = Duration::ZERO;
    assert!(server.is_up());

    let at = rig.now_ms();
    assert_eq!(found(at, none).await, 0);
    rig.offer(&element(&rig, 1), at + 100).await;
    assert_eq!((found(at + 99, none).await, found(at + 100, none).await), (0, 1));
    assert_eq!((found(at, ms(99)).await, found(at, ms(100)).await), (0, 1), "ahead");
    rig.advance(ms(100)).await;
    let mine = take_one(&rig, B, 1).await;
    let at = rig.now_ms();
    assert_eq!(found(at, ms(500)).await, 0, "in flight");
    assert_eq!((found(at + 9_999, none).await, found(at + 10_000, none).await), (0, 1), "its lease is over");
    settle_one(&rig, &mine, mine.retry(ms(50))).await;
    assert_eq!((found(at + 49, none).await, found(at + 50, none).await), (0, 1), "a retry");
    assert_eq!((found(at, ms(49)).await, found(at, ms(50)).await), (0, 1), "a retry ahead");
    rig.make_ready(&Bytes::from_static(b"ready")).await;
    assert_eq!(found(at, none).await, 1, "the ready list");
    rig.advance(ms(50)).await;
    assert_eq!(found(at + 50, none).await, 2);
    assert_eq!(take(&rig, A, 1).await.len(), 2);
    assert_eq!(found(at + 50, none).await, 0);
    let reads = server.read(&[]).await.expect("the server reads");
    assert!(reads.is_empty());
}

pub async fn the_gauges_count_what_is_at_each_place(mut rig: impl Rig) {
    let store = rig.store(A);
    offer(&mut rig, 0..6).await;
    let mine = take(&rig, A, 1).await;
    let steps = [mine[0].retry(ms(50)), mine[1].release(), mine[2].dead()];
    for (mine, step) in mine.iter().zip(steps) {
        assert_eq!(settle_one(&rig, mine, step).await, Answer::Done);
    }
    let now = rig.now_ms();
    for (n, due_ms) in [(10, now - 3), (11, now), (12, now + 1), (13, now + 2)] {
        rig.offer(&element(&rig, n), due_ms).await;
    }
    rig.make_ready(&Bytes::from_static(b"ready")).await;
    let stats = stats(&*store).await;
    assert_eq!((stats.now_ms, stats.in_flight, stats.retry, stats.dead), (now, 3, 2, 1));
    let source = stats.source;
    assert_eq!((source.scheduled, source.due, source.ready, source.head_ms), (4, 2, 1, Some(now - 3)));
    assert!(!stats.is_empty());
    assert_eq!(stats.retry_oldest_ms, mine[..2].iter().filter_map(|mine| mine.element.due_ms()).min());
}

pub async fn scheduled_elements_are_read_in_due_order_from_any_place(mut rig: impl Rig) {
    let store = rig.store(A);
    let start = rig.now_ms();
    let elements: Vec<_> = (0..20).map(|n| (start + n as i64 * 10, element(&rig, n))).collect();
    for n in 0..20 {
        let (due_ms, element) = &elements[(n * 7) % 20];
        rig.offer(element, *due_ms).await;
    }
    for first in [0, 1, 19, 20, 21] {
        let mut read = Vec::new();
        loop {
            let page = store.scheduled(0, first + read.len()).await.expect("the server reads").elements;
            if page.is_empty() {
                break;
            }
            read.extend(page.into_iter().map(|element| (element.score_ms, element.member)));
        }
        assert_eq!(read, elements.iter().skip(first).cloned().collect::<Vec<_>>(), "{first}");
    }
    for (ms, expected) in [(-1, 0), (0, 0), (1, 1), (10, 1), (11, 2), (190, 19), (191, 20)] {
        assert_eq!(store.due_before(0, start + ms).await.expect("the server counts"), expected, "{ms}");
    }
}

pub async fn overdue_elements_are_transferred_and_others_are_not(mut rig: impl Rig) {
    let rescuer = rig.rescuer();
    let start = rig.now_ms();
    rig.advance(ms(1_000)).await;
    let (junk, gone) = (Bytes::from_static(b"junk"), element(&rig, 9));
    let elements = [element(&rig, 1), element(&rig, 2), element(&rig, 3)];
    for (element, due_ms) in elements.iter().zip([start, start + 500, start + 501]) {
        rig.offer(element, due_ms).await;
    }
    rig.offer(&junk, start).await;
    let batch: Vec<_> = elements.iter().chain([&junk, &gone]).cloned().collect();
    for moved in [2, 0] {
        let rescued = rescuer.rescue(ms(500), &batch).await.expect("the server transfers");
        assert_eq!(rescued, Rescued { moved, junk: 1 });
        let places = rig.places().await;
        assert_eq!(places.ready, [&b"payload 1"[..], b"payload 2"]);
        assert_eq!(places.scheduled, [(start, junk.clone()), (start + 501, elements[2].clone())]);
    }
    let mine = take(&rig, A, 1).await;
    let ready = mine.iter().filter(|mine| mine.element.due_ms().is_none());
    assert_eq!(bytes(ready), [&b"payload 1"[..], b"payload 2"]);
}
