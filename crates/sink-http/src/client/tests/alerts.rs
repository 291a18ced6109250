//! A server that refuses us in TLS on an open connection: before its first answer nothing was looked at, after it something may
//! have been.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use super::super::body::Slices;
use super::super::connection::{Http1Connection, Http2Connection, ReadyConnection};
use super::super::errors;
use super::super::tasks::Tasks;
use super::*;

/// A stream of TLS of which the end is an alert.
struct Refusing(DuplexStream);

impl AsyncRead for Refusing {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.0).poll_read(cx, buf) {
            Poll::Ready(Ok(())) if buf.filled().len() == before => {
                let alert = rustls::Error::AlertReceived(rustls::AlertDescription::AccessDenied);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, alert)))
            }
            polled => polled,
        }
    }
}

impl AsyncWrite for Refusing {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Answers so many requests, reads one more, and refuses us.
async fn refuse_after(answers: usize, mut stream: DuplexStream) {
    for number in 0..=answers {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\nbody") {
            request.push(stream.read_u8().await.unwrap());
        }
        if number < answers {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_refusal_in_tls_is_one_only_before_the_first_answer() {
    for answers in [0, 1, 2] {
        // Nothing listens there: the connection is the only one.
        let sink = sink(plain(1));
        let (client, server) = tokio::io::duplex(64 << 10);
        let serving = tokio::spawn(refuse_after(answers, server));
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(Refusing(client))).await.unwrap();
        let driving = tokio::spawn(connection);
        sink.client
            .pool
            .keep(ReadyConnection::Alone(Http1Connection::new(sender, delaybridge_http_client::TooMany::default())));
        for _ in 0..answers {
            assert_eq!(deliver(&sink, "/").await, Ok(()));
        }
        let refused = failure(&sink, "/").await;
        match answers {
            0 => assert_failed(&refused, Class::TargetPermanent, "tls", "set `cert_file` and `key_file`"),
            _ => assert_failed(&refused, Class::Ambiguous, "connection_lost", "it may have arrived"),
        }
        serving.await.unwrap();
        driving.abort();
    }
}

#[tokio::test]
async fn so_it_is_on_a_connection_of_http2() {
    for answers in [0, 1] {
        let (client, server) = tokio::io::duplex(64 << 10);
        let serving = tokio::spawn(async move {
            let mut connection = h2::server::handshake(server).await.unwrap();
            for number in 0..=answers {
                let (_, mut respond) = connection.accept().await.unwrap().unwrap();
                if number < answers {
                    let _ = respond.send_response(hyper::Response::new(()), true).unwrap();
                }
            }
        });
        let handshake = hyper::client::conn::http2::handshake(Tasks::default(), TokioIo::new(Refusing(client)));
        let (sender, connection) = handshake.await.unwrap();
        let driving = tokio::spawn(connection);
        let shared = std::sync::Arc::new(Http2Connection::new(sender));
        let mut ready = ReadyConnection::Shared(shared.stream().await.unwrap());
        let request = || hyper::Request::post("https://localhost/").body(Slices::new("body".into())).unwrap();
        for _ in 0..answers {
            assert!(ready.send(request()).await.is_ok());
        }
        let error = ready.send(request()).await.map(drop).map_err(|error| error.into_error()).unwrap_err();
        let refused = errors::lost(&plain(1), &error, ready.has_answered());
        match answers {
            0 => assert_failed(&refused, Class::TargetPermanent, "tls", "set `cert_file` and `key_file`"),
            _ => assert_failed(&refused, Class::Ambiguous, "connection_lost", "it may have arrived"),
        }
        serving.await.unwrap();
        driving.abort();
    }
}
