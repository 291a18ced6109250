//! Why an element is where it is: by the command over Redis and over a daemon, while its sink refuses it, and after its end.

use redis::AsyncCommands;
use serde_json::Value;

use crate::delivery::PATIENCE;
use crate::harness::daemon::{ConfigFile, Daemon, cli};
use crate::harness::{RedisServer, eventually};

fn why(config: &ConfigFile, id: &str, over: &[&str]) -> Value {
    let arguments = [&["why", "set", id, "--output", "json"][..], over].concat();
    let output = cli(config, &arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
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
    assert!(!kinds(&why(daemon.config(), "bad", &[])).contains(&"destination".to_owned()), "Redis alone does not know");
    let text = cli(daemon.config(), &["why", "set", "bad", "--daemon", &url]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["It waits for attempt", "its destination", "delaybridge check --live", "WRONGTYPE", "cure: "] {
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
