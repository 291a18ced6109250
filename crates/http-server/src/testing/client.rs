//! A small HTTP client that does only what it is told, also what no client should do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// The answer of the server.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the last word of the problem's type, and its detail.
    pub fn problem(&self) -> (u16, String, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.text());
        let body = self.json();
        assert_eq!(body["status"], self.status);
        let kind = body["type"].as_str().unwrap().rsplit('#').next().unwrap().to_owned();
        (self.status, kind, body["detail"].as_str().unwrap().to_owned())
    }
}

impl Client {
    /// Opens a connection.
    pub async fn connect(address: SocketAddr) -> Client {
        Client { stream: BufReader::new(TcpStream::connect(address).await.unwrap()) }
    }

    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.send(method, path, headers, body).await;
        self.answer().await.expect("an answer")
    }

    /// Sends a request.
    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str("host: localhost\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.raw(head.as_bytes()).await;
        self.raw(body).await;
    }

    /// Sends bytes; that the server closes meanwhile is no failure.
    pub async fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes).await;
    }

    /// Reads one answer; `None` if the connection ends before it begins.
    pub async fn answer(&mut self) -> Option<Answer> {
        timeout(Duration::from_secs(30), self.read()).await.expect("an answer in time")
    }

    /// Reads the status of the next answer, of which nothing more is read; `None` if the server closes the connection.
    pub async fn status(&mut self) -> Option<u16> {
        timeout(Duration::from_secs(30), self.head()).await.expect("an answer in time").map(|(status, _)| status)
    }

    async fn head(&mut self) -> Option<(u16, BTreeMap<String, String>)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: BTreeMap<String, String> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.into()))
            .collect();
        Some((status, headers))
    }

    async fn read(&mut self) -> Option<Answer> {
        let (status, headers) = self.head().await?;
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        Some(Answer { status, headers, body })
    }
}
