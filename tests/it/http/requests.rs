//! The parts of a request: path, headers, body, token and signatures.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Version;

use super::receiver::Received;
use super::*;
use crate::faults::rig::{patient, tolerate_stalls};
use harness::daemon::cli;
use harness::redisson::Element;

/// The signature of a request with the key of 32 equal bytes, by the Standard Webhooks specification.
fn signature(received: &Received, fill: u8) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[fill; 32]);
    let header = |name: &str| received.header(name).unwrap_or_else(|| panic!("no {name}"));
    let mut signed = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).into_bytes();
    signed.extend_from_slice(&received.body);
    format!("v1,{}", STANDARD.encode(hmac::sign(&key, &signed)))
}

fn secret(fill: u8) -> String {
    format!("whsec_{}", STANDARD.encode([fill; 32]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_carries_what_is_known_of_the_element_and_is_signed() {
    for (alpn, version) in [(&["h2", "http/1.1"][..], Version::HTTP_2), (&["http/1.1"], Version::HTTP_11)] {
        let server = RedisServer::start().await;
        let receiver = Receiver::start(alpn).await;
        let token = receiver.dir.path().join("token");
        let secrets = receiver.dir.path().join("secrets");
        harness::write_secret(&token, "a-token\n");
        harness::write_secret(&secrets, &format!("{}\n{}\n", secret(2), secret(1)));
        let http = format!(
            ", bearer_token_file: '{}', signature: {{ secret_file: '{}' }}, headers: {{ content-type: application/json }}",
            token.display(),
            secrets.display()
        );
        let to = "sink: out, path: '/orders/${payload.order}?n=${attempt}', headers: { x-tenant: '${payload.tenant:-none}' }";
        let yaml = yaml(&server, &receiver, &http, ", codec: json").replace("sink: out", to);
        let mut daemon = Daemon::start(&patient(&yaml)).await;
        tolerate_stalls(&mut daemon);
        let mut redis = server.client().await;
        let queue = RedissonQueue::new("q");
        let now = redis_now_ms(&mut redis).await;
        let offered: Vec<Element> =
            (0..200).map(|n| Element::new(queue.layout, now, format!(r#"{{"order":"o/{n}"}}"#))).collect();
        let mut oracle = Oracle::new();
        oracle.offered(&offered);
        queue.offer_bulk(&mut redis, &offered).await;
        judge("signed requests", &daemon, &server, &receiver, &oracle).await;
        for (received, delivery) in receiver.received().iter().zip(receiver.deliveries()) {
            assert_eq!((received.method.as_str(), received.version), ("POST", version));
            assert_eq!((delivery.queue.as_deref(), delivery.attempt, delivery.due_ms), (Some("q"), Some(1), Some(now)));
            let body: serde_json::Value = serde_json::from_slice(&received.body).expect("the payload");
            let order = body["order"].as_str().expect("an order").replace('/', "%2F");
            assert_eq!(received.path, format!("/orders/{order}?n=1"));
            assert_eq!(received.header("idempotency-key"), delivery.id.as_deref());
            assert_eq!(received.header("webhook-id"), delivery.id.as_deref());
            assert_eq!(received.header("x-tenant"), Some("none"));
            assert_eq!(received.header("content-type"), Some("application/json"));
            assert_eq!(received.header("authorization"), Some("Bearer a-token"));
            let sent: i64 = received.header("webhook-timestamp").expect("a time").parse().expect("seconds");
            assert!((0..60).contains(&(sent - now / 1000)), "{sent} and {now}");
            let both = format!("{} {}", signature(received, 2), signature(received, 1));
            assert_eq!(received.header("webhook-signature"), Some(both.as_str()));
        }
        let log = daemon.log().all().join("\n");
        assert!(!log.contains("a-token") && !log.contains("whsec_"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_connects_and_sends_nothing() {
    let server = RedisServer::start().await;
    let mut receiver = Receiver::start(&["h2", "http/1.1"]).await;
    let config = harness::daemon::ConfigFile::new(&yaml(&server, &receiver, "", ""));
    let check = || cli(&config, &["check", "--live"]);
    let well = check();
    let text = String::from_utf8_lossy(&well.stdout).into_owned();
    assert!(well.status.success() && text.contains(&format!("https://localhost:{}", receiver.port)), "{text}");
    assert!(receiver.received().is_empty(), "{:?}", receiver.received());
    receiver.stop().await;
    let gone = check();
    let text = String::from_utf8_lossy(&gone.stdout).into_owned();
    assert!(gone.status.code() == Some(1) && text.contains("not_connected"), "{text}");
}
