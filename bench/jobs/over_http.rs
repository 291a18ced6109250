//! The daemon over HTTP, as clients in any language use it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{BODY, CONSUMERS, Kept, PRODUCERS, Ran, each, gathered, own_cpu, p99};
use crate::daemon::Daemon;
use harness::ports::free_port;

pub(super) async fn run(count: usize, kept: Kept) -> Result<Ran> {
    let mut server = kept.redis().await;
    let port = free_port();
    let jobs = format!("jobs: {{ listen: \"127.0.0.1:{port}\", defaults: {{ ttr: 10m }} }}\n");
    let mut daemon = Daemon::spawn(&server.url(), &jobs)?;
    daemon.ready().await?;
    let before = (server.running().usage().cpu, daemon.process.usage().cpu, own_cpu());
    let began = Instant::now();
    let producer = |_| {
        tokio::spawn(async move {
            let mut client = Client::connect(port).await;
            let mut times = Vec::new();
            let body = "x".repeat(BODY);
            let add = request("POST", "/v1/topics/bench/jobs", &body);
            for _ in 0..count / PRODUCERS {
                let at = Instant::now();
                let (status, answer) = client.ask(&add).await;
                assert_eq!(status, 201, "{}", String::from_utf8_lossy(&answer));
                times.push(at.elapsed());
            }
            times
        })
    };
    let mut ran = Ran::default();
    let times = gathered((0..PRODUCERS).map(producer).collect()).await?;
    let added = times.len();
    ran.add_rate = added as f64 / began.elapsed().as_secs_f64();
    ran.add_p99 = p99(times);

    let began = Instant::now();
    let consumer = |_| {
        tokio::spawn(async move {
            let mut client = Client::connect(port).await;
            let mut times = Vec::new();
            let pop = request("POST", "/v1/topics/bench/pop", "");
            loop {
                let at = Instant::now();
                let (status, answer) = client.ask(&pop).await;
                if status == 204 {
                    return times;
                }
                let answer: Value = serde_json::from_slice(&answer).expect("JSON");
                let job = &answer["jobs"][0];
                let id = job["id"].as_str().expect("an id");
                let token = job["token"].as_str().expect("a token");
                let finish = request("PUT", &format!("/v1/jobs/{id}/finish?token={token}"), "");
                assert_eq!(client.ask(&finish).await.0, 204, "finish");
                times.push(at.elapsed());
            }
        })
    };
    let times = gathered((0..CONSUMERS).map(consumer).collect()).await?;
    ran.take_rate = times.len() as f64 / began.elapsed().as_secs_f64();
    ensure!(times.len() == added, "{} of {added} jobs were taken", times.len());
    ran.take_p99 = p99(times);
    ran.server_us = each(server.running().usage().cpu, before.0, added);
    ran.daemon_us = Some(each(daemon.process.usage().cpu, before.1, added));
    ran.client_us = each(own_cpu(), before.2, added);
    daemon.stop().await;
    Ok(ran)
}

/// Builds a request; with a body, one that adds a job with this body.
fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let media_type = if body.is_empty() { "" } else { "content-type: text/plain\r\n" };
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{media_type}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A persistent connection.
struct Client(BufReader<TcpStream>);

impl Client {
    async fn connect(port: u16) -> Client {
        let connecting = tokio::time::timeout(Duration::from_secs(10), TcpStream::connect(("127.0.0.1", port)));
        let stream = connecting.await.context("connect").and_then(|stream| stream.context("connect")).expect("connect");
        stream.set_nodelay(true).expect("set TCP_NODELAY");
        Client(BufReader::new(stream))
    }

    /// Sends a request; returns the status and the body of the response.
    async fn ask(&mut self, request: &[u8]) -> (u16, Vec<u8>) {
        self.0.get_mut().write_all(request).await.expect("write");
        let mut status = 0;
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            self.0.read_line(&mut line).await.expect("read");
            let line = line.trim_end();
            assert!(!line.is_empty() || status != 0, "the connection ended");
            match line.split_once(' ') {
                None => break,
                Some(("HTTP/1.1", rest)) => status = rest[..3].parse().expect("a status"),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length:") => {
                    length = value.parse().expect("a length");
                }
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.expect("read");
        (status, body)
    }
}
