//! A changed configuration while the daemon runs: differences are applied, unchanged parts are not interrupted, and
//! errors change nothing.

mod long;

use std::collections::BTreeSet;
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Element, Layout, Oracle, RedisServer, RedissonQueue, ServerOptions, eventually};

const PATIENCE: Duration = Duration::from_secs(20);
const OUT: &str = "out";
const REPEATS: &str = "delaybridge_possible_duplicates_total";

/// A queue of a configuration; `rest` has further keys.
fn queue(id: &str, sink: &str, rest: &str) -> String {
    format!("  {id}: {{ source: {{ redisson: {{ name: {id} }} }}, to: [{{ sink: {sink}, stream: {OUT} }}]{rest} }}\n")
}

/// Elements with these numbers, due one after the other from `first_ms` on.
fn elements(first_ms: i64, every_ms: i64, numbers: std::ops::Range<i64>) -> Vec<Element> {
    numbers
        .clone()
        .map(|n| Element::new(Layout::New, first_ms + (n - numbers.start) * every_ms, n.to_string()))
        .collect()
}

async fn connections(redis: &mut MultiplexedConnection, user: &str) -> BTreeSet<String> {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    let of_user = |line: &&str| line.split(' ').any(|field| field == format!("user={user}"));
    clients.lines().filter(of_user).filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn user_of(daemon: &Daemon) -> String {
    let text = std::fs::read_to_string(daemon.file()).unwrap();
    let (_, login) = text.split_once("redis://").expect("a URL");
    login.split(':').next().unwrap().to_owned()
}

async fn delivered(redis: &mut MultiplexedConnection, count: usize) {
    eventually(&format!("{count} deliveries"), PATIENCE, async || {
        match redis.clone().xlen::<_, usize>(OUT).await.map_err(|e| e.to_string())? {
            length if length >= count => Ok(()),
            length => Err(format!("{length}")),
        }
    })
    .await;
}

#[tokio::test]
async fn one_of_twenty_queues_under_load_is_changed_and_nothing_is_lost_and_no_connection_either() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let ids: Vec<String> = (0..20).map(|n| format!("q{n}")).collect();
    let queues: String = ids.iter().map(|id| queue(id, "same", "")).collect();
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: {} }}\nsinks: {{ same: {{ redis: }} }}\nqueues:\n{queues}",
        server.url()
    ))
    .await;
    let user = user_of(&daemon);
    let before = connections(&mut redis, &user).await;
    assert!(!before.is_empty());

    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    for (place, id) in (0..).zip(&ids) {
        let elements = elements(now + 200, 20, place * 1_000..place * 1_000 + 150);
        oracle.offered(&elements);
        RedissonQueue::new(id).offer_bulk(&mut redis, &elements).await;
    }
    let original = std::fs::read_to_string(daemon.file()).unwrap();
    for turn in 1..=6 {
        let changed = queue("q7", "same", &format!(", max_in_flight: {turn}, lease: {}s", 30 + turn));
        daemon.rewrite(|_| original.replace(&queue("q7", "same", ""), &changed));
        assert!(daemon.reload().await);
        // The load goes on between two reloads.
        let so_far: usize = redis.xlen(OUT).await.unwrap();
        delivered(&mut redis, oracle.count().min(so_far + 300)).await;
    }
    delivered(&mut redis, oracle.count()).await;
    oracle.judge(&read_stream(&mut redis, OUT).await).assert_complete(0);
    assert_eq!(daemon.metric(REPEATS).await, 0.0);
    assert_eq!(connections(&mut redis, &user).await, before, "the untouched ones keep their connections");
    assert_eq!(daemon.metric("delaybridge_delivered_messages_total{queue=\"q7\"}").await, 150.0);
    let lines = daemon.log().all();
    let reloaded: Vec<_> =
        lines.iter().filter(|line| line.contains("\"message\":\"configuration reloaded\"")).collect();
    assert_eq!(reloaded.len(), 6);
    assert!(reloaded.iter().all(|line| line.contains("queues changed: q7\"")), "{reloaded:?}");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn what_is_wrong_or_needs_a_restart_is_named_and_changes_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = format!(
        "redis: {{ url: {} }}\nsinks: {{ same: {{ redis: }} }}\nqueues:\n{}",
        server.url(),
        queue("q", "same", "")
    );
    let mut daemon = Daemon::start(&yaml).await;
    let original = std::fs::read_to_string(daemon.file()).unwrap();
    const SUCCESS: &str = "delaybridge_config_last_reload_successful";
    const TIMESTAMP: &str = "delaybridge_config_last_reload_success_timestamp_seconds";
    let loaded = daemon.metric(TIMESTAMP).await;
    assert!(loaded > 1e9 && daemon.metric(SUCCESS).await == 1.0);

    daemon.expect_log("reload refused").expect_log("configuration: ");
    for (from, to, path, words) in [
        ("to: [{ sink: same", "leese: 5s, to: [{ sink: same", "queues.q.leese", "did you mean `lease`"),
        ("queues:", "shutdown_timeout: 21s\nqueues:", "shutdown_timeout", "restart the daemon"),
        ("127.0.0.1:", "localhost:", "redis.url", "restart the daemon"),
        ("queues:", "queues: [", "", "read YAML"),
    ] {
        assert!(original.contains(from), "{original}");
        let lines = daemon.log().count();
        // A valid change in the same file is not applied either.
        let changed = original.replace("stream: out", "stream: elsewhere");
        daemon.rewrite(|_| match from {
            "127.0.0.1:" => changed.replace("@127.0.0.1:", "@localhost:"),
            _ => changed.replace(from, to),
        });
        assert!(!daemon.reload().await, "{to}");
        let log = daemon.log().since(lines).join("\n");
        assert!(log.contains(&format!("\"path\":\"{path}\"")) && log.contains(words), "{log}");
        assert!(log.contains("\"line\":") && log.contains("Run-delaybridge.yaml"), "{log}");
        assert_eq!((daemon.metric(SUCCESS).await, daemon.metric(TIMESTAMP).await), (0.0, loaded));
        let answer = daemon.get("/readyz").await.unwrap();
        assert_eq!(answer.status, 200, "the configuration before runs on: {}", answer.body);
        assert!(answer.body.contains("\"successful\": false") && answer.body.contains(path), "{}", answer.body);
    }
    let now = redis_now_ms(&mut redis).await;
    RedissonQueue::new("q").offer(&mut redis, now, "as before").await;
    delivered(&mut redis, 1).await;

    // Valid again, and unchanged: that is a reload too.
    daemon.rewrite(|_| original.clone());
    assert!(daemon.reload().await);
    assert!(daemon.metric(SUCCESS).await == 1.0 && daemon.metric(TIMESTAMP).await > loaded);
    assert!(daemon.get("/readyz").await.unwrap().body.contains("\"successful\": true"));

    // The same with the command, which finds the daemon and waits.
    let ask = |arguments: &[&str]| {
        let output = daemon.beside(arguments);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    let (code, shown) = ask(&["config", "show"]);
    assert!(code == Some(0) && shown.contains("lease: 30s") && shown.contains("runs with these settings"), "{shown}");
    daemon.rewrite(|_| original.replace("to: [{ sink: same", "lease: 40s, to: [{ sink: same"));
    assert!(ask(&["config", "show"]).1.contains("runs with other settings"));
    let (code, text) = ask(&["reload"]);
    assert!(code == Some(0) && text.contains(&format!("Process {} runs what the file says", daemon.pid())), "{text}");
    assert!(ask(&["config", "show"]).1.contains("runs with these settings"));
    daemon.rewrite(|_| original.replace("queues:", "shutdown_timeout: 21s\nqueues:"));
    let (code, text) = ask(&["reload", "--pid", &daemon.pid().to_string()]);
    assert!(
        code == Some(2) && text.contains("shutdown_timeout: the key differs") && text.contains("refused"),
        "{text}"
    );
    daemon.rewrite(|_| original.replace("queues:", "queues: ["));
    assert_eq!(ask(&["reload"]).0, Some(2), "a mistake is found before the daemon is asked");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn a_removed_queue_leaves_everything_in_redis_and_comes_back_to_it() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let stays = queue("stays", "same", "");
    let goes = queue("goes", "same", ", claim_ahead: 10s");
    let yaml = format!("redis: {{ url: {} }}\nsinks: {{ same: {{ redis: }} }}\nqueues:\n{stays}{goes}", server.url());
    let mut daemon = Daemon::start(&yaml).await;
    let original = std::fs::read_to_string(daemon.file()).unwrap();
    let kept = RedissonQueue::new("stays");
    let gone = RedissonQueue::new("goes");
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    // Held ahead, and so in flight when the queue is removed.
    let held = elements(now + 4_000, 1, 0..50);
    gone.offer_bulk(&mut redis, &held).await;
    oracle.offered(&held);
    eventually("them to be in flight", PATIENCE, async || match gone.in_flight(&redis).await.unwrap() {
        50 => Ok(()),
        count => Err(count.to_string()),
    })
    .await;

    daemon.rewrite(|_| original.replace(&goes, ""));
    assert!(daemon.reload().await);
    assert_eq!(gone.in_flight(&redis).await.unwrap(), 0);
    let leases: usize = redis.zcard(gone.bridge_key("leases")).await.unwrap();
    assert_eq!(leases, 0, "the names of its claims are gone as well");
    let waiting: usize = redis.zcard(gone.bridge_key("retry")).await.unwrap();
    assert_eq!(waiting, 50, "released, uncounted");
    let metrics = daemon.metrics().await;
    assert!(
        !metrics.has("delaybridge_queue_messages{queue=\"goes\"}")
            && !metrics.has("delaybridge_claimed_messages_total{queue=\"goes\"}")
    );
    assert!(metrics.has("delaybridge_queue_messages{queue=\"stays\"}"));
    let presence = [gone.bridge_key("presence"), kept.bridge_key("presence")];
    let listeners: Vec<(String, usize)> =
        redis::cmd("PUBSUB").arg("NUMSUB").arg(&presence).query_async(&mut redis).await.unwrap();
    assert_eq!(
        listeners.iter().map(|(_, count)| *count).collect::<Vec<_>>(),
        [0, 1],
        "other tools see that it is free"
    );

    // Elements offered meanwhile wait too. Then the queue comes back, with another stream.
    let later = elements(now, 1, 100..120);
    gone.offer_bulk(&mut redis, &later).await;
    oracle.offered(&later);
    daemon.rewrite(|_| original.clone());
    assert!(daemon.reload().await);
    delivered(&mut redis, 70).await;
    // It receives announcements again.
    let now = redis_now_ms(&mut redis).await;
    let announced = gone.offer(&mut redis, now + 300, "announced").await;
    oracle.offered([&announced]);
    delivered(&mut redis, 71).await;
    let deliveries = read_stream(&mut redis, OUT).await;
    oracle.judge(&deliveries).assert_complete(0);
    assert!(deliveries.iter().all(|delivery| delivery.attempt == Some(1)), "no attempt was counted");
    assert_eq!(daemon.metric(REPEATS).await, 0.0);
    assert_eq!(daemon.stop().await, 0);
}

/// A rotated password reconnects only that sink; here it is noticed by the watch of the files, with a symbolic link as
/// Kubernetes makes it.
#[tokio::test]
async fn a_rotated_password_is_taken_up_by_the_watch_of_the_files() {
    let server = RedisServer::start().await;
    let target = RedisServer::start_with(ServerOptions::default().acl_user("sink on >first ~* &* +@all")).await;
    let mut redis = server.client().await;
    let mut out = target.client().await;
    let secrets = tempfile::tempdir().unwrap();
    let data = secrets.path().join("..data");
    let publish = |version: &str, password: &str| {
        let folder = secrets.path().join(version);
        std::fs::create_dir(&folder).unwrap();
        harness::write_secret(&folder.join("password"), &format!("{password}\n"));
        let link = secrets.path().join("..data_tmp");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        std::fs::rename(&link, &data).unwrap();
    };
    publish("one", "first");
    let password = data.join("password");
    let yaml = format!(
        "redis: {{ url: {} }}\nreload: {{ watch: true }}\nsinks:\n  same: {{ redis: }}\n  far: {{ redis: {{ url: 'redis://sink@127.0.0.1:{}', password_file: '{}' }} }}\nqueues:\n{}{}",
        server.url(),
        target.port(),
        password.display(),
        queue("near", "same", ""),
        queue("far", "far", ""),
    );
    let mut daemon = Daemon::start(&yaml).await;
    let user = user_of(&daemon);
    let queue = RedissonQueue::new("far");
    let before = connections(&mut redis, &user).await;
    let old = connections(&mut out, "sink").await;
    let now = redis_now_ms(&mut redis).await;
    let elements = elements(now, 10, 0..600);
    queue.offer_bulk(&mut redis, &elements).await;
    let mut oracle = Oracle::new();
    oracle.offered(&elements);

    // Both passwords are valid while the file changes; then only the new one.
    let mut acl = redis::cmd("ACL");
    acl.arg(&["SETUSER", "sink", ">second"]).exec_async(&mut out).await.unwrap();
    publish("two", "second");
    eventually("the new connection", PATIENCE, async || {
        let now = connections(&mut out.clone(), "sink").await;
        if now.is_disjoint(&old) && !now.is_empty() { Ok(()) } else { Err(format!("{now:?}, before {old:?}")) }
    })
    .await;
    delivered(&mut out, oracle.count()).await;
    oracle.judge(&read_stream(&mut out, OUT).await).assert_complete(0);
    assert_eq!(daemon.metric(REPEATS).await, 0.0);
    assert_eq!(connections(&mut redis, &user).await, before);
    assert!(daemon.log().contain("queues changed: far; sinks changed: far"));
    assert_eq!(daemon.stop().await, 0);
}
