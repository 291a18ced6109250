//! An answer that goes on: bytes that follow while its client reads them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};

/// A stream that follows an answer. The next part is asked for only when the client has taken the one before.
pub struct Feed(BoxStream<'static, Bytes>);

impl Feed {
    /// Of these parts.
    pub fn new(parts: impl Stream<Item = Bytes> + Send + 'static) -> Feed {
        Feed(parts.boxed())
    }

    /// The next part.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Pin::new(&mut self.0).poll_next(cx)
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}
