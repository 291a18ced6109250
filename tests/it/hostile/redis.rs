//! Servers that speak RESP: as a sink, and as sentinels that answer and publish.

use std::sync::atomic::Ordering;

use super::{Hostile, Peer, endure_with, withstand};

/// Reads a command: its words.
fn command(peer: &mut Peer) -> std::io::Result<Vec<String>> {
    let count = line(peer)?;
    let count = count.strip_prefix('*').and_then(|count| count.parse().ok()).unwrap_or(0);
    let mut words = Vec::new();
    for _ in 0..count {
        let length = line(peer)?;
        let length: usize = length.strip_prefix('$').and_then(|length| length.parse().ok()).unwrap_or(0);
        let word = peer.read_many(length + 2)?;
        words.push(String::from_utf8_lossy(&word[..length]).into_owned());
    }
    Ok(words)
}

fn line(peer: &mut Peer) -> std::io::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n") {
        text.extend(peer.read::<1>()?);
    }
    Ok(String::from_utf8_lossy(&text[..text.len() - 2]).into_owned())
}

/// A server that answers the questions of a new connection like Redis 7, and the first other command with a flood.
fn floods_instead_of(answer: &'static [u8], rest: &'static [u8], first: bool) -> Hostile {
    Hostile::serve(move |peer| {
        loop {
            let words = command(peer)?;
            let name = words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
            if first {
                peer.say(answer)?;
                return peer.flood(rest);
            }
            match name.as_str() {
                "PING" => peer.say(b"+PONG\r\n")?,
                "INFO" => {
                    let text = "redis_version:7.0.15\r\nrun_id:0123456789\r\nredis_mode:standalone\r\nrole:master\r\n\
                                master_replid:0123456789\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n";
                    peer.say(format!("${}\r\n{text}\r\n", text.len()).as_bytes())?;
                }
                "SCRIPT" => peer.say(b"$40\r\n0123456789012345678901234567890123456789\r\n")?,
                "XADD" | "EVALSHA" | "EVAL" | "SET" | "RPUSH" | "LPUSH" => {
                    peer.say(answer)?;
                    return peer.flood(rest);
                }
                _ => peer.say(b"+OK\r\n")?,
            }
        }
    })
}

fn sink(hostile: &Hostile) -> String {
    format!("redis: {{ url: 'redis://127.0.0.1:{}', timeout: 5s }}", hostile.port)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_string_without_end_is_never_held() {
    let hostile = floods_instead_of(b"$2147483647\r\n", &[b'a'; 64 << 10], true);
    withstand("Redis as a sink: a login answered with a string of 2 GiB", &hostile, &to_stream(&hostile)).await;
}

/// The sink, with a destination of its own: that of the queue `ill` names none.
fn to_stream(hostile: &Hostile) -> String {
    sink(hostile).replace("timeout", "stream: out, timeout")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_or_a_line_without_end_is_never_held() {
    let hostile = floods_instead_of(b"*2147483647\r\n", b"*0\r\n", true);
    withstand("Redis as a sink: a login answered with an array of 2^31", &hostile, &to_stream(&hostile)).await;
    let hostile = floods_instead_of(b"+", &[b'a'; 64 << 10], true);
    withstand("Redis as a sink: a login answered with a line without end", &hostile, &to_stream(&hostile)).await;
    let hostile = floods_instead_of(b"", b"*1\r\n", true);
    withstand("Redis as a sink: a login answered with endless nesting", &hostile, &to_stream(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmation_without_end_is_never_held() {
    let hostile = floods_instead_of(b"$2147483647\r\n", &[b'a'; 64 << 10], false);
    withstand("Redis as a sink: an element answered with a string of 2 GiB", &hostile, &to_stream(&hostile)).await;
}

/// A second Redis of the configuration, behind one sentinel.
async fn behind_sentinel(name: &str, hostile: &Hostile) {
    let sink = format!(
        "bad: {{ redis: {{ username: nobody, password: nothing, sentinel: {{ master: m, nodes: ['127.0.0.1:{}'] }}, stream: out, timeout: 5s }} }}",
        hostile.port
    );
    let endured = endure_with(name, hostile, &sink, "").await;
    assert!(endured.peak < super::MOST, "{name}: the daemon held {} MiB more than before", endured.peak >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_without_end_is_never_held() {
    let hostile = floods_instead_of(b"$2147483647\r\n", &[b'a'; 64 << 10], true);
    behind_sentinel("Sentinel: an answer of 2 GiB", &hostile).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_come_faster_than_they_are_handled_are_not_kept() {
    let hostile = Hostile::serve(|peer| {
        loop {
            let words = command(peer)?;
            match words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default().as_str() {
                "PING" => peer.say(b"+PONG\r\n")?,
                "SUBSCRIBE" => {
                    for (place, channel) in words[1..].iter().enumerate() {
                        let length = channel.len();
                        let place = place + 1;
                        let text = format!("*3\r\n$9\r\nsubscribe\r\n${length}\r\n{channel}\r\n:{place}\r\n");
                        peer.say(text.as_bytes())?;
                    }
                    let body = "m 127.0.0.1 1 127.0.0.1 2".repeat(4);
                    let message =
                        format!("*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n${}\r\n{body}\r\n", body.len());
                    return peer.flood(message.as_bytes());
                }
                "SENTINEL" => peer.say(b"*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n")?,
                _ => peer.say(b"+OK\r\n")?,
            }
        }
    });
    behind_sentinel("Sentinel: messages without end", &hostile).await;
    assert!(hostile.sent.load(Ordering::Relaxed) > 0);
}
