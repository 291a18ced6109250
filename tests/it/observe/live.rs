//! A real Prometheus scrapes a real daemon under faults: every panel shows something, every rule is evaluated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::catalogue;
use delaybridge_core::message::{MessageId, Origin};
use delaybridge_ledger::claims::Header;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::Value;

use super::dashboard::queries;
use super::read;
use super::rules::{RULES, assert_metrics_are_clean};
use harness::daemon::{ConfigFile, cli};
use harness::ports::free_port;
use harness::redisson::redis_now_ms;
use harness::{Cut, Daemon, Element, Prometheus, Proxy, RedisServer, RedissonQueue, ServerOptions, eventually};

const PATIENCE: Duration = Duration::from_secs(120);

/// Metrics that this daemon cannot be made to count: their panels show the zero of `or vector(0)`.
const NEVER_SEEN: [&str; 22] = [
    "operator_messages_total",
    "duplicates_avoided_total",
    "lookups_total",
    "slot_migrations_total",
    "queue_stalls_total",
    "stale_acks_total",
    "unknown_acks_total",
    "late_acks_total",
    "stale_drops_total",
    "recovered_messages_total",
    "returned_messages_total",
    "missing_messages_total",
    "panics_total",
    "redisson_unreadable_entries",
    // Its daemon has no file of tokens, and no certificate.
    "file_age_seconds",
    // Its daemon has no inputs.
    "input_messages_total",
    "input_resets_total",
    "input_up",
    "input_lag_messages",
    "input_partition_lag_messages",
    "headers_left_out_total",
    "redis_up{job=~\".*\"} == 0",
];

/// The queues, whose conditions make their elements due, delivered, late, dead, throttled, retried, held, or
/// duplicated.
const QUEUES: [&str; 9] = ["good", "onward", "held", "down", "blocked", "doubled", "late", "seen", "saved"];

fn config(server: &RedisServer, full: &RedisServer, cutting: &Proxy, api: u16) -> String {
    format!(
        "redis: {{ url: \"{}\" }}
sinks:
  out: {{ redis: {{ stream: arrived }} }}
  graves: {{ redis: {{ stream: graves }} }}
  trail: {{ redis: {{ stream: trail }} }}
  wrong: {{ redis: {{ stream: a_string }} }}
  gone: {{ redis: {{ url: \"redis://127.0.0.1:{}/0\", stream: s }} }}
  full: {{ redis: {{ url: \"{}\", stream: s }} }}
  cut: {{ redis: {{ url: \"{}\", stream: twice }} }}
queues:
  good:
    source: {{ redisson: {{ name: good }} }}
    codec: json
    max_rate: 10/s
    to: [{{ sink: out }}]
    dead_letter: {{ stream: {{ max_len: 1, allow_loss: true }} }}
  onward: {{ source: {{ redisson: {{ name: onward }} }}, codec: json, to: [{{ sink: out, when: \"not exists(payload.over)\" }}], on_skipped: drop, dead_letter: {{ sink: graves }}, audit: {{ sink: trail }} }}
  held: {{ source: {{ redisson: {{ name: held }} }}, to: [{{ sink: wrong }}] }}
  down: {{ source: {{ redisson: {{ name: down }} }}, to: [{{ sink: gone }}] }}
  blocked: {{ source: {{ redisson: {{ name: blocked }} }}, to: [{{ sink: full }}] }}
  doubled: {{ source: {{ redisson: {{ name: doubled }} }}, to: [{{ sink: cut }}] }}
  late: {{ source: {{ redisson: {{ name: late }} }}, order: queue, max_lateness: 1ms, on_expired: deliver, to: [{{ sink: out }}] }}
  seen: {{ source: {{ redisson: {{ name: seen }} }}, mode: shadow, to: [{{ sink: out }}] }}
  stopped: {{ source: {{ redisson: {{ name: stopped }} }}, to: [{{ sink: out }}] }}
  saved: {{ source: {{ redisson: {{ name: saved, rescue_after: 1s }} }}, mode: rescue }}
  pool: {{ source: {{ job_pool: {{ preset: ouqiang }} }}, to: [{{ sink: out }}] }}
  plain: {{ source: {{ zset: {{ key: plain, score: s, id: \"${{payload.id}}\" }} }}, to: [{{ sink: out }}] }}
jobs: {{ listen: \"127.0.0.1:{api}\" }}
tracing: {{ otlp: {{ endpoint: \"http://127.0.0.1:{}\", sample: 1 }} }}
",
        server.url(),
        free_port(),
        full.url(),
        cutting.url(),
        free_port()
    )
}

/// Leaves data of others: a claim of a dead daemon, an entry of a newer version, a list without its sorted set.
async fn leftovers(redis: &mut MultiplexedConnection) {
    let good = RedissonQueue::new("good");
    let now = redis_now_ms(redis).await;
    let element = Element::new(good.layout, now - 1_000, "{\"left\":\"behind\"}");
    let header = Header::redriven(Origin::Delayed, MessageId(element.id), element.due_ms, Vec::new());
    let mut newer = [header.encode(), element.member.clone()].concat();
    newer[1] = 99;
    good.claim_for(redis, now - 500, &[(element.due_ms, &element.member)]).await;
    let _: () = redis.zadd(good.bridge_key("retry"), newer, 0).await.expect("leave an entry of a newer version");
    // Due in 2255.
    good.offer(redis, 9_000_000_000_000, "{\"far\":\"ahead\"}").await;
    let _: () = redis.zadd(good.bridge_key("leases"), "99.a newer claim", 0).await.expect("leave a claim of one");
    let _: () = redis.expire(&good.timeouts, 86_400).await.expect("give a key of the queue a time to live");
    let _: () = redis.rpush(good.list, "an orphan").await.expect("leave an orphan");
    let _: () = redis.set("a_string", "where a stream is expected").await.expect("set a key of a wrong type");
}

/// Offers some elements to every queue: due now, overdue, and undecodable.
async fn offer(redis: &mut MultiplexedConnection) {
    let now = redis_now_ms(redis).await;
    for name in QUEUES {
        let queue = RedissonQueue::new(name);
        for n in 0..if name == "good" { 10 } else { 1 } {
            queue.offer(redis, now, format!("{{\"n\":{n}}}")).await;
        }
        queue.offer(redis, now - 10_000, "{\"over\":\"due\"}").await;
        queue.offer(redis, now, "{\"broken\":").await;
    }
}

/// Adds to the pool of jobs a due id with a job that is not due yet, and one without a job; to the plain set, a payload
/// without an id.
async fn schedule(redis: &mut MultiplexedConnection) {
    let now_s = redis_now_ms(redis).await / 1_000;
    let due_s = u32::try_from(now_s + 3_600).expect("a time of this century").to_be_bytes();
    let job = [b"\x85\xa11\xa1t\xa12\xa5early\xa13\xce".as_slice(), &due_s, b"\xa14\x03\xa15\xa1x"].concat();
    let _: () = redis.set("early", job).await.expect("add a job");
    for id in ["early", "deleted"] {
        let _: () = redis.zadd("dq_bucket_1", id, now_s - 1).await.expect("schedule a job");
    }
    let _: () = redis.zadd("plain", "no id", now_s - 1).await.expect("schedule an element");
}

/// Adds two jobs: one that nobody takes, and one whose time to live ends at once.
fn add_jobs(api: u16) {
    let jobs = r#"{"jobs":[{"body":"waits"},{"body":"is late","ttl_ms":1}]}"#;
    let url = format!("http://127.0.0.1:{api}/v1/topics/observed/jobs/batch");
    // A daemon that has not started yet is asked again.
    let _ = std::process::Command::new("curl").args(["-sS", "--json", jobs, &url]).output().expect("run curl");
}

/// Sets a recurring job that fires now.
async fn fire(api: u16, redis: &mut MultiplexedConnection) {
    let recurring = r#"{"cron":"* * * * *","body":"x"}"#;
    let url = format!("http://127.0.0.1:{api}/v1/topics/observed/recurring/minutely");
    let arguments = ["-sS", "-X", "PUT", "--json", recurring, &url];
    let _ = std::process::Command::new("curl").args(arguments).output().expect("run curl");
    let due_ms = redis_now_ms(redis).await - 1_000;
    let _: () = redis.zadd("delaybridge:jobs:firings:{observed}", "minutely", due_ms).await.expect("make it due");
}

/// Closes the daemon's subscription, like a proxy that considers it idle.
async fn lose_the_subscription(redis: &mut MultiplexedConnection) {
    let _: u32 =
        redis::cmd("CLIENT").arg(&["KILL", "TYPE", "PUBSUB"]).query_async(redis).await.expect("close the subscription");
}

/// A query as Grafana would send it, with everything selected.
fn filled(expr: &str) -> String {
    let chosen = ["$job", "$queue", "$sink"].iter().fold(expr.to_owned(), |expr, name| expr.replace(name, ".*"));
    chosen.replace("$__rate_interval", "30s")
}

/// Queries the panels without a value so far, and records the highest value of each; the error names those that are
/// still empty.
async fn look(prometheus: &Prometheus, table: &mut BTreeMap<usize, String>) -> Result<(), String> {
    let mut empty = Vec::new();
    for (index, (row, panel, expr)) in queries().into_iter().enumerate() {
        if table.contains_key(&index) {
            continue;
        }
        let expr = filled(&expr);
        // The zero of a counter without a count must not hide a real value.
        let never = NEVER_SEEN.iter().any(|what| expr.contains(what));
        let asked = if never { expr } else { expr.replace(" or vector(0)", "") };
        let found = prometheus.query(&asked).await.map_err(|e| format!("{panel}: {e}"))?;
        match found.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((labels, value)) => {
                table.insert(index, format!("| {row} | {panel} | {} | {labels} | {value:.4} |", found.len()));
            }
            None => empty.push(format!("{panel}: {asked}")),
        }
    }
    if empty.is_empty() { Ok(()) } else { Err(format!("without data:\n{}", empty.join("\n"))) }
}

/// Checks that every rule was evaluated without an error, and that the texts of the alerts are complete.
async fn rules_are_healthy(prometheus: &Prometheus) -> Result<usize, String> {
    let data = prometheus.get("/api/v1/rules").await?;
    let groups = data["groups"].as_array().ok_or("no groups")?;
    let rules: Vec<&Value> = groups.iter().filter_map(|group| group["rules"].as_array()).flatten().collect();
    for rule in &rules {
        if rule["health"] != "ok" {
            return Err(rule.to_string());
        }
        for alert in rule["alerts"].as_array().into_iter().flatten() {
            let told = alert["annotations"].to_string();
            assert!(!told.contains("<error") && !told.contains("<no value>"), "{told}");
        }
    }
    Ok(rules.len())
}

/// The configuration on the page about alerts, with this target and a scrape every two seconds.
fn prometheus_config(port: u16) -> String {
    let page = read("docs/alerts.md");
    let (_, rest) = page.split_once("```yaml\nrule_files:").expect("the configuration of Prometheus on the page");
    let (block, _) = rest.split_once("```").expect("its end");
    assert!(block.contains("127.0.0.1:9464"), "{block}");
    let block = block.replace("127.0.0.1:9464", &format!("127.0.0.1:{port}"));
    format!("global: {{ scrape_interval: 2s, evaluation_interval: 2s }}\nrule_files:{block}")
}

#[tokio::test]
async fn every_panel_shows_data_and_every_rule_is_evaluated() {
    let server = RedisServer::start().await;
    let full = RedisServer::start_with(ServerOptions::default().max_memory("100kb")).await;
    let cutting = Proxy::start(server.port()).await;
    cutting.cut(Cut::command("XADD").every(2));
    let mut redis = server.client().await;
    leftovers(&mut redis).await;
    let api = free_port();
    let yaml = config(&server, &full, &cutting, api);
    let paused = cli(&ConfigFile::new(&format!("http: none\n{yaml}")), &["pause", "stopped", "--why", "a test"]);
    assert!(paused.status.success(), "{paused:?}");
    let mut daemon = Daemon::spawn(&yaml);
    for told in [
        "sink down",
        "sink blocked",
        "queue on hold",
        "dead letter",
        "entries of Redisson's list",
        "entries of a newer format",
        "claims with names of another version",
        "cannot reach Redis",
        "elements dropped here",
        "send spans to the collector",
    ] {
        daemon.expect_log(told);
    }
    // An interval of a minute suits a window of three days, but not a test.
    let rules = read(RULES).replace("interval: 1m", "interval: 2s");
    let prometheus = Prometheus::start(&prometheus_config(daemon.http_port()), &rules).await;

    let mut table = BTreeMap::new();
    let mut cut = Instant::now();
    eventually("every panel to show something", PATIENCE, async || {
        offer(&mut redis.clone()).await;
        add_jobs(api);
        fire(api, &mut redis.clone()).await;
        schedule(&mut redis.clone()).await;
        // One wake-up serves many reasons: on a busy machine a reconnection can be hidden by another reason, so cut
        // repeatedly.
        if cut.elapsed() > Duration::from_secs(2) {
            cut = Instant::now();
            lose_the_subscription(&mut redis.clone()).await;
        }
        look(&prometheus, &mut table).await
    })
    .await;
    let lines: Vec<String> = table.into_values().collect();
    println!("| row | panel | series | the highest | its value |\n|---|---|---|---|---|\n{}", lines.join("\n"));

    let healthy =
        eventually("every rule to be evaluated", PATIENCE, async || rules_are_healthy(&prometheus).await).await;
    println!("{healthy} rules without an error");

    let raised = [
        "DelaybridgeDeadLetters",
        "DelaybridgeDeadLettersTrimmed",
        "DelaybridgeLeasesExpiring",
        "DelaybridgeOrphans",
        "DelaybridgeQueueHeld",
        "DelaybridgeRetriesWaiting",
        "DelaybridgeSinkDown",
        "DelaybridgeSinkFull",
        "DelaybridgeUnknownEntries",
    ];
    eventually("the alerts to be pending or firing", PATIENCE, async || {
        let data = prometheus.get("/api/v1/alerts").await?;
        let alerts = data["alerts"].as_array().ok_or("no alerts")?;
        let names: BTreeSet<&str> = alerts.iter().filter_map(|alert| alert["labels"]["alertname"].as_str()).collect();
        let missing: Vec<_> = raised.iter().filter(|name| !names.contains(*name)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} are not among {names:?}")) }
    })
    .await;

    let scrape = daemon.get("/metrics").await.expect("scrape the daemon").body;
    assert_metrics_are_clean(&scrape);
    let types = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")).filter_map(|line| line.split_once(' '));
    for (name, kind) in types.filter(|(name, _)| !name.starts_with("process_")) {
        let known = catalogue().iter().any(|metric| (metric.name, metric.kind) == (name, kind));
        assert!(known, "{name}, a {kind}, is not in the catalogue");
    }
}
