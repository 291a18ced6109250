//! One request to the collector, over a connection of its own, because there is at most one a second.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, TE};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::config::{OtlpSpec, Protocol};
use delaybridge_dial::{Address, Attempt};

/// The reason why a collector did not take a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotTaken {
    /// A temporary failure: the collector may take it later.
    #[error("{0}")]
    Later(String),
    /// A permanent failure: the collector will never take it.
    #[error("{0}")]
    Refused(String),
}

/// Maximum length of a response body, in bytes.
const ANSWER_MAX: usize = 64 << 10;

/// Sends a request, within its time-out.
pub(super) async fn send(spec: &OtlpSpec, message: &[u8]) -> Result<(), NotTaken> {
    let sending = exchange(spec, message);
    match tokio::time::timeout(spec.timeout, sending).await {
        Ok(answer) => answer,
        Err(_) => Err(NotTaken::Later(format!("no answer within {} ms", millis(spec.timeout)))),
    }
}

fn millis(time: Duration) -> u128 {
    time.as_millis()
}

fn later(error: impl std::fmt::Display) -> NotTaken {
    NotTaken::Later(error.to_string())
}

/// Returns the error of an exchange that failed after connecting: mostly the port speaks the other protocol.
fn foreign(protocol: Protocol, error: &hyper::Error) -> NotTaken {
    let (speaks, other, port) = match protocol {
        Protocol::Grpc => ("gRPC", "http", 4318),
        Protocol::Http => ("OTLP over HTTP", "grpc", 4317),
    };
    // The innermost cause, because "http2 error" alone says little.
    let cause = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source()).last();
    let cause = cause.map(ToString::to_string).unwrap_or_default();
    NotTaken::Later(format!(
        "the collector does not answer as one that speaks {speaks} ({cause}); if the port is for the other protocol (mostly {port}), write \
         `protocol: {other}`"
    ))
}

async fn exchange(spec: &OtlpSpec, message: &[u8]) -> Result<(), NotTaken> {
    let opened = Attempt::new(false, "").open(&Address::tcp(&spec.host, spec.port), None).await;
    let io = TokioIo::new(opened.map_err(later)?);
    let request = request(spec, message).map_err(|error| NotTaken::Refused(error.to_string()))?;
    // The connection makes progress only while it is polled, so it is polled together with the request.
    let (status, head, trailers) = match spec.protocol {
        Protocol::Grpc => {
            let other = |error| foreign(spec.protocol, &error);
            let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.map_err(other)?;
            beside(connection, async { answer(sender.send_request(request).await.map_err(other)?).await }).await?
        }
        Protocol::Http => {
            let other = |error| foreign(spec.protocol, &error);
            let (mut sender, connection) = http1::handshake(io).await.map_err(other)?;
            beside(connection, async { answer(sender.send_request(request).await.map_err(other)?).await }).await?
        }
    };
    verdict(spec.protocol, status, &head, trailers.as_ref())
}

fn request(spec: &OtlpSpec, message: &[u8]) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let authority = Address::tcp(&spec.host, spec.port).to_string();
    match spec.protocol {
        Protocol::Grpc => {
            let mut framed = BytesMut::with_capacity(message.len() + 5);
            // The gRPC prefix: not compressed, then the length.
            framed.put_u8(0);
            framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
            framed.put_slice(message);
            let request = Request::post(format!("http://{authority}{}", spec.path));
            let request = request.header(CONTENT_TYPE, "application/grpc").header(TE, "trailers");
            request.body(Full::new(framed.freeze()))
        }
        Protocol::Http => {
            let request = Request::post(&spec.path).header(HOST, authority);
            request.header(CONTENT_TYPE, "application/x-protobuf").body(Full::new(Bytes::copy_from_slice(message)))
        }
    }
}

type Answer = (u16, HeaderMap, Option<HeaderMap>);

async fn answer(response: Response<Incoming>) -> Result<Answer, NotTaken> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_MAX).collect().await.map_err(later)?;
    Ok((head.status.as_u16(), head.headers, body.trailers().cloned()))
}

/// Polls the connection until the exchange has ended.
async fn beside<E>(
    connection: impl Future<Output = Result<(), E>>,
    exchange: impl Future<Output = Result<Answer, NotTaken>>,
) -> Result<Answer, NotTaken> {
    let mut exchange = std::pin::pin!(exchange);
    // Biased: an answer counts, even if the connection has ended with it.
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        _ = connection => exchange.await,
    }
}

/// Judges a response. Pure. An unknown answer is never a success.
fn verdict(protocol: Protocol, status: u16, head: &HeaderMap, trailers: Option<&HeaderMap>) -> Result<(), NotTaken> {
    match (protocol, status) {
        (_, 429 | 502 | 503 | 504) => return Err(NotTaken::Later(format!("status {status}"))),
        (Protocol::Http, 200) => return Ok(()),
        (Protocol::Grpc, 200) => {}
        (_, status) => return Err(NotTaken::Refused(format!("status {status}"))),
    }
    // A response without a body has the status in its headers.
    let code = trailers.and_then(|trailers| trailers.get("grpc-status")).or_else(|| head.get("grpc-status"));
    let code = code.and_then(|code| code.to_str().ok()?.parse::<u32>().ok());
    match code {
        Some(0) => Ok(()),
        // The codes that the OTLP specification calls retryable.
        Some(code @ (1 | 4 | 8 | 10 | 11 | 14 | 15)) => Err(NotTaken::Later(format!("gRPC status {code}"))),
        Some(code) => Err(NotTaken::Refused(format!("gRPC status {code}"))),
        None => Err(NotTaken::Refused("an answer without a gRPC status".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_success_is_one() {
        let status = |code: &str| HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())]);
        let none = HeaderMap::new();
        let http = |code| verdict(Protocol::Http, code, &none, None);
        assert_eq!(http(200), Ok(()));
        assert!(matches!(http(503), Err(NotTaken::Later(_))) && matches!(http(429), Err(NotTaken::Later(_))));
        for code in [204, 301, 400, 404, 500] {
            assert!(matches!(http(code), Err(NotTaken::Refused(_))), "{code}");
        }
        let grpc = |code: &str| verdict(Protocol::Grpc, 200, &none, Some(&status(code)));
        assert_eq!(grpc("0"), Ok(()));
        assert_eq!(verdict(Protocol::Grpc, 200, &status("0"), None), Ok(()));
        assert!(matches!(grpc("14"), Err(NotTaken::Later(_))) && matches!(grpc("12"), Err(NotTaken::Refused(_))));
        assert!(matches!(grpc("what"), Err(NotTaken::Refused(_))));
        assert!(matches!(verdict(Protocol::Grpc, 200, &none, None), Err(NotTaken::Refused(_))));
    }

    #[tokio::test]
    async fn a_port_of_the_other_protocol_is_named() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        for (protocol, answer, word) in [
            (Protocol::Grpc, &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], "write `protocol: http`"),
            (Protocol::Http, &b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0"[..], "write `protocol: grpc`"),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let spec = OtlpSpec {
                endpoint: format!("http://127.0.0.1:{port}"),
                host: "127.0.0.1".to_owned(),
                port,
                path: "/v1/traces".to_owned(),
                protocol,
                sample: 1.0,
                timeout: Duration::from_secs(10),
            };
            let server = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut seen = [0; 64];
                let _ = stream.read(&mut seen).await;
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
                stream
            };
            let (sent, _stream) = tokio::join!(send(&spec, b"x"), server);
            let problem = sent.unwrap_err().to_string();
            assert!(problem.contains(word) && !problem.contains("http2 error"), "{problem}");
        }
    }
}
