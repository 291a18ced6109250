//! What a server may make a client read: interim answers to one request, and bytes of all connections together.
//!
//! A library that reads while there is something to read gives others no turn. So the bytes of all connections of a client are
//! counted together; when those of a moment are read, a connection waits for the next one. And a connection ends when a request
//! has more interim answers than anybody sends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use hyper::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use delaybridge_dial::{Pace, ReadBudget};

/// Bytes that are read in a moment, over all connections of a client: 25 MB a second.
const BYTES: u64 = 256 << 10;
/// Bytes of one read.
const READ: usize = 16 << 10;
/// Interim answers (100 to 199) to one request.
const INTERIM: u32 = 8;

/// Returns the budget of a client's connections.
pub fn read_budget() -> Arc<ReadBudget> {
    ReadBudget::new(BYTES)
}

/// Whether a connection is to end, because a request had too many interim answers.
#[derive(Debug, Clone, Default)]
pub struct TooMany(Arc<AtomicBool>);

impl TooMany {
    /// Counts the interim answers to this request.
    pub fn watch<B>(&self, request: &mut Request<B>) {
        let is_over = self.0.clone();
        let count = AtomicU32::new(0);
        hyper::ext::on_informational(request, move |_answer| {
            if count.fetch_add(1, Ordering::Relaxed) >= INTERIM {
                is_over.store(true, Ordering::Relaxed);
            }
        });
    }
}

/// A stream that reads no more than its share.
#[derive(Debug)]
pub struct FairStream<S> {
    stream: S,
    pace: Pace,
    too_many: TooMany,
}

impl<S> FairStream<S> {
    /// Creates a stream that shares this budget, and ends when this says so.
    pub fn new(stream: S, reads: Arc<ReadBudget>, too_many: TooMany) -> FairStream<S> {
        FairStream { stream, pace: Pace::of(reads), too_many }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FairStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.too_many.0.load(Ordering::Relaxed) {
            let text = format!("the server sent more than {INTERIM} interim answers (100 to 199) to one request");
            return Poll::Ready(Err(io::Error::other(text)));
        }
        ready!(this.pace.poll_room(cx));
        let room = READ.min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        let polled = Pin::new(&mut this.stream).poll_read(cx, &mut part);
        let read = part.filled().len();
        buf.advance(read);
        this.pace.spend(read);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FairStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_connections_of_a_client_share_what_is_read_in_a_moment() {
        let budget = read_budget();
        let read = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..64 {
            let (server, client) = tokio::io::duplex(1 << 20);
            tasks.spawn(async move {
                let mut server = server;
                let much = vec![b'x'; 64 << 10];
                while server.write_all(&much).await.is_ok() {}
            });
            let mut client = FairStream::new(client, budget.clone(), TooMany::default());
            let read = read.clone();
            tasks.spawn(async move {
                let mut into = vec![0; 64 << 10];
                while let Ok(count) = client.read(&mut into).await {
                    read.fetch_add(count, Ordering::Relaxed);
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let read = read.load(Ordering::Relaxed);
        assert!((20 << 20..=26 << 20).contains(&read), "{read} bytes in a second");
    }
}
