//! The runtime that the client library runs on: tokio's, with streams of ours.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;
use lapin::tcp::AsyncTcpStream;

use super::stream::ReadableStream;

/// The largest frame of a stream that the library would open by itself: the one of the protocol.
const FRAME_MAX: u32 = 4096;

/// The streams of tokio's reactor.
type TokioStream = <Tokio as Reactor>::TcpStream;

/// The reactor of tokio, with streams that the library can read. The library takes the type of its streams from it.
#[derive(Clone, Debug)]
pub(crate) struct ReadableReactor(Tokio);

/// The runtime of the current task.
pub(crate) fn runtime() -> Runtime<RuntimeParts<Tokio, ReadableReactor>> {
    let tokio = Tokio::current();
    Runtime::new(RuntimeParts::new(tokio.clone(), ReadableReactor(tokio)))
}

impl Reactor for ReadableReactor {
    /// With or without TLS below it.
    type TcpStream = ReadableStream<AsyncTcpStream<TokioStream>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, time: Duration) -> Self::Sleep {
        self.0.sleep(time)
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(time)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let connect = self.0.tcp_connect_addr(address);
        // Not used: `connect.rs` opens the socket.
        let readable = |stream| ReadableStream::new(AsyncTcpStream::Plain(stream), FRAME_MAX, Arc::default());
        async move { connect.await.map(readable) }
    }
}
