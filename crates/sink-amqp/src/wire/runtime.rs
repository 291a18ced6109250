//! The runtime that the client library runs on: tokio's, with streams of ours.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;

use super::stream::ReadableStream;

/// The reactor of tokio, with streams that the library can read. The library takes the type of its streams from it.
#[derive(Clone, Debug)]
pub(crate) struct ReadableReactor(Tokio);

/// Returns the runtime of the current task.
pub(crate) fn runtime() -> Runtime<RuntimeParts<Tokio, ReadableReactor>> {
    let tokio = Tokio::current();
    Runtime::new(RuntimeParts::new(tokio.clone(), ReadableReactor(tokio)))
}

impl Reactor for ReadableReactor {
    /// With or without TLS below it.
    type TcpStream = ReadableStream;
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

    /// Opens nothing: `connect.rs` does.
    fn tcp_connect_addr(&self, _: SocketAddr) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
