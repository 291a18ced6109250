//! A stream from which nothing is read before something was written.
//!
//! A server that lets nobody in says so before it is asked anything, and closes the connection. The client library drops what answers no
//! command, and its user would only learn that the connection has ended. So the words wait until there is a command that
//! they answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream to a server that answers, and says nothing by itself.
pub(super) struct AskingStream<S> {
    inner: S,
    /// Whether a write was tried.
    asked: bool,
    /// Whoever reads meanwhile.
    reader: Option<Waker>,
}

impl<S> AskingStream<S> {
    pub(super) fn new(inner: S) -> AskingStream<S> {
        AskingStream { inner, asked: false, reader: None }
    }

    fn ask(&mut self) -> &mut S {
        self.asked = true;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        &mut self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AskingStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.asked {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AskingStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self.ask()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.ask()).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
