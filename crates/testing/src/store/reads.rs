//! What a queue says of itself, and the transfer in place of the source's clients.

use super::*;
use delaybridge_ledger::store::Rescued;
use delaybridge_ledger::{Ahead, HORIZONS_MS, Look, LookAt, LookPart, LookerNote, Stats, millis};

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

/// Looks at a queue: whether a claim would take something now, or after a while.
pub(super) async fn finds(rig: &impl Rig, look: &Look, now_ms: i64, ahead: Duration) -> bool {
    finds_in(rig, LookPart::All, look, now_ms, ahead).await
}

/// The same of a part of the keys.
async fn finds_in(rig: &impl Rig, part: LookPart, look: &Look, now_ms: i64, ahead: Duration) -> bool {
    let at = LookAt { look, part, now_ms, until_ms: now_ms + millis(ahead) };
    let answers = rig.server().look(&[at]).await.expect("the server reads");
    answers[0].expect("an answer")
}

pub async fn daemons_that_share_looks_read_the_notes_of_all(rig: impl Rig) {
    let server = rig.server();
    let note = |daemon: &'static str, text: &'static str| LookerNote { daemon: daemon.into(), text: text.into() };
    let share = async |own: LookerNote| {
        let mut notes = server.share_looks(&own).await.expect("the server answers");
        notes.sort_by(|one, other| one.daemon.cmp(&other.daemon));
        notes
    };
    assert_eq!(share(note("a", "1")).await, [note("a", "1")]);
    assert_eq!(share(note("b", "")).await, [note("a", "1"), note("b", "")]);
    assert_eq!(share(note("a", "2")).await, [note("a", "2"), note("b", "")], "the last note of each");
    server.forget_lookers(&[]).await.expect("the server answers");
    server.forget_lookers(&["b".into(), "c".into()]).await.expect("the server answers");
    assert_eq!(share(note("a", "3")).await, [note("a", "3")]);
}

pub async fn the_size_of_a_queue_tells_what_is_there_beside_its_schedule(mut rig: impl Rig) {
    async fn size(rig: &impl Rig) -> (i64, bool) {
        let (now_ms, sizes) = rig.server().sizes(&[rig.store(A).counted()]).await.expect("the server counts");
        assert!(now_ms.is_none_or(|now_ms| now_ms > 0), "{now_ms:?}");
        let size = sizes[0].expect("an answer");
        (size.scheduled, size.has_others)
    }
    assert_eq!(size(&rig).await, (0, false));
    let at = rig.now_ms();
    rig.offer(&element(&rig, 1), at + 100).await;
    rig.offer(&element(&rig, 2), at + 100_000).await;
    assert_eq!(size(&rig).await, (2, false));
    rig.advance(ms(100)).await;
    let mine = take_one(&rig, A, 1).await;
    assert_eq!(size(&rig).await, (1, true), "in flight");
    settle_one(&rig, &mine, mine.retry(ms(50))).await;
    assert_eq!(size(&rig).await, (1, true), "a retry");
}

pub async fn the_size_of_a_queue_tells_of_its_ready_list(mut rig: impl Rig) {
    rig.make_ready(&Bytes::from_static(b"ready")).await;
    let (_, sizes) = rig.server().sizes(&[rig.store(A).counted()]).await.expect("the server counts");
    assert!(sizes[0].expect("an answer").has_others);
}

pub async fn a_look_finds_what_a_claim_would_take(mut rig: impl Rig) {
    let look = rig.store(A).look();
    let server = rig.server();
    let none = Duration::ZERO;
    assert!(server.is_up());

    /// Returns whether looks find an element just before a time, and at it.
    async fn found(rig: &impl Rig, look: &Look, at: i64, ahead: Duration) -> (bool, bool) {
        let before = ahead.checked_sub(ms(1)).map_or((at - 1, ahead), |shorter| (at, shorter));
        (finds(rig, look, before.0, before.1).await, finds(rig, look, at, ahead).await)
    }
    let at = rig.now_ms();
    assert!(!finds(&rig, &look, at, none).await);
    rig.offer(&element(&rig, 1), at + 100).await;
    assert_eq!(found(&rig, &look, at + 100, none).await, (false, true));
    assert_eq!(found(&rig, &look, at, ms(100)).await, (false, true), "ahead");
    rig.advance(ms(100)).await;
    let mine = take_one(&rig, B, 1).await;
    let at = rig.now_ms();
    assert!(!finds(&rig, &look, at, ms(500)).await, "in flight");
    assert_eq!(found(&rig, &look, at + 10_000, none).await, (false, true), "its lease is over");
    settle_one(&rig, &mine, mine.retry(ms(50))).await;
    assert_eq!(found(&rig, &look, at + 50, none).await, (false, true), "a retry");
    assert_eq!(found(&rig, &look, at, ms(50)).await, (false, true), "a retry ahead");
    rig.make_ready(&Bytes::from_static(b"ready")).await;
    assert!(finds(&rig, &look, at, none).await, "the ready list");
    let lengths = server.lengths(&look.lists).await.expect("the server reads");
    assert!(lengths.len() == look.lists.len() && lengths.iter().all(|length| matches!(length, Ok(1))), "{lengths:?}");
    rig.advance(ms(50)).await;
    assert_eq!(take(&rig, A, 1).await.len(), 2);
    assert!(!finds(&rig, &look, at + 50, none).await);
    assert!(server.look(&[]).await.expect("the server reads").is_empty());
    assert!(server.lengths(&[]).await.expect("the server reads").is_empty());
}

pub async fn a_look_at_a_part_reads_nothing_else(mut rig: impl Rig) {
    let look = rig.store(A).look();
    async fn found(rig: &impl Rig, look: &Look, at: i64) -> [bool; 2] {
        let users = finds_in(rig, LookPart::Users, look, at, Duration::ZERO).await;
        [users, finds_in(rig, LookPart::Own, look, at, Duration::ZERO).await]
    }
    let at = rig.now_ms();
    rig.offer(&element(&rig, 1), at).await;
    assert_eq!(found(&rig, &look, at).await, [true, false], "scheduled");
    let mine = take_one(&rig, B, 1).await;
    assert_eq!(found(&rig, &look, rig.now_ms() + 10_000).await, [false, true], "a lease");
    settle_one(&rig, &mine, mine.retry(ms(50))).await;
    assert_eq!(found(&rig, &look, rig.now_ms() + 50).await, [false, true], "a retry");
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

pub async fn the_gauges_tell_what_is_ahead(mut rig: impl Rig) {
    const YEAR: i64 = 31_536_000_000;
    let store = rig.store(A);
    let now = rig.now_ms();
    assert_eq!(stats(&*store).await.source.ahead, Ahead::default());
    rig.offer(&element(&rig, 0), now).await;
    let ahead = stats(&*store).await.source.ahead;
    assert_eq!((ahead.within, ahead.last_ms), ([0; 5], None), "what is due is not ahead");
    // The score of a time in ms that is far away may mean one a little later.
    let near = |found: Option<i64>, last: i64| {
        let found = found.expect("something is ahead");
        assert!(found >= last && found - last <= 1_000.max((last - now) / 1_000), "{found} for {last}, now {now}");
    };
    let mut n = 0;
    let mut expected = [0; HORIZONS_MS.len()];
    for (place, horizon) in HORIZONS_MS.into_iter().enumerate() {
        for due_ms in [now + horizon, now + horizon + 1] {
            n += 1;
            rig.offer(&element(&rig, n), due_ms).await;
            let first = if due_ms == now + horizon { place } else { place + 1 };
            expected[first..].iter_mut().for_each(|count| *count += 1);
            let ahead = stats(&*store).await.source.ahead;
            assert_eq!((ahead.within, ahead.absurd), (expected, 0), "{due_ms}, now {now}");
            near(ahead.last_ms, due_ms);
        }
    }
    for (after, absurd) in [(20 * 86_400_000, 0), (YEAR, 0), (YEAR + 2, 1), (9 * YEAR, 2)] {
        n += 1;
        rig.offer(&element(&rig, n), now + after).await;
        let ahead = stats(&*store).await.source.ahead;
        assert_eq!((ahead.within, ahead.absurd), (expected, absurd), "{after} ms ahead, now {now}");
        near(ahead.last_ms, now + after);
    }
    // Seconds that were taken for milliseconds.
    rig.offer(&element(&rig, n + 1), 1_795_251_632).await;
    assert_eq!(stats(&*store).await.source.ahead.absurd, 3);

    let bounds = [(now - 1, now), (now, now + 60_000), (now + 60_000, now + 60_001), (now + 60_001, now + 600_000)];
    assert_eq!(store.due_between(&bounds).await.expect("the server counts"), [1, 1, 1, 1]);
    assert!(store.due_between(&[]).await.expect("nothing to count").is_empty());
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
    let junk = Bytes::from_static(b"junk");
    let gone = element(&rig, 9);
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
