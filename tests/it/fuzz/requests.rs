//! Requests to the ports of the job queue and of the probes, as bytes on a connection. Every response is valid HTTP,
//! and the daemon continues.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::api::start;
use harness::RedisServer;

const REQUESTS: [&str; 9] = [
    "POST /v1/topics/mails/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n\
     {\"body\":\"x\",\"delay\":\"5s\",\"a\":{}}",
    "POST /v1/topics/mails/pop?timeout=0s&count=3 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    "GET /v1/topics/mails/jobs/abc HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n",
    "PUT /v1/topics/%2e%2e/jobs/%00?x=%zz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "DELETE /v1/topics/mails/jobs/abc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nExpect: 100-continue\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /livez HTTP/1.0\r\n\r\n",
    "POST /v1/topics/mails/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\n\x1f\x08\0\0\0\0\0\0",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
];

/// Reads the response until the port closes the connection, or until nothing more comes.
async fn answer(port: u16, request: &[u8]) -> Vec<u8> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await.expect("the daemon listens");
    // The server may respond and close the connection before a refused request is completely written.
    let written = connection.write_all(request).await.and(connection.shutdown().await);
    drop(written);
    let mut read = Vec::new();
    let whole = tokio::time::timeout(Duration::from_secs(20), connection.read_to_end(&mut read)).await;
    assert!(whole.is_ok(), "no end of the answer to {:?}", String::from_utf8_lossy(request));
    read
}

#[tokio::test]
async fn any_bytes_are_answered_or_refused_and_the_daemon_goes_on() {
    let redis = RedisServer::start().await;
    let (mut daemon, port) = start(&redis, "", "").await;
    // Some of them have another `Host`.
    daemon.expect_log("refused a request");
    let mut random = seeded("requests");
    let started = Instant::now();
    let mut runs = 0;
    let mut answered = 0;
    while started.elapsed() < time() {
        let request = match random.u8(..6) {
            0 => noise(&mut random, 300),
            _ => {
                let request = random.choice(REQUESTS).unwrap().as_bytes().to_vec();
                damaged(&mut random, request)
            }
        };
        let to = if random.bool() { port } else { daemon.http_port() };
        let read = answer(to, &request).await;
        runs += 1;
        if !read.is_empty() {
            answered += 1;
            let head = String::from_utf8_lossy(&read[..read.len().min(12)]).into_owned();
            let of_http = head.starts_with("HTTP/1.") || read.starts_with(&[0, 0]);
            assert!(of_http, "{head:?} to {:?}", String::from_utf8_lossy(&request));
            assert!(!head.ends_with(" 500"), "{:?}", String::from_utf8_lossy(&request));
        }
    }
    println!("requests: {runs} connections, {answered} of them answered");
    assert!(answered > 0 && daemon.get("/livez").await.is_ok_and(|answer| answer.status == 200));
    let after = daemon.usage();
    assert!(after.resident < 256 << 20, "{} MiB resident", after.resident >> 20);
}
