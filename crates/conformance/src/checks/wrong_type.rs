//! Keys of a wrong type: an error, and nothing written.

use redis::cmd;
use serde_json::json;

use super::offers::HOUR;
use crate::bench::{Bench, Check, Opening, Stop};
use crate::child::Answer;
use crate::server::Queue;
use crate::statements::K7;

pub const SET: Check = Check { name: "Z that is no sorted set", about: &[K7], run: set };
pub const LIST: Check = Check { name: "L that is no list", about: &[K7], run: list };

fn set(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    wrong(bench, &queue, &queue.timeout, &queue.list)
}

fn list(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    wrong(bench, &queue, &queue.list, &queue.timeout)
}

fn wrong(bench: &mut Bench, queue: &Queue, wrong: &str, other: &str) -> Result<(), Stop> {
    bench.open(queue, Opening::default())?;
    let () = bench.server.query(cmd("SET").arg(wrong).arg("a stranger's"))?;
    let answer = bench.try_ask(json!({"op": "offer", "value": "x", "delay_ms": HOUR}))?;
    let other_is_there: bool = bench.server.query(cmd("EXISTS").arg(other))?;
    let kept: Option<String> = bench.server.query(cmd("GET").arg(wrong))?;
    let refused = matches!(answer, Answer::Refused(_));
    bench.require(K7, refused && !other_is_there && kept.as_deref() == Some("a stranger's"), || {
        let answered = if refused { "was refused" } else { "was not refused" };
        let wrote = if other_is_there { "was written to" } else { "is empty" };
        format!("{wrong:?} holds a string: the offer {answered}, {other:?} {wrote}, the string is {kept:?}")
    });
    // It goes on where nothing is in the way.
    let () = bench.server.query(cmd("DEL").arg(wrong))?;
    bench.offer(json!({"value": "x", "delay_ms": HOUR}))?;
    let seen = bench.look(queue)?;
    bench.require(K7, seen.scheduled.len() == 1 && seen.listed.len() == 1, || {
        format!("an offer after the refused one: {} elements in Z, {} in L", seen.scheduled.len(), seen.listed.len())
    });
    Ok(())
}
