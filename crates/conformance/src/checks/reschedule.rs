//! Moved offers: another due time for the same element.

use serde_json::{Value, json};

use super::cancel::{cancel, difference};
use super::offers::HOUR;
use crate::bench::{Bench, Check, Opening, Stop, now_ms};
use crate::child::Answer;
use crate::server::Listener;
use crate::statements::{M1, M2, M3, M4};

pub const MOVE: Check = Check { name: "move an offer", about: &[M1, M2, M3, M4], run: moved };

fn moved(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.needs("reschedule")?;
    let due = now_ms() + 2 * HOUR;
    let mut handles = Vec::new();
    for _ in 0..2 {
        handles.push(bench.offer_with_handle(json!({"value": "the same", "due_ms": due}))?);
    }
    let before = bench.look(&queue)?;
    // The one that moves is not the one that a search by the due time alone finds.
    let last = before.scheduled.last().map(|one| one.element.clone());
    let Some(moving) = before.listed.iter().position(|element| Some(element) == last.as_ref()) else { return Ok(()) };
    let staying = 1 - moving.min(1);
    let stays = handles[staying].clone();
    let mut handle = handles[moving].clone();
    let mut listener = Listener::on(&bench.server, &queue)?;
    for (step, to, is_head) in
        [("later", due + HOUR, false), ("before the head", due - HOUR, true), ("later again", due + 7, false)]
    {
        let answer = bench.ask(json!({"op": "reschedule", "offer": handle, "due_ms": to}))?;
        let moved = answer.get("moved") == Some(&Value::Bool(true));
        let after = bench.look(&queue)?;
        let score = |at: usize| {
            let element = before.listed.get(at)?;
            after.scheduled.iter().find(|one| one.element == *element).map(|one| one.score.clone())
        };
        let stayed = score(staying);
        let went = score(moving);
        // From the second step on it is the handle of the step before.
        let about = if step == "later" { M2 } else { M4 };
        bench.require(about, moved, || format!("moved a scheduled element {step}: answered that it was not scheduled"));
        let same = after.listed == before.listed && after.scheduled.len() == 2;
        bench.require(M1, same && stayed == before.score_of_entry(staying).map(str::to_owned), || {
            format!(
                "moved one of two equal offers {step}, to {to}; the score of the other is {stayed:?}; {}",
                difference(&before, &after)
            )
        });
        if !moved {
            return Ok(());
        }
        bench.require(M3, went.as_deref() == Some(&*to.to_string()), || {
            format!("moved one of two equal offers {step}, to {to}; its score is {went:?}")
        });
        let heard = listener.heard(&mut bench.server)?;
        let right = if is_head { heard == [to.to_string()] } else { heard.is_empty() };
        bench.require(M3, right, || format!("moved an element {step}, to {to}; heard on C: {heard:?}"));
        match answer.get("offer").and_then(Value::as_str) {
            Some(next) => handle = next.to_owned(),
            None => bench.require(M4, false, || "a move answered without the new handle".to_owned()),
        }
    }
    let before = bench.look(&queue)?;
    let refused = bench.try_ask(json!({"op": "reschedule", "offer": handle, "due_ms": -1}))?;
    let after = bench.look(&queue)?;
    bench.require(M3, matches!(refused, Answer::Refused(_)) && after == before, || {
        "moved to a time before 1970: not refused, or it was moved".to_owned()
    });
    if let Some(gone) = after.listed.get(staying) {
        bench.server.take(&queue, gone)?;
    }
    let before = bench.look(&queue)?;
    let answer = bench.ask(json!({"op": "reschedule", "offer": stays, "due_ms": due + 9}))?;
    let after = bench.look(&queue)?;
    let moved = answer.get("moved").cloned();
    bench.require(M2, moved == Some(Value::Bool(false)) && after == before, || {
        format!("moved an element that is no longer scheduled: answered {moved:?}; {}", difference(&before, &after))
    });
    if bench.needs("cancel").is_ok() {
        let removed = cancel(bench, json!({"op": "cancel", "offer": handle}))?;
        let left = bench.look(&queue)?;
        let gone = !left.scheduled.iter().any(|one| Some(&one.element) == last.as_ref());
        bench.require(M4, removed == Some(1) && gone, || {
            format!(
                "cancelled by the handle that the last move returned: answered {removed:?}; {}",
                difference(&after, &left)
            )
        });
    }
    Ok(())
}
