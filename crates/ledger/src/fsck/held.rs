//! Hashes of the elements that delaybridge holds of a queue.

use std::collections::HashSet;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::body::BodyAt;

/// Hashes of the elements that delaybridge holds: in claims, in retry, dead.
#[derive(Debug, Default)]
pub struct Held {
    pub(super) hashes: HashSet<u64>,
    /// The places of the bodies of these elements.
    pub(super) bodies: HashSet<u64>,
    /// Whether there were more than are compared.
    pub more: bool,
}

impl Held {
    /// Returns whether an element with these bytes is held.
    pub fn has(&self, element: &[u8]) -> bool {
        self.hashes.contains(&xxh3_64(element))
    }

    pub(super) fn has_body(&self, place: u64) -> bool {
        self.bodies.contains(&place)
    }
}

/// Returns a hash of the place of a body: its key, and its field there.
pub(super) fn place_of(at: &BodyAt) -> u64 {
    let empty = Bytes::new();
    xxh3_64(&[&at.key()[..], b"\0", at.field().unwrap_or(&empty)].concat())
}
