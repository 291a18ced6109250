//! Batches: many offers in one script.

use serde_json::{Value, json};

use super::cancel::cancel;
use super::offers::{HOUR, watch};
use crate::bench::{Bench, Check, Opening, Stop, now_ms};
use crate::server::Listener;
use crate::statements::{A1, A2, C4, O5, O9, T3};

pub const BATCH: Check = Check { name: "a batch", about: &[O9], run: batch };

fn batch(bench: &mut Bench) -> Result<(), Stop> {
    const MANY: usize = 50;
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    bench.needs("batch")?;
    let due: Vec<i64> = (0..50).map(|n| now_ms() + HOUR - n * 10_000).collect();
    let offers: Vec<Value> =
        due.iter().enumerate().map(|(n, due)| json!({"value": format!("no. {n}"), "due_ms": due})).collect();
    let mut listener = Listener::on(&bench.server, &queue)?;
    let answer = bench.ask(json!({"op": "offer_batch", "offers": offers}))?;
    let seen = bench.look(&queue)?;
    let listed: Vec<f64> = (0..seen.listed.len()).filter_map(|at| seen.score_of_entry(at)?.parse().ok()).collect();
    bench.require(O9, listed.len() == MANY && listed.is_sorted_by(|one, next| one > next), || {
        format!("a batch of {MANY} offers: L has {} entries that are in Z, or in another order", listed.len())
    });
    let wrong = due.iter().enumerate().find(|(at, due)| seen.score_of_entry(*at) != Some(&*due.to_string()));
    if listed.len() == MANY {
        bench.require(T3, wrong.is_none(), || format!("offer {wrong:?} of a batch has another due time"));
    }
    let heard = listener.heard(&mut bench.server)?;
    let head = seen.scheduled.first().map(|one| one.score.clone());
    bench.require(A1, !heard.is_empty(), || "the last of a batch became the head; nothing was heard on C".to_owned());
    if let Some(last) = heard.last() {
        bench.require(A2, Some(last) == head.as_ref(), || {
            format!("the last of a batch became the head with the score {head:?}; the last announcement says {last:?}")
        });
    }
    let handles: Vec<_> = answer.get("offers").and_then(Value::as_array).cloned().unwrap_or_default();
    bench.require(O9, handles.len() == offers.len(), || {
        format!("a batch of {} offers was answered with {} handles", offers.len(), handles.len())
    });
    if let (Ok(()), Some(handle)) = (bench.needs("cancel"), handles.get(7).and_then(Value::as_str)) {
        let removed = cancel(bench, json!({"op": "cancel", "offer": handle}))?;
        let after = bench.look(&queue)?;
        let gone = bench.find(&after, "no. 7").is_none();
        bench.require(C4, removed == Some(1) && gone, || {
            format!("cancelled the eighth offer of a batch by its handle: answered {removed:?}, still there: {}", !gone)
        });
    }
    // Of no offers, an answer without a list is as good as an empty one.
    let none = bench.ask(json!({"op": "offer_batch", "offers": []}))?;
    let handles = none.get("offers").and_then(Value::as_array).map_or(0, Vec::len);
    bench.require(O9, handles == 0, || format!("an empty batch was answered with {handles} handles"));
    if bench.needs("ids").is_ok() {
        // The same offer twice in one batch is one offer.
        let queue = bench.queue("%")?;
        bench.open(&queue, Opening::default())?;
        let offer = json!({"value": "once", "due_ms": due[0], "id": super::ids::id(bench)});
        bench.ask(json!({"op": "offer_batch", "offers": [offer, offer]}))?;
        let seen = bench.look(&queue)?;
        bench.require(O5, seen.scheduled.len() == 1 && seen.listed.len() == 1, || {
            format!(
                "the same offer twice in one batch: {} elements in Z, {} in L",
                seen.scheduled.len(),
                seen.listed.len()
            )
        });
    }
    let lines = watch(bench, |bench| bench.ask(json!({"op": "offer_batch", "offers": offers})).map(drop))?;
    bench.require(O9, lines.in_one(&["ZADD", "RPUSH"]), || {
        format!("the writes of one batch are not in one script or MULTI: {}", lines.shown())
    });
    Ok(())
}
