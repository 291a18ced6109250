//! Several Redis servers in one daemon: the loss of one delays only its own queues.

use std::time::Duration;

use redis::AsyncCommands;

use harness::daemon::{ConfigFile, cli};
use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Element, Layout, Oracle, RedisServer, RedissonQueue, eventually};

const PATIENCE: Duration = Duration::from_secs(60);
/// Lateness that a busy machine can cause, in ms. A queue that waited for the other Redis would be later.
const NOT_LATE_MS: i64 = 2_000;

/// A configuration with two queues in each of two Redis servers, and a stream in a third.
fn yaml(orders: &RedisServer, mails: &RedisServer, done: &RedisServer) -> String {
    let redis = |server: &RedisServer| format!("{{ url: {}, command_timeout: 3s }}", server.url());
    let queue = |name: &str, redis: &str| {
        format!("  {name}: {{ source: {{ redis: {redis}, redisson: {{ name: {name} }} }}, to: [{{ sink: done }}] }}\n")
    };
    let queues: String = [("o-1", "orders"), ("o-2", "orders"), ("m-1", "mails"), ("m-2", "mails")]
        .map(|(name, redis)| queue(name, redis))
        .concat();
    format!(
        "redis: {{ orders: {}, mails: {} }}\nsinks: {{ done: {{ redis: {{ url: {}, stream: done }} }} }}\nqueues:\n{queues}",
        redis(orders),
        redis(mails),
        done.url()
    )
}

/// Offers elements to one queue that fall due one after the other, from now on.
async fn offer(server: &RedisServer, name: &str, count: i64, [first_ms, apart_ms]: [i64; 2]) -> Vec<Element> {
    let queue = RedissonQueue::new(name);
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let element = |n| Element::new(Layout::New, now + first_ms + n * apart_ms, format!("{name} {n}"));
    let elements: Vec<_> = (0..count).map(element).collect();
    queue.offer_bulk(&mut redis, &elements).await;
    elements
}

#[tokio::test]
async fn one_that_is_killed_or_frozen_holds_up_its_own_queues_only() {
    let (orders, mut mails, done) = tokio::join!(RedisServer::start(), RedisServer::start(), RedisServer::start());
    let mut daemon = Daemon::start(&yaml(&orders, &mails, &done)).await;
    daemon.expect_log("cannot reach Redis");
    let mut oracle = Oracle::new();
    for name in ["m-1", "m-2"] {
        oracle.offered(&offer(&mails, name, 20, [300, 1]).await);
    }
    let mut stream = done.client().await;
    let has = async |count: usize| {
        eventually("elements to arrive", PATIENCE, async || match stream.clone().xlen::<_, usize>("done").await {
            Ok(length) if length >= count => Ok(()),
            other => Err(format!("{other:?} of {count}")),
        })
        .await;
    };
    has(40).await;

    for kill in [false, true] {
        if kill {
            mails.kill()
        } else {
            mails.pause()
        }
        let before = oracle.count();
        for name in ["o-1", "o-2"] {
            oracle.offered(&offer(&orders, name, 160, [300, 50]).await);
        }
        has(before + 320).await;
        // A frozen server is detected when a heartbeat has had no answer for the time-out of a command.
        eventually("the other Redis to be missed", PATIENCE, async || {
            let answer = daemon.get("/readyz").await.map_err(|error| format!("{error:?}"))?;
            let missed = answer.status == 503 && answer.body.contains("mails");
            if missed { Ok(()) } else { Err(answer.body) }
        })
        .await;
        assert_eq!(daemon.metric("delaybridge_redis_up{redis=\"mails\"}").await, 0.0);
        assert_eq!(daemon.metric("delaybridge_redis_up{redis=\"orders\"}").await, 1.0);
        if kill {
            mails.boot().await.expect("it starts again")
        } else {
            mails.resume()
        }
        daemon.wait_ready().await;
    }
    for name in ["m-1", "m-2"] {
        oracle.offered(&offer(&mails, name, 20, [300, 1]).await);
    }
    has(oracle.count()).await;
    let delivered = read_stream(&mut stream, "done").await;
    oracle.judge(&delivered).assert_complete(0);
    let of_orders = delivered.iter().filter(|delivery| delivery.queue.as_deref().is_some_and(|id| id.starts_with('o')));
    let late = of_orders.filter_map(|delivery| Some(delivery.arrived_ms? - delivery.due_ms?)).max();
    println!("while the other Redis was away: late at most {late:?} ms");
    assert!(late.is_some_and(|late| late < NOT_LATE_MS), "{late:?}");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn commands_find_each_queue_in_its_redis() {
    let (orders, mut mails, done) = tokio::join!(RedisServer::start(), RedisServer::start(), RedisServer::start());
    let config = ConfigFile::new(&yaml(&orders, &mails, &done));
    offer(&orders, "o-1", 3, [3_600_000, 3_600_000]).await;
    offer(&mails, "m-2", 5, [3_600_000, 3_600_000]).await;
    let shown = |arguments: &[&str]| String::from_utf8_lossy(&cli(&config, arguments).stdout).into_owned();
    let queues = shown(&["queues", "--output", "json"]);
    assert!(queues.contains("\"scheduled\":3") || queues.contains("\"scheduled\": 3"), "{queues}");
    assert!(queues.contains("\"scheduled\":5") || queues.contains("\"scheduled\": 5"), "{queues}");
    assert!(shown(&["peek", "m-2", "--output", "json"]).contains("m-2 4"));
    let live = cli(&config, &["check", "--live"]);
    assert!(live.status.success(), "{}", String::from_utf8_lossy(&live.stdout));
    let rights = shown(&["acl"]);
    let of = |port: u16| rights.contains(&port.to_string());
    assert!(of(orders.port()) && of(mails.port()), "{rights}");

    mails.kill();
    let queues = shown(&["queues", "--output", "json"]);
    assert!(queues.contains("o-1") && queues.contains("connection was refused"), "{queues}");
}

#[test]
fn what_names_no_redis_is_refused_in_words() {
    let check = |rest: &str, words: &str| {
        let yaml = format!("redis: {{ orders: {{ url: 'redis://a' }}, mails: {{ url: 'redis://b' }} }}\n{rest}");
        let output = cli(&ConfigFile::new(&yaml), &["check"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && said.contains(words), "{words}: {said}");
    };
    let queue = |name: &str, source: &str| {
        format!("  {name}: {{ source: {{ {source}redisson: {{ name: {name} }} }}, to: [{{ sink: s }}] }}\n")
    };
    let with = |queues: &[String], sink: &str| format!("sinks: {{ s: {sink} }}\nqueues:\n{}", queues.concat());
    check(&with(&[queue("q", "")], "{ stdout: {} }"), "does not say in which Redis it is");
    check(&with(&[queue("q", "redis: order, ")], "{ stdout: {} }"), "did you mean `orders`?");
    let both = [queue("q", "redis: orders, "), queue("r", "redis: mails, ")];
    check(&with(&both, "{ redis: { list: out } }"), "has no server of its own");
    check(
        &format!("jobs: {{}}\n{}", with(&[queue("q", "redis: mails, ")], "{ stdout: {} }")),
        "the job queue does not say",
    );
}
