//! The elements of a claim on their way to the sinks.

use std::sync::Arc;

use crate::pipeline::claim::{Claim, Held, Isolation};
use crate::pipeline::gate::Probe;

/// What of a claim was not handed to a sink yet. What is left when it is dropped is released.
#[derive(Debug)]
pub struct Batch {
    claim: Arc<Claim>,
    isolation: Isolation,
    /// For the first element.
    probe: Option<Probe>,
    next: usize,
}

impl Batch {
    /// All elements of a claim.
    pub fn new(claim: Arc<Claim>, isolation: Isolation, probe: Option<Probe>) -> Self {
        Batch { claim, isolation, probe, next: 0 }
    }

    /// Whether one of the elements is to find out if something works again.
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// All of it, for a caller that takes over the duty for every element.
    pub fn split(mut self) -> (Arc<Claim>, Isolation) {
        self.next = self.claim.elements.len();
        (self.claim.clone(), self.isolation.clone())
    }

    /// The claim.
    pub fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }
}

impl Iterator for Batch {
    type Item = Held;

    fn next(&mut self) -> Option<Held> {
        let held = Held::new(&self.claim, self.next, self.isolation.clone(), self.probe.take())?;
        self.next += 1;
        Some(held)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.by_ref().for_each(drop);
    }
}
