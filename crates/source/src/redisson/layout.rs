//! The two layouts in which Redisson packs an element. They are the producer's too, so `delaybridge-offers` has them; here
//! the identity becomes the daemon's own.

use bytes::Bytes;

use delaybridge_core::message::MessageId;
use delaybridge_offers::layout;

pub use delaybridge_offers::layout::{FIXED, Junk, Layout};

/// An element taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The layout it has.
    pub layout: Layout,
    /// The element's own eight random bytes.
    pub id: MessageId,
    /// The bytes that the application offered, in its codec; shares the element's memory.
    pub payload: Bytes,
}

/// Takes an element apart.
///
/// # Errors
///
/// [`Junk`] if the total length fits neither layout exactly: foreign data.
pub fn parse(element: &Bytes) -> Result<Element, Junk> {
    parse_start(element, element.len())
}

/// Parses an element of `len` bytes as [`parse`] does, where only its beginning was read; the payload is what was read
/// of it. The first [`FIXED`] bytes are enough.
///
/// # Errors
///
/// As for [`parse`].
pub fn parse_start(start: &Bytes, len: usize) -> Result<Element, Junk> {
    let head = layout::head(start, len)?;
    Ok(Element { layout: head.layout, id: MessageId(head.id), payload: start.slice(head.layout.header()..) })
}

/// Packs a payload as Redisson does. In the old layout the id is the bytes of a double; any eight bytes are accepted.
pub fn pack(layout: Layout, id: MessageId, payload: &[u8]) -> Vec<u8> {
    layout::pack(layout, id.0, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_make_the_parser_panic_and_what_it_packs_it_reads() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let n = rng.usize(0..40);
            let mut bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(n).collect();
            if let Some(first) = bytes.first_mut().filter(|_| rng.bool()) {
                *first = 8;
            }
            let _ = parse(&Bytes::from(bytes.clone()));
            let id = MessageId(rng.u64(..).to_be_bytes());
            let element = parse(&Bytes::from(pack(Layout::New, id, &bytes))).unwrap();
            assert_eq!((element.id, element.payload), (id, Bytes::from(bytes)));
        }
    }
}
