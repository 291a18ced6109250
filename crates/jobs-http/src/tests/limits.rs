//! What is bounded: bodies, heads, connections, slow clients, junk. And who may do what.

use std::io::Write as _;
use std::time::Duration;

use brokers::Stopwatch;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::{Client, World};
use delaybridge_http_server::testing::ODD_HEADS;
use delaybridge_jobs::{JobSettings, TopicSettings};
use delaybridge_link::test_server::eventually;

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
    client.raw(b"POST /v1/topics/a/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n").await;
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
        (b"GET /%00%ff/..//v1 HTTP/1.1\r\nhost: localhost\r\n\r\n", Some(404)),
        (b"BREW /v1/topics HTTP/1.1\r\nhost: localhost\r\n\r\n", Some(405)),
        (b"POST /v1/topics/%ff/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}", Some(400)),
        (b"POST /v1/topics/a/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n", Some(400)),
        (
            b"POST /v1/topics/a/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
            None,
        ),
        (b"GET http://localhost/v1/topics?a=%zz&&=&b HTTP/1.1\r\nhost: localhost\r\n\r\n", Some(400)),
        (b"GET http://other/v1/topics?a=%zz&&=&b HTTP/1.1\r\nhost: localhost\r\n\r\n", Some(403)),
        (b"HEAD /v1/topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", None),
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

/// A few kilobytes that are four megabytes of the smallest values. The memory that they take is measured on a daemon, in
/// `tests/it/fuzz/bodies.rs`: other tests run in this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_bodies_of_many_values_are_judged_and_kept_as_sent() {
    let most = TopicSettings { max_body: 8 << 20, ..TopicSettings::default() };
    let settings = JobSettings { topics: [("large".parse().unwrap(), most)].into(), ..JobSettings::default() };
    let world = World::with(|_| {}, settings).await;
    let values = "[0],".repeat((4 << 20) / 4 - 16);
    let rows = [
        ("POST", "/v1/topics/large/jobs", format!(r#"{{"body":[{values}0]}}"#), 201),
        ("POST", "/v1/topics/large/jobs", format!(r#"{{"bdoy":[{values}0]}}"#), 400),
        ("POST", "/v1/topics/large/jobs/batch", format!(r#"{{"jobs":[{values}0]}}"#), 400),
        ("POST", "/v1/topics/large/dead/purge", format!(r#"{{"ids":[{values}0]}}"#), 400),
        ("PUT", "/v1/topics/large/limits", format!(r#"{{"ttr_ms":[{values}0]}}"#), 400),
        ("PUT", "/v1/jobs/large~a/finish", format!(r#"{{"token":[{values}0]}}"#), 400),
        ("PUT", "/api/n/q/bulk", format!("[{values}0]"), 400),
        ("POST", "/push", format!(r#"{{"id":[{values}0]}}"#), 200),
    ];
    for (method, path, body, status) in rows {
        let body = packed(body.as_bytes());
        assert!(body.len() < 10_000, "{} bytes", body.len());
        let sent = (0..2).map(|_| async {
            let gzip = [JSON, ("content-encoding", "gzip")];
            world.client().await.ask(method, path, &gzip, &body).await.status
        });
        let statuses = futures_util::future::join_all(sent).await;
        assert!(statuses.iter().all(|got| *got == status || *got == 429), "{path}: {statuses:?}");
    }
    let popped = world.ask("POST", "/v1/topics/large/pop", "").await.json();
    assert_eq!(popped["jobs"][0]["body"].as_str().unwrap(), format!("[{values}0]"), "the bytes that were sent");
}

#[tokio::test]
async fn the_oldest_connection_without_a_request_makes_room() {
    let world = World::with(|spec| spec.max_connections = 2, JobSettings::default()).await;
    // One that says nothing, one that says half of it.
    let mut silent = world.client().await;
    let mut half = world.client().await;
    half.raw(b"GET /v1/topics HTTP/1.1\r\nhost: local").await;
    world.until_connected(2).await;
    let mut served = Vec::new();
    for closed in [&mut silent, &mut half] {
        let mut client = world.client().await;
        let watch = Stopwatch::start();
        assert_eq!(client.ask("GET", "/v1/topics", &[], b"").await.status, 200);
        assert!(closed.status().await.is_none(), "it is closed");
        watch.assert_within(Duration::from_secs(5), "the place of a silent connection");
        // It stays: the next one needs the place of the other.
        served.push(client);
    }
    drop(served);
    world.until_connected(0).await;

    // Requests are never cut off: who comes then waits.
    let mut one = world.client().await;
    let mut two = world.client().await;
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

#[tokio::test]
async fn bodies_that_are_announced_and_do_not_come_keep_nobody_out() {
    let world = World::with(|spec| spec.max_body = 60 << 20, JobSettings::default()).await;
    let mut announced = Vec::new();
    for _ in 0..8 {
        let mut client = world.client().await;
        let head =
            format!("POST /v1/topics/a/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", 60 << 20);
        client.raw(head.as_bytes()).await;
        client.raw(b"{").await;
        announced.push(client);
    }
    let body = format!(r#"{{"body":"{}"}}"#, "x".repeat(500_000));
    assert_eq!(world.add("a", &body).await.status, 201);
}

#[tokio::test]
async fn a_token_makes_only_so_many_topics() {
    let dir = tempfile::tempdir().unwrap();
    let file = tokens(&dir, "shop");
    let bounds = |spec: &mut delaybridge_model::ApiSpec| {
        spec.tokens_file = Some(file.clone());
        spec.max_topics_per_token = Some(3);
    };
    let settings = JobSettings { max_topics: Some(6), ..JobSettings::default() };
    let world = World::with(bounds, settings).await;
    let add = async |topic: &str| {
        let path = format!("/v1/topics/{topic}/jobs");
        let headers = [JSON, ("authorization", "Bearer geheim")];
        world.client().await.ask("POST", &path, &headers, br#"{"body":1}"#).await
    };
    for topic in ["eu.a", "eu.b", "orders"] {
        assert_eq!(add(topic).await.status, 201, "{topic}");
    }
    let (status, kind, detail) = add("eu.c").await.problem();
    assert!((status, kind.as_str()) == (429, "too-many") && detail.contains("max_topics_per_token"), "{detail}");
    assert_eq!(add("eu.a").await.status, 201, "those that are there may be used");
    let pause = [("authorization", "Bearer geheim")];
    let made = world.client().await.ask("PUT", "/v1/topics/audit/pause", &pause, b"").await;
    assert_eq!(made.problem().0, 429);
    // All callers together, whoever they are.
    for topic in ["x1", "x2", "x3"] {
        world.add_directly(topic).await;
    }
    let full = world.queue.add(&"x4".parse().unwrap(), vec![delaybridge_jobs::NewJob::new("x")]).await.unwrap_err();
    assert!(full.to_string().contains("6 topics"), "{full}");
    assert_eq!(world.queue.topics(None, 100).await.unwrap().len(), 6);
}

#[tokio::test]
async fn a_caller_may_ask_so_often() {
    let world = World::with(
        |spec| spec.max_rate = Some(delaybridge_model::RequestRate::per_second(5.0)),
        JobSettings::default(),
    )
    .await;
    let mut client = world.client().await;
    // A slow machine may ask more than five times before it is refused, because some of the right has come back.
    let mut taken = 0;
    let refused = loop {
        let answer = client.ask("GET", "/v1/topics", &[], b"").await;
        if answer.status != 200 {
            break answer;
        }
        taken += 1;
        assert!(taken < 1_000, "never refused");
    };
    assert!(taken >= 5, "refused after {taken}");
    assert_eq!((refused.problem().1.as_str(), refused.headers["retry-after"].as_str()), ("too-many", "1"));
    let again = async || client.ask("GET", "/v1/topics", &[], b"").await.status == 200;
    eventually("the caller to be answered again", again).await;
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
        let read = async || ask("geheim", "GET", "/v1/topics/audit", "").await.status == expected;
        eventually("the tokens file to be read again", read).await;
    };
    until(401).await;
    tokens(&dir, "again");
    until(200).await;
    std::fs::write(&file, "tokens: [").unwrap();
    // The age of the tokens grows from the look on that could not read them.
    let met = async || {
        let metrics = world.events.metrics().render().unwrap();
        let age = metrics.lines().find_map(|line| line.strip_prefix("delaybridge_file_age_seconds{")?.split_once("} "));
        age.is_some_and(|(_, age)| age.parse::<f64>().unwrap() > 0.5)
    };
    eventually("the broken file to be met", met).await;
    until(200).await;
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_reach_a_server_without_tokens() {
    let world = World::start().await;
    world.add("shop.orders", r#"{"body":"secret"}"#).await;
    let pages: [&[(&str, &str)]; 7] = [
        &[("content-type", "text/plain"), ("origin", "http://evil.example")],
        // An image, and what a page does whose name was pointed here.
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
        &[("sec-fetch-site", "same-site")],
        &[("host", "evil.example:7777")],
        &[("host", "evil.example"), ("sec-fetch-site", "same-origin")],
        // Somebody behind a proxy on this machine.
        &[("x-forwarded-for", "10.0.0.7")],
        &[("forwarded", "for=10.0.0.7")],
    ];
    let requests = [
        ("GET", "/api/shop/orders?ttr=1"),
        ("GET", "/api/shop/orders/peek"),
        ("GET", "/v1/topics"),
        ("GET", "/v1/topics/shop.orders/jobs"),
        ("POST", "/v1/topics/shop.orders/pop"),
        ("POST", "/v1/topics/shop.orders/jobs"),
        ("GET", "/pop"),
        ("GET", "/info"),
        ("POST", "/token/shop?description=x"),
    ];
    for headers in pages {
        for (method, path) in requests {
            let answer = world.client().await.ask(method, path, headers, br#"{"body":1,"topic":"shop.orders"}"#).await;
            // ouqiang's clients get 200 and a code; lmstfy's know no 403.
            let refused = match path {
                "/pop" => answer.json()["code"] == 1,
                _ => matches!(answer.status, 401 | 403),
            };
            assert!(refused && !answer.text().contains("secret"), "{method} {path} {headers:?}: {}", answer.text());
        }
    }
    assert_eq!(world.sizes("shop.orders").await, [0, 1, 0, 0]);
    // What a person types is from no page.
    let typed = [("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")];
    assert_eq!(world.client().await.ask("GET", "/v1/topics", &typed, b"").await.status, 200);
}

/// The address of lmstfy's administrators needs no token on this machine: pages and proxies are not of it.
#[tokio::test]
async fn a_page_in_a_browser_makes_no_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let file = tokens(&dir, "shop");
    let admin = |spec: &mut delaybridge_model::ApiSpec| {
        spec.tokens_file = Some(file);
        spec.faces = vec![delaybridge_model::Face::LmstfyAdmin];
    };
    let world = World::with(admin, JobSettings::default()).await;
    let make = async |headers: &[(&str, &str)]| {
        world.client().await.ask("POST", "/token/ns?description=x", headers, b"").await.status
    };
    let pages: [&[(&str, &str)]; 4] = [
        &[("origin", "http://evil.example")],
        &[("sec-fetch-site", "cross-site")],
        &[("host", "evil.example")],
        &[("x-real-ip", "10.0.0.7")],
    ];
    for headers in pages {
        assert_eq!(make(headers).await, 401, "{headers:?}");
    }
    assert_eq!(make(&[]).await, 201);
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

#[tokio::test]
async fn only_a_program_of_this_machine_is_let_in_without_a_token() {
    let world = World::start().await;
    world.add("t", r#"{"body":"x"}"#).await;
    for head in ODD_HEADS {
        let looks = head.is_let_in(world.address, "GET", "/v1/topics/t", "").await;
        let adds = head.is_let_in(world.address, "POST", "/v1/topics/t/jobs", "x").await;
        assert_eq!((looks, adds), (head.is_program, head.is_program), "{}", head.text());
    }
}
