//! The body of a request: the element's bytes in slices, without a copy.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Bytes that are handed to the connection at once. A body in one piece would be buffered whole, however slow the peer.
const SLICE: usize = 64 << 10;

/// The rest of a body.
#[derive(Debug)]
pub(super) struct Slices(Bytes);

impl Slices {
    pub(super) fn new(body: Bytes) -> Slices {
        Slices(body)
    }
}

impl Body for Slices {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let rest = &mut self.0;
        let slice = rest.split_to(rest.len().min(SLICE));
        Poll::Ready((!slice.is_empty()).then(|| Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
