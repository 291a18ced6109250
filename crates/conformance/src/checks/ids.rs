//! IDs that the caller chooses: a repeated offer is one offer.

use redis::cmd;
use serde_json::json;

use super::offers::HOUR;
use crate::bench::{Bench, Check, Opening, Stop, now_ms};
use crate::server::Listener;
use crate::statements::{O5, O6};

/// The longest life of a mark, in ms.
const MARK_MS: i64 = 600_000;

pub const REPEATED: Check = Check { name: "a repeated offer", about: &[O5, O6], run: repeated };

fn repeated(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.needs("ids")?;
    let id = id(bench);
    let due = now_ms() + HOUR;
    let offer = json!({"value": "once", "due_ms": due, "id": id});
    let first = bench.offer(offer.clone())?;
    let once = bench.look(&queue)?;
    let found = once.scheduled.first().and_then(|one| bench.read(&one.element).ok().map(|element| element.id));
    let found = found.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    bench.require(O6, found.as_deref() == Some(&*id), || {
        format!("offered with the id {id}; the ID in the element is {found:?}")
    });
    let mut listener = Listener::on(&bench.server, &queue)?;
    let second = bench.offer(offer.clone())?;
    // By another process, as after a restart.
    let mut another = bench.another(&queue, Opening::default())?;
    let third = crate::bench::offer(&mut another, offer.clone())?;
    another.end()?;
    // As after the end of the mark: the element itself says that it was offered.
    let () = bench.server.query(cmd("DEL").arg(format!("{}{id}", queue.mark)))?;
    let fourth = bench.offer(offer)?;
    let after = bench.look(&queue)?;
    let heard = listener.heard(&mut bench.server)?;
    bench.require(O5, after == once && heard.is_empty(), || {
        format!(
            "offered four times with one id: {} elements scheduled, {} in the list, announced again: {heard:?}",
            after.scheduled.len(),
            after.listed.len()
        )
    });
    let handles = [first, second, third, fourth];
    bench.require(O5, handles.iter().all(|handle| *handle == handles[0]), || {
        format!("offered four times with one id; the handles are {handles:?}")
    });
    let other = self::id(bench);
    bench.offer(json!({"value": "once", "due_ms": due, "id": other}))?;
    let after = bench.look(&queue)?;
    bench.require(O6, after.scheduled.len() == 2, || {
        format!("offered the same value with another id: {} elements scheduled, expected 2", after.scheduled.len())
    });
    Ok(())
}

pub const LATE: Check = Check { name: "a repeated offer after the delivery", about: &[O6], run: late };

fn late(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.needs("ids")?;
    let id = id(bench);
    let offer = json!({"value": "once", "due_ms": now_ms() + HOUR, "id": id});
    bench.offer(offer.clone())?;
    let once = bench.look(&queue)?;
    for element in &once.listed {
        bench.server.take(&queue, element)?;
    }
    bench.offer(offer)?;
    let after = bench.look(&queue)?;
    bench.require(O6, after.scheduled.is_empty() && after.listed.is_empty(), || {
        format!(
            "an offer was repeated after its element had been taken: {} elements scheduled, {} in the list, expected none",
            after.scheduled.len(),
            after.listed.len()
        )
    });
    let mark = format!("{}{id}", queue.mark);
    let value: Option<String> = bench.server.query(cmd("GET").arg(&mark))?;
    let due = once.scheduled.first().map(|one| one.score.clone());
    bench.require(O6, value.is_some() && value == due, || {
        format!("the key {mark:?} has the value {value:?}, the due time is {due:?}")
    });
    let left: i64 = bench.server.query(cmd("PTTL").arg(&mark))?;
    bench.require(O6, left > MARK_MS / 2 && left <= MARK_MS, || {
        format!("the key {mark:?} should expire within ten minutes; PTTL answers {left}")
    });
    Ok(())
}

/// Returns a random id, as the protocol writes it.
pub fn id(bench: &mut Bench) -> String {
    format!("{:016x}", bench.rng.u64(..))
}
