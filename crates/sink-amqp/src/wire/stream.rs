//! A stream from which the client library reads only what it can read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};

use super::frames::Frames;

/// Bytes that are read at once.
const READ: usize = 64 << 10;

/// A stream with the broker at its other end.
pub(crate) struct ReadableStream<S> {
    inner: S,
    frames: Frames,
    /// The room to read into.
    room: Box<[u8]>,
    /// The bytes that were read, and the number of them that were handed out.
    read: Vec<u8>,
    given: usize,
}

impl<S> ReadableStream<S> {
    /// Wraps a stream of which nothing was read yet.
    pub(crate) fn new(inner: S) -> ReadableStream<S> {
        ReadableStream {
            inner,
            frames: Frames::default(),
            room: vec![0; READ].into_boxed_slice(),
            read: Vec::new(),
            given: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadableStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        // A frame that is held back is no end: it is read on.
        while this.given == this.read.len() {
            this.read.clear();
            this.given = 0;
            let count = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut this.room))?;
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
            this.frames.take(&this.room[..count], &mut this.read);
        }
        let left = &this.read[this.given..];
        let count = left.len().min(buf.len());
        buf[..count].copy_from_slice(&left[..count]);
        this.given += count;
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadableStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}
