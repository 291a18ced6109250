//! Servers of HTTP: receivers of webhooks, and what behaves as SQS. Each answers the first request of a connection with the attack.

use super::{Hostile, Peer, withstand};

/// A server that reads a request, answers it with these bytes, and floods with others.
fn floods_after(answer: &'static [u8], rest: &'static [u8]) -> Hostile {
    Hostile::serve(move |peer| {
        request(peer)?;
        peer.say(answer)?;
        peer.flood(rest)
    })
}

/// Reads the head of a request and its body.
fn request(peer: &mut Peer) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(peer.read::<1>()?);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    peer.read_many(length.and_then(|length| length.parse().ok()).unwrap_or(0)).map(|_| ())
}

/// The attacks: a name, the answer, and what follows it without end.
const ATTACKS: [(&str, &[u8], &[u8]); 5] = [
    ("100 Continue", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ("fields", b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    ("a field", b"HTTP/1.1 200 OK\r\nx: ", &[b'a'; 1024]),
    ("a body of success", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    ("a body of failure", b"HTTP/1.1 503 Busy\r\ncontent-length: 1099511627776\r\n\r\n", &[b'a'; 1024]),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_without_end_is_not_read_without_end() {
    for (what, answer, rest) in ATTACKS {
        let hostile = floods_after(answer, rest);
        let sink = format!("http: {{ url: 'http://127.0.0.1:{}/', timeout: 5s }}", hostile.port);
        withstand(&format!("a webhook: {what} without end"), &hostile, &sink).await;
    }
}

#[cfg(feature = "aws")]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_sqs_without_end_is_not_read_without_end() {
    let credentials = harness::sqs::credentials();
    for (what, answer, rest) in ATTACKS {
        let hostile = floods_after(answer, rest);
        let sink = format!(
            "sqs: {{ queue_url: 'http://127.0.0.1:{}/1/q', region: eu-west-1, credentials_file: '{}', timeout: 5s }}",
            hostile.port,
            credentials.path().display()
        );
        withstand(&format!("SQS: {what} without end"), &hostile, &sink).await;
    }
}
