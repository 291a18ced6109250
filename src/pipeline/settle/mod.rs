//! Writes verdicts to Redis, in batches: as many as have gathered while the last batch was on its way.
//!
//! A verdict with a lost answer is sent again until it is answered: a repeated verdict is answered as done, and nothing is
//! done twice (R2). Until then the element keeps its lease and its room.

pub mod history;
pub mod judge;
pub mod verdict;

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
use crate::pipeline::dead_letters::fields;
use crate::pipeline::leases::Leases;
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::verdict::{Release, Verdict};
use crate::source::SourceError;
use crate::source::ledger::{Answer, ClaimKey, Entry, Header, Move, batch_end};

/// Something on its way to Redis, and what its answer means.
#[derive(Debug)]
struct Settling {
    /// The exact member.
    member: Bytes,
    /// The move; it follows from what is settled.
    step: Move,
    what: What,
    /// When it was queued.
    since: Instant,
}

#[derive(Debug)]
enum What {
    /// The verdict about an element, with its room.
    Verdict(Verdict, Box<Parts>),
    /// Some sinks have confirmed. The element stays in flight, as this member, with its claim, which waits for the answer.
    Progress { key: ClaimKey, member: Bytes, reply: oneshot::Sender<bool> },
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
    /// Hands over the verdict about an element. Bounded by what is in flight.
    pub fn settle(&self, mut parts: Box<Parts>, verdict: Verdict) {
        // The element can do no more harm, so it blocks nothing, however long the verdict takes to write.
        // One that was alone stays alone until it is settled.
        parts.leave_shared();
        let queue = parts.queue.clone();
        queue.leases.settling(parts.entry.header.key);
        if let Verdict::Retry { after, .. } = verdict {
            let delay_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            queue.alarm.announce(queue.process.clock.now_ms().saturating_add_unsigned(delay_ms));
        }
        let step = verdict.step(&parts.entry, |death| fields::fields(&parts, death));
        let member = parts.entry.member.clone();
        self.push(&queue, Settling { member, step, what: What::Verdict(verdict, parts), since: Instant::now() });
    }

    /// Writes which sinks have confirmed so far; `false` if the entry is not ours any more.
    pub async fn progress(&self, queue: &Arc<Queue>, entry: &Entry, header: Header) -> bool {
        let (reply, answer) = oneshot::channel();
        queue.leases.settling(header.key);
        let what = What::Progress { key: header.key, member: entry.under(&header), reply };
        let member = entry.member.clone();
        self.push(queue, Settling { member, step: Move::Progress { header }, what, since: Instant::now() });
        answer.await.unwrap_or(false)
    }

    fn push(&self, queue: &Arc<Queue>, settling: Settling) {
        let start = {
            let mut state = self.0.lock();
            state.waiting.push_back(settling);
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            queue.process.spawn("settler", run(queue.clone()));
        }
    }

    fn next_batch(&self, leases: &Leases) -> Vec<Settling> {
        let mut state = self.0.lock();
        let mut end = batch_end(state.waiting.iter().map(|settling| (&settling.member, &settling.step)));
        // A verdict behind the progress of the same element names the member that the progress makes: not in one batch.
        let mut progressed = Vec::new();
        for (place, settling) in state.waiting.iter().take(end).enumerate() {
            match &settling.what {
                What::Progress { key, .. } => progressed.push(*key),
                What::Verdict(_, parts) if progressed.contains(&parts.entry.header.key) => {
                    end = place;
                    break;
                }
                What::Verdict(..) => {}
            }
        }
        let mut batch: Vec<Settling> = state.waiting.drain(..end).collect();
        state.running = !batch.is_empty();
        for settling in &mut batch {
            if let What::Verdict(_, parts) = &settling.what
                && let Some(present) = leases.member(parts.entry.header.key)
            {
                settling.member = present;
            }
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
        let (moves, batch): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|s| ((s.member, s.step), (s.what, s.since))).unzip();
        // Order: an answer that has come counts, even if the time for writing verdicts is up.
        let answered = tokio::select! {
            biased;
            answered = send(&queue, &moves) => Some(answered),
            () = queue.process.give_up.cancelled() => None,
        };
        match answered {
            Some((answers, resent)) => {
                let now = Instant::now();
                for ((what, since), answer) in batch.into_iter().zip(answers) {
                    match what {
                        What::Verdict(verdict, parts) => finish(verdict, parts, since, answer, resent, now),
                        What::Progress { key, member, reply } => {
                            let done = is_done(answer, resent);
                            if done {
                                queue.leases.rewritten(key, member);
                            }
                            // The caller may be gone.
                            let _ = reply.send(done);
                        }
                    }
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
    let (mut resent, mut reported) = (false, false);
    loop {
        queue.process.server.ready().await;
        let sent = Instant::now();
        let max_len = queue.spec.dead_letter_max_len;
        let problem = match queue.store.settle(moves, list.as_ref(), max_len).await {
            Ok(settled) => {
                script.took(sent.elapsed());
                if let Some(now_ms) = settled.now_ms {
                    queue.process.clock.observe(now_ms);
                }
                queue.events.metrics().dead_letters_trimmed(settled.trimmed);
                if reported {
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
        reported = true;
        queue.events.on_hold(None, "settle", &format!("write verdicts: {problem}"));
        tokio::time::sleep(REFUSED).await;
    }
}

/// Whether what was asked for is done.
fn is_done(answer: Answer, resent: bool) -> bool {
    match answer {
        Answer::Done | Answer::Already => true,
        // The answer to a resend of something that was done.
        Answer::NotMine => resent,
        Answer::WrongType => false,
    }
}

/// The verdict was answered: the lease and the room end, and the counters follow from the verdict.
fn finish(verdict: Verdict, parts: Box<Parts>, since: Instant, answer: Answer, resent: bool, now: Instant) {
    if answer == Answer::WrongType {
        return refused_push(parts);
    }
    let queue = &parts.queue;
    let deadline = queue.leases.remove(parts.entry.header.key);
    if !is_done(answer, resent) {
        queue.events.stale_acks(1);
        return;
    }
    // The answer to a resend says nothing of when it was done.
    if !resent && deadline.is_some_and(|deadline| deadline < now) {
        queue.events.metrics().late_acks(1);
    }
    if let Verdict::Release { why } = &verdict {
        queue.events.metrics().released(why.reason(), 1);
        queue.released.fetch_add(1, Ordering::Relaxed);
        return;
    }
    queue.settled.fetch_add(1, Ordering::Relaxed);
    match verdict {
        Verdict::Confirm => delivered(&parts, since),
        Verdict::Push { .. } => {
            delivered(&parts, since);
            pushed(parts);
        }
        Verdict::Dead(death) => {
            queue.events.dead_lettered(parts.id, death.reason, death.failure.as_ref());
            queue.dead_letters.notify_one();
        }
        Verdict::Retry { .. } | Verdict::Release { .. } => {}
    }
}

/// Every sink has the element.
fn delivered(parts: &Parts, since: Instant) {
    let queue = &parts.queue;
    queue.events.metrics().delivered(1);
    drop(queue.history.take(parts.id));
    let took = since.since(parts.since);
    let limit = queue.adaptive.as_ref().and_then(|adaptive| adaptive.answered(took, queue.budget.used().count));
    if let Some(limit) = limit {
        queue.budget.set_count_limit(limit);
    }
}

/// The push and the settling were one script, so this is the moment of delivery.
fn pushed(mut parts: Box<Parts>) {
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
fn refused_push(mut parts: Box<Parts>) {
    let queue = parts.queue.clone();
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
    let sink = (!queue.routes.is_empty()).then_some(0);
    queue.settler.settle(parts, Verdict::Release { why: Release::Hold { sink, failure } });
}
