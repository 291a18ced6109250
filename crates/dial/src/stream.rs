//! The stream that all clients read and write: a socket, with or without TLS.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::socket::{Socket, is_gone};

/// An open connection.
#[derive(Debug)]
pub struct DialStream(Layer);

#[derive(Debug)]
enum Layer {
    Plain(Socket),
    Tls(Box<TlsStream<DialStream>>),
}

impl DialStream {
    pub(crate) fn plain(socket: Socket) -> DialStream {
        DialStream(Layer::Plain(socket))
    }

    pub(crate) fn tls(stream: TlsStream<DialStream>) -> DialStream {
        DialStream(Layer::Tls(Box::new(stream)))
    }

    /// Sends words that are to be answered. A server that has closed may have said why before: this is no error, and the read that
    /// follows finds its words or the end.
    ///
    /// # Errors
    ///
    /// Any other error of a write.
    pub async fn ask(&mut self, bytes: &[u8]) -> io::Result<()> {
        let asked = async {
            self.write_all(bytes).await?;
            self.flush().await
        };
        match asked.await {
            Err(error) if is_gone(&error) => Ok(()),
            other => other,
        }
    }

    /// Returns the protocol that the server has chosen in the handshake (ALPN).
    pub fn protocol(&self) -> Option<&[u8]> {
        match &self.0 {
            Layer::Plain(_) => None,
            Layer::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        }
    }
}

/// The socket, for a second handle that ends the connection.
impl AsFd for DialStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Layer::Plain(socket) => socket.as_fd(),
            Layer::Tls(stream) => stream.get_ref().0.as_fd(),
        }
    }
}

impl AsyncRead for DialStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Layer::Plain(socket) => Pin::new(socket).poll_read(cx, into),
            Layer::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for DialStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Layer::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Layer::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Layer::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
            Layer::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Layer::Plain(socket) => socket.is_write_vectored(),
            Layer::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Layer::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Layer::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Layer::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Layer::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
