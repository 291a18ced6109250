//! A stream from which the client library reads only what it can read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::arriving::Arriving;
use super::expected::Expected;
use super::frames::Frames;
use super::sent::SentFrames;
use delaybridge_dial::{DialStream, Pace, ReadBudget};

/// Bytes that are read at once.
const READ: usize = 64 << 10;
/// Bytes that are read in a moment of a broker whose messages are consumed.
const MESSAGES: u64 = 1 << 20;

/// A stream with the broker at its other end.
pub(crate) struct ReadableStream {
    inner: DialStream,
    frames: Frames,
    sent: SentFrames,
    expected: Expected,
    arriving: Arc<Arriving>,
    pace: Pace,
    /// The room to read into.
    room: Box<[u8]>,
    /// The bytes that were read, and the number of them that were handed out.
    read: Vec<u8>,
    given: usize,
}

impl ReadableStream {
    /// Wraps a stream of which nothing was read yet, for frames of at most `frame_max` bytes.
    pub(crate) fn new(
        inner: DialStream,
        frame_max: u32,
        arriving: Arc<Arriving>,
        reads: Arc<ReadBudget>,
    ) -> ReadableStream {
        ReadableStream {
            inner,
            frames: Frames::new(frame_max),
            sent: SentFrames::new(),
            expected: Expected::default(),
            arriving,
            pace: Pace::of(reads),
            room: vec![0; READ].into_boxed_slice(),
            read: Vec::new(),
            given: 0,
        }
    }
}

impl AsyncRead for ReadableStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        // A frame that is held back is no end: it is read on.
        while this.given == this.read.len() {
            this.read.clear();
            this.given = 0;
            ready!(this.arriving.poll_room(cx));
            // Only an input takes messages, by a connection of its own.
            this.pace.change(if this.arriving.is_allowed() { MESSAGES } else { ReadBudget::ANSWERS });
            ready!(this.pace.poll_room(cx));
            let mut room = ReadBuf::new(&mut this.room);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut room))?;
            let count = room.filled().len();
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
            this.pace.spend(count);
            this.frames.take(&this.room[..count], &mut this.expected, &this.arriving, &mut this.read)?;
        }
        let left = &this.read[this.given..];
        let count = left.len().min(buf.len());
        buf[..count].copy_from_slice(&left[..count]);
        this.given += count;
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for ReadableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let count = ready!(Pin::new(&mut this.inner).poll_write(cx, buf))?;
        this.sent.take(&buf[..count], &mut this.expected);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let count = ready!(Pin::new(&mut this.inner).poll_write_vectored(cx, bufs))?;
        let mut left = count;
        for buf in bufs {
            let sent = left.min(buf.len());
            this.sent.take(&buf[..sent], &mut this.expected);
            left -= sent;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
