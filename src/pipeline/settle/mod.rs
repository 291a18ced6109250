//! Writes verdicts to Redis: claims that were confirmed as a whole by their names, other verdicts one by one in batches.
//! Each sending takes what has gathered while the last one was on its way.
//!
//! A verdict with a lost answer is sent again until it is answered: a repeated verdict is answered as done, and nothing is
//! done twice (R2). Until then the element keeps its lease and its room.

pub mod history;
pub mod judge;
pub mod recent;
mod singles;
pub mod verdict;
mod wholes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::singles::{Settling, SettlingKind};
use self::wholes::Complete;
use crate::link::LinkError;
use crate::pipeline::claim::record::Unwritten;
use crate::pipeline::claim::{Claim, ElementState};
use crate::pipeline::dead_letters::fields;
use crate::pipeline::leases::reconcile::{Reconciled, reconcile};
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::verdict::{ReleaseCause, Verdict};
use crate::pipeline::tail;
use crate::plant::{Lie, planted};
use crate::source::SourceError;
use crate::source::ledger::claims::{Element, Header, Move};

/// The verdicts of one queue.
#[derive(Debug, Default)]
pub struct Settler(Mutex<SettlerState>);

#[derive(Debug, Default)]
struct SettlerState {
    singles: VecDeque<Settling>,
    /// Claims with nothing left but confirmed elements.
    wholes: Vec<Complete>,
    /// There is a [`VerdictWriter`], which will see what is added.
    running: bool,
}

/// The duty to write the verdicts of a queue, until none is left. There is one at a time. Dropped, it becomes a task.
#[derive(Debug)]
pub struct VerdictWriter(Option<Arc<Queue>>);

impl VerdictWriter {
    /// Writes in the task of the caller: starting another one costs as much as all else that is done for a claim of one.
    pub async fn write(mut self) {
        if let Some(queue) = self.0.take() {
            run(queue).await;
        }
    }
}

impl Drop for VerdictWriter {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.clone().spawn("settler", run(queue));
        }
    }
}

/// How long to wait before a verdict that Redis refused is sent again.
const REFUSED: Duration = Duration::from_millis(500);

impl Settler {
    /// Hands over the verdict about an element. Bounded by what is in flight.
    pub fn settle(&self, mut parts: Box<ElementState>, verdict: Verdict) {
        // The element can do no more harm, so it blocks nothing, however long the verdict takes to write.
        // One that was alone stays alone until it is settled.
        parts.leave_shared();
        if parts.element.is_damaged() && !matches!(verdict, Verdict::Dead(_)) {
            // It has no header that could be written back: it stays as it is, for whoever takes the claim over.
            return parts.claim.stale(parts.place);
        }
        let queue = parts.queue().clone();
        if verdict == Verdict::Confirm {
            queue.history.forget(parts.id.id);
            tail::settled(&parts, &verdict);
            return self.confirmed(&parts.claim, [parts.place]);
        }
        if let Verdict::Retry { after, .. } | Verdict::Release { why: ReleaseCause::Destination { after } } = verdict {
            let delay_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            queue.alarm.announce(queue.home().now_ms().saturating_add_unsigned(delay_ms));
        }
        if planted(Lie::ForgottenAtShutdown) && queue.process.stopping.is_cancelled() {
            return parts.claim.stale(parts.place);
        }
        let step = verdict.step(&parts.header, |death| fields::fields(&parts, death));
        parts.claim.decided(parts.place);
        let (claim, place) = (parts.claim.clone(), parts.place);
        self.push(&queue, Settling { claim, place, step, what: SettlingKind::Verdict(verdict, parts) });
    }

    /// Every sink has confirmed these elements of a claim. Written at once if the claim waits for no others, else by the
    /// next [`flush`](Settler::flush).
    pub fn confirmed(&self, claim: &Arc<Claim>, places: impl IntoIterator<Item = usize>) {
        if claim.confirmed(places) {
            drop(self.take_unwritten(claim, false));
        }
    }

    /// Writes what is confirmed of a claim, also if others of it are still in hand.
    pub fn flush(&self, claim: &Arc<Claim>) {
        drop(self.take_unwritten(claim, true));
    }

    /// Every sink has confirmed these elements of a claim: what is confirmed of it is to be written now. A caller that has
    /// nothing else to do may write; else a task of its own does.
    pub fn confirmed_now(&self, claim: &Arc<Claim>, places: impl IntoIterator<Item = usize>) -> Option<VerdictWriter> {
        claim.confirmed(places);
        self.take_unwritten(claim, true)
    }

    fn take_unwritten(&self, claim: &Arc<Claim>, partly: bool) -> Option<VerdictWriter> {
        let queue = &claim.queue;
        match claim.take_unwritten(partly)? {
            Unwritten::Whole(whole) => self.add(queue, |state| state.wholes.push((claim.clone(), whole))),
            Unwritten::Some(places) => self.confirm_each(claim, places, false),
        }
    }

    /// Confirms these elements by themselves. `resent`: they may have been confirmed by a sending without an answer.
    fn confirm_each(&self, claim: &Arc<Claim>, places: Vec<usize>, resent: bool) -> Option<VerdictWriter> {
        let confirm = |place| Settling {
            claim: claim.clone(),
            place,
            step: Move::Confirm,
            what: SettlingKind::Confirmed { resent },
        };
        self.add(&claim.queue, |state| state.singles.extend(places.into_iter().map(confirm)))
    }

    /// Writes which sinks have confirmed so far; `false` if the element is not ours any more.
    pub async fn progress(&self, claim: &Arc<Claim>, place: usize, element: &Element, header: Header) -> bool {
        let (reply, answer) = oneshot::channel();
        let Some(mut noted) = Element::entry(element.under(&header), element.score_ms) else { return false };
        noted.body = element.body.clone();
        let what = SettlingKind::Progress { element: noted, reply };
        let step = Move::Progress { header };
        self.push(&claim.queue, Settling { claim: claim.clone(), place, step, what });
        answer.await.unwrap_or(false)
    }

    fn push(&self, queue: &Arc<Queue>, settling: Settling) {
        drop(self.add(queue, |state| state.singles.push_back(settling)));
    }

    /// Whether nothing is to be written.
    pub fn is_idle(&self) -> bool {
        !self.0.lock().running
    }

    /// Lets go of what could not be written in time: it is left to its lease.
    pub fn forget(&self) {
        let forgotten = {
            let mut state = self.0.lock();
            (std::mem::take(&mut state.singles), std::mem::take(&mut state.wholes))
        };
        drop(forgotten);
    }

    /// Adds something to write. Whoever adds the first is the writer.
    fn add(&self, queue: &Arc<Queue>, add: impl FnOnce(&mut SettlerState)) -> Option<VerdictWriter> {
        let first = {
            let mut state = self.0.lock();
            add(&mut state);
            !std::mem::replace(&mut state.running, true)
        };
        first.then(|| VerdictWriter(Some(queue.clone())))
    }

    /// What is to be written next; the writer ends when there is nothing.
    fn next_batch(&self) -> Option<(Vec<Settling>, Vec<Complete>)> {
        let mut state = self.0.lock();
        let singles = singles::next_batch(&mut state.singles);
        let wholes = std::mem::take(&mut state.wholes);
        state.running = !singles.is_empty() || !wholes.is_empty();
        state.running.then_some((singles, wholes))
    }
}

async fn run(queue: Arc<Queue>) {
    while let Some((singles, wholes)) = queue.settler.next_batch() {
        let write = async { tokio::join!(singles::write(&queue, singles), wholes::write(&queue, wholes)) };
        // Order: an answer that has come counts, even if the time for writing verdicts is up.
        tokio::select! {
            biased;
            _ = write => {}
            // Left under their leases; the process ends, or the queue is another one from here on.
            () = queue.give_up.cancelled() => return,
        }
    }
}

/// Wait before the claims in hand are compared again.
const COMPARED: Duration = Duration::from_millis(50);
/// How often that is tried. A verdict names what it is about, so it may be written even if no comparison is answered.
const COMPARISONS: u32 = 5;

/// Waits until verdicts can be written, and until the claims in hand are known to be what they were.
async fn ready(queue: &Arc<Queue>) {
    for _ in 0..COMPARISONS {
        queue.home().ready().await;
        if reconcile(queue).await == Reconciled::Known {
            return;
        }
        tokio::time::sleep(COMPARED).await;
    }
    queue.home().ready().await;
}

/// Wait while the cluster moves the queue's slot.
const MIGRATING: Duration = Duration::from_millis(100);

/// What became of a sending.
enum Tried<T> {
    /// It was answered.
    Answered(T),
    /// It is to be sent again, and may have been done.
    Unknown,
    /// It is to be sent again; nothing was sent.
    NotSent,
    /// The server refuses: a key of a wrong type, a right taken away. What is decided stays decided.
    Refused,
}

/// Looks at one answer, and reports and waits where that is needed.
async fn look<T>(queue: &Queue, answer: Result<T, SourceError>, reported: &mut bool) -> Tried<T> {
    match answer {
        Ok(answer) => {
            if std::mem::take(reported) {
                queue.resume();
            }
            Tried::Answered(answer)
        }
        Err(SourceError::Link(LinkError::NotSent { .. })) => Tried::NotSent,
        Err(SourceError::Link(LinkError::Unknown { .. })) => Tried::Unknown,
        Err(SourceError::Link(LinkError::Server { code: "TRYAGAIN", .. })) => {
            queue.slot_migrates();
            tokio::time::sleep(MIGRATING).await;
            Tried::Refused
        }
        Err(problem) => {
            *reported = true;
            queue.events.on_hold(None, "settle", "", &format!("write verdicts: {problem}"));
            tokio::time::sleep(REFUSED).await;
            Tried::Refused
        }
    }
}

/// Elements of a claim have left Redis, each delivered to every sink.
fn delivered(claim: &Claim, count: usize) {
    let queue = &claim.queue;
    queue.settled.fetch_add(count as u64, Ordering::Relaxed);
    if !planted(Lie::SkippedCounter) {
        queue.events.metrics().delivered(count as u64);
    }
}
