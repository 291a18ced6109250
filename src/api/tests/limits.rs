//! What is bounded: bodies, heads, connections, slow clients, junk. And who may do what.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::{Client, World};
use crate::jobs::JobSettings;

const JSON: (&str, &str) = ("content-type", "application/json");

fn packed(body: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(body).unwrap();
    packed.finish().unwrap()
}

#[tokio::test]
async fn bodies_are_bounded_packed_and_unpacked() {
    let world = World::with(|spec| spec.max_body = 10_000, JobSettings::default()).await;
    let large = format!(r#"{{"body":"{}"}}"#, "x".repeat(10_000));
    assert_eq!(world.add("a", &large).await.problem().1, "too-large");
    // Without a length: the bound holds while it is read.
    let mut client = world.client().await;
    client.raw(b"POST /v1/topics/a/jobs HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n").await;
    for _ in 0..20 {
        client.raw(b"3e8\r\n").await;
        client.raw(&[b'x'; 1000]).await;
        client.raw(b"\r\n").await;
    }
    assert_eq!(client.answer().await.unwrap().status, 413);

    let gzip = [JSON, ("content-encoding", "gzip")];
    let small = packed(br#"{"id":"z","body":"zipped"}"#);
    assert_eq!(world.client().await.ask("POST", "/v1/topics/a/jobs", &gzip, &small).await.status, 201);
    let bomb = packed(&vec![b' '; 5 << 20]);
    assert!(bomb.len() < 10_000);
    assert_eq!(world.client().await.ask("POST", "/v1/topics/a/jobs", &gzip, &bomb).await.problem().0, 413);
    let brotli = [JSON, ("content-encoding", "br")];
    assert_eq!(world.client().await.ask("POST", "/v1/topics/a/jobs", &brotli, b"x").await.problem().0, 415);

    let accept = [("accept-encoding", "gzip")];
    let answer = world.client().await.ask("GET", "/v1/openapi.json", &accept, b"").await;
    assert_eq!(answer.headers["content-encoding"], "gzip");
    let mut document = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&answer.body[..]), &mut document).unwrap();
    assert!(document.contains("\"openapi\""));
    assert_eq!(world.sizes("a").await, [0, 1, 0, 0]);
}

#[tokio::test]
async fn junk_gets_an_answer_or_a_closed_connection_and_harms_nobody() {
    let world = World::start().await;
    let long = format!("GET /v1/topics HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(40_000));
    let many = format!("GET /v1/topics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    let rows: Vec<(&[u8], Option<u16>)> = vec![
        (b"\x16\x03\x01\x02\x00junk\r\n\r\n", Some(400)),
        (b"NONSENSE\r\n\r\n", Some(400)),
        (long.as_bytes(), Some(431)),
        (many.as_bytes(), Some(431)),
        (b"GET /%00%ff/..//v1 HTTP/1.1\r\nhost: a\r\n\r\n", Some(404)),
        (b"BREW /v1/topics HTTP/1.1\r\nhost: a\r\n\r\n", Some(405)),
        (b"POST /v1/topics/%ff/jobs HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}", Some(400)),
        (b"POST /v1/topics/a/jobs HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", Some(400)),
        (
            b"POST /v1/topics/a/jobs HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
            None,
        ),
        (b"GET http://other/v1/topics?a=%zz&&=&b HTTP/1.1\r\nhost: a\r\n\r\n", Some(400)),
        (b"HEAD /v1/topics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", None),
        (b"GET /v1/topics HTTP/0.3\r\n\r\n", Some(400)),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
    ];
    for (bytes, expected) in rows {
        let mut client = world.client().await;
        client.raw(bytes).await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        if let Some(expected) = expected {
            let answer = client.answer().await.unwrap_or_else(|| panic!("no answer to {shown}"));
            assert_eq!(answer.status, expected, "{shown}");
        }
    }
    // A sequence of random bytes as paths and bodies, with one seed.
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let letters = b"/v1topicsjbn~%?&={}[]\":,\\.-_ 0aF\x7f";
        let mut text = |most: usize| -> String {
            (0..random.usize(..most)).map(|_| char::from(letters[random.usize(..letters.len())])).collect()
        };
        let path: String = text(60).chars().filter(|letter| letter.is_ascii_graphic()).collect();
        let prefix = ["/", "/v1/", "/v1/topics/", "/v1/jobs/", "/api/", "/token/"][path.len() % 6];
        let body = text(80);
        let method = ["GET", "POST", "PUT", "DELETE"][body.len() % 4];
        let answer = world.client().await.ask(method, &format!("{prefix}{path}"), &[JSON], body.as_bytes()).await;
        assert!(answer.status < 500, "{method} {prefix}{path} {body}: {}", answer.text());
    }
    assert_eq!(world.add("a", r#"{"body":1}"#).await.status, 201);
}

#[tokio::test]
async fn the_oldest_connection_without_a_request_makes_room() {
    let world = World::with(|spec| spec.max_connections = 2, JobSettings::default()).await;
    // One that says nothing, one that says half of it.
    let (mut silent, mut half) = (world.client().await, world.client().await);
    half.raw(b"GET /v1/topics HTTP/1.1\r\nhost: local").await;
    world.until_connected(2).await;
    for _ in 0..2 {
        let began = tokio::time::Instant::now();
        assert_eq!(world.client().await.ask("GET", "/v1/topics", &[], b"").await.status, 200);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    assert!(silent.status().await.is_none() && half.status().await.is_none(), "both are closed");

    // Requests are never cut off: who comes then waits.
    let (mut one, mut two) = (world.client().await, world.client().await);
    for client in [&mut one, &mut two] {
        client.send("POST", "/v1/topics/a/pop?wait=30s", &[], b"").await;
    }
    world.until_connected(2).await;
    let mut three = world.client().await;
    three.send("GET", "/v1/topics", &[], b"").await;
    assert!(tokio::time::timeout(Duration::from_millis(300), three.answer()).await.is_err(), "there was a third place");
    world.add_directly("a").await;
    let popped = tokio::select! { answer = one.answer() => answer, answer = two.answer() => answer };
    assert_eq!(popped.unwrap().status, 200, "a whole answer");
    assert_eq!(three.answer().await.unwrap().status, 200);
}

/// A file with a token that may add to `orders` and one for everything; `printf %s geheim | sha256sum`.
fn tokens(dir: &TempDir, name: &str) -> std::path::PathBuf {
    let path = dir.path().join("tokens.yaml");
    let text = format!(
        "tokens:\n  {name}:\n    sha256: addb0f5e7826c857d7376d1bd9bc33c0c544790a2eac96144a8af22b1298c940\n    grants:\n\
         \x20     - {{ topics: [orders, \"eu.*\"], rights: [add] }}\n      - {{ topics: [audit], rights: [admin] }}\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn a_token_may_do_what_its_grants_say() {
    let dir = tempfile::tempdir().unwrap();
    let file = tokens(&dir, "shop");
    let world = World::with(|spec| spec.tokens_file = Some(file.clone()), JobSettings::default()).await;
    let ask = async |token: &str, method: &str, path: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [JSON, ("authorization", bearer.as_str())];
        let headers = if token.is_empty() { &headers[..1] } else { &headers[..] };
        world.client().await.ask(method, path, headers, body.as_bytes()).await
    };
    let job = r#"{"body":1}"#;
    let none = ask("", "POST", "/v1/topics/orders/jobs", job).await;
    assert_eq!((none.problem().0, none.headers["www-authenticate"].as_str()), (401, "Bearer"));
    let wrong = ask("falsch", "POST", "/v1/topics/orders/jobs", job).await;
    assert_eq!(wrong.problem().0, 401);
    assert!(!wrong.text().contains("falsch"));
    assert_eq!(ask("geheim", "POST", "/v1/topics/orders/jobs", job).await.status, 201);
    assert_eq!(ask("geheim", "POST", "/v1/topics/eu.west/jobs", job).await.status, 201);
    let refused = ask("geheim", "POST", "/v1/topics/orders/pop", "").await.problem();
    assert_eq!(refused.1, "forbidden");
    assert!(refused.2.contains("`shop` has not the right `pop`"), "{refused:?}");
    assert_eq!(ask("geheim", "POST", "/v1/topics/audit,orders/pop", "").await.problem().0, 403);
    assert_eq!(ask("geheim", "PUT", "/v1/jobs/orders~x/finish?token=AAAAAAAAAAAAAAAA", "").await.problem().0, 403);
    assert_eq!(ask("geheim", "GET", "/v1/topics/audit", "").await.status, 200);
    assert_eq!(ask("geheim", "GET", "/v1/topics/orders", "").await.problem().0, 403);
    // Only topics that the token may look at.
    assert_eq!(ask("geheim", "GET", "/v1/topics", "").await.json()["topics"], serde_json::json!([]));
    assert_eq!(ask("", "GET", "/v1/openapi.json", "").await.status, 200);

    // A changed file is read again; a broken one is not.
    std::fs::write(&file, "tokens: {}\n").unwrap();
    let until = async |expected: u16| {
        for _ in 0..100 {
            if ask("geheim", "GET", "/v1/topics/audit", "").await.status == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the tokens file was not read again");
    };
    until(401).await;
    tokens(&dir, "again");
    until(200).await;
    std::fs::write(&file, "tokens: [").unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    until(200).await;
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_reach_a_server_without_tokens() {
    let world = World::start().await;
    let headers = [("content-type", "text/plain"), ("origin", "http://evil.example")];
    let answer = world.client().await.ask("POST", "/v1/topics/a/jobs", &headers, b"x").await;
    assert_eq!(answer.problem().0, 403);
    assert_eq!(world.sizes("a").await, [0; 4]);
}

#[tokio::test]
async fn requests_are_counted_by_endpoint_and_status() {
    let world = World::start().await;
    world.add("a", r#"{"body":1}"#).await;
    world.ask("GET", "/nonsense/of/a/client", "").await;
    let mut client: Client = world.client().await;
    let answer = client.ask("GET", "/v1/topics", &[("x-request-id", "mine-7")], b"").await;
    assert_eq!(answer.headers["x-request-id"], "mine-7");
    let metrics = world.events.metrics().render().unwrap();
    for line in [
        "delaybridge_api_requests_total{route=\"add\",status=\"201\"} 1",
        "delaybridge_api_requests_total{route=\"none\",status=\"404\"} 1",
        "delaybridge_api_request_duration_seconds_count{route=\"topics\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains("nonsense"));
}
