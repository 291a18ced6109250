//! One element with the duty to settle it, where the elements of a claim do not go the common way together.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::claim::element::ElementState;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::gate::GateProbe;
use crate::settle::Settler;
use crate::settle::verdict::{ReleaseCause, Verdict};

/// One element of a claim, with the duty to settle it exactly once.
///
/// [`settle`](ClaimedElement::settle) consumes it, so that happens at most once. Dropped unsettled, it is released, never
/// acknowledged (R5).
#[derive(Debug)]
pub struct ClaimedElement {
    state: Option<Box<ElementState>>,
    settler: Arc<Settler>,
}

impl ClaimedElement {
    /// Creates the handle of the element at this place of a claim. `None` if the claim has no such place.
    pub fn new(
        settler: &Arc<Settler>,
        claim: &Arc<Claim>,
        place: usize,
        isolation: Option<Isolation>,
        probe: Option<GateProbe>,
    ) -> Option<ClaimedElement> {
        let state = ElementState::new(claim, place, isolation, probe)?;
        Some(ClaimedElement { state: Some(Box::new(state)), settler: settler.clone() })
    }

    /// Returns the due time in Redis ms; `None` for elements of the ready list.
    pub fn due_ms(&self) -> Option<i64> {
        self.state.as_ref().and_then(|state| state.header.due_ms())
    }

    /// Returns the state of the element.
    pub fn state(&mut self) -> &mut ElementState {
        // Only `settle`, `drop_stale` and `Drop` take the state, and they consume the element.
        self.state.as_mut().unwrap_or_else(|| unreachable!("an element has its state until it is consumed"))
    }

    /// Returns the settler of its queue.
    pub fn settler(&self) -> &Arc<Settler> {
        &self.settler
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
        let state = self.state();
        let claim = state.claim.clone();
        if let Some(element) = claim.element(state.place) {
            state.element = element;
        }
        true
    }

    /// Hands the verdict to the settler of the queue.
    pub fn settle(mut self, verdict: Verdict) {
        if let Some(state) = self.state.take() {
            settle(&self.settler, state, verdict);
        }
    }

    /// Gives up an element with an expired lease, without a command to Redis: who takes the claim over delivers it.
    pub fn drop_stale(mut self) {
        if let Some(state) = self.state.take() {
            self.settler.leases().stale(&state.claim, state.place);
            state.queue().events.stale_drops(1);
        }
    }
}

impl Drop for ClaimedElement {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            let why =
                if state.queue().stopping.is_cancelled() { ReleaseCause::Shutdown } else { ReleaseCause::Dropped };
            settle(&self.settler, state, Verdict::Release { why });
        }
    }
}

fn settle(settler: &Arc<Settler>, state: Box<ElementState>, verdict: Verdict) {
    if let Some(traces) = &state.claim.traces {
        traces.judged(state.place, verdict.as_str());
    }
    settler.settle(state, verdict);
}
