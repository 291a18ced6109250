//! Reasons why an element has no payload: it cannot be read, or it has no body.

use delaybridge_core::message::MessageId;

/// Element bytes that are not in a format of their source: data of another program, or damage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read element: {0}")]
pub struct Junk(pub String);

/// Why there is no payload to deliver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPayload {
    /// The element, or its body, cannot be read.
    #[error(transparent)]
    Junk(#[from] Junk),
    /// The element has its body elsewhere, and there is none: its user removed it.
    #[error("the job has no body")]
    Missing,
    /// The body was not read, because the claim had no room for it.
    #[error("the body was not read yet")]
    NoRoom,
    /// The job's own record says that it is due at this time in ms, which is still to come.
    #[error("the job is due later by its own record")]
    NotDue(i64),
}

/// Returns the identity of bytes in no format of their source: they carry none, so it is a hash of them, the same every
/// time.
pub fn junk_id(element: &[u8]) -> MessageId {
    MessageId(xxhash_rust::xxh3::xxh3_64(element).to_be_bytes())
}
