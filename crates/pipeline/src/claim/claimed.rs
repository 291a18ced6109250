//! One element with the duty to settle it, where the elements of a claim do not go the common way together.

use std::sync::Arc;

use delaybridge_model::Payload;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use crate::claim::element::ElementState;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::gate::GateProbe;
use crate::settle::Settler;
use crate::settle::verdict::{ReleaseCause, Verdict};

/// One element of a claim, with the duty to settle it exactly once.
///
/// It is no more than its place in the claim, and may go together with others, until its [state](ClaimedElement::state) is asked
/// for. From then on it goes by itself.
///
/// [`settle`](ClaimedElement::settle) consumes it, so that happens at most once. Dropped unsettled, it is released, never
/// acknowledged (R5).
#[derive(Debug)]
pub struct ClaimedElement {
    claim: Arc<Claim>,
    settler: Arc<Settler>,
    place: usize,
    state: Option<Box<ElementState>>,
    /// The payload, if it was decoded for the key of the element, which is about to be delivered.
    pub decoded: Option<Box<Payload>>,
    /// Whether it is settled, or another has the duty.
    is_over: bool,
}

impl ClaimedElement {
    /// Takes over the duty for the element at this place of a claim.
    pub fn new(settler: &Arc<Settler>, claim: &Arc<Claim>, place: usize) -> Self {
        let claim = claim.clone();
        let settler = settler.clone();
        ClaimedElement { claim, settler, place, state: None, decoded: None, is_over: false }
    }

    /// Lets the element go by itself, under this guard of what is in flight, and as this probe.
    pub fn by_itself(mut self, isolation: Option<Isolation>, probe: Option<GateProbe>) -> Self {
        let state = self.state();
        state.isolation = isolation;
        state.probe = probe;
        self
    }

    /// Returns whether the element goes by itself: it has failed, or was sent behind one that has; it may kill the process, or
    /// finds something out.
    pub fn is_by_itself(&self) -> bool {
        self.state.is_some()
    }

    /// Returns the claim of the element.
    pub fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }

    /// Returns the place of the element in its claim.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Returns the due time in Redis ms; `None` for elements of the ready list.
    pub fn due_ms(&self) -> Option<i64> {
        self.claim.elements[self.place].due_ms()
    }

    /// Returns the state of the element, which goes by itself from here on.
    pub fn state(&mut self) -> &mut ElementState {
        self.state.get_or_insert_with(|| Box::new(ElementState::new(&self.claim, self.place)))
    }

    /// Returns the settler of its queue.
    pub fn settler(&self) -> &Arc<Settler> {
        &self.settler
    }

    /// Puts the element in flight again after [`leave_shared`](ElementState::leave_shared); waits while something else
    /// must be alone.
    pub async fn join_shared(&mut self) {
        if self.state().isolation.is_some() {
            return;
        }
        let process = self.claim.queue.process.clone();
        let mut guard = std::pin::pin!(Isolation::of(&process, false));
        let isolation = match guard.as_mut().now_or_never() {
            Some(isolation) => isolation,
            None => {
                // What waits has no room for that.
                self.decoded = None;
                guard.await
            }
        };
        self.state().isolation = Some(isolation);
    }

    /// Begins to write the header of the element into its claim, so that it is known after a crash. The answer is `false` if the
    /// element is not ours any more.
    pub fn note_header(&mut self) -> Option<oneshot::Receiver<bool>> {
        let settler = self.settler.clone();
        let state = self.state();
        settler.progress(&state.claim, state.place, &state.element, state.header.clone())
    }

    /// Writes the header of the element into its claim. `false` if the element is not ours any more.
    pub async fn write_header(&mut self) -> bool {
        let Some(answer) = self.note_header() else { return false };
        if !answer.await.unwrap_or(false) {
            return false;
        }
        self.state().element = self.claim.element(self.place);
        true
    }

    /// Hands the duty on to a caller that settles the element by its place.
    pub fn hand_on(mut self) {
        self.is_over = true;
    }

    /// Hands the verdict to the settler of the queue.
    pub fn settle(mut self, verdict: Verdict) {
        self.end(verdict);
    }

    /// Hands the verdict to the settler of the queue, which writes it in a moment, also if others of the claim are still in hand.
    pub fn settle_soon(self, verdict: Verdict) {
        let settler = self.settler.clone();
        let claim = self.claim.clone();
        self.settle(verdict);
        settler.flush_soon(&claim);
    }

    /// Gives up an element with an expired lease, without a command to Redis: who takes the claim over delivers it.
    pub fn drop_stale(mut self) {
        self.is_over = true;
        self.settler.leases().stale(&self.claim, self.place);
        self.claim.queue.events.stale_drops(1);
    }

    fn end(&mut self, verdict: Verdict) {
        self.is_over = true;
        self.state();
        let Some(state) = self.state.take() else { return };
        if let Some(traces) = &self.claim.traces {
            traces.judged(self.place, verdict.as_str());
        }
        self.settler.settle(state, verdict);
    }
}

impl Drop for ClaimedElement {
    fn drop(&mut self) {
        if !self.is_over {
            let is_stop = self.claim.queue.stopping.is_cancelled();
            let why = if is_stop { ReleaseCause::Shutdown } else { ReleaseCause::Dropped };
            self.end(Verdict::Release { why });
        }
    }
}
