//! A small HTTP client: one connection for each request, and an answer only if it is complete.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A complete response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The last segment of the `type` of a problem.
    pub fn problem(&self) -> String {
        let problem = self.json();
        let name = problem["type"].as_str().and_then(|name| name.rsplit(['/', ':', '#']).next());
        name.unwrap_or_default().to_owned()
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    /// A complete response.
    Reply(Reply),
    /// No connection, so the request was not sent.
    NotSent,
    /// No complete response: the request may have been executed, or may still be.
    NoAnswer,
}

/// Sends a request to 127.0.0.1.
pub async fn ask(port: u16, method: &str, path: &str, body: &[u8], patience: Duration) -> Outcome {
    let exchange = async {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return Outcome::NotSent };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\
             content-type: application/octet-stream\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let sent = async {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body).await
        };
        // A server that refuses a body may still have responded.
        let _ = sent.await;
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer).await;
        let _ = ended;
        whole(&answer).map_or(Outcome::NoAnswer, Outcome::Reply)
    };
    tokio::time::timeout(patience, exchange).await.unwrap_or(Outcome::NoAnswer)
}

/// The response, if the bytes are complete.
fn whole(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body = &bytes[end + 4..];
    (length.unwrap_or(0) == body.len()).then(|| Reply { status, body: body.to_vec() })
}

#[test]
fn an_answer_that_breaks_off_is_none() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    let reply = whole(text).expect("a whole answer");
    assert_eq!((reply.status, &reply.body[..]), (200, &b"ab"[..]));
    assert!((0..text.len()).all(|end| whole(&text[..end]).is_none()));
    assert_eq!(whole(b"HTTP/1.1 204 No Content\r\n\r\n").map(|reply| reply.status), Some(204));
}
