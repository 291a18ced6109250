//! An element of a queue in order while it waits: no more than its place in the claim, and the duty for it.

use std::sync::Arc;

use redisson_codecs::Payload;

use crate::claim::claimed::ClaimedElement;
use crate::claim::record::Claim;
use crate::settle::Settler;

/// The duty for the element at a place of a claim. Dropped, it is released (R5).
#[derive(Debug)]
pub struct ClaimedPlace {
    claim: Arc<Claim>,
    settler: Arc<Settler>,
    place: usize,
    /// The payload, if it was decoded for the key of an element that is about to be delivered.
    pub decoded: Option<Box<Payload>>,
    /// Another has the duty.
    handed_on: bool,
}

impl ClaimedPlace {
    /// Creates the duty for the element at this place, which the caller had.
    pub fn new(settler: &Arc<Settler>, claim: &Arc<Claim>, place: usize) -> Self {
        ClaimedPlace { claim: claim.clone(), settler: settler.clone(), place, decoded: None, handed_on: false }
    }

    /// Returns the claim of the element.
    pub fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }

    /// Returns the settler of its queue.
    pub fn settler(&self) -> &Arc<Settler> {
        &self.settler
    }

    /// Returns the place of the element in its claim.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Returns the due time in Redis ms; `None` for elements of the ready list.
    pub fn due_ms(&self) -> Option<i64> {
        self.claim.elements.get(self.place)?.due_ms()
    }

    /// Hands the duty on to a caller that settles the element by its place.
    pub fn hand_on(mut self) {
        self.handed_on = true;
    }

    /// Converts the place to an element by itself.
    pub fn into_element(mut self) -> Option<ClaimedElement> {
        self.handed_on = true;
        let mut element = self.element()?;
        element.state().decoded = self.decoded.take();
        Some(element)
    }

    fn element(&self) -> Option<ClaimedElement> {
        ClaimedElement::new(&self.settler, &self.claim, self.place, None, None)
    }
}

impl Drop for ClaimedPlace {
    fn drop(&mut self) {
        if !self.handed_on {
            let _ = self.element();
        }
    }
}
