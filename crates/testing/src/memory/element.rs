//! Elements in memory: eight bytes of id, and the payload.

use bytes::Bytes;

use delaybridge_core::message::MessageId;
use delaybridge_ledger::{Junk, junk_id};

/// An element with this id.
pub fn element(id: MessageId, payload: &[u8]) -> Bytes {
    [&id.0[..], payload].concat().into()
}

/// Takes an element apart.
pub(super) fn open(element: &Bytes) -> (MessageId, Result<Bytes, Junk>) {
    match element.first_chunk() {
        Some(id) => (MessageId(*id), Ok(element.slice(8..))),
        None => (junk_id(element), Err(Junk(format!("{} bytes, fewer than an id has", element.len())))),
    }
}
