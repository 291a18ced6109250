//! What a server may make the sink read: interim answers to one request, and bytes of all connections together.
//!
//! A library that reads while there is something to read gives others no turn. So the bytes of all connections of a sink are
//! counted together; when those of a moment are read, a connection waits for the next one. And a connection ends when a request
//! has more interim answers than anybody sends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::Request;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A moment.
const MOMENT: Duration = Duration::from_millis(10);
/// Bytes that are read in a moment, over all connections of a sink: 25 MB a second.
const BYTES: usize = 256 << 10;
/// Bytes of one read.
const READ: usize = 16 << 10;
/// Interim answers (100 to 199) to one request.
const INTERIM: u32 = 8;

/// The bytes that all connections of a sink may read now.
#[derive(Debug)]
pub(super) struct ReadBudget(Mutex<ReadMoment>);

#[derive(Debug)]
struct ReadMoment {
    ends: Instant,
    left: usize,
}

impl ReadBudget {
    pub(super) fn new() -> ReadBudget {
        ReadBudget(Mutex::new(ReadMoment { ends: Instant::now() + MOMENT, left: BYTES }))
    }

    /// Takes a part of it for one read.
    ///
    /// # Errors
    /// When there is something again.
    fn take(&self, now: Instant) -> Result<usize, Instant> {
        let mut moment = self.0.lock();
        if now >= moment.ends {
            *moment = ReadMoment { ends: now + MOMENT, left: BYTES };
        }
        let taken = moment.left.min(READ);
        moment.left -= taken;
        if taken == 0 { Err(moment.ends) } else { Ok(taken) }
    }

    fn give_back(&self, unused: usize) {
        let mut moment = self.0.lock();
        moment.left = (moment.left + unused).min(BYTES);
    }
}

/// Whether a connection is to end, because a request had too many interim answers.
#[derive(Debug, Clone, Default)]
pub(super) struct TooMany(Arc<AtomicBool>);

impl TooMany {
    /// Counts the interim answers to this request.
    pub(super) fn watch<B>(&self, request: &mut Request<B>) {
        let (is_over, count) = (self.0.clone(), AtomicU32::new(0));
        hyper::ext::on_informational(request, move |_answer| {
            if count.fetch_add(1, Ordering::Relaxed) >= INTERIM {
                is_over.store(true, Ordering::Relaxed);
            }
        });
    }
}

/// A stream that reads no more than its share.
#[derive(Debug)]
pub(super) struct FairStream<S> {
    stream: S,
    budget: Arc<ReadBudget>,
    too_many: TooMany,
    /// The wait for the next moment.
    wait: Option<Pin<Box<Sleep>>>,
}

impl<S> FairStream<S> {
    pub(super) fn new(stream: S, budget: Arc<ReadBudget>, too_many: TooMany) -> FairStream<S> {
        FairStream { stream, budget, too_many, wait: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FairStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.too_many.0.load(Ordering::Relaxed) {
                let text = format!("the server sent more than {INTERIM} interim answers (100 to 199) to one request");
                return Poll::Ready(Err(io::Error::other(text)));
            }
            if let Some(wait) = &mut this.wait {
                ready!(wait.as_mut().poll(cx));
                this.wait = None;
            }
            let most = match this.budget.take(Instant::now()) {
                Ok(most) => most,
                Err(until) => {
                    this.wait = Some(Box::pin(sleep_until(until)));
                    continue;
                }
            };
            let room = most.min(buf.remaining());
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
            let polled = Pin::new(&mut this.stream).poll_read(cx, &mut part);
            let read = part.filled().len();
            buf.advance(read);
            this.budget.give_back(most - read);
            return polled;
        }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_connections_of_a_sink_share_what_is_read_in_a_moment() {
        let budget = Arc::new(ReadBudget::new());
        let read = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        for _ in 0..64 {
            let (server, client) = tokio::io::duplex(1 << 20);
            tokio::spawn(async move {
                let (mut server, much) = (server, vec![b'x'; 64 << 10]);
                while server.write_all(&much).await.is_ok() {}
            });
            let (mut client, read) = (FairStream::new(client, budget.clone(), TooMany::default()), read.clone());
            tokio::spawn(async move {
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

    #[tokio::test(start_paused = true)]
    async fn what_was_not_read_is_left_to_others() {
        let budget = ReadBudget::new();
        let now = Instant::now();
        for _ in 0..1_000 {
            assert_eq!(budget.take(now), Ok(READ));
            budget.give_back(READ - 1);
        }
        let left = (0..).map_while(|_| budget.take(now).ok()).sum::<usize>();
        assert_eq!(left, BYTES - 1_000);
        assert_eq!(budget.take(now), Err(now + MOMENT));
        assert_eq!(budget.take(now + MOMENT), Ok(READ));
    }
}
