//! Two producers at once: two processes on one queue.

use std::collections::HashSet;

use serde_json::json;

use super::cancel::cancel;
use super::offers::HOUR;
use crate::bench::{self, Bench, Check, Opening, Stop, now_ms};
use crate::statements::{C4, E4, O1};

pub const TWO: Check = Check { name: "two producers", about: &[O1, E4], run: two };

fn two(bench: &mut Bench) -> Result<(), Stop> {
    const EACH: usize = 50;
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    let mut another = bench.another(&queue, Opening::default())?;
    let due = now_ms() + HOUR;
    let theirs = std::thread::spawn(move || {
        let mut handles = Vec::new();
        for _ in 0..EACH {
            handles.push(bench::offer(&mut another, json!({"value": "the same", "due_ms": due}))?);
        }
        another.end()?;
        Ok::<_, Stop>(handles)
    });
    for _ in 0..EACH {
        bench.offer(json!({"value": "the same", "due_ms": due}))?;
    }
    let theirs = theirs.join().map_err(|_| Stop::Unexpected("a thread of the kit panicked".to_owned()))??;
    let seen = bench.look(&queue)?;
    let scheduled: HashSet<_> = seen.scheduled.iter().map(|one| &one.element).collect();
    let listed: HashSet<_> = seen.listed.iter().collect();
    let different = scheduled.len().max(listed.len());
    bench.require(E4, different == 2 * EACH, || {
        format!("two processes made {EACH} offers each of one payload: {different} elements are different")
    });
    bench.require(O1, scheduled == listed && seen.listed.len() == 2 * EACH, || {
        format!(
            "two processes made {EACH} offers each: {} elements in Z, {} in L, {} of them different",
            scheduled.len(),
            seen.listed.len(),
            listed.len()
        )
    });
    // A handle is a text: the process that cancels need not be the one that offered.
    if let (Ok(()), Some(Some(handle))) = (bench.needs("cancel"), theirs.first()) {
        let removed = cancel(bench, json!({"op": "cancel", "offer": handle}))?;
        bench.require(C4, removed == Some(1), || {
            format!("cancelled an offer of another process by its handle: answered {removed:?}")
        });
    }
    Ok(())
}
