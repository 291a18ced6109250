//! The note of who else listens: an unbroken watch, and a gap.

use std::time::Duration;

use delaybridge_ledger::Others;

use super::rig::Rig;

const HOLDS: Duration = Duration::from_secs(180);

/// Notes, and reads the note: times since the beginning.
async fn note(rig: &Rig, seen: Option<u64>) -> (i64, Option<i64>, i64) {
    let begin = 1_800_000_000_000;
    rig.queue.note_others(&rig.conn, seen.map(Duration::from_secs), HOLDS).await.unwrap();
    let Others { since_ms, seen_ms, until_ms } = rig.queue.others(&rig.conn).await.unwrap().expect("a note");
    let seconds = |ms: i64| (ms - begin) / 1_000;
    (seconds(since_ms), seen_ms.map(seconds), seconds(until_ms))
}

#[tokio::test]
async fn notes_that_join_are_one_watch_and_a_gap_begins_another() {
    let mut rig = Rig::start().await;
    assert_eq!(rig.queue.others(&rig.conn).await.unwrap(), None);
    assert_eq!(note(&rig, None).await, (0, None, 180));
    rig.advance(Duration::from_secs(60)).await;
    assert_eq!(note(&rig, Some(0)).await, (0, Some(60), 240));
    rig.advance(Duration::from_secs(180)).await;
    // Another daemon, which saw it ten seconds ago, or has seen nobody.
    assert_eq!(note(&rig, Some(10)).await, (0, Some(230), 420));
    assert_eq!(note(&rig, None).await, (0, Some(230), 420));
    assert_eq!(note(&rig, Some(100)).await, (0, Some(230), 420), "it knew less");
    rig.advance(Duration::from_secs(181)).await;
    // Nobody watched for a second.
    assert_eq!(note(&rig, None).await, (421, None, 601));
}

#[tokio::test]
async fn a_note_that_cannot_be_read_is_replaced() {
    let mut rig = Rig::start().await;
    let state = rig.queue.keys.state.clone();
    for strange in ["", "x", "1 2", "1 2 3 4", "-1  5"] {
        let _: i64 = rig.ask(redis::cmd("HSET").arg(&state[..]).arg("others").arg(strange)).await;
        assert_eq!(note(&rig, None).await, (0, None, 180), "{strange}");
    }
}
