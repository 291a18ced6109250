//! Queues and sinks that a person pauses, for every daemon, over crashes and for a limited time.

use std::time::{Duration, Instant};

use redis::AsyncCommands;
use serde_json::Value;

use super::*;
use crate::faults::rig::{all_in_stream, metric, pass, readyz};
use harness::daemon::{ConfigFile, cli};
use harness::oracle::read_stream;
use harness::{Daemon, ServerOptions};

const PAUSED: &str = "delaybridge_queue_paused{queue=\"q\"}";

/// The exit code and the output of a command.
fn ask(config: &ConfigFile, arguments: &[&str]) -> (i32, String) {
    let output = cli(config, arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

fn well(config: &ConfigFile, arguments: &[&str]) -> String {
    let (code, text) = ask(config, arguments);
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

/// Offers overdue elements, and records them in the oracle.
async fn offer_more(redis: &mut MultiplexedConnection, oracle: &mut Oracle, name: &str, count: usize) {
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(redis).await;
    let offered: Vec<_> = (0..count).map(|n| Element::new(Layout::New, now - 1, format!("{name} {n}"))).collect();
    oracle.offered(&offered);
    queue.offer_bulk(redis, &offered).await;
}

async fn two(yaml: &str) -> [Daemon; 2] {
    [Daemon::start(yaml).await, Daemon::start(yaml).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_stays_paused_for_every_daemon_until_it_is_resumed() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = yaml(&server, &format!("stream: {OUT}, timeout: 3s"), "lease: 8s");
    let (queue, _, mut oracle) = offer_due(&mut redis, 100).await;
    let mut daemons = two(&yaml).await;
    all_in_stream(&mut redis, OUT, &oracle).await;

    let text = well(daemons[0].config(), &["pause", "q", "--why", "a new shop", "--by", "ann"]);
    let told = Instant::now();
    assert_eq!(text, "q: paused until it is resumed\n");
    for daemon in &daemons {
        metric(daemon, PAUSED, |paused| paused == 1.0).await;
    }
    println!("two daemons show the pause after {:?}", told.elapsed());
    offer_more(&mut redis, &mut oracle, "paused", 200).await;
    pass(Duration::from_secs(2)).await;
    assert_eq!(redis.xlen::<_, usize>(OUT).await.unwrap(), 100);
    for daemon in &daemons {
        let body = readyz(daemon, 200, "a new shop").await;
        assert!(body.contains("\"by\": \"ann ("), "{body}");
        assert!(daemon.log().contain("queue paused"), "{:?}", daemon.log().all());
    }
    for line in [&["queues"][..], &["peek", "q", "--limit", "1"]] {
        let text = well(daemons[0].config(), line);
        assert!(text.contains("by ann (") && text.contains("): a new shop; until it is resumed"), "{text}");
    }

    // The pause is in no process.
    daemons.iter_mut().for_each(Daemon::kill);
    let daemons = two(&yaml).await;
    for daemon in &daemons {
        metric(daemon, PAUSED, |paused| paused == 1.0).await;
    }
    offer_more(&mut redis, &mut oracle, "restarted", 50).await;
    pass(Duration::from_secs(2)).await;
    assert_eq!(redis.xlen::<_, usize>(OUT).await.unwrap(), 100);
    let json: Value = serde_json::from_str(&well(daemons[0].config(), &["queues", "--output", "json"])).unwrap();
    assert_eq!(json["queues"][0]["paused"][0]["why"], "a new shop");

    let text = well(daemons[1].config(), &["resume", "q"]);
    assert!(text.starts_with("q: resumed; it was paused by ann (") && text.ends_with("): a new shop\n"), "{text}");
    all_in_stream(&mut redis, OUT, &oracle).await;
    oracle.judge(&read_stream(&mut redis, OUT).await).assert_complete(0);
    for mut daemon in daemons {
        metric(&daemon, PAUSED, |paused| paused == 0.0).await;
        assert!(daemon.log().contain("queue no longer paused"));
        assert_eq!(daemon.stop().await, 0);
    }
    assert_eq!(queue.in_flight(&redis).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_with_an_end_ends_by_itself_and_a_paused_sink_holds_its_queues() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = format!(
        "redis: {{ url: {} }}\n\
         sinks: {{ a: {{ redis: {{}} }}, b: {{ redis: {{}} }} }}\n\
         queues:\n  q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: a, stream: {OUT} }}] }}\n  \
         r: {{ source: {{ redisson: {{ name: r }} }}, to: [{{ sink: b, stream: other }}] }}\n",
        server.url()
    );
    let daemon = Daemon::start(&yaml).await;
    let began = redis_now_ms(&mut redis).await;
    let text = well(daemon.config(), &["pause", "q", "--reason", "a moment", "--for", "3s"]);
    assert!(text.contains("paused until 20"), "{text}");
    let mut oracle = Oracle::new();
    offer_more(&mut redis, &mut oracle, "for a moment", 100).await;
    let arrived = all_in_stream(&mut redis, OUT, &oracle).await;
    oracle.judge(&arrived).assert_complete(0);
    let first = arrived.iter().filter_map(|delivery| delivery.arrived_ms).min().expect("deliveries");
    assert!((3_000..8_000).contains(&(first - began)), "the first one came {} ms after the pause", first - began);
    assert_eq!(well(daemon.config(), &["resume", "q"]), "q: was not paused\n");

    let text = well(daemon.config(), &["pause", "--sink", "a", "--why", "an upgrade", "--by", "bo"]);
    assert_eq!(text, "sink a of q: paused until it is resumed\n");
    metric(&daemon, PAUSED, |paused| paused == 1.0).await;
    assert!(daemon.log().contain("sink paused"), "{:?}", daemon.log().all());
    offer_more(&mut redis, &mut oracle, "for a sink", 100).await;
    let now = redis_now_ms(&mut redis).await;
    RedissonQueue::new("r").offer(&mut redis, now, "the neighbour").await;
    eventually("the neighbour to be delivered", PATIENCE, async || {
        match redis.xlen::<_, usize>("other").await.map_err(|e| e.to_string())? {
            1 => Ok(()),
            n => Err(n.to_string()),
        }
    })
    .await;
    assert_eq!(redis.xlen::<_, usize>(OUT).await.unwrap(), 100);
    assert!(well(daemon.config(), &["check", "--live"]).contains("sink a paused"), "check --live says so");
    // A second command replaces the pause, and says so.
    let text = well(daemon.config(), &["pause", "--sink", "a", "--why", "still", "--by", "bo", "--for", "1h"]);
    assert!(text.contains("it was paused before"), "{text}");
    let text = well(daemon.config(), &["resume", "--sink", "a"]);
    assert!(text.contains("it was paused by bo (") && text.contains("): still"), "{text}");
    oracle.judge(&all_in_stream(&mut redis, OUT, &oracle).await).assert_complete(0);
}

#[tokio::test]
async fn what_cannot_be_paused_is_refused_in_words() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let config = ConfigFile::new(&format!(
        "http: none\n{}",
        yaml(&server, "stream: out", "lease: 20s").replace("q:", "orders:")
    ));
    for (line, words) in [
        (&["pause", "order", "--why", "x"][..], "did you mean `orders`?"),
        (&["resume", "ordrs"], "did you mean `orders`?"),
        (&["pause", "--sink", "outt", "--why", "x"], "did you mean `out`?"),
        (&["pause", "q", "--why", "x"], "`q` is the name in Redis of the queue `orders`"),
        (&["pause", "orders", "--why", " "], "--why takes one line of 1 to 500 characters"),
        (&["pause", "orders", "--why", "two\nlines"], "--why takes one line"),
        (&["pause", "orders", "--why", "x", "--until", "2020-01-01T00:00:00Z"], "the end is over already"),
        (&["pause", "orders", "--why", "x", "--for", "never"], "write 30m, 2h or 1d 12h"),
    ] {
        let (code, text) = ask(&config, line);
        assert!(code == 2 && text.contains(words), "{line:?}: {code}: {text}");
    }
    let keys: Vec<String> = redis.keys("*").await.unwrap();
    assert!(keys.is_empty(), "{keys:?}");
    // Another program's key is left alone.
    let state = RedissonQueue::new("q").bridge_key("state");
    let _: () = redis.set(&state, "mine").await.unwrap();
    let (code, text) = ask(&config, &["pause", "orders", "--why", "x"]);
    assert!(code == 1 && text.contains("holds a string, expected a hash"), "{code}: {text}");
    assert_eq!(redis.get::<_, String>(&state).await.unwrap(), "mine");
}

#[tokio::test]
async fn a_queue_on_a_full_server_can_be_paused() {
    let server = RedisServer::start_with(ServerOptions::default()).await;
    let mut redis = server.client().await;
    let config = ConfigFile::new(&format!("http: none\n{}", yaml(&server, "stream: out", "lease: 20s")));
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).exec_async(&mut redis).await.unwrap();
    assert!(redis.set::<_, _, ()>("a", 1).await.is_err(), "the server is full");
    well(&config, &["pause", "q", "--why", "it is full", "--by", "ann"]);
    let text = well(&config, &["queues"]);
    assert!(text.contains("by ann (") && text.contains("): it is full"), "{text}");
    assert!(well(&config, &["resume", "q"]).contains("resumed"));
}
