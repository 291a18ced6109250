//! The verdicts of one queue on their way to Redis.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::claim::element::ElementState;
use crate::claim::record::Claim;
use crate::dead_letters::fields;
use crate::leases::Leases;
use crate::settle::verdict::{ReleaseCause, Verdict};
use crate::tail;
use delaybridge_ledger::claims::{Element, Header, SettleOp};

/// The time that the confirmed elements of a claim wait for its others, where each is delivered by itself: what a crash delivers
/// twice.
const FLUSH: Duration = Duration::from_millis(20);

/// The verdicts of one queue.
#[derive(Debug)]
pub struct Settler {
    leases: Arc<Leases>,
    state: Mutex<SettlerState>,
}

#[derive(Debug, Default)]
pub(super) struct SettlerState {
    pub(super) singles: VecDeque<Settling>,
    /// Claims with nothing left but confirmed elements.
    wholes: Vec<Arc<Claim>>,
    /// There is a [`VerdictWriter`], which will see what is added.
    running: bool,
}

/// Something on its way to Redis, and what its answer means.
#[derive(Debug)]
pub(super) struct Settling {
    /// The claim that holds the element.
    pub(super) claim: Arc<Claim>,
    /// The place of the element in the claim.
    pub(super) place: usize,
    /// The move; it follows from what is settled.
    pub(super) step: SettleOp,
    pub(super) what: SettlingKind,
}

#[derive(Debug)]
pub(super) enum SettlingKind {
    /// A confirmation, while others of the claim are not there yet. `resent`: it may have been written by a sending without an
    /// answer.
    Confirmed { resent: bool },
    /// The verdict about an element.
    Verdict(Verdict, Box<ElementState>),
    /// Another header. The element stays in flight, as this entry, with its delivery, which may wait for the answer.
    Progress { element: Element, reply: oneshot::Sender<bool> },
}

/// The duty to write the verdicts of a queue, until none is left. There is one at a time. Dropped, it becomes a task.
#[derive(Debug)]
pub struct VerdictWriter(Option<Arc<Settler>>);

impl VerdictWriter {
    /// Writes in the task of the caller: starting another one costs as much as all else that is done for a claim of one.
    pub async fn write(mut self) {
        if let Some(settler) = self.0.take() {
            run(settler).await;
        }
    }
}

impl Drop for VerdictWriter {
    fn drop(&mut self) {
        if let Some(settler) = self.0.take() {
            let queue = settler.leases.queue().clone();
            queue.spawn("settler", run(settler));
        }
    }
}

impl Settler {
    /// Creates a settler with nothing to write.
    pub fn new(leases: Arc<Leases>) -> Self {
        Settler { leases, state: Mutex::default() }
    }

    /// Returns the claims that the verdicts are about.
    pub fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// Hands over the verdict about an element. Bounded by what is in flight.
    pub fn settle(self: &Arc<Self>, mut state: Box<ElementState>, verdict: Verdict) {
        // The element can do no more harm, so it blocks nothing, however long the verdict takes to write.
        // One that was alone stays alone until it is settled.
        state.leave_shared();
        if state.element.is_damaged() && !matches!(verdict, Verdict::Dead(_)) {
            // It has no header that could be written back: it stays as it is, for whoever takes the claim over.
            return self.leases.stale(&state.claim, state.place);
        }
        let queue = self.leases.queue();
        if verdict == Verdict::Confirm {
            queue.history.forget(state.id.id);
            tail::settled(&state, &verdict);
            // Written at once if the claim waits for no others.
            let _ = self.confirmed(&state.claim, [state.place], false);
            return;
        }
        if let Verdict::Retry { after, .. } | Verdict::Release { why: ReleaseCause::Destination { after } } = verdict {
            let delay_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            queue.alarm.announce(queue.home().now_ms().saturating_add_unsigned(delay_ms));
        }
        let step = verdict.step(&state.header, |death| fields::fields(&state, death));
        state.claim.decided(state.place);
        let claim = state.claim.clone();
        let place = state.place;
        self.push(Settling { claim, place, step, what: SettlingKind::Verdict(verdict, state) });
    }

    /// Records that every sink has confirmed these elements of a claim. They are to be written with all that is confirmed of it, now
    /// or, if not `partly`, when none of it is in hand. A caller that has nothing else to do may write; else a task of its own does.
    pub fn confirmed(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        places: impl IntoIterator<Item = usize>,
        partly: bool,
    ) -> Option<VerdictWriter> {
        match claim.confirmed(places, partly)? {
            (_, true) => self.add(|state| state.wholes.push(claim.clone())),
            (places, false) => self.confirm_each(claim, places, false),
        }
    }

    /// Writes in a moment what is confirmed of a claim, also if others of it are still in hand.
    pub fn flush_soon(self: &Arc<Self>, claim: &Arc<Claim>) {
        if claim.begin_flush() {
            let settler = self.clone();
            let claim = claim.clone();
            self.leases.queue().spawn("settler", async move {
                tokio::time::sleep(FLUSH).await;
                claim.end_flush();
                let _ = settler.confirmed(&claim, [], true);
            });
        }
    }

    /// Writes what the claim has waited for, if it is complete now: elements of it have ended, or are what they were believed to be.
    pub(super) fn goes_on(self: &Arc<Self>, claim: &Arc<Claim>) {
        let _ = self.confirmed(claim, [], false);
    }

    /// Confirms these elements by themselves. `resent`: they may have been confirmed by a sending without an answer.
    pub(super) fn confirm_each(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        places: Vec<usize>,
        resent: bool,
    ) -> Option<VerdictWriter> {
        let confirm = |place| Settling {
            claim: claim.clone(),
            place,
            step: SettleOp::Confirm,
            what: SettlingKind::Confirmed { resent },
        };
        self.add(|state| state.singles.extend(places.into_iter().map(confirm)))
    }

    /// Writes an element back to its claim under this header; the answer is `false` if the element is not ours any more.
    pub fn progress(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        place: usize,
        element: &Element,
        header: Header,
    ) -> Option<oneshot::Receiver<bool>> {
        let (reply, answer) = oneshot::channel();
        let mut noted = Element::entry(element.under(&header), element.score_ms)?;
        noted.body = element.body.clone();
        claim.rewriting();
        let what = SettlingKind::Progress { element: noted, reply };
        let step = SettleOp::Progress { header };
        self.push(Settling { claim: claim.clone(), place, step, what });
        Some(answer)
    }

    fn push(self: &Arc<Self>, settling: Settling) {
        let _ = self.add(|state| state.singles.push_back(settling));
    }

    /// Returns whether nothing is to be written.
    pub fn is_idle(&self) -> bool {
        !self.state.lock().running
    }

    /// Lets go of what could not be written in time: it is left to its lease.
    pub fn forget(&self) {
        let forgotten = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.singles), std::mem::take(&mut state.wholes))
        };
        drop(forgotten);
    }

    /// Adds something to write. Whoever adds the first is the writer.
    fn add(self: &Arc<Self>, add: impl FnOnce(&mut SettlerState)) -> Option<VerdictWriter> {
        let first = {
            let mut state = self.state.lock();
            add(&mut state);
            !std::mem::replace(&mut state.running, true)
        };
        first.then(|| VerdictWriter(Some(self.clone())))
    }

    /// Takes what is to be written next; the writer ends when there is nothing.
    fn next_batch(&self) -> Option<(Vec<Settling>, Vec<Arc<Claim>>)> {
        let next = {
            let mut state = self.state.lock();
            let singles = state.take_singles();
            let wholes = std::mem::take(&mut state.wholes);
            state.running = !singles.is_empty() || !wholes.is_empty();
            state.running.then_some((singles, wholes))
        };
        if next.is_none() {
            self.leases.queue().came_to_rest();
        }
        next
    }
}

async fn run(settler: Arc<Settler>) {
    while let Some((singles, wholes)) = settler.next_batch() {
        let write = async { tokio::join!(settler.write_singles(singles), settler.write_wholes(wholes)) };
        // Order: an answer that has come counts, even if the time for writing verdicts is up.
        tokio::select! {
            biased;
            ((), ()) = write => {}
            // Left under their leases; the process ends, or the queue is another one from here on.
            () = settler.leases.queue().give_up.cancelled() => return,
        }
    }
}
