//! Codec `raw`: bytes, not decoded. Nothing is ever refused.

use bytes::Bytes;

use super::payload::Decoded;

/// Sees nothing in any payload.
pub(super) fn decode(payload: &Bytes) -> Decoded {
    Decoded::Opaque(payload.clone())
}
