//! Announcements: a new head is published, and nothing else.

use serde_json::json;

use super::offers::HOUR;
use crate::bench::{Bench, Check, Opening, Stop, now_ms};
use crate::server::Listener;
use crate::statements::{A1, A2, A3};

pub const HEADS: Check = Check { name: "announcements", about: &[A1, A2, A3], run: heads };

fn heads(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    let mut listener = Listener::on(&bench.server, &queue)?;
    let now = now_ms();
    for (step, due, is_head) in [
        ("the first", now + HOUR, true),
        ("one behind the head", now + 2 * HOUR, false),
        ("one before the head", now + HOUR - 60_000, true),
        ("another behind the head", now + HOUR - 30_000, false),
        ("one that is overdue", now - HOUR, true),
    ] {
        bench.offer(json!({"value": step, "due_ms": due}))?;
        let heard = listener.heard(&mut bench.server)?;
        let seen = bench.look(&queue)?;
        let Some(head) = seen.scheduled.first() else {
            // Other statements are about what is missing.
            return Ok(());
        };
        if is_head {
            bench.require(A1, heard.len() == 1, || format!("{step} became the head; heard on C: {heard:?}"));
            if let [text] = &heard[..] {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                bench.require(A2, digits && *text == head.score, || {
                    format!("a new head has the score {}; the announcement says {text:?}", head.score)
                });
            }
        } else {
            bench.require(A3, heard.is_empty(), || format!("{step} is not the head; heard on C: {heard:?}"));
        }
    }
    Ok(())
}
