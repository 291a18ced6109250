//! What operators see and ask for.

use std::process::{Command, Output, Stdio};

use redis::AsyncCommands;

use super::*;
use harness::daemon::ConfigFile;
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedissonQueue, eventually};

fn tile(page: &str, name: &str) -> String {
    let from = format!("<dt>{name}</dt><dd>");
    let value = page.split(&from).nth(1).and_then(|rest| rest.split('<').next());
    value.unwrap_or_else(|| panic!("no {name} in\n{page}")).to_owned()
}

#[tokio::test]
async fn without_redis_the_page_knows_no_numbers() {
    let mut redis = server().await;
    let (mut daemon, port) = crate::admin::start(&redis).await;
    daemon.expect_log("Redis").expect_log("redis");
    eventually("the numbers", PATIENCE, async || {
        let scheduled = tile(&ask(port, "GET /", &[], "").await.body, "Scheduled");
        if scheduled == "31" { Ok(()) } else { Err(scheduled) }
    })
    .await;
    redis.kill();
    eventually("the page to know no numbers", Duration::from_secs(20), async || {
        let scheduled = tile(&ask(port, "GET /", &[], "").await.body, "Scheduled");
        if scheduled == "–" { Ok(()) } else { Err(scheduled) }
    })
    .await;
}

#[cfg(feature = "http")]
#[tokio::test]
async fn what_waits_for_a_retry_is_overdue_on_the_page() {
    use crate::http::receiver::Receiver;
    let redis = server().await;
    let receiver = Receiver::start(&["http/1.1"]).await;
    receiver.answer("/orders", 503, None);
    let (mut daemon, port) = Daemon::start_for_operators(&format!(
        "redis: {{ url: '{}' }}\nretry: {{ late: {{ initial_interval: 1h, max_interval: 1h }} }}\n\
         sinks: {{ out: {{ http: {{ url: 'https://localhost:{}/orders', tls: {{ ca_file: '{}' }} }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, retry: late, to: [{{ sink: out }}] }} }}\n",
        redis.url(),
        receiver.port,
        receiver.pki.ca.display()
    ))
    .await;
    daemon.expect_log("sink blocked");
    let mut client = redis.client().await;
    let now = redis_now_ms(&mut client).await;
    RedissonQueue::new("q").offer(&mut client, now - 60_000, "x").await;
    eventually("the element to wait for a retry, overdue for a minute", PATIENCE, async || {
        let page = ask(port, "GET /", &[], "").await.body;
        let seen = (tile(&page, "Retry"), tile(&page, "Oldest overdue"));
        if seen.0 == "1" && seen.1 != "–" { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[tokio::test]
async fn an_import_after_a_redrive_says_that_letters_had_left() {
    let redis = server().await;
    let config = ConfigFile::new(&format!(
        "http: none\nredis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}] }} }}\n",
        redis.url()
    ));
    RedissonQueue::new("q").offer(&mut redis.client().await, 4_000_000_000_000, "x").await;
    let well = |arguments: &[&str]| {
        let output = run(&config, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        text(&output)
    };
    let shown: serde_json::Value = serde_json::from_str(&well(&["peek", "q", "--output", "json"])).expect("JSON");
    let id = shown["elements"][0]["id"].as_str().unwrap_or_else(|| panic!("no id in {shown}")).to_owned();
    well(&["kill", "q", &id]);
    let saved = config.write("letters", &well(&["dead", "export", "q"]));
    let saved = saved.to_str().expect("a path in UTF-8");
    well(&["dead", "redrive", "q", "--all"]);
    let imported = well(&["dead", "import", "q", saved]);
    assert!(imported.contains("had left"), "{imported}");
}

#[tokio::test]
async fn a_thousand_queues_have_series_of_their_own() {
    const QUEUES: usize = 1_100;
    let redis = server().await;
    let mut client = redis.client().await;
    let mut elements = redis::pipe();
    let mut yaml =
        format!("redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n", redis.url());
    for n in 0..QUEUES {
        elements.zadd(format!("due{n}"), "x", 1).ignore();
        yaml += &format!("  q{n}: {{ source: {{ zset: {{ key: due{n}, score: ms }} }}, to: [{{ sink: out }}] }}\n");
    }
    elements.exec_async(&mut client).await.expect("an element for each queue");
    let daemon = Daemon::start(&yaml).await;
    eventually("all to be delivered", PATIENCE, async || match client.clone().llen::<_, usize>("done").await {
        Ok(QUEUES) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let text = eventually("all to be counted", PATIENCE, async || {
        let delivered = daemon.metric("delaybridge_delivered_messages_total").await;
        if delivered as usize == QUEUES { Ok(daemon.get("/metrics").await?.body) } else { Err(format!("{delivered}")) }
    })
    .await;
    let series = text.lines().filter(|line| line.starts_with("delaybridge_delivered_messages_total{")).count();
    assert!(series <= 1_001, "{series} queues with series, {} KB a scrape", text.len() >> 10);
}

/// Runs the binary with this configuration in the environment, and no other one.
fn run(config: &ConfigFile, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delaybridge"));
    command.args(arguments).env("DELAYBRIDGE_CONFIG", config.path()).stdin(Stdio::null());
    command.output().expect("run the binary")
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

#[tokio::test]
async fn discover_by_an_address_reads_no_other_configuration() {
    let redis = server().await;
    let broken = ConfigFile::new("queues: [\n");
    let queue = RedissonQueue::new("orders");
    queue.offer(&mut redis.client().await, 4_000_000_000_000, "x").await;
    let found = run(&broken, &["discover", "--redis-url", &redis.url()]);
    assert!(found.status.success(), "{}", text(&found));
}

#[test]
fn check_warns_of_what_strangers_choose_and_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let config = ConfigFile::new("");
    let tokens = config.write("tokens", "shop geheim-geheim-geheim add *\n");
    for path in [tokens.parent().expect("a directory"), &tokens] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("open it");
    }
    let yaml = format!(
        "http: none\nredis: {{ url: 'redis://127.0.0.1:1' }}\njobs: {{ listen: '127.0.0.1:7777', tokens_file: '{}' }}\n\
         sinks: {{ out: {{ redis: {{}} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, codec: json, to: [{{ sink: out, list: '${{payload.k}}' }}] }} }}\n",
        tokens.display()
    );
    config.write("delaybridge.yaml", &yaml);
    let checked = run(&config, &["check"]);
    let all = text(&checked);
    for words in ["every user", "payload.k"] {
        assert!(all.to_lowercase().contains(words) && all.contains("warning"), "no warning of {words}:\n{all}");
    }
}

#[test]
fn an_unknown_codec_is_one_mistake() {
    let config = ConfigFile::new(
        "http: none\nredis: { url: 'redis://127.0.0.1:1' }\nsinks: { out: { redis: {} } }\n\
         queues: { q: { source: { redisson: { name: q } }, codec: jsn, to: [{ sink: out, list: 'l:${payload.k}' }] } }\n",
    );
    let all = text(&run(&config, &["check"]));
    assert!(all.contains("1 problem in the configuration"), "{all}");
}

#[test]
fn an_event_is_structured_with_templates() {
    let config = ConfigFile::new(
        "http: none\nredis: { url: 'redis://127.0.0.1:1' }\nsinks: { out: { redis: {} } }\n\
         queues: { q: { source: { redisson: { name: q } }, codec: json, to: [{ sink: out, list: l, envelope: cloudevents, \
         cloudevents: { mode: structured, type: 'order.${payload.kind}', source: /shop } }] } }\n",
    );
    let checked = run(&config, &["check"]);
    assert!(checked.status.success(), "{}", text(&checked));
}

#[tokio::test]
async fn a_wrong_token_leads_to_the_form_again() {
    let redis = server().await;
    let (mut daemon, port, _dir) = super::tenants::for_operators(&redis).await;
    daemon.expect_log("refused a request");
    let form = [("content-type", "application/x-www-form-urlencoded"), ("origin", "http://localhost")];
    let answer = ask(port, "POST /login", &form, "token=wrong").await;
    assert!(answer.body.contains("type=\"password\""), "no form: {} {}", answer.status, answer.body);
}
