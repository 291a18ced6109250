//! The byte stream of a connection: TCP, optionally TLS over it, and below both the gate that refuses writes that are
//! too late.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::select_ok;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::gate::Gate;

/// Time for which data may stay unacknowledged before the kernel closes the connection (`TCP_USER_TIMEOUT`).
pub(super) const USER_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time before the first TCP keepalive probe, and between probes.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(5);

/// A stream that the client library can use.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Connects to the first address that answers.
///
/// # Errors
///
/// Returns an error of the name lookup, of TCP, or of the TLS handshake.
pub(super) async fn open(
    (host, port): (&str, u16),
    tls: Option<Arc<ClientConfig>>,
    gate: Arc<Gate>,
) -> io::Result<Box<dyn Duplex>> {
    let attempts: Vec<_> = tokio::net::lookup_host((host, port)).await?.map(|address| Box::pin(tcp(address))).collect();
    if attempts.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "failed to lookup address information: there is none"));
    }
    let (socket, _) = select_ok(attempts).await?;
    let stream = Gated { socket, gate };
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    Ok(Box::new(TlsConnector::from(tls).connect(name, stream).await?))
}

async fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let options = socket2::SockRef::from(&socket);
    options.set_tcp_keepalive(&keepalive())?;
    options.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(socket)
}

/// The keepalive settings, which detect a silent peer.
pub(super) fn keepalive() -> socket2::TcpKeepalive {
    socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3)
}

/// A socket that accepts writes only while the gate is open.
#[derive(Debug)]
struct Gated {
    socket: TcpStream,
    gate: Arc<Gate>,
}

impl Gated {
    fn check(&self) -> io::Result<()> {
        if self.gate.is_closed() {
            return Err(io::Error::other("not sent: a message has waited for longer than its lease allows"));
        }
        Ok(())
    }
}

impl AsyncRead for Gated {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, into)
    }
}

impl AsyncWrite for Gated {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
