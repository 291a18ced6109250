//! The socket below everything: writes pass a gate, and a failed one leaves time to read why.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::time::Sleep;

/// Time in which the last words of a server are read after a write has failed.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// A condition under which bytes may still be written.
pub trait WriteGate: fmt::Debug + Send + Sync {
    /// Refuses a write that is too late.
    fn check(&self) -> io::Result<()>;
}

/// A connected socket.
///
/// A server that refuses a client writes the reason and closes the connection. A later write fails, while the reason can still be
/// read. So a write that fails because the peer is gone reports that after a short wait, in which the reader gets the reason.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: Inner,
    /// The runtime of its timer: the client library of RabbitMQ uses the socket on a thread of its own.
    runtime: Handle,
    gate: Option<Arc<dyn WriteGate>>,
    /// Set once a write has failed.
    broken: Option<Broken>,
}

#[derive(Debug)]
enum Inner {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
struct Broken {
    error: io::ErrorKind,
    until: Pin<Box<Sleep>>,
}

impl Socket {
    pub(crate) fn tcp(stream: TcpStream, gate: Option<Arc<dyn WriteGate>>) -> Socket {
        Socket { inner: Inner::Tcp(stream), runtime: Handle::current(), gate, broken: None }
    }

    pub(crate) fn unix(stream: UnixStream, gate: Option<Arc<dyn WriteGate>>) -> Socket {
        Socket { inner: Inner::Unix(stream), runtime: Handle::current(), gate, broken: None }
    }

    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut Inner, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Some(gate) = &self.gate {
            gate.check()?;
        }
        if self.broken.is_none() {
            match write(&mut self.inner, cx) {
                Poll::Ready(Err(error)) if is_gone(&error) => {
                    let _here = self.runtime.enter();
                    self.broken = Some(Broken { error: error.kind(), until: Box::pin(tokio::time::sleep(LAST_WORDS)) });
                }
                other => return other,
            }
        }
        match &mut self.broken {
            Some(broken) => {
                ready!(broken.until.as_mut().poll(cx));
                Poll::Ready(Err(broken.error.into()))
            }
            None => Poll::Pending,
        }
    }
}

/// Returns whether the other side has closed.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
    )
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.inner {
            Inner::Tcp(stream) => stream.as_fd(),
            Inner::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Inner::Unix(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_written(cx, |inner, cx| match inner {
            Inner::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Inner::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_written(cx, |inner, cx| match inner {
            Inner::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Inner::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Returns at once: a socket has no buffer of its own.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Inner::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (Socket::tcp(ours.unwrap(), None), theirs.unwrap().0)
    }

    #[tokio::test]
    async fn last_words_are_read_after_a_failed_write() {
        let (socket, mut server) = pair().await;
        server.write_all(b"-ERR max number of clients reached\r\n").await.unwrap();
        drop(server);
        let (mut reader, mut writer) = tokio::io::split(socket);
        let mut failed = false;
        let mut words = Vec::new();
        // What a client library does: it writes first, and ends with the first error.
        let talking = async {
            while !failed && !words.ends_with(b"\n") {
                tokio::select! {
                    biased;
                    written = writer.write_all(b"PING\r\n") => failed = written.is_err(),
                    read = reader.read_buf(&mut words) => drop(read),
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), talking).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&words), "-ERR max number of clients reached\r\n");
        // Without a reader, the write fails after the wait.
        let failing = async { while writer.write_all(b"PING\r\n").await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(30), failing).await.unwrap();
    }

    #[test]
    fn a_write_fails_in_its_time_on_a_thread_without_timers() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (mut socket, server) = runtime.block_on(pair());
        drop(server);
        let writing = std::thread::spawn(move || {
            // It has no timers.
            let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
            other.block_on(async { while socket.write_all(b"PING\r\n").await.is_ok() {} });
        });
        writing.join().unwrap();
    }

    #[tokio::test]
    async fn a_gate_refuses_what_comes_too_late() {
        #[derive(Debug)]
        struct Shut;
        impl WriteGate for Shut {
            fn check(&self) -> io::Result<()> {
                Err(io::Error::other("too late"))
            }
        }
        let (mut socket, mut server) = pair().await;
        socket.gate = Some(Arc::new(Shut));
        assert_eq!(socket.write_all(b"a").await.unwrap_err().to_string(), "too late");
        drop(socket);
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    }
}
