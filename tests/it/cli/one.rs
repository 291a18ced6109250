//! One element by its id: `peek --id`, `run-now`, `reschedule`, `cancel`, `kill`, for every kind of source.

use std::time::Duration;

use futures_util::StreamExt;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::json;

use super::{ask, config};
use harness::daemon::ConfigFile;
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Layout, RedisServer, RedissonQueue, eventually};

const FAR_MS: i64 = 4_000_000_000_000;

/// The state of the queue `texts`: the score in the schedule, the length of the list, the score in the retries, the
/// number of dead letters.
async fn places(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> (Option<i64>, usize, Option<i64>, usize) {
    let first = |rows: Vec<(Vec<u8>, i64)>| rows.first().map(|(_, score)| *score);
    (
        first(redis.zrange_withscores(&queue.timeouts, 0, -1).await.unwrap()),
        redis.llen(&queue.list).await.unwrap(),
        first(redis.zrange_withscores(queue.bridge_key("retry"), 0, -1).await.unwrap()),
        redis.xlen(queue.bridge_key("dead")).await.unwrap(),
    )
}

#[tokio::test]
async fn an_element_goes_through_every_state_and_is_found_in_each() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    let offered = queue.offer(&mut redis, FAR_MS, "hello").await;
    let id = offered.id_text();
    let line = |command: &str, rest: &str| format!("{command} texts {id}{rest} --output json");
    let element = |answer: serde_json::Value| answer["elements"][0].clone();

    let seen = element(ask(&config, &format!("peek texts --id {id} --output json")).json());
    assert_eq!(
        (&seen["state"], &seen["due_ms"], &seen["payload"]),
        (&json!("scheduled"), &json!(FAR_MS), &json!("hello"))
    );
    assert_eq!((&seen["outstanding"], &seen["routes"]), (&json!(["out"]), &json!(["out: list done"])));
    assert!(seen["attempts"] == 0 && seen["layout"] == "new" && seen.get("reason").is_none(), "{seen}");

    // Seconds instead of milliseconds.
    ask(&config, &format!("reschedule texts {id} --at 1796047167"))
        .failed(2, &["more than ten years ago", "`run-now`"]);
    assert_eq!(places(&mut redis, &queue).await, (Some(FAR_MS), 1, None, 0));

    // Redisson's clients are notified of a new head, and find the element in its place.
    let client = redis::Client::open(server.url()).unwrap();
    let mut heard = client.get_async_pubsub().await.unwrap();
    heard.subscribe(&format!("redisson_delay_queue_channel:{}", queue.tag)).await.unwrap();
    let moved = element(ask(&config, &line("reschedule", " --in 1h")).json());
    let due = moved["due_ms"].as_i64().unwrap();
    assert!((due - redis_now_ms(&mut redis).await - 3_600_000).abs() < 60_000, "{moved}");
    assert_eq!(places(&mut redis, &queue).await, (Some(due), 1, None, 0));
    let message = tokio::time::timeout(Duration::from_secs(10), heard.on_message().next()).await.unwrap().unwrap();
    assert_eq!(message.get_payload::<String>().unwrap(), due.to_string());
    assert!(queue.contains(&mut redis, b"hello").await.unwrap());

    let run = element(ask(&config, &line("run-now", "")).json());
    assert_eq!(
        (&run["was"], &run["state"], &run["unchanged"]),
        (&json!("scheduled"), &json!("scheduled"), &json!(false))
    );
    assert_eq!(element(ask(&config, &line("run-now", "")).json())["unchanged"], true);

    let text = ask(&config, &format!("kill texts {id} --by ann --why twice")).well();
    assert_eq!(text, format!("{id} of texts: was scheduled, is dead\n"));
    assert_eq!(places(&mut redis, &queue).await, (None, 0, None, 1));
    assert_eq!(element(ask(&config, &line("kill", " --why again")).json())["unchanged"], true);
    let seen = element(ask(&config, &format!("peek texts --id {id} --output json")).json());
    assert_eq!((&seen["state"], &seen["reason"]), (&json!("dead"), &json!("killed")));
    let message = seen["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("killed by ann (") && message.ends_with("): twice"), "{seen}");
    assert_eq!(seen["payload"], "hello");

    let back = element(ask(&config, &line("reschedule", " --at 2100-01-01T00:00:00Z")).json());
    assert_eq!(
        (&back["was"], &back["state"], &back["due_ms"]),
        (&json!("dead"), &json!("retry"), &json!(4_102_444_800_000_i64))
    );
    assert_eq!(places(&mut redis, &queue).await, (None, 0, Some(4_102_444_800_000), 0));
    let text = ask(&config, &format!("peek texts --id {id}")).well();
    assert!(text.contains("waits for a retry") && text.contains("next attempt"), "{text}");
    let run = element(ask(&config, &line("run-now", "")).json());
    assert_eq!((&run["was"], &run["state"]), (&json!("retry"), &json!("retry")));

    assert!(ask(&config, &format!("kill texts {id}")).well().contains("was waiting for a retry, is dead"));
    assert!(ask(&config, &format!("cancel texts {id}")).well().contains("was dead, is gone"));
    assert_eq!(places(&mut redis, &queue).await, (None, 0, None, 0));
    for command in ["run-now", "cancel", "kill"] {
        ask(&config, &format!("{command} texts {id}")).failed(1, &["not found", "delivered or cancelled"]);
    }
    ask(&config, "run-now texts no-id").failed(2, &["16 hexadecimal digits"]);
}

#[tokio::test]
async fn what_is_in_flight_is_left_to_its_daemon() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    let element = Element::new(Layout::New, 5_000, "now");
    queue.claim_for(&redis, FAR_MS, &[(5_000, &element.member[..])]).await;
    let id = element.id_text();
    let before = queue.claims(&redis).await;
    for command in ["run-now", "reschedule --in 5m", "cancel", "kill"] {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, "--output text"));
        ask(&config, &format!("{verb} texts {id} {rest}")).failed(1, &["in flight with daemon", "lease until 2096-10"]);
    }
    let seen = ask(&config, &format!("peek texts --id {id}")).well();
    assert!(seen.contains("in flight with") && seen.contains("lease until"), "{seen}");
    assert_eq!(queue.claims(&redis).await, before);
    assert_eq!(places(&mut redis, &queue).await, (None, 0, None, 0));
}

/// A configuration with a set, a pool with bodies in a hash, and a pool with jobs that contain their due times.
fn sources(server: &RedisServer) -> String {
    format!(
        "http: none\nredis: {{ url: {}, connect_timeout: 60s }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
         set: {{ source: {{ zset: {{ key: later, score: s }} }}, codec: string, to: [{{ sink: out }}] }}\n  \
         pool: {{ source: {{ job_pool: {{ preset: yii2 }} }}, codec: raw, to: [{{ sink: out }}] }}\n  \
         jobs: {{ source: {{ job_pool: {{ preset: ouqiang, buckets: [dq_bucket_1, dq_bucket_2] }} }}, codec: raw, to: [{{ sink: out }}] }}\n",
        server.url()
    )
}

#[tokio::test]
async fn a_set_and_pools_of_jobs_are_acted_on_with_their_bodies() {
    let server = RedisServer::start().await;
    let config = ConfigFile::new(&sources(&server));
    let mut redis = server.client().await;
    let element = |line: &str| ask(&config, &format!("{line} --output json")).json()["elements"][0].clone();

    // The id of a member is a hash over its score: it changes with the score, and the answer says so.
    let _: () = redis.zadd("later", "member", FAR_MS / 1_000).await.unwrap();
    let id = element("peek set")["id"].as_str().unwrap().to_owned();
    let moved = element(&format!("reschedule set {id} --at 4100000000999"));
    assert_eq!(moved["due_ms"], 4_100_000_000_000_i64);
    let score: f64 = redis.zscore("later", "member").await.unwrap();
    assert_eq!(score, 4_100_000_000.0, "a whole number, as its programs write it");
    let new_id = moved["new_id"].as_str().unwrap().to_owned();
    assert_ne!(new_id, id);
    assert!(ask(&config, &format!("kill set {new_id}")).well().contains("is dead"));
    assert!(redis.exists::<_, bool>("later").await.is_ok_and(|there| !there));
    assert_eq!(element(&format!("cancel set {new_id}"))["was"], "dead");

    // The body of a job is removed with it, and restored by a redrive.
    for id in [7, 8] {
        let _: () = redis.hset("queue.messages", id, format!("300;job {id}")).await.unwrap();
        let _: () = redis.zadd("queue.delayed", id, FAR_MS / 1_000).await.unwrap();
    }
    let seen = element("peek pool --id 7");
    assert_eq!((&seen["id"], &seen["payload"]), (&json!("7"), &json!("job 7")));
    assert_eq!(element("kill pool 7")["state"], "dead");
    assert_eq!(element("cancel pool 8")["state"], "gone");
    let left: Vec<String> = redis.hkeys("queue.messages").await.unwrap();
    assert_eq!((left, redis.zcard::<_, i64>("queue.delayed").await.unwrap()), (vec![], 0));
    assert_eq!(element("peek pool --id 7")["payload"], "job 7");
    assert_eq!(element("run-now pool 7")["state"], "retry");
    let body: String = redis.hget("queue.messages", 7).await.unwrap();
    assert_eq!(body, "300;job 7");

    // A job that contains its due time contains the new one.
    let job = |due: u32| -> Vec<u8> {
        let text = |text: &str| [&[0xa0 | text.len() as u8][..], text.as_bytes()].concat();
        let due = [&[0xce][..], &due.to_be_bytes()].concat();
        let fields =
            [text("1"), text("mail"), text("2"), text("j1"), text("3"), due, text("4"), vec![5], text("5"), text("hi")];
        [&[0x85][..], &fields.concat()].concat()
    };
    let _: () = redis.set("j1", job(4_000_000_000)).await.unwrap();
    let _: () = redis.zadd("dq_bucket_2", "j1", 4_000_000_000_i64).await.unwrap();
    assert_eq!(element("reschedule jobs j1 --at 1700000000000")["due_ms"], 1_700_000_000_000_i64);
    let (body, score): (Vec<u8>, f64) =
        (redis.get("j1").await.unwrap(), redis.zscore("dq_bucket_2", "j1").await.unwrap());
    assert_eq!((body, score), (job(1_700_000_000), 1_700_000_000.0));
    assert_eq!(element("peek jobs --id j1")["payload"], "hi");
    assert_eq!(element("kill jobs j1")["state"], "dead");
    assert!(redis.exists::<_, bool>("j1").await.is_ok_and(|there| !there));
    assert_eq!(element("run-now jobs j1")["was"], "dead");
    assert_eq!(redis.get::<_, Vec<u8>>("j1").await.unwrap(), job(1_700_000_000));
}

#[tokio::test]
async fn a_daemon_at_rest_delivers_at_once_what_is_made_due() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = sources(&server);
    let texts = "  texts: { source: { redisson: { name: 'app:texts' } }, codec: string, to: [{ sink: out }] }\n";
    let yaml = format!("{}{texts}", yaml.split("  jobs:").next().unwrap());
    let _: () = redis.zadd("later", "from the set", FAR_MS / 1_000).await.unwrap();
    let queue = RedissonQueue::new("app:texts");
    let mut waiting = delaybridge_ledger::claims::Header::new(5_000).encode();
    waiting.extend_from_slice(&Layout::New.pack(*b"waiting.", b"from a retry"));
    let _: () = redis.zadd(queue.bridge_key("retry"), waiting, FAR_MS).await.unwrap();
    let scheduled = queue.offer(&mut redis, FAR_MS, "from the queue").await;
    let mut daemon = Daemon::start(yaml.strip_prefix("http: none\n").unwrap()).await;
    let config = ConfigFile::new(&yaml);
    let set = ask(&config, "peek set --output json").json()["elements"][0]["id"].as_str().unwrap().to_owned();
    for (line, payload) in [
        (format!("run-now texts {}", hex::encode("waiting.")), "from a retry"),
        (format!("run-now texts {}", scheduled.id_text()), "from the queue"),
        (format!("run-now set {set}"), "from the set"),
    ] {
        ask(&config, &line).well();
        eventually(payload, Duration::from_secs(5), async || {
            let done: Vec<String> = redis.clone().lrange("done", -1, -1).await.map_err(|e| e.to_string())?;
            if done == [payload] { Ok(()) } else { Err(format!("{done:?}")) }
        })
        .await;
    }
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn payloads_are_searched_in_every_state_and_a_limit_is_said() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:docs");
    let payload = |order: usize| format!("{{\"order\":{{\"id\":{order}}}}}");
    for order in 0..600 {
        queue.offer(&mut redis, FAR_MS + order as i64, payload(order % 300)).await;
    }
    let mut waiting = delaybridge_ledger::claims::Header::new(5_000).encode();
    waiting.extend_from_slice(&Layout::New.pack(*b"waiting.", payload(7).as_bytes()));
    let _: () = redis.zadd(queue.bridge_key("retry"), waiting, FAR_MS).await.unwrap();
    let flying = Element::new(Layout::New, 5_000, payload(7));
    queue.claim_for(&redis, FAR_MS, &[(5_000, &flying.member[..])]).await;
    queue.push_ready(&mut redis, &[payload(7).into_bytes()]).await;
    let killed = queue.offer(&mut redis, FAR_MS, payload(7)).await.id_text();
    ask(&config, &format!("kill docs {killed}")).well();

    let hits = ask(&config, "find docs --field order.id=7 --output json").json();
    let states: Vec<_> =
        hits["elements"].as_array().unwrap().iter().map(|hit| hit["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["scheduled", "scheduled", "retry", "in_flight", "ready", "dead"]);
    assert_eq!((&hits["total"], &hits["examined"], &hits["incomplete"]), (&json!(604), &json!(604), &json!(false)));
    let some = ask(&config, "find docs --field order.id=7 --limit 100").well();
    assert!(
        some.contains("1 element found in 100 elements looked at; 504 of 604 elements were not looked at"),
        "{some}"
    );
    let first = ask(&config, "find docs --field order.id=7 --matches 1").well();
    assert!(first.contains("1 element found") && first.contains("not looked at"), "{first}");
    let none = ask(&config, "find docs --field order.id=7 --field order.no=1").well();
    assert_eq!(none, "0 elements found in 604 elements looked at\n");
}
