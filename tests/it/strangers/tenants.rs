//! Tenants without measure, and strangers without a token: the others are served.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;
use crate::api::start;
use crate::faults::rig::pass;
use harness::{Daemon, RedisServer, Stopwatch};

/// A daemon whose operators need the token of [`WITH_TOKEN`], its port for them, and the directory of the token.
pub(super) async fn for_operators(redis: &RedisServer) -> (Daemon, u16, TempDir) {
    let (dir, path) = file("ann geheim-geheim-geheim admin");
    let port = harness::ports::free_port();
    let yaml = format!(
        "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\n\
         queues: {{ orders: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: out }}] }} }}\n",
        redis.url()
    );
    let listen = format!("127.0.0.1:{port}\", tokens_file: \"{path}");
    (Daemon::start_for_operators_at(&listen, &yaml).await, port, dir)
}

#[tokio::test]
async fn a_token_that_was_made_at_run_time_makes_no_further_ones() {
    let redis = server().await;
    let (_dir, path) = file("root geheim-geheim-geheim admin shop.*");
    let (mut daemon, port) = start(&redis, "", &format!("  tokens_file: '{path}'\n  compat: [lmstfy]\n")).await;
    daemon.expect_log("refused a request");
    let make = "POST /token/shop?description=x";
    let made = ask(port, make, &[("x-token", "geheim-geheim-geheim")], "").await;
    assert_eq!(made.status, 201, "{}", made.body);
    let made: serde_json::Value = serde_json::from_str(&made.body).expect("JSON");
    let made = made["token"].as_str().expect("a token");
    let token = [("x-token", made)];
    let published = ask(port, "PUT /api/shop/q?ttl=9", &token, "x").await;
    assert_eq!(published.status, 201, "{}", published.body);
    let further = ask(port, make, &token, "").await;
    assert!(matches!(further.status, 401 | 403), "it made one: {} {}", further.status, further.body);
    std::fs::write(&path, "other geheim-geheim-geheim admin elsewhere.*\n").expect("write the tokens");
    eventually("what the token made to end with it", Duration::from_secs(20), async || {
        match ask(port, "PUT /api/shop/q?ttl=9", &token, "x").await.status {
            401 => Ok(()),
            status => Err(format!("{status}")),
        }
    })
    .await;
}

/// As many silent connections as there may be, to the operators' port and to that of the job queue.
#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let redis = server().await;
    let (mut daemon, jobs) = start(&redis, "", "").await;
    daemon.expect_log("connections");
    let (mut other, admin, _dir) = for_operators(&redis).await;
    other.expect_log("connections");
    for (port, places, request) in [(jobs, 1024, "GET /v1/topics"), (admin, 128, "GET /v1/queues")] {
        let mut silent = Vec::new();
        for _ in 0..places {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.expect("connect"));
        }
        pass(Duration::from_millis(500)).await;
        let watch = Stopwatch::start();
        assert_eq!(ask(port, request, &[], "").await.status, 200);
        watch.assert_within(Duration::from_secs(5), &format!("{request} beside {} silent connections", silent.len()));
    }
}

#[tokio::test]
async fn wrong_tokens_and_event_streams_of_others_keep_no_token_out() {
    let redis = server().await;
    let (mut daemon, port, _dir) = for_operators(&redis).await;
    daemon.expect_log("refused a request").expect_log("wrong tokens");
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("connect");
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("ask");
        streams.push(stream);
    }
    pass(Duration::from_millis(500)).await;
    let mut with = TcpStream::connect(("127.0.0.1", port)).await.expect("connect");
    let head = format!("GET /v1/events HTTP/1.1\r\nhost: localhost\r\n{}: {}\r\n\r\n", WITH_TOKEN.0, WITH_TOKEN.1);
    with.write_all(head.as_bytes()).await.expect("ask");
    let mut line = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut with, &mut line).await.expect("an answer");
    assert_eq!(std::str::from_utf8(&line), Ok("HTTP/1.1 200"), "a stream for a token beside 16 of strangers");

    for _ in 0..11 {
        let wrong = ask(port, "GET /v1/config", &[("authorization", "Bearer wrong-wrong-wrong-wrong")], "").await;
        assert!(matches!(wrong.status, 401 | 429), "{}", wrong.status);
    }
    let right = ask(port, "GET /v1/config", &[WITH_TOKEN], "").await;
    assert_eq!(right.status, 200, "the right token after eleven wrong ones: {}", right.body);
}

#[tokio::test]
async fn what_reads_all_dead_letters_is_for_those_with_a_token() {
    let redis = server().await;
    let (mut daemon, port, _dir) = for_operators(&redis).await;
    daemon.expect_log("refused a request");
    let path = "GET /v1/queues/orders/dead/count";
    assert_eq!(ask(port, path, &[], "").await.status, 401, "{path} without a token");
    assert_eq!(ask(port, path, &[WITH_TOKEN], "").await.status, 200);
}

#[tokio::test]
async fn a_tenant_makes_only_so_many_topics() {
    let redis = server().await;
    let mut names = redis::pipe();
    for n in 0..1_000 {
        names.zadd("delaybridge:jobs:topics", format!("a.{n}"), 0).ignore();
    }
    names.exec_async(&mut redis.client().await).await.expect("the topics of a tenant");
    let (_dir, path) = file("tenant geheim-geheim-geheim add a.*");
    let (mut daemon, port) = start(&redis, "", &format!("  tokens_file: '{path}'\n")).await;
    daemon.expect_log("refused a request");
    let added = ask(port, "POST /v1/topics/a.more/jobs", &[JSON, WITH_TOKEN], r#"{"body":1}"#).await;
    assert_eq!(added.status, 429, "one topic more than 1,000: {}", added.body);
}

#[tokio::test]
async fn a_tenant_learns_no_names_of_other_topics() {
    let redis = server().await;
    let (_dir, path) = file("root geheim-geheim-geheim admin *\ntenant tenant-tenant-tenant admin b.*");
    let (_daemon, port) = start(&redis, "", &format!("  tokens_file: '{path}'\n")).await;
    for topic in ["a.secret", "b.one", "b.two", "c.secret", "d.secret"] {
        let added = ask(port, &format!("POST /v1/topics/{topic}/jobs"), &[JSON, WITH_TOKEN], r#"{"body":1}"#).await;
        assert_eq!(added.status, 201, "{}", added.body);
    }
    let tenant = [("authorization", "Bearer tenant-tenant-tenant")];
    for (query, topics, next) in
        [("", 2, false), ("limit=1", 1, true), ("limit=1&after=b.one", 1, false), ("after=b.two", 0, false)]
    {
        let page = ask(port, &format!("GET /v1/topics?{query}"), &tenant, "").await;
        assert!(page.status == 200 && !page.body.contains("secret"), "{query}: {}", page.body);
        let page: serde_json::Value = serde_json::from_str(&page.body).expect("JSON");
        assert_eq!(page["topics"].as_array().map(Vec::len), Some(topics), "{query}: {page}");
        assert_eq!(page["next"].is_string(), next, "{query}: {page}");
    }
}

#[tokio::test]
async fn topics_at_rest_cost_less_than_a_script_a_second() {
    const TOPICS: u64 = 600;
    let redis = server().await;
    let (_daemon, port) = start(&redis, "", "").await;
    for n in 0..TOPICS {
        let added = add(port, &format!("t{n}"), r#"{"body":1,"delay":"1d"}"#).await;
        assert_eq!(added.status, 201, "{}", added.body);
    }
    eventually("the topics to be at rest", Duration::from_secs(40), async || {
        let before = redis.calls("evalsha").await;
        pass(Duration::from_secs(2)).await;
        match (redis.calls("evalsha").await - before) / 2 {
            few if few < TOPICS / 10 => Ok(()),
            many => Err(format!("{many} scripts a second for {TOPICS} topics")),
        }
    })
    .await;
}
