//! Cancelled offers: gone from both structures, and nothing else with them.

use redis::cmd;
use serde_json::{Value, json};

use super::offers::{HOUR, watch};
use crate::bench::{Bench, Check, Opening, Stop, now_ms};
use crate::server::Seen;
use crate::statements::{C1, C2, C3, C4, C5, X3};

pub const BY_HANDLE: Check = Check { name: "cancel an offer", about: &[C1, C2, C3, C4], run: by_handle };

fn by_handle(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.needs("cancel")?;
    let due = now_ms() + HOUR;
    // They differ in nothing but their ID.
    let mut handles = Vec::new();
    for _ in 0..5 {
        handles.push(bench.offer_with_handle(json!({"value": "the same", "due_ms": due}))?);
    }
    let before = bench.look(&queue)?;
    // Not the one that a search by the due time alone finds.
    let gone = before.scheduled.last().map(|one| one.element.clone()).unwrap_or_default();
    let Some(at) = before.listed.iter().position(|element| *element == gone) else { return Ok(()) };
    let handle = handles.remove(at);
    let removed = cancel(bench, json!({"op": "cancel", "offer": handle}))?;
    let after = bench.look(&queue)?;
    let taken = |seen: &Seen| before.scheduled.len().saturating_sub(seen.scheduled.len());
    bench.require(C1, taken(&after) == before.listed.len().saturating_sub(after.listed.len()), || {
        format!("cancelled one of five equal offers: {}", difference(&before, &after))
    });
    bench.require(C3, removed.is_some_and(|removed| removed == taken(&after)), || {
        format!("cancelled one of five equal offers: answered {removed:?}; {}", difference(&before, &after))
    });
    let expected = without(&before, |element| *element == gone);
    bench.require(C4, after.scheduled == expected.scheduled, || {
        format!("cancelled one of five equal offers: {}, or another one", difference(&before, &after))
    });
    let removed = cancel(bench, json!({"op": "cancel", "offer": handle}))?;
    let again = bench.look(&queue)?;
    bench.require(C2, again.listed == after.listed, || {
        format!("cancelled it once more: {}", difference(&after, &again))
    });
    bench.require(C3, removed == Some(0) && again.scheduled == after.scheduled, || {
        format!("cancelled it once more: answered {removed:?}; {}", difference(&after, &again))
    });
    // One whose element a consumer took, and left the entry of for later.
    if let Some(first) = again.listed.first() {
        let () = bench.server.query(cmd("ZREM").arg(&queue.timeout).arg(first))?;
    }
    let before = bench.look(&queue)?;
    let removed = cancel(bench, json!({"op": "cancel", "offer": handles[0]}))?;
    let after = bench.look(&queue)?;
    bench.require(C2, after.listed == before.listed, || {
        format!("cancelled an element that is in L alone: {}", difference(&before, &after))
    });
    bench.require(C3, removed == Some(0) && after.scheduled == before.scheduled, || {
        format!("cancelled an element that is in L alone: answered {removed:?}; {}", difference(&before, &after))
    });
    let handle = handles[1].clone();
    let mut removed = None;
    let lines = watch(bench, |bench| {
        removed = cancel(bench, json!({"op": "cancel", "offer": handle}))?;
        Ok(())
    })?;
    if removed == Some(1) {
        bench.require(C1, lines.in_one(&["ZREM", "LREM"]), || {
            format!("the writes of one cancel are not in one script or MULTI: {}", lines.shown())
        });
    }
    Ok(())
}

pub const BY_VALUE: Check = Check { name: "cancel by value", about: &[C5, X3, C2], run: by_value };

fn by_value(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.needs("cancel_value")?;
    for value in ["a", "b\0", "b\0", "b", "c"] {
        bench.offer(json!({"value": value, "delay_ms": HOUR}))?;
    }
    // What no producer wrote: an element of the layout of 2016, and bytes that are none.
    let of_old = b"\xd3\xc2\x2b\x07\xbf\x87\xd2\x43\x05\0\0\0\0\0\0\0older".to_vec();
    let junk = [&b"junk"[..], b""];
    for element in junk.iter().copied().chain([&of_old[..]]) {
        let () = bench.server.query(cmd("ZADD").arg(&queue.timeout).arg(1).arg(element))?;
        let () = bench.server.query(cmd("RPUSH").arg(&queue.list).arg(element))?;
    }
    let before = bench.look(&queue)?;
    let removed = cancel(bench, json!({"op": "cancel", "value": "b\0"}))?;
    let after = bench.look(&queue)?;
    let with_payload = |seen: &Seen, payload: &[u8]| {
        let holds = |element: &Vec<u8>| bench.read(element).is_ok_and(|read| read.payload == payload);
        (
            seen.scheduled.iter().filter(|one| holds(&one.element)).count(),
            seen.listed.iter().filter(|e| holds(e)).count(),
        )
    };
    let left = with_payload(&after, b"b\0");
    let rest = without(&before, |element| bench.read(element).is_ok_and(|read| read.payload == b"b\0"));
    let others = without(&after, |element| bench.read(element).is_ok_and(|read| read.payload == b"b\0"));
    let some = removed.is_some_and(|removed| (1..=2).contains(&removed) && left == (2 - removed, 2 - removed));
    bench.require(C5, some && others == rest, || {
        format!("cancelled a value that was offered twice: answered {removed:?}; {}", difference(&before, &after))
    });
    let none = cancel(bench, json!({"op": "cancel", "value": "never offered"}))?;
    let same = bench.look(&queue)?;
    bench.require(C5, none == Some(0) && same == after, || {
        format!("cancelled a value that was never offered: answered {none:?}; {}", difference(&after, &same))
    });
    let old = cancel(bench, json!({"op": "cancel", "value": "older"}))?;
    let without_old = bench.look(&queue)?;
    let expected = without(&same, |element| *element == of_old);
    bench.require(C5, old == Some(1) && without_old == expected, || {
        format!("cancelled a value in the old layout: answered {old:?}; {}", difference(&same, &without_old))
    });
    // One that a consumer took, with its entry left for later.
    if let Some(taken) = without_old.scheduled.iter().find(|one| bench.payload(&one.element) == b"c") {
        let () = bench.server.query(cmd("ZREM").arg(&queue.timeout).arg(&taken.element))?;
    }
    let before = bench.look(&queue)?;
    let taken = cancel(bench, json!({"op": "cancel", "value": "c"}))?;
    let without_old = bench.look(&queue)?;
    bench.require(C2, taken == Some(0) && without_old.listed == before.listed, || {
        format!("cancelled a value that is in L alone: answered {taken:?}; {}", difference(&before, &without_old))
    });
    for value in ["junk", ""] {
        cancel(bench, json!({"op": "cancel", "value": value}))?;
    }
    let end = bench.look(&queue)?;
    bench.require(X3, end == without_old, || {
        format!("cancelled a value that bytes without a header are equal to: {}", difference(&without_old, &end))
    });
    Ok(())
}

/// Runs a cancellation and returns the number that it answered.
pub fn cancel(bench: &mut Bench, operation: Value) -> Result<Option<usize>, Stop> {
    let removed = bench.ask(operation)?.get("removed").and_then(Value::as_u64);
    Ok(removed.and_then(|removed| usize::try_from(removed).ok()))
}

/// Returns a queue without some of its elements.
fn without(seen: &Seen, gone: impl Fn(&Vec<u8>) -> bool) -> Seen {
    let scheduled = seen.scheduled.iter().filter(|one| !gone(&one.element)).cloned().collect();
    Seen { scheduled, listed: seen.listed.iter().filter(|element| !gone(element)).cloned().collect() }
}

/// Describes the difference between two looks at a queue.
pub fn difference(before: &Seen, after: &Seen) -> String {
    format!(
        "Z had {} elements and has {}, L had {} and has {}{}",
        before.scheduled.len(),
        after.scheduled.len(),
        before.listed.len(),
        after.listed.len(),
        if before != after && before.scheduled.len() == after.scheduled.len() { ", not the same" } else { "" }
    )
}
