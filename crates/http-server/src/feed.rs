//! An answer that goes on: bytes that follow while its client reads them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};

/// A stream that follows an answer. The next part is asked for only when the client has taken the one before.
pub struct Feed(BoxStream<'static, Result<Bytes, BrokenOff>>);

/// The end of an answer before it is complete: its connection ends without the mark of the end, so that no client takes it for whole.
#[derive(Debug, Clone, Copy)]
pub struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer breaks off")
    }
}

impl std::error::Error for BrokenOff {}

impl Feed {
    /// Creates a feed of these parts.
    pub fn new(parts: impl Stream<Item = Bytes> + Send + 'static) -> Feed {
        Feed(parts.map(Ok).boxed())
    }

    /// Creates a feed of parts that may break off.
    pub fn fallible(parts: impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static) -> Feed {
        Feed(parts.boxed())
    }

    /// Polls the next part.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        Pin::new(&mut self.0).poll_next(cx)
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}
