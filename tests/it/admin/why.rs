//! Why an element is where it is: by the command over Redis and over a daemon, while its sink refuses it, and after its end.

use redis::AsyncCommands;
use serde_json::Value;

use crate::delivery::PATIENCE;
use harness::daemon::{ConfigFile, Daemon, cli};
use harness::{RedisServer, eventually};

fn why(config: &ConfigFile, id: &str, over: &[&str]) -> Value {
    let arguments = [&["why", "set", id, "--output", "json"][..], over].concat();
    let output = cli(config, &arguments);
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_is_explained_from_its_schedule_to_its_end() {
    let redis = RedisServer::start().await;
    let mut client = redis.client().await;
    // A string where the list of the payload's choice should be: that element alone fails.
    let _: () = client.set("done:bad", "of another type").await.expect("a string");
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues:\n  \
         set: {{ source: {{ zset: {{ key: set, score: ms, id: '${{payload.id}}' }} }}, codec: json, to: [{{ sink: out, list: 'done:${{payload.to}}' }}] }}\n",
        redis.url()
    );
    let (mut daemon, port) = Daemon::start_for_operators(&yaml).await;
    daemon.expect_log("destination in trouble");
    let url = format!("http://127.0.0.1:{port}");
    let over: &[&str] = &["--daemon", &url];
    let _: () = client.zadd("set", r#"{"id":"later","to":"good"}"#, 9_999_999_999_999_i64).await.expect("a member");
    for over in [&[][..], over] {
        let found = why(daemon.config(), "later", over);
        assert_eq!(
            (&found["state"], &found["waits_for"][0]["kind"]),
            (&"scheduled".into(), &"due_time".into()),
            "{found}"
        );
        assert_eq!(found["remedies"][0]["command"], "delaybridge run-now set later");
    }
    let _: () = client.zadd("set", r#"{"id":"bad","to":"bad"}"#, 1_000).await.expect("a member");
    let kinds = |found: &Value| -> Vec<String> {
        let all = found["waits_for"].as_array().into_iter().flatten();
        all.filter_map(|one| one["kind"].as_str().map(str::to_owned)).collect()
    };
    eventually("its destination in trouble", PATIENCE, async || {
        let found = why(daemon.config(), "bad", over);
        if found["state"] == "retry" && kinds(&found).contains(&"destination".to_owned()) {
            Ok(())
        } else {
            Err(found.to_string())
        }
    })
    .await;
    let found = why(daemon.config(), "bad", over);
    let seen = &found["attempts_seen"][0];
    assert_eq!((&seen["code"], &seen["sink"]), (&"WRONGTYPE".into(), &"out".into()), "{found}");
    let found = why(daemon.config(), "bad", &[]);
    assert!(kinds(&found).contains(&"destination".to_owned()), "the daemon of the configuration is asked: {found}");
    let text = cli(daemon.config(), &["why", "set", "bad", "--daemon", &url]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["attempts used", "its destination", "delaybridge check --live", "WRONGTYPE", "cure: "] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let _: () = client.zadd("set", r#"{"id":"good","to":"good"}"#, 1_000).await.expect("a member");
    eventually("its end", PATIENCE, async || {
        let found = why(daemon.config(), "good", over);
        if found["state"] == "gone" { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let wrong = cli(daemon.config(), &["why", "sett", "good"]);
    assert_eq!(wrong.status.code(), Some(2));
    daemon.stop().await;
}

/// Redis alone says that nothing is in the way of what waits for a sink that is down.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_reads_asks_the_daemon_of_its_configuration() {
    let redis = RedisServer::start().await;
    let other = RedisServer::start().await;
    let mut sink = RedisServer::start().await;
    let queues = |source: &str| {
        format!(
            "redis: {{ url: \"{source}\" }}\nsinks: {{ out: {{ redis: {{ url: \"{}\", list: done }} }} }}\nqueues:\n  \
             set: {{ source: {{ zset: {{ key: set, score: ms, id: '${{payload.id}}' }} }}, codec: json, to: [{{ sink: out }}] }}\n",
            sink.url()
        )
    };
    let here = queues(&redis.url());
    let elsewhere = queues(&other.url());
    let (mut daemon, port) = Daemon::start_for_operators(&here).await;
    for words in ["sink", "not connected", "Connection refused"] {
        daemon.expect_log(words);
    }
    sink.stop().await;
    let mut clients = [redis.client().await, other.client().await];
    for client in &mut clients {
        let (seconds, _): (i64, i64) = redis::cmd("TIME").query_async(client).await.expect("the time");
        let _: () = client.zadd("set", r#"{"id":"late"}"#, (seconds - 300) * 1_000).await.expect("a member");
    }
    let words = |output: std::process::Output| {
        let out = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{out}{err}");
        out.into_owned()
    };
    let text = |config: &ConfigFile, over: &[&str]| words(cli(config, &[&["why", "set", "late"][..], over].concat()));
    let url = format!("http://127.0.0.1:{port}");
    eventually("the sink to be in the way", PATIENCE, async || {
        let found = text(daemon.config(), &["--daemon", &url]);
        if found.contains("sink out, down since") { Ok(()) } else { Err(found) }
    })
    .await;
    let found = text(daemon.config(), &[]);
    assert!(found.contains("sink out, down since") && !found.contains("Nothing is in the way"), "{found}");
    let found = words(cli(daemon.config(), &["queues"]));
    assert!(found.contains("sink out: down") && !found.contains("  ?  "), "{found}");
    let found = words(cli(daemon.config(), &["queues", "--output", "json"]));
    assert!(found.contains(r#""here""#) && !found.contains("without_daemon"), "{found}");

    // The same listener, and another Redis: its daemon knows nothing of this one.
    let strange = |http: &str, yaml: &str| ConfigFile::new(&format!("http: {{ admin: {{ {http} }} }}\n{yaml}"));
    let config = strange(&format!("listen: \"127.0.0.1:{port}\""), &elsewhere);
    let found = text(&config, &[]);
    let first = found.lines().next().unwrap_or_default();
    assert!(first.starts_with("Redis alone: ") && first.contains("another Redis"), "{found}");
    assert!(!found.contains("sink out, down since"), "{found}");
    let found: Value = serde_json::from_str(&words(cli(&config, &["queues", "--output", "json"]))).expect("JSON");
    assert!(found["without_daemon"].as_str().is_some_and(|why| why.contains("another Redis")), "{found}");
    assert_eq!(found["queues"][0]["due"], 1, "{found}");
    // Nobody listens there.
    let config = strange("listen: \"127.0.0.1:1\"", &here);
    let found = text(&config, &[]);
    assert!(found.starts_with("Redis alone: ask the daemon at 127.0.0.1:1: "), "{found}");
    assert!(words(cli(&config, &["queues"])).starts_with("Redis alone: "));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_wants_a_token_is_the_first_line_until_it_has_one() {
    let redis = RedisServer::start().await;
    let tokens = ConfigFile::new("");
    let file = tokens.write("tokens", "ann 0123456789abcdef viewer\n");
    let port = harness::ports::free_port();
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
         set: {{ source: {{ zset: {{ key: set, score: ms, id: '${{payload.id}}' }} }}, codec: json, to: [{{ sink: out }}] }}\n",
        redis.url()
    );
    let keys = format!("listen: \"127.0.0.1:{port}\", tokens_file: \"{}\"", file.display());
    let mut daemon = Daemon::start_for_operators_with(&keys, &yaml).await;
    let mut client = redis.client().await;
    let _: () = client.zadd("set", r#"{"id":"later"}"#, 9_999_999_999_999_i64).await.expect("a member");
    let text = |over: &[&str]| {
        let output = cli(daemon.config(), &[&["why", "set", "later"][..], over].concat());
        let out = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{out}{err}");
        out.into_owned()
    };
    let found = text(&[]);
    let first = found.lines().next().unwrap_or_default();
    assert!(first.starts_with("Redis alone: ") && first.contains("--token-file"), "{found}");
    let found = text(&["--token-file", &file.display().to_string()]);
    assert!(found.starts_with("It is scheduled") && !found.contains("Only Redis was asked"), "{found}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_an_order_the_element_before_it_is_named() {
    let redis = RedisServer::start().await;
    let mut client = redis.client().await;
    let queue = |order: &str| {
        let yaml = format!(
            "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
             set: {{ source: {{ zset: {{ key: set, score: ms, id: '${{payload.id}}' }} }}, codec: json, {order}, to: [{{ sink: out }}] }}\n",
            redis.url()
        );
        ConfigFile::new(&format!("http: none\n{yaml}"))
    };
    for (n, id, account) in [(1, "a", 1), (2, "b", 2), (3, "c", 1), (4, "d", 3)] {
        let member = format!(r#"{{"id":"{id}","account":{account}}}"#);
        let _: () = client.zadd("set", member, n * 1_000).await.expect("a member");
    }
    let later = r#"{"id":"later","account":1}"#;
    let _: () = client.zadd("set", later, 9_999_999_999_999_i64).await.expect("a member");
    let before = |order: &str, id: &str| {
        let found = why(&queue(order), id, &[]);
        let all = found["waits_for"].as_array().cloned().unwrap_or_default();
        let order = all.iter().find(|one| one["kind"] == "order");
        order.and_then(|one| one["element"].as_str()).map(str::to_owned)
    };
    let by_key = "order: key, order_key: '${payload.account}'";
    for (order, id, expected) in [
        (by_key, "c", Some("a")),
        (by_key, "b", None),
        (by_key, "a", None),
        (by_key, "later", None),
        ("order: queue", "b", Some("a")),
        ("order: queue", "d", Some("a")),
        ("order: queue", "a", None),
        ("order: none", "c", None),
    ] {
        assert_eq!(before(order, id).as_deref(), expected, "{order} {id}");
    }
    let found = why(&queue(by_key), "c", &[]);
    let detail = found["waits_for"].as_array().into_iter().flatten().find(|one| one["kind"] == "order");
    let detail = detail.and_then(|one| one["detail"].as_str()).unwrap_or_default();
    assert!(detail.contains("a is before it, due for") && detail.ends_with("is not claimed yet"), "{detail}");
}
