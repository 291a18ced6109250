//! Codec `raw`: bytes, not decoded. No payload is refused.

use bytes::Bytes;

use super::payload::Decoded;

/// Wraps the payload unchanged.
pub(super) fn decode(payload: &Bytes) -> Decoded {
    Decoded::Opaque(payload.clone())
}
