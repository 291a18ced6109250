//! Records and names of other programs and versions, beside those that are ours.

use redis::AsyncCommands;
use serde_json::{Value, json};

use super::*;
use crate::api::start;
use harness::{Daemon, Layout, eventually};

#[tokio::test]
async fn eight_names_of_leases_that_cannot_be_read_hide_no_claim() {
    let server = server().await;
    let mut redis = server.client().await;
    let claim = "1.0909090909090909.7.0";
    for n in 0..8 {
        let name = format!("2.0909090909090909.{n}.0");
        let _: () = redis.zadd("delaybridge:leases:{q}", name, n).await.expect("a name of a newer version");
    }
    let _: () = redis.zadd("delaybridge:leases:{q}", claim, 10).await.expect("a claim whose owner has died");
    let element = Layout::New.pack(*b"RANDOM8B", b"payload");
    let _: () = redis.zadd(format!("delaybridge:claim:{claim}:d:{{q}}"), element, 5).await.expect("its element");
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: arrived }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ))
    .await;
    daemon.expect_log("claims with names of another version");
    eventually("the claim to be taken up", Duration::from_secs(40), async || {
        match redis.clone().llen::<_, usize>("arrived").await {
            Ok(1) => Ok(()),
            other => Err(format!("{other:?} delivered")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_record_of_a_newer_version_burns_no_tries_of_good_jobs() {
    let server = server().await;
    let mut redis = server.client().await;
    let (mut daemon, port) = start(&server, "", "").await;
    daemon.expect_log("of another version, or of another program");
    assert_eq!(add(port, "mails", r#"{"id":"good","body":"good","tries":1,"ttr":"10m"}"#).await.status, 201);
    let newer = [&b"\x02"[..], &[7; 40]].concat();
    let _: () = redis.hset("delaybridge:jobs:records:{mails}", "newer", &newer).await.expect("a newer record");
    let _: () = redis.zadd("delaybridge:jobs:due:{mails}", "newer", 1).await.expect("its id");
    let popped = ask(port, "POST /v1/topics/mails/pop?count=10", &[], "").await;
    assert_eq!(popped.status, 200, "{}", popped.body);
    let popped: Value = serde_json::from_str(&popped.body).expect("JSON");
    assert_eq!((&popped["jobs"][0]["id"], &popped["jobs"][1]), (&json!("mails~good"), &Value::Null));
    let dead = ask(port, "GET /v1/topics/mails/dead", &[], "").await.body;
    assert!(dead.contains("mails~newer"), "{dead}");
}

#[tokio::test]
async fn ouqiangs_delete_takes_no_job_of_another_topic() {
    let server = server().await;
    let (_daemon, port) = start(&server, "  compat: [ouqiang]\n", "").await;
    for topic in ["mine", "theirs"] {
        assert_eq!(add(port, topic, r#"{"id":"7","body":"x"}"#).await.status, 201);
    }
    for path in ["/delete", "/finish"] {
        let answer = ask(port, &format!("POST {path}"), &[JSON], r#"{"id":"7"}"#).await;
        assert!(answer.body.contains("\"code\":1"), "{path}: {}", answer.body);
    }
    let answer = ask(port, "POST /push", &[JSON], r#"{"topic":"third","id":"7","delay":1,"ttr":3,"body":"x"}"#).await;
    assert!(answer.body.contains("\"code\":1"), "/push: {}", answer.body);
    let left: u64 = server.client().await.zcard("delaybridge:jobs:due:{mine}").await.expect("a count");
    assert_eq!(left, 1);
}
