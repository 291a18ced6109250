//! A connection of HTTP/1.1: one request after the other.
//!
//! No task drives it: it makes progress while a request is under way, and is looked at before the next one. So it ends with its
//! owner, and a server that has hung up meanwhile is noticed before anything is sent.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use crate::{ExchangeError, HttpAnswer, HttpPeer, TooMany};
use delaybridge_core::clock::Instant;
use delaybridge_dial::DialError;

/// An open connection.
pub struct HttpConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Reads and writes; absent when the connection has ended.
    driver: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    host: HeaderValue,
    opened: Instant,
    used: Instant,
    has_answered: bool,
    too_many: TooMany,
}

/// The reason why a request on an open connection has no answer.
#[derive(Debug)]
pub enum SendError {
    /// The connection had ended: no byte of the request was sent.
    NotSent,
    /// The server did not accept our certificate, or asks for one, which TLS 1.3 tells only at the first request: it was not looked
    /// at.
    Refused(DialError),
    /// The server may have carried the request out.
    InDoubt(ExchangeError),
}

impl fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnection").field("ended", &self.driver.is_none()).finish_non_exhaustive()
    }
}

impl HttpConnection {
    /// Opens a connection to the server.
    ///
    /// # Errors
    ///
    /// Why there is none; nothing was sent.
    pub async fn open(peer: &HttpPeer) -> Result<HttpConnection, ExchangeError> {
        let too_many = TooMany::default();
        let stream = peer.dial(too_many.clone()).await.map_err(ExchangeError::NotConnected)?;
        let host = HeaderValue::from_str(&peer.origin().authority())
            .map_err(|_| ExchangeError::Broken("the host name cannot be sent".to_owned()))?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let driver: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async { drop(driver.await) });
        let now = Instant::now();
        let driver = Some(driver);
        Ok(HttpConnection { sender, driver, host, opened: now, used: now, has_answered: false, too_many })
    }

    /// Returns whether it may carry another request: open, not older than `oldest`, and not idle for longer than
    /// `idle`.
    pub async fn is_fit(&mut self, oldest: Duration, idle: Duration) -> bool {
        if self.opened.elapsed() >= oldest || self.used.elapsed() >= idle {
            return false;
        }
        let sender = &mut self.sender;
        let driver = &mut self.driver;
        poll_fn(|context| {
            // First: it takes in what the server has done meanwhile.
            if driver.as_mut().is_some_and(|work| work.as_mut().poll(context).is_ready()) {
                *driver = None;
            }
            // One that is not ready still writes a request whose answer came early.
            Poll::Ready(driver.is_some() && matches!(sender.poll_ready(context), Poll::Ready(Ok(()))))
        })
        .await
    }

    /// Sends a request and reads the answer, its body of at most `most` bytes. The `Host` header is added. After an error, and
    /// where the future was dropped, the connection carries no other request.
    ///
    /// # Errors
    ///
    /// Why there is no answer.
    pub async fn send(&mut self, mut request: Request<Full<Bytes>>, most: usize) -> Result<HttpAnswer, SendError> {
        request.headers_mut().insert(HOST, self.host.clone());
        self.too_many.watch(&mut request);
        let Some(mut driver) = self.driver.take() else { return Err(SendError::NotSent) };
        let sender = &mut self.sender;
        let has_answered = self.has_answered;
        let mut exchange = std::pin::pin!(async {
            match sender.try_send_request(request).await {
                Ok(response) => read(response, most).await.map_err(SendError::InDoubt),
                Err(error) if error.message().is_some() => Err(SendError::NotSent),
                Err(error) => {
                    let error = error.into_error();
                    // Whoever has answered has accepted us, and may have looked at this request.
                    Err(match DialError::refused_client(&error).filter(|_| !has_answered) {
                        Some(refused) => SendError::Refused(refused),
                        None => SendError::InDoubt(broken(error)),
                    })
                }
            }
        });
        // Order: an answer counts, even if the connection has ended with it. The connection makes progress only while it is polled.
        let (answer, ended) = tokio::select! {
            biased;
            answer = &mut exchange => (answer, false),
            () = &mut driver => (exchange.await, true),
        };
        if answer.is_ok() && !ended {
            self.driver = Some(driver);
            self.used = Instant::now();
            self.has_answered = true;
        }
        answer
    }
}

fn broken(error: hyper::Error) -> ExchangeError {
    ExchangeError::Broken(error.to_string())
}

async fn read(response: Response<Incoming>, most: usize) -> Result<HttpAnswer, ExchangeError> {
    let (head, body) = response.into_parts();
    let mut body = Limited::new(body, most);
    // Copied: chunks of one byte have forty times their size while they are kept apart.
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => ExchangeError::TooLong(most),
            None => ExchangeError::Broken(error.to_string()),
        })?;
        if let Ok(data) = frame.into_data() {
            whole.extend_from_slice(&data);
        }
    }
    Ok(HttpAnswer { status: head.status.as_u16(), headers: head.headers, body: whole.freeze() })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::task::Context;

    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::HttpOrigin;
    use delaybridge_settings::TlsFiles;

    const LONG: Duration = Duration::from_secs(60);

    async fn pair() -> (HttpConnection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let origin = HttpOrigin { tls: false, host: "127.0.0.1".to_owned(), port };
        let peer = HttpPeer::new(origin, TlsFiles::default());
        let (connection, accepted) = tokio::join!(HttpConnection::open(&peer), listener.accept());
        (connection.unwrap(), accepted.unwrap().0)
    }

    fn request() -> Request<Full<Bytes>> {
        Request::post("/").body(Full::new(Bytes::from_static(b"a=b"))).unwrap()
    }

    /// A stream of TLS of which the end is an alert.
    struct Refusing(DuplexStream);

    impl AsyncRead for Refusing {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let before = buf.filled().len();
            match Pin::new(&mut self.0).poll_read(cx, buf) {
                Poll::Ready(Ok(())) if buf.filled().len() == before => {
                    Poll::Ready(Err(io::Error::other("received fatal alert: AccessDenied")))
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

    #[tokio::test]
    async fn a_refusal_in_tls_is_one_only_before_the_first_answer() {
        for answers in [0, 1] {
            let (client, mut server) = tokio::io::duplex(64 << 10);
            let (sender, driver) = http1::handshake(TokioIo::new(Refusing(client))).await.unwrap();
            let now = Instant::now();
            let mut connection = HttpConnection {
                sender,
                driver: Some(Box::pin(async { drop(driver.await) })),
                host: HeaderValue::from_static("sts"),
                opened: now,
                used: now,
                has_answered: false,
                too_many: TooMany::default(),
            };
            let mut seen = vec![0; 1_000];
            for _ in 0..answers {
                let serving = async {
                    assert!(server.read(&mut seen).await.unwrap() > 0);
                    server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                };
                let (got, ()) = tokio::join!(connection.send(request(), 10), serving);
                assert_eq!(got.unwrap().status, 200);
            }
            let refusing = async {
                assert!(server.read(&mut seen).await.unwrap() > 0);
                drop(server);
            };
            let (got, ()) = tokio::join!(connection.send(request(), 10), refusing);
            match answers {
                0 => assert!(matches!(got, Err(SendError::Refused(_))), "{got:?}"),
                _ => assert!(matches!(got, Err(SendError::InDoubt(_))), "{got:?}"),
            }
        }
    }

    async fn answer(stream: &mut TcpStream, text: &str) {
        let mut seen = vec![0; 1_000];
        assert!(stream.read(&mut seen).await.unwrap() > 0);
        stream.write_all(text.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_carries_one_request_after_the_other() {
        let (mut connection, mut server) = pair().await;
        for body in ["one", "two", "six"] {
            assert!(connection.is_fit(LONG, LONG).await);
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{body}");
            let (got, ()) = tokio::join!(connection.send(request(), 10), answer(&mut server, &text));
            assert_eq!(got.unwrap().body, body);
        }
        assert!(!connection.is_fit(Duration::ZERO, LONG).await);
        assert!(!connection.is_fit(LONG, Duration::ZERO).await);
    }

    #[tokio::test]
    async fn a_server_that_has_hung_up_is_noticed_before_anything_is_sent() {
        let (mut connection, server) = pair().await;
        drop(server);
        let ended = async {
            while connection.is_fit(LONG, LONG).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, ended).await.unwrap();
        assert!(matches!(connection.send(request(), 10).await, Err(SendError::NotSent)));
    }

    #[tokio::test]
    async fn without_a_whole_answer_a_request_is_in_doubt_and_the_connection_ends() {
        for text in ["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut", "no"] {
            let (mut connection, mut server) = pair().await;
            let serve = async {
                answer(&mut server, text).await;
                drop(server);
            };
            let (got, ()) = tokio::join!(connection.send(request(), 10), serve);
            assert!(matches!(got, Err(SendError::InDoubt(ExchangeError::Broken(_)))), "{got:?}");
            assert!(!connection.is_fit(LONG, LONG).await);
        }
        let (mut connection, mut server) = pair().await;
        let given_up = tokio::time::timeout(Duration::from_millis(100), connection.send(request(), 10));
        assert!(given_up.await.is_err());
        assert!(!connection.is_fit(LONG, LONG).await, "the answer to the first would be taken for that to the next");
        answer(&mut server, "late").await;
    }

    #[tokio::test]
    async fn a_server_that_says_to_continue_without_end_ends_its_connection() {
        let (mut connection, server) = pair().await;
        let flood = async {
            let mut server = server;
            let mut seen = vec![0; 1_000];
            assert!(server.read(&mut seen).await.unwrap() > 0);
            while server.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_ok() {}
        };
        let asked = async {
            let asked = connection.send(request(), 10);
            let answer = tokio::time::timeout(LONG, asked).await.expect("it ends");
            assert!(matches!(answer, Err(SendError::InDoubt(ExchangeError::Broken(_)))), "{answer:?}");
            drop(connection);
        };
        tokio::join!(asked, flood);
    }

    #[tokio::test]
    async fn a_server_that_closes_after_its_answer_has_answered() {
        let (mut connection, mut server) = pair().await;
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi";
        let (got, ()) = tokio::join!(connection.send(request(), 10), answer(&mut server, text));
        assert_eq!(got.unwrap().body, "hi");
        assert!(!connection.is_fit(LONG, LONG).await);
    }
}
