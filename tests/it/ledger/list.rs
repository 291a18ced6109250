//! The entries that stay in L after a claim.

use super::rig::{Rig, bytes, element};

#[tokio::test]
async fn elements_of_one_millisecond_leave_the_list_in_any_order() {
    let mut rig = Rig::start().await;
    // In L they are in the reverse order of Z.
    let all: Vec<_> = (0..100).rev().map(|n| (element(n), -1)).collect();
    rig.offer(&all).await;
    rig.offer(&[(element(200), 1_000)]).await;
    let claimed = rig.claim(1).await;
    assert_eq!((claimed.elements.len(), claimed.leftovers.expect("L is long").count), (100, 0));
    assert_eq!(rig.list().await, [element(200)]);
}

#[tokio::test]
async fn elements_at_the_tail_and_behind_others_leave_the_list() {
    let mut rig = Rig::start().await;
    rig.offer(&[(element(1), 1_000), (element(2), -9), (element(3), 1_000), (element(4), -8)]).await;
    rig.offer(&[(element(5), 1_000), (element(6), -6), (element(7), -7)]).await;
    let claimed = rig.claim(1).await;
    assert_eq!(bytes(&claimed.elements), [element(2), element(4), element(7), element(6)]);
    // A claim of a few elements near the ends ignores the entries that others have left there.
    assert_eq!(claimed.leftovers, None);
    assert_eq!(rig.list().await, [element(1), element(3), element(5)]);
}

#[tokio::test]
async fn with_exact_cleanup_nothing_is_left_in_a_long_list() {
    let mut rig = Rig::with(", list_cleanup: exact").await;
    let all: Vec<_> = (0..2_000).map(|n| (element(n), if n % 2 == 0 { -1 } else { 1_000 })).collect();
    rig.offer(&all).await;
    rig.claim(1).await;
    rig.claim(2).await;
    let expected: Vec<_> = (0..2_000).filter(|n| n % 2 == 1).map(element).collect();
    assert_eq!(rig.list().await, expected);
}

#[tokio::test]
async fn what_is_dear_to_remove_is_recorded_and_trimmed_at_an_end() {
    let mut rig = Rig::start().await;
    // More than 28,000 entries: a search costs more than a claim may spend.
    let all: Vec<_> = (0..30_000).map(|n| (element(n), 60_000 + n as i64)).collect();
    rig.offer(&all).await;
    let due: Vec<_> = (14_000..14_500).map(|n| (element(n), -1)).collect();
    let zset = rig.queue.keys.delayed.clone();
    for (element, after_ms) in &due {
        let at = rig.now_ms + after_ms;
        let _: i64 = rig.ask(redis::cmd("ZADD").arg(&zset[..]).arg(at).arg(&element[..])).await;
    }
    let claimed = rig.claim(1).await;
    assert_eq!((claimed.elements.len(), claimed.leftovers.expect("L is long").count), (500, 500));
    assert_eq!(rig.list().await.len(), 30_000);
    // Everything before them is removed: then they are at the head.
    let list = rig.queue.keys.list.clone();
    let _: () = rig.ask(redis::cmd("LTRIM").arg(&list[..]).arg(14_000).arg(-1)).await;
    let _: i64 = rig.ask(redis::cmd("ZREMRANGEBYRANK").arg(&zset[..]).arg(0).arg(13_999)).await;
    // One more than a claim takes without a look at the ghosts.
    let due: Vec<_> = (0..9).map(|n| (element(40_000 + n), n as i64 - 9)).collect();
    rig.offer(&due).await;
    let claimed = rig.claim(2).await;
    assert_eq!((claimed.elements.len(), claimed.leftovers.expect("L is long").count), (9, 468));
    assert_eq!(rig.list().await.len(), 16_000 - 32);
}

#[tokio::test]
async fn a_daemon_of_the_ready_list_alone_touches_nothing_else() {
    let mut rig = Rig::with(", consume: [ready]").await;
    for key in [&rig.queue.keys.delayed, &rig.queue.keys.list].map(|key| key.clone()) {
        let _: () = rig.ask(redis::cmd("SET").arg(&key[..]).arg("not what it must be")).await;
    }
    let _: i64 = rig.ask(redis::cmd("RPUSH").arg("orders").arg("a").arg("b")).await;
    assert_eq!(bytes(&rig.claim(1).await.elements), [&b"a"[..], b"b"]);
}
