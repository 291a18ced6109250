//! One request on a connection of its own, over HTTP/1.1.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{HeaderMap, Request};

use crate::connection::{HttpConnection, SendError};
use crate::fair::{FairStream, TooMany, read_budget};
use crate::origin::{HttpOrigin, PLAIN};
use delaybridge_dial::{Attempt, DialError, DialStream, Options, ProxyChoice, ReadBudget, Tls};
use delaybridge_settings::TlsFiles;

/// A server that is asked now and then.
#[derive(Debug)]
pub struct HttpPeer {
    origin: HttpOrigin,
    tls: Option<Tls>,
    proxy: ProxyChoice,
    /// The budget of all connections to it.
    reads: Arc<ReadBudget>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// The reason why there is no answer. No message has a part of the request, which may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// No connection.
    #[error("{0}")]
    NotConnected(DialError),
    /// The connection ended before the answer, or the answer is not HTTP.
    #[error("the connection broke before the answer ({0})")]
    Broken(String),
    /// The answer is larger than was allowed.
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
    /// Nothing in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
}

impl HttpPeer {
    /// Creates a client for the server of this origin; `files` are for `https`. The environment says whether it is
    /// behind a proxy.
    pub fn new(origin: HttpOrigin, files: TlsFiles) -> HttpPeer {
        let tls = origin.tls.then(|| Tls::new(files).with_protocols(&[b"http/1.1"]));
        HttpPeer { origin, tls, proxy: ProxyChoice::Environment, reads: read_budget() }
    }

    /// Sets the decision about a proxy.
    #[must_use]
    pub fn with_proxy(self, proxy: ProxyChoice) -> HttpPeer {
        HttpPeer { proxy, ..self }
    }

    /// Returns the server's address, for messages.
    pub fn origin(&self) -> &HttpOrigin {
        &self.origin
    }

    /// Sends a request and reads the answer, within `limit`; the body of at most `most` bytes. The `Host` header is added.
    ///
    /// # Errors
    ///
    /// The reason why there is no answer. After `Broken`, `TooLong` and `TimedOut` the server may have carried the request out.
    pub async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
        most: usize,
    ) -> Result<HttpAnswer, ExchangeError> {
        let asked = tokio::time::timeout(limit, self.ask(request, most));
        asked.await.unwrap_or(Err(ExchangeError::TimedOut(limit)))
    }

    /// Opens a connection, which `too_many` ends.
    pub(crate) async fn dial(&self, too_many: TooMany) -> Result<FairStream<DialStream>, DialError> {
        let to = self.origin.address();
        let encrypted = self.tls.is_some();
        let options = Options { proxy: self.proxy.of(&to, encrypted)?, ..Options::default() };
        let stream = Attempt::new(encrypted, PLAIN).open_with(&to, self.tls.as_ref(), options).await?;
        Ok(FairStream::new(stream, self.reads.clone(), too_many))
    }

    async fn ask(&self, mut request: Request<Full<Bytes>>, most: usize) -> Result<HttpAnswer, ExchangeError> {
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let mut connection = HttpConnection::open(self).await?;
        connection.send(request, most).await.map_err(|error| match error {
            SendError::NotSent => ExchangeError::Broken("it was closed at once".to_owned()),
            SendError::Refused(error) => ExchangeError::NotConnected(error),
            SendError::InDoubt(error) => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Asks a server that answers these bytes, and then hangs up or not.
    async fn ask(answer: &[u8], hangs_up: bool) -> (Result<HttpAnswer, ExchangeError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let origin = HttpOrigin { tls: false, host: "127.0.0.1".to_owned(), port };
        let server = HttpPeer::new(origin, TlsFiles::default());
        let request = Request::post("/token").body(Full::new(Bytes::from_static(b"a=b"))).unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = vec![0; 1_000];
            let read = stream.read(&mut seen).await.unwrap();
            stream.write_all(answer).await.unwrap();
            let stream = (!hangs_up).then_some(stream);
            (stream, String::from_utf8_lossy(&seen[..read]).into_owned())
        };
        let (answer, (_stream, seen)) = tokio::join!(server.exchange(request, Duration::from_millis(500), 10), serve);
        (answer, seen)
    }

    #[tokio::test]
    async fn an_answer_is_whole_or_there_is_none() {
        let (answer, seen) = ask(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", false).await;
        let answer = answer.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (200, &b"hi"[..]));
        assert!(seen.starts_with("POST /token HTTP/1.1\r\n") && seen.contains("host: 127.0.0.1:"), "{seen}");
        let cut = ask(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", true).await.0;
        assert!(matches!(cut, Err(ExchangeError::Broken(_))), "{cut:?}");
        let long = ask(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n01234567890", true).await.0;
        assert!(matches!(long, Err(ExchangeError::TooLong(10))), "{long:?}");
        let silent = ask(b"HTTP/1.1 200 OK\r\n", false).await.0;
        assert!(matches!(silent, Err(ExchangeError::TimedOut(_))), "{silent:?}");
        let other = ask(b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0", true).await.0;
        assert!(matches!(other, Err(ExchangeError::Broken(_))), "{other:?}");
    }
}
