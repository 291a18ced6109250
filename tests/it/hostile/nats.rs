//! Servers that speak NATS.

use std::sync::atomic::Ordering;

use super::{Hostile, Peer, withstand};

/// A server up to the login.
fn greet(peer: &mut Peer) -> std::io::Result<()> {
    peer.say(b"INFO {\"headers\":true,\"max_payload\":1048576}\r\n")?;
    let mut said = Vec::new();
    while !said.ends_with(b"PING\r\n") {
        said.extend(peer.read::<1>()?);
    }
    peer.say(b"PONG\r\n")
}

fn sink(hostile: &Hostile) -> String {
    format!("nats: {{ servers: ['127.0.0.1:{}'], subject: orders, timeout: 5s }}", hostile.port)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_pings_is_not_answered_without_end() {
    let hostile = Hostile::serve(|peer| {
        greet(peer)?;
        peer.flood(b"PING\r\n")
    });
    withstand("NATS: PING without end, and nothing is read", &hostile, &sink(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_and_messages_without_end_are_never_held() {
    let hostile = Hostile::serve(|peer| {
        greet(peer)?;
        peer.say(b"INFO ")?;
        peer.flood(&[b'a'; 64 << 10])
    });
    withstand("NATS: a line without end", &hostile, &sink(&hostile)).await;
    let hostile = Hostile::serve(|peer| {
        greet(peer)?;
        peer.say(b"MSG i.1 1 4294967295\r\n")?;
        peer.flood(&[b'a'; 64 << 10])
    });
    withstand("NATS: a message of 4 GiB", &hostile, &sink(&hostile)).await;
    assert!(hostile.sent.load(Ordering::Relaxed) > 0);
}
