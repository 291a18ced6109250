//! Jobs of every preset leave the pool with their bodies, and without remains.

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::Value;

use super::{PATIENCE, gone, on};
use harness::daemon::cli;
use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedisServer, eventually};

/// Bytes in the notation of the vectors: a text, or hex.
fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        value => hex::decode(value["hex"].as_str().expect("digits")).expect("hex"),
    }
}

fn vectors() -> Vec<Value> {
    let lines = include_str!("../../vectors/job_pools.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Writes a job as its program does.
async fn put(redis: &mut MultiplexedConnection, vector: &Value, score: &str) {
    let key = bytes(&vector["key"]);
    let job = bytes(&vector["job"]);
    let mut pipe = redis::pipe();
    match vector.get("field") {
        Some(field) => pipe.hset(key, bytes(field), job),
        None => pipe.set(key, job),
    };
    pipe.cmd("ZADD").arg(bytes(&vector["bucket"])).arg(score).arg(bytes(&vector["member"]));
    pipe.exec_async(redis).await.expect("the server takes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_each_program_wrote_is_delivered_and_gone() {
    for vector in vectors() {
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        let preset = vector["preset"].as_str().expect("a name");
        let name = vector["name"].as_str();
        let name = name.map(|name| format!(", name: '{name}'")).unwrap_or_default();
        let topic = if vector["topic"].is_string() { ", headers: { topic: '${topic}' }" } else { "" };
        let queue = format!(
            "  q: {{ source: {{ job_pool: {{ preset: {preset}{name} }} }}, codec: raw, to: [{{ sink: out, stream: out{topic} }}] }}\n"
        );
        let mut job = vector.clone();
        if preset == "ouqiang" {
            // The record contains a due time an hour after the recording; replace it by one of 2001.
            let record = bytes(&vector["job"]);
            let at = record.windows(3).position(|at| at == b"\xa13\xce").expect("the due time") + 3;
            let past = [&record[..at], &1_000_000_000u32.to_be_bytes(), &record[at + 4..]].concat();
            job["job"] = serde_json::json!({ "hex": hex::encode(past) });
        }
        put(&mut redis, &job, "1000").await;
        let mut daemon = Daemon::start(&on(&server, &queue)).await;
        let found = eventually("the job", PATIENCE, async || match read_stream(&mut redis.clone(), "out").await {
            found if found.is_empty() => Err(format!("nothing of {vector}")),
            found => Ok(found),
        })
        .await;
        assert_eq!((found.len(), &found[0].payload), (1, &bytes(&vector["payload"])), "{vector}");
        assert_eq!(found[0].id.as_deref(), Some(&*String::from_utf8(bytes(&vector["id"])).expect("an id")), "{vector}");
        assert_eq!(found[0].headers.get("topic").map(|topic| &topic[..]), vector["topic"].as_str().map(str::as_bytes));
        eventually("nothing to be left but the stream", PATIENCE, async || {
            let keys: Vec<Vec<u8>> = redis.clone().keys("*").await.expect("the server answers");
            let left: Vec<_> = keys
                .iter()
                .map(|key| String::from_utf8_lossy(key))
                .filter(|key| !key.starts_with("delaybridge:leases") && key != "delaybridge:lookers")
                .collect();
            if left == ["out"] { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await;
        assert_eq!(daemon.stop().await, 0);
    }
}

/// A record in MessagePack, as ouqiang/delay-queue writes it.
pub(super) fn record(topic: &str, id: &str, due_s: u32, body: &str) -> Vec<u8> {
    let text = |text: &str| {
        let length = u8::try_from(text.len()).expect("a short text");
        let head = if length < 32 { vec![0xa0 | length] } else { vec![0xd9, length] };
        [&head[..], text.as_bytes()].concat()
    };
    let due = [&[0xce][..], &due_s.to_be_bytes()].concat();
    let fields =
        [text("1"), text(topic), text("2"), text(id), text("3"), due, text("4"), vec![3], text("5"), text(body)];
    [&[0x85][..], &fields.concat()].concat()
}

/// All kinds of broken jobs, among healthy ones.
#[tokio::test(flavor = "multi_thread")]
async fn corrupt_and_deleted_and_early_jobs_jam_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now_s = u32::try_from(redis_now_ms(&mut redis).await / 1_000).expect("this century");
    for n in 0..100 {
        let id = format!("job-{n}");
        let body = match n {
            10 => b"no MessagePack at all".to_vec(),
            11 => Vec::new(),
            12 => record("order", &id, now_s + 2, "early"),
            _ => record("order", &id, now_s - 5, &format!("body {n}")),
        };
        if n != 13 {
            redis.set::<_, _, ()>(&id, body).await.expect("the server takes it");
        }
        redis
            .zadd::<_, _, _, ()>(format!("dq_bucket_{}", n % 3 + 1), &id, now_s - 5)
            .await
            .expect("the server takes it");
    }
    redis.rpush::<_, _, ()>("job-14-list", "mine").await.expect("the server takes it");
    redis.zadd::<_, _, _, ()>("dq_bucket_1", "job-14-list", now_s - 9).await.expect("the server takes it");
    let queue = "  q: { source: { job_pool: { preset: ouqiang } }, to: [{ sink: out, stream: out }] }\n";
    let mut daemon = Daemon::start(&on(&server, queue)).await;
    daemon.expect_log("dead letter stored");
    eventually("all healthy jobs", PATIENCE, async || {
        let found = read_stream(&mut redis.clone(), "out").await;
        if found.len() == 97 { Ok(()) } else { Err(found.len().to_string()) }
    })
    .await;
    let found = read_stream(&mut redis, "out").await;
    let early = found.iter().find(|delivery| delivery.payload == b"early").expect("the early job");
    assert_eq!(early.due_ms, Some(i64::from(now_s + 2) * 1_000));
    assert!(early.arrived_ms >= early.due_ms, "{early:?}");
    assert_eq!(daemon.metric("delaybridge_jobs_without_body_total{queue=\"q\"}").await, 1.0);
    assert_eq!(daemon.metric("delaybridge_jobs_put_back_total{queue=\"q\"}").await, 1.0);
    let letters: redis::streams::StreamRangeReply =
        redis.xrange_all("delaybridge:dead:{dq_bucket_1}").await.expect("a stream");
    let mut dead: Vec<(String, Option<Vec<u8>>)> =
        letters.ids.iter().map(|letter| (letter.get("id").expect("an id"), letter.get("body"))).collect();
    dead.sort();
    let expected =
        [("job-10", Some(b"no MessagePack at all".to_vec())), ("job-11", Some(vec![])), ("job-14-list", None)];
    assert_eq!(dead, expected.map(|(id, body)| (id.to_owned(), body)));
    gone(&mut redis, &["job-10", "job-11", "job-12", "job-99", "dq_bucket_1", "dq_bucket_2", "dq_bucket_3"]).await;

    // After a repair, the letter restores its job.
    let shown = cli(daemon.config(), &["dead", "show", "q", "job-10"]);
    assert!(shown.status.success(), "{shown:?}");
    let redriven = cli(daemon.config(), &["dead", "redrive", "q", "job-10"]);
    assert!(redriven.status.success(), "{redriven:?}");
    eventually("the letter to be back", PATIENCE, async || {
        let letters: usize = redis.clone().xlen("delaybridge:dead:{dq_bucket_1}").await.expect("a stream");
        let first: redis::streams::StreamRangeReply =
            redis.clone().xrange_all("delaybridge:dead:{dq_bucket_1}").await.expect("a stream");
        let newest: String = first.ids.last().and_then(|letter| letter.get("id")).unwrap_or_default();
        if letters == 3 && newest == "job-10" { Ok(()) } else { Err(format!("{letters} {newest}")) }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
}

/// A wrong place in the configuration, where all jobs seem deleted, drops no id.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_looked_for_in_the_wrong_place_are_not_lost() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    for n in 1..=5 {
        redis.hset::<_, _, _, ()>("queue.messages", n, format!("300;job {n}")).await.expect("the server takes it");
        redis.zadd::<_, _, _, ()>("queue.delayed", n, 1_000 + n).await.expect("the server takes it");
    }
    let queue = |job: &str| {
        format!(
            "  q: {{ source: {{ job_pool: {{ preset: yii2{job} }} }}, codec: raw, to: [{{ sink: out, stream: out }}] }}\n"
        )
    };
    let mut wrong = Daemon::start(&on(&server, &queue(", job: { hash: queue.message }"))).await;
    wrong.expect_log("dead letter stored");
    eventually("dead letters", PATIENCE, async || {
        let letters: usize = redis.clone().xlen("delaybridge:dead:{queue.delayed}").await.expect("a stream");
        if letters == 5 { Ok(()) } else { Err(letters.to_string()) }
    })
    .await;
    assert_eq!(wrong.stop().await, 0);
    let mut right = Daemon::start(&on(&server, &queue(""))).await;
    let redriven = cli(right.config(), &["dead", "redrive", "q", "--all"]);
    assert!(redriven.status.success(), "{redriven:?}");
    eventually("all jobs", PATIENCE, async || {
        let found = read_stream(&mut redis.clone(), "out").await;
        if found.len() == 5 { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    gone(&mut redis, &["queue.messages", "queue.delayed"]).await;
    assert_eq!(right.stop().await, 0);
}

/// Starts a sink that refuses bad elements, and accepts all others.
#[cfg(feature = "http")]
async fn picky() -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = Vec::new();
                let mut buffer = [0; 4_096];
                // The bodies end with a mark; a probe has none.
                while !(read.ends_with(b"!") || read.starts_with(b"OPTIONS ") && read.ends_with(b"\r\n\r\n")) {
                    match stream.read(&mut buffer).await {
                        Ok(size @ 1..) => read.extend_from_slice(&buffer[..size]),
                        _ => return,
                    }
                }
                let status = if read.ends_with(b"bad!") { "500 Internal Server Error" } else { "200 OK" };
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    port
}

/// The number of retries in the record of a job is its own limit, below that of the queue's policy.
#[cfg(feature = "http")]
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_dead_after_the_retries_that_its_record_allows() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = format!(
        "redis: {{ url: {} }}\nretry: {{ patient: {{ max_attempts: 1000, initial_interval: 20ms, max_interval: 20ms }} }}\n\
         sinks: {{ out: {{ http: {{ url: 'http://127.0.0.1:{}/', timeout: 5s }} }} }}\nqueues:\n  \
         q: {{ source: {{ job_pool: {{ preset: youzan_json }} }}, codec: raw, retry: patient, to: [{{ sink: out }}] }}\n",
        server.url(),
        picky().await
    );
    let mut daemon = Daemon::start(&yaml).await;
    for text in ["dead letter stored", "sink down"] {
        daemon.expect_log(text);
    }
    let now = redis_now_ms(&mut redis).await;
    let mut pipe = redis::pipe();
    // Other jobs show that the sink works, so that the failures are the job's own.
    for id in 0..100 {
        let (body, due) = if id == 7 { ("bad!", now) } else { ("good!", now + id * 40) };
        pipe.hset("job.pool", id, format!("{{\"id\":{id},\"topic\":\"t\",\"message\":\"{body}\",\"retryCount\":2}}"));
        pipe.zadd("bucket0", format!("{{\"jodId\":{id},\"delayDate\":{due},\"topic\":\"t\"}}"), due);
    }
    pipe.exec_async(&mut redis).await.expect("the server takes them");
    let letter = eventually("a dead letter", PATIENCE, async || {
        let letters: redis::streams::StreamRangeReply =
            redis.clone().xrange_all("delaybridge:dead:{bucket0}").await.expect("a stream");
        letters.ids.into_iter().next().ok_or_else(|| "none yet".to_owned())
    })
    .await;
    let field = |name: &str| letter.get::<String>(name).unwrap_or_default();
    assert_eq!((field("id"), field("reason"), field("attempts")), ("7".into(), "max_attempts".into(), "3".into()));
    gone(&mut redis, &["job.pool", "bucket0"]).await;
    assert_eq!(daemon.stop().await, 0);
}
