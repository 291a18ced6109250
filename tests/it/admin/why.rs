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
         set: {{ source: {{ zset: {{ key: set, score: ms, id: '${{payload.id}}' }} }}, codec: json, unroutable: {{ action: retry }}, \
         retry: {{ initial_interval: 1h, max_interval: 1h, jitter: none, max_attempts: 3 }}, \
         to: [{{ sink: out, list: 'done:${{payload.to}}' }}] }}\n",
        redis.url()
    );
    let (mut daemon, port) = Daemon::start_for_operators(&yaml).await;
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
    eventually("a retry that says why", PATIENCE, async || {
        let found = why(daemon.config(), "bad", over);
        if found["state"] == "retry" { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let found = why(daemon.config(), "bad", over);
    assert_eq!((&found["attempts"], &found["max_attempts"]), (&1.into(), &3.into()), "{found}");
    let seen = &found["attempts_seen"];
    assert_eq!((seen.as_array().map(Vec::len), &seen[0]["sink"]), (Some(1), &"out".into()), "{found}");
    assert!(found["summary"].as_str().is_some_and(|text| text.contains("attempt 2 of 3 after WRONGTYPE")), "{found}");
    let over_redis = why(daemon.config(), "bad", &[]);
    assert_eq!(over_redis["attempts_seen"][0]["code"], "WRONGTYPE", "{over_redis}");
    let text = cli(daemon.config(), &["why", "set", "bad"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["It waits for attempt 2 of 3", "its next attempt", "delaybridge run-now set bad", "cure: "] {
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
