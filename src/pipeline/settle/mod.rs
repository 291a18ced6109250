//! Writes verdicts to Redis, in batches: as many as have gathered while the last batch was on its way.
//!
//! A verdict whose answer is lost is sent again until it is answered: what had been done is answered so, and nothing is
//! done twice (R2). Until then the element keeps its lease and its room.

pub mod history;
pub mod judge;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::link::LinkError;
use crate::message::{Class, Failure};
use crate::pipeline::claim::Parts;
use crate::pipeline::leases::Leases;
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::judge::DeadReason;
use crate::source::redisson::{Answer, ClaimKey, Entry, Header, Move, SourceError, batch_end};
use crate::telemetry::labels::ReleaseReason;

/// What a verdict means to the counters once it is written.
#[derive(Debug)]
pub enum Ending {
    /// Every sink has the element.
    Delivered,
    /// It waits for another attempt.
    Retried,
    /// It went back uncounted.
    Released(ReleaseReason),
    /// It is a dead letter.
    Dead(DeadReason, Option<Failure>),
    /// It stays in flight, as this member.
    Progressed(ClaimKey, Bytes),
}

/// A verdict on its way.
#[derive(Debug)]
pub struct Settling {
    /// The exact member.
    pub member: Bytes,
    /// The move.
    pub step: Move,
    /// What it means.
    pub ending: Ending,
    /// The element with its room; none for progress, which leaves it with its claim.
    pub parts: Option<Box<Parts>>,
    /// Who waits for the answer.
    pub reply: Option<oneshot::Sender<bool>>,
    /// When it was handed over.
    pub since: Instant,
}

/// The verdicts of one queue.
#[derive(Debug, Default)]
pub struct Settler(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Settling>,
    /// A task is at work and will see what is pushed.
    running: bool,
}

/// How long to wait before a verdict that Redis refused is sent again.
const REFUSED: Duration = Duration::from_millis(500);

impl Settler {
    /// Hands over a verdict. Bounded by what is in flight.
    pub fn push(&self, queue: &Arc<Queue>, settling: Settling) {
        let start = {
            let mut state = self.0.lock();
            state.waiting.push_back(settling);
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            queue.process.spawn("settler", run(queue.clone()));
        }
    }

    /// Writes which sinks have confirmed so far; `false` if the entry is not ours any more.
    pub async fn progress(&self, queue: &Arc<Queue>, entry: &Entry, header: Header) -> bool {
        let (reply, answer) = oneshot::channel();
        queue.leases.settling(header.key);
        let settling = Settling {
            member: entry.member.clone(),
            ending: Ending::Progressed(header.key, entry.under(&header)),
            step: Move::Progress { header },
            parts: None,
            reply: Some(reply),
            since: Instant::now(),
        };
        self.push(queue, settling);
        answer.await.unwrap_or(false)
    }

    fn next_batch(&self, leases: &Leases) -> Vec<Settling> {
        let mut state = self.0.lock();
        let mut end = batch_end(state.waiting.iter().map(|settling| (&settling.member, &settling.step)));
        // A verdict behind the progress of the same element names the member that the progress makes: not in one batch.
        let mut progressed = Vec::new();
        for (place, settling) in state.waiting.iter().take(end).enumerate() {
            match (&settling.ending, &settling.parts) {
                (Ending::Progressed(key, _), _) => progressed.push(*key),
                (_, Some(parts)) if progressed.contains(&parts.entry.header.key) => {
                    end = place;
                    break;
                }
                _ => {}
            }
        }
        let mut batch: Vec<Settling> = state.waiting.drain(..end).collect();
        state.running = !batch.is_empty();
        for settling in &mut batch {
            let present = settling.parts.as_ref().and_then(|parts| leases.member(parts.entry.header.key));
            settling.member = present.unwrap_or_else(|| settling.member.clone());
        }
        batch
    }
}

async fn run(queue: Arc<Queue>) {
    loop {
        let batch = queue.settler.next_batch(&queue.leases);
        if batch.is_empty() {
            return;
        }
        let moves: Vec<(Bytes, Move)> = batch.iter().map(|s| (s.member.clone(), s.step.clone())).collect();
        // Order: an answer that has come counts, even if the time for writing verdicts is up.
        let answered = tokio::select! {
            biased;
            answered = send(&queue, &moves) => Some(answered),
            () = queue.process.give_up.cancelled() => None,
        };
        match answered {
            Some((answers, resent)) => {
                let now = Instant::now();
                for (settling, answer) in batch.into_iter().zip(answers) {
                    finish(&queue, settling, answer, resent, now);
                }
            }
            // Left under their leases; the process ends.
            None => return drop(batch),
        }
    }
}

/// Sends until there is an answer; whether it may have been sent before.
async fn send(queue: &Arc<Queue>, moves: &[(Bytes, Move)]) -> (Vec<Answer>, bool) {
    let list = queue.exactly_once().map(|(key, _)| key.clone());
    let script = queue.process.events.metrics().script("settle");
    let (mut resent, mut told) = (false, false);
    loop {
        let conn = queue.process.link.ready().await;
        let sent = Instant::now();
        let max_len = queue.spec.dead_letter_max_len;
        let problem = match queue.source.settle(&conn, moves, list.as_ref(), max_len).await {
            Ok(settled) => {
                script.took(sent.elapsed());
                if let Some(now_ms) = settled.now_ms {
                    queue.process.clock.observe(now_ms);
                }
                queue.events.metrics().dead_letters_trimmed(settled.trimmed);
                if told {
                    queue.resume();
                }
                return (settled.answers, resent);
            }
            Err(SourceError::Link(LinkError::NotSent { .. })) => continue,
            Err(SourceError::Link(LinkError::Unknown { .. })) => {
                resent = true;
                continue;
            }
            Err(problem) => problem,
        };
        // The server refuses: a key of a wrong type, a right taken away. What is decided stays decided.
        // A script may have written some before it stopped; a command that was refused wrote nothing.
        resent |= moves.iter().any(|(_, step)| !matches!(step, Move::Confirm));
        told = true;
        queue.events.on_hold(None, "settle", &format!("write verdicts: {problem}"));
        tokio::time::sleep(REFUSED).await;
    }
}

fn finish(queue: &Arc<Queue>, mut settling: Settling, answer: Answer, resent: bool, now: Instant) {
    let metrics = queue.events.metrics();
    let done = match answer {
        Answer::Done | Answer::Already => true,
        // The answer to a resend of something that was done.
        Answer::NotMine if resent => true,
        Answer::NotMine => false,
        Answer::WrongType => return refused_push(queue, settling),
    };
    if let (true, Ending::Progressed(key, member)) = (done, &settling.ending) {
        queue.leases.rewritten(*key, member.clone());
    }
    if let Some(reply) = settling.reply.take() {
        // Whoever asked may be gone.
        let _ = reply.send(done);
    }
    let Some(mut parts) = settling.parts else { return };
    let deadline = queue.leases.remove(parts.entry.header.key);
    if !done {
        queue.events.stale_acks(1);
        return;
    }
    // The answer to a resend says nothing of when it was done.
    if !resent && deadline.is_some_and(|deadline| deadline < now) {
        metrics.late_acks(1);
    }
    match settling.ending {
        Ending::Delivered => {
            metrics.delivered(1);
            queue.settled.fetch_add(1, Ordering::Relaxed);
            drop(queue.history.take(parts.id));
            if let Some(limit) = queue
                .adaptive
                .as_ref()
                .and_then(|adaptive| adaptive.answered(settling.since.since(parts.since), queue.budget.used().count))
            {
                queue.budget.set_count_limit(limit);
            }
            if queue.exactly_once().is_some() {
                pushed(&mut parts);
            }
        }
        Ending::Dead(reason, failure) => {
            queue.settled.fetch_add(1, Ordering::Relaxed);
            queue.events.dead_lettered(parts.id, reason, failure.as_ref());
            queue.dead_letters.notify_one();
        }
        Ending::Released(reason) => {
            metrics.released(reason, 1);
            queue.released.fetch_add(1, Ordering::Relaxed);
        }
        Ending::Retried => {
            queue.settled.fetch_add(1, Ordering::Relaxed);
        }
        Ending::Progressed(..) => {}
    }
}

/// The push and the settling were one script, so this is the moment of delivery.
fn pushed(parts: &mut Parts) {
    for route in &parts.queue.routes {
        route.handle.confirmed(parts.queue.process.clock.now_ms());
        route.metrics.attempt(&Ok(()));
        if let Some(late) = parts.lateness() {
            route.metrics.late(late);
        }
    }
    parts.queue.release_hold();
    if let Some(probe) = parts.probe.take() {
        probe.answered(true, |_| true);
    }
}

/// The destination is not a list: the same as a sink that says so.
fn refused_push(queue: &Arc<Queue>, settling: Settling) {
    let Some(mut parts) = settling.parts else { return };
    let failure = Failure::new(
        Class::TargetPermanent,
        "WRONGTYPE",
        "push exactly once: the destination key holds something else than a list; rename or delete it",
    );
    let sink = queue.routes.first().map(|route| {
        route.metrics.attempt(&Err(failure.clone()));
        &*route.spec.sink
    });
    queue.hold_because(sink, &failure);
    if let Some(probe) = parts.probe.take() {
        probe.answered(true, |_| false);
    }
    let member = parts.entry.member.clone();
    let step = parts.release();
    let since = Instant::now();
    queue.settler.push(
        queue,
        Settling {
            member,
            step,
            ending: Ending::Released(ReleaseReason::Hold),
            parts: Some(parts),
            reply: None,
            since,
        },
    );
}
