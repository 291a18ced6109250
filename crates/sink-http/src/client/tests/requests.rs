//! What a receiver gets: method, path, headers, body, token and signatures.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderName, HeaderValue};

use super::super::signature::Signer;
use super::server::{Seen, Server};
use super::*;

fn header<'a>(seen: &'a Seen, name: &str) -> Option<&'a str> {
    seen.headers.get(name).map(|value| value.to_str().unwrap())
}

fn secret(fill: u8) -> String {
    format!("whsec_{}", STANDARD.encode([fill; 32]))
}

#[tokio::test]
async fn a_request_says_all_that_is_known_of_the_element() {
    for alpn in [None, Some("h2")] {
        let server = match alpn {
            None => Server::start().await,
            Some(alpn) => Server::tls(&[alpn]).await,
        };
        let own = (HeaderName::from_static("x-own"), HeaderValue::from_static("fixed"));
        let sink = sink(HttpSpec { method: Method::Put, headers: vec![own], ..server.spec() });
        let headers = vec![
            ("X-Tenant".into(), "a b ü".to_owned()),
            ("ce_id".into(), "7".to_owned()),
            ("delaybridge-dead-code".into(), "http_422".to_owned()),
            ("Idempotency-Key".into(), "another".to_owned()),
            ("content-type".into(), "application/json".to_owned()),
        ];
        let message = Outbound { attempt: 3, headers, ..outbound(0xabcd, to("/a/b?c=d%20e"), "{}") };
        assert_eq!(sink.deliver(message).await, Ok(()));
        let unknown_due = Outbound { due_ms: None, ..outbound(1, to("/"), "") };
        assert_eq!(sink.deliver(unknown_due).await, Ok(()));
        let seen = server.seen();
        let expected = [
            ("delaybridge-id", "000000000000abcd"),
            ("delaybridge-queue", "q"),
            ("delaybridge-due-ms", "1000"),
            ("delaybridge-attempt", "3"),
            ("idempotency-key", "000000000000abcd"),
            ("content-length", "2"),
            ("content-type", "application/json"),
            ("x-own", "fixed"),
            ("ce-id", "7"),
            ("delaybridge-dead-code", "http_422"),
            ("user-agent", concat!("delaybridge/", env!("CARGO_PKG_VERSION"))),
        ];
        for (name, value) in expected {
            assert_eq!(header(&seen[0], name), Some(value), "{name}");
        }
        assert_eq!(seen[0].headers["x-tenant"].as_bytes(), "a b ü".as_bytes());
        assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("PUT", "/a/b?c=d%20e"));
        assert_eq!(seen[0].body, b"{}");
        for name in ["ce_id", "authorization", "webhook-id", "webhook-signature"] {
            assert_eq!(header(&seen[0], name), None);
        }
        assert_eq!(header(&seen[1], "delaybridge-due-ms"), None);
    }
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_the_message_s_fault() {
    let server = Server::start().await;
    let sink = sink(server.spec());
    let rows = [
        ("x-text", "line\r\nbreak: geheim", "another control character"),
        ("x name", "x", "no header of this name"),
        ("Content-Length", "7", "belongs to the connection"),
        ("transfer-encoding", "chunked", "belongs to the connection"),
        ("proxy-authorization", "x", "belongs to the connection"),
    ];
    for (name, value, words) in rows {
        let message = Outbound { headers: vec![(name.into(), value.to_owned())], ..outbound(1, to("/"), "x") };
        let failure = sink.deliver(message).await.unwrap_err();
        assert_failed(&failure, Class::MessagePermanent, "http_bad_header", words);
        assert!(!failure.message.contains("geheim"), "{failure}");
    }
    let failure = failure(&sink, "/a path with geheim").await;
    assert_failed(&failure, Class::MessagePermanent, "http_bad_path", "cannot be sent");
    assert!(!failure.message.contains("geheim"), "{failure}");
    assert!(server.seen().is_empty());
}

#[test]
fn a_signature_is_that_of_the_standard() {
    // The example of the specification's own libraries.
    let signer = Signer::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
    let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[tokio::test]
async fn token_and_secrets_are_read_again_when_they_change() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    let secrets = dir.path().join("secrets");
    let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
    write(&token, "first\n");
    write(&secrets, &secret(1));
    let server = Server::start().await;
    let files = HttpSpec {
        bearer_token_file: Some(token.clone()),
        signature: Some(crate::Signature { secret_file: secrets.clone() }),
        ..server.spec()
    };
    let sink = sink(files);
    let message = || Outbound { now_ms: 1_700_000_000_999, ..outbound(7, to("/"), "body") };
    assert_eq!(sink.deliver(message()).await, Ok(()));
    write(&token, "second");
    write(&secrets, &format!("{}\n{}\n", secret(2), secret(1)));
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(sink.deliver(message()).await, Ok(()));
    let seen = server.seen();
    let signed = |text: &str| Signer::parse(text).unwrap().sign("0000000000000007", "1700000000", b"body");
    for (seen, token, signature) in [
        (&seen[0], "Bearer first", signed(&secret(1))),
        (&seen[1], "Bearer second", format!("{} {}", signed(&secret(2)), signed(&secret(1)))),
    ] {
        assert_eq!(header(seen, "authorization"), Some(token));
        assert_eq!(header(seen, "webhook-id"), Some("0000000000000007"));
        assert_eq!(header(seen, "webhook-timestamp"), Some("1700000000"));
        assert_eq!(header(seen, "webhook-signature"), Some(signature.as_str()));
    }
    std::fs::remove_file(&secrets).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let refused = failure(&sink, "/").await;
    assert_failed(&refused, Class::TargetPermanent, "secret", "read secret_file");
    write(&secrets, "geheim");
    let refused = failure(&sink, "/").await;
    assert_failed(&refused, Class::TargetPermanent, "secret", "begins with `whsec_`");
    assert!(!refused.message.contains("geheim") && !refused.message.contains("second"), "{refused}");
    assert_eq!(sink.check(&[]).await.unwrap_err().code, "secret");
    assert_eq!(server.seen().len(), 2);
}
