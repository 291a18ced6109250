//! Teams that share a server: keys under a prefix of their own, the same queue in several databases, and two prefixes over one
//! queue, which are refused.

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::*;
use harness::daemon::{ConfigFile, Daemon, cli};
use harness::ports::free_port;
use harness::redisson::redis_now_ms;
use harness::{Element, RedissonQueue};

/// The exit code and the output of a command.
fn run(config: &ConfigFile, line: &str) -> (i32, String) {
    let output = cli(config, &line.split(' ').collect::<Vec<_>>());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

fn well(config: &ConfigFile, line: &str) -> String {
    let (code, text) = run(config, line);
    assert_eq!(code, 0, "{line}: {text}");
    text
}

async fn keys(redis: &MultiplexedConnection, pattern: &str) -> Vec<String> {
    let mut found: Vec<String> = redis.clone().keys(pattern).await.expect("keys");
    found.sort_unstable();
    found
}

async fn arrived(redis: &MultiplexedConnection, list: &str, count: usize) {
    eventually("the elements", PATIENCE, async || match redis.clone().llen::<_, usize>(list).await {
        Ok(found) if found == count => Ok(()),
        other => Err(format!("{other:?} of {count} in {list}")),
    })
    .await;
}

/// Waits until there is a key.
async fn there(redis: &MultiplexedConnection, key: &str) {
    eventually("a key", PATIENCE, async || match redis.clone().exists::<_, bool>(key).await {
        Ok(true) => Ok(()),
        other => Err(format!("{key}: {other:?}")),
    })
    .await;
}

/// The daemons and the commands have the rights that `acl` prints, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_with_a_prefix_writes_nothing_under_another_one() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let jobs = free_port();
    let yaml = format!(
        "redis: {{ url: '{}', key_prefix: 'team-a:' }}\njobs: {{ listen: '127.0.0.1:{jobs}' }}\n\
         sinks: {{ out: {{ redis: {{ list: out }} }} }}\nqueues:\n  \
         orders: {{ source: {{ redisson: {{ name: 'team-a:orders' }} }}, to: [{{ sink: out, list: out, duplicates: look }}] }}\n  \
         due: {{ source: {{ zset: {{ key: 'team-a:due', score: ms, body: '${{payload.x}}' }} }}, codec: json, to: [{{ sink: out, list: due }}] }}\n  \
         mails: {{ source: {{ jobs: {{ topic: mails }} }}, to: [{{ sink: out, list: mails }}] }}\n",
        server.url()
    );
    let config = ConfigFile::new(&yaml.replace("redis: { url", "http: none\nredis: { url"));
    let (mut daemon, _admin) = Daemon::start_for_operators(&yaml).await;
    daemon.expect_log("dead letter stored").expect_log("rejected");
    let orders = RedissonQueue::new("team-a:orders");
    let now_ms = redis_now_ms(&mut redis).await;

    orders.offer(&mut redis, now_ms - 1, "1").await;
    redis.zadd::<_, _, _, ()>("team-a:due", r#"{"x":1}"#, now_ms - 1).await.expect("a member");
    redis.zadd::<_, _, _, ()>("team-a:due", "no JSON", now_ms - 1).await.expect("a member");
    // One wakes the queue over the channel, one is taken by a consumer over HTTP.
    assert_eq!(add(jobs, "mails", r#"{"body":"a"}"#).await.status, 201);
    assert_eq!(add(jobs, "taken", r#"{"body":"b"}"#).await.status, 201);
    for list in ["out", "due", "mails"] {
        arrived(&redis, list, 1).await;
    }
    let taken = ask(jobs, "POST /v1/topics/taken/pop", &[JSON], "{}").await;
    assert!(taken.status == 200 && taken.body.contains("taken"), "{} {}", taken.status, taken.body);
    assert_eq!(add(jobs, "later", r#"{"body":"c","delay":"1h"}"#).await.status, 201);
    there(&redis, "team-a:dead:{team-a:due}").await;
    there(&redis, "team-a:fleet").await;
    assert!(!keys(&redis, "team-a:sent:*").await.is_empty(), "a mark of what was written");

    well(&config, "pause orders --why test");
    there(&redis, "team-a:state:{team-a:orders}").await;
    orders.offer(&mut redis, now_ms - 1, "2").await;
    assert!(well(&config, "check --live").contains("paused"));
    well(&config, "resume orders");
    arrived(&redis, "out", 2).await;
    let letters = well(&config, "dead ls due");
    assert!(letters.contains("unreadable") || letters.contains("JSON"), "{letters}");
    assert!(run(&config, "restore orders --apply").1.contains("stop its daemons first"));
    well(&config, "fsck");
    for queue in ["orders", "due", "mails"] {
        well(&config, &format!("recover {queue}"));
    }
    well(&config, "jobs topics");
    // The queue has to have something scheduled.
    orders.offer(&mut redis, now_ms + 3_600_000, "later").await;
    let discovered = well(&config, "discover");
    daemon.stop().await;

    let ours = keys(&redis, "delaybridge:*").await;
    assert_eq!(ours, ["delaybridge:prefix:{team-a:due}", "delaybridge:prefix:{team-a:orders}"]);
    assert!(discovered.contains("key_prefix: \"team-a:\""), "{discovered}");
    let marker: String = redis.get(&ours[0]).await.expect("a marker");
    assert_eq!(marker, "team-a:");
    let outside: Vec<_> = keys(&redis, "*").await.into_iter().filter(|key| !key.starts_with("team-a:")).collect();
    let allowed = |key: &String| {
        ["delaybridge:prefix:", "out", "due", "mails", "redisson_"].iter().any(|own| key.starts_with(own))
    };
    assert!(outside.iter().all(allowed), "{outside:?}");

    // A dead daemon's claim without its lease is found by its key.
    let element = Element::new(orders.layout, now_ms, "3");
    let claim = "team-a:claim:1.00000000000000fe.1.0:d:{team-a:orders}";
    redis.zadd::<_, _, _, ()>(claim, &element.member, now_ms - 1).await.expect("an element");
    let recovered = well(&config, "recover orders");
    assert!(recovered.contains("1 claim"), "{recovered}");
    let mut daemon = Daemon::start(&yaml).await;
    arrived(&redis, "out", 3).await;
    daemon.stop().await;
}

fn one_queue(url: &str, prefix: &str) -> String {
    let prefix = if prefix.is_empty() { String::new() } else { format!(", key_prefix: '{prefix}'") };
    format!(
        "redis: {{ url: '{url}'{prefix} }}\nsinks: {{ out: {{ redis: {{ list: out }} }} }}\n\
         queues: {{ orders: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: out }}] }} }}\n"
    )
}

async fn refused(daemon: &mut Daemon, words: &str) {
    daemon.expect_log("on hold until this is fixed");
    eventually("a refusal", PATIENCE, async || {
        let log = daemon.log().all();
        let said = |line: &String| line.contains("on hold until this is fixed") && line.contains(words);
        if log.iter().any(said) { Ok(()) } else { Err(log.join("\n")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_prefixes_over_one_queue_are_refused_until_the_first_is_drained() {
    // Every daemon may look at the names of the other.
    let server = super::server().await;
    let mut redis = server.client().await;
    let orders = RedissonQueue::new("orders");
    let [of_default, of_team] = ["", "team-a:"].map(|prefix| one_queue(&server.url(), prefix));
    let config_of = |yaml: &str| ConfigFile::new(&format!("http: none\n{yaml}"));
    let [default_config, team_config] = [&of_default, &of_team].map(|yaml| config_of(yaml));
    let now_ms = redis_now_ms(&mut redis).await;

    // The default one is first, and leaves no marker.
    let mut first = Daemon::start(&of_default).await;
    orders.offer(&mut redis, now_ms - 1, "1").await;
    arrived(&redis, "out", 1).await;
    let mut second = Daemon::spawn(&of_team);
    refused(&mut second, "a daemon works under the other prefix").await;
    assert!(keys(&redis, "delaybridge:prefix:*").await.is_empty());
    first.stop().await;
    // It delivers as soon as the other has gone and nothing of it is left.
    orders.offer(&mut redis, now_ms - 1, "2").await;
    arrived(&redis, "out", 2).await;
    assert_eq!(redis.get::<_, String>("delaybridge:prefix:{orders}").await.expect("a marker"), "team-a:");

    // The way back: by the marker.
    let mut first = Daemon::spawn(&of_default);
    refused(&mut first, "`key_prefix: 'team-a:'`, and this configuration has 'delaybridge:'").await;
    for line in ["check --live", "pause orders --why x", "restore orders --apply", "fsck", "recover orders"] {
        let (code, said) = run(&default_config, line);
        assert!(code == 1 && said.contains("key_prefix: 'team-a:'"), "{line}: {code} {said}");
    }
    assert!(well(&default_config, "check").contains("orders"));
    well(&team_config, "fsck");
    second.stop().await;
    redis.xadd::<_, _, _, _, ()>("team-a:dead:{orders}", "*", &[("id", "x")]).await.expect("a dead letter");
    let mut third = Daemon::spawn(&of_default);
    refused(&mut third, "left under the other prefix: team-a:dead:{orders}").await;
    third.stop().await;
    let _: () = redis.del("team-a:dead:{orders}").await.expect("no letter");
    orders.offer(&mut redis, now_ms - 1, "3").await;
    arrived(&redis, "out", 3).await;
    assert!(keys(&redis, "delaybridge:prefix:*").await.is_empty());
    first.stop().await;

    // A pause of the other prefix would be forgotten.
    well(&default_config, "pause orders --why test");
    let mut second = Daemon::spawn(&of_team);
    refused(&mut second, "left under the other prefix: delaybridge:state:{orders}").await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rescue_under_a_prefix_moves_what_is_overdue() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = format!(
        "redis: {{ url: '{}', key_prefix: 'team-a:' }}\nqueues: {{ orders: {{ source: {{ redisson: {{ name: orders, \
         rescue_after: 100ms }} }}, mode: rescue }} }}\n",
        server.url()
    );
    let now_ms = redis_now_ms(&mut redis).await;
    RedissonQueue::new("orders").offer(&mut redis, now_ms - 60_000, "1").await;
    let mut daemon = Daemon::start(&yaml).await;
    daemon.expect_log("would not be delivered").expect_log("no queue delivers");
    arrived(&redis, "orders", 1).await;
    assert_eq!(keys(&redis, "delaybridge:*").await, ["delaybridge:prefix:{orders}"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_rights_on_the_other_prefix_is_told_what_to_do() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let mut team = Daemon::start(&one_queue(&server.url(), "team-a:")).await;
    there(&redis, "delaybridge:prefix:{orders}").await;
    team.stop().await;
    let mut default = Daemon::spawn(&one_queue(&server.url(), ""));
    refused(&mut default, "remove the key delaybridge:prefix:{orders}").await;
    let _: () = redis.del("delaybridge:prefix:{orders}").await.expect("removed");
    let now_ms = redis_now_ms(&mut redis).await;
    RedissonQueue::new("orders").offer(&mut redis, now_ms - 1, "1").await;
    arrived(&redis, "out", 1).await;
    default.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_of_another_database_are_not_those_of_the_queue() {
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let url = |database: u32| server.url().replace("/0", &format!("/{database}"));
    let [zero, one] = [0, 1].map(|database| one_queue(&url(database), ""));
    let [of_zero, of_one] = [&zero, &one].map(|yaml| ConfigFile::new(&format!("http: none\n{yaml}")));
    let daemons = |config: &ConfigFile| -> u64 {
        let found: serde_json::Value = serde_json::from_str(&well(config, "queues --output json")).expect("JSON");
        found["queues"][0]["daemons"].as_u64().unwrap_or_else(|| panic!("{found}"))
    };
    let mut daemon = Daemon::start(&zero).await;
    eventually("the daemon", PATIENCE, async || if daemons(&of_zero) == 1 { Ok(()) } else { Err("none".to_owned()) })
        .await;
    assert_eq!(daemons(&of_one), 0);
    assert!(run(&of_zero, "restore orders --apply").1.contains("stop its daemons first"));
    let (_, said) = run(&of_one, "restore orders --apply");
    assert!(!said.contains("stop its daemons first"), "{said}");

    // One of an earlier version listens to the channel that knows no database.
    let mut older = redis::Client::open(server.url()).expect("a client").get_async_pubsub().await.expect("a channel");
    older.subscribe("delaybridge:presence:{orders}").await.expect("subscribe");
    assert_eq!((daemons(&of_zero), daemons(&of_one)), (2, 1));
    assert!(run(&of_one, "restore orders --apply").1.contains("stop its daemons first"));
    drop(older);

    // An earlier version's tools see this one's daemons, and a pause reaches all of them.
    let mut ask = redis::cmd("PUBSUB");
    ask.arg("NUMSUB").arg("delaybridge:presence:{orders}");
    eventually("only the daemon to listen", PATIENCE, async || {
        let counts: Vec<(String, u64)> = ask.query_async(&mut redis.clone()).await.expect("a count");
        if counts[0].1 == 1 { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    daemon.stop().await;
}
