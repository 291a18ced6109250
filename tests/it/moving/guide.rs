//! The cut-over guide, step by step: every file and every command on the page is used here, in order.

use std::collections::VecDeque;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::ask;
use crate::delivery::PATIENCE;
use crate::docs::page::blocks;
use harness::daemon::{ConfigFile, Daemon, cli};
use harness::redisson::{Layout, redis_now_ms};
use harness::{RedisServer, RedissonQueue, eventually};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/migrating.md"));
const URL: &str = "redis://redis:6379/0";

/// The page's files by name, and its commands in order.
struct Guide {
    files: Vec<(String, String)>,
    commands: VecDeque<String>,
    url: String,
}

impl Guide {
    fn read(url: &str) -> Guide {
        let mut guide = Guide { files: Vec::new(), commands: VecDeque::new(), url: url.to_owned() };
        for block in blocks(PAGE) {
            if block.is_to_be_run() {
                guide.commands.extend(block.text.lines().map(str::to_owned));
            } else if let Some(name) = block.file() {
                guide.files.push((name.to_owned(), block.text.replace(URL, url)));
            }
        }
        guide
    }

    /// The next command of the page, which must be this one.
    fn next(&mut self, expected: &str) -> String {
        let line = self.commands.pop_front().expect("one more command on the page");
        assert_eq!(line, format!("delaybridge {expected}"));
        expected.replace(URL, &self.url)
    }

    fn file(&self, name: &str) -> &str {
        &self.files.iter().find(|(file, _)| file == name).expect("a file of the page").1
    }

    /// Runs the next command, with the file that it names, and returns its output.
    #[track_caller]
    fn run(&mut self, expected: &str) -> String {
        let line = self.next(expected);
        let (line, file) = line.split_once(" --config ").unwrap_or((&line, ""));
        let text = if file.is_empty() { String::new() } else { format!("http: none\n{}", self.file(file)) };
        let config = ConfigFile::new(&text);
        let output = cli(&config, &line.split(' ').collect::<Vec<_>>());
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let out = text(output.stdout);
        let err = text(output.stderr);
        assert!(output.status.success(), "{expected}: {out}{err}");
        out
    }

    async fn start(&mut self, expected: &str) -> Daemon {
        let line = self.next(expected);
        let (file, log) = line
            .strip_prefix("run --config ")
            .expect("run")
            .split_once(" --log ")
            .unwrap_or_else(|| (line.strip_prefix("run --config ").expect("run"), "info"));
        let mut daemon = Daemon::spawn_with(self.file(file), &[("DELAYBRIDGE_LOG", log)]);
        daemon.wait_ready().await;
        daemon
    }
}

async fn length(redis: &MultiplexedConnection, key: &str) -> usize {
    let kind: String = redis::cmd("TYPE").arg(key).query_async(&mut redis.clone()).await.unwrap();
    match kind.as_str() {
        "stream" => redis.clone().xlen(key).await.unwrap(),
        "list" => redis.clone().llen(key).await.unwrap(),
        // Not there yet.
        _ => 0,
    }
}

async fn lengths(redis: &MultiplexedConnection, stream: usize, ready: usize) {
    eventually(&format!("{stream} in the stream and {ready} on the ready list"), PATIENCE, async || {
        match (length(redis, "orders:due").await, length(redis, "order:timeout").await) {
            got if got == (stream, ready) => Ok(()),
            got => Err(format!("{got:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn every_step_does_what_the_page_says() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let mut guide = Guide::read(&server.url());
    let queue = RedissonQueue::new("order:timeout");
    let now = redis_now_ms(&mut redis).await;
    let old = queue.with_layout(Layout::Old).offer(&mut redis, now - 60_000, "{\"n\":1}").await;
    queue.offer(&mut redis, now - 50_000, "{\"n\":2}").await;
    queue.offer(&mut redis, now + 3_600_000, "{\"n\":3}").await;

    let found = guide.run(&format!("discover --url {URL}"));
    assert!(found.contains("name: \"order:timeout\"") && found.contains("MIXED"), "{found}");

    guide.run("check --live --config shadow.yaml");
    let mut shadow = guide.start("run --config shadow.yaml --log info,delaybridge::shadow=debug").await;
    eventually("both to be reported", PATIENCE, async || {
        let told = shadow.log().all().iter().filter(|line| line.contains("would be delivered")).count();
        if told == 2 { Ok(()) } else { Err(format!("{told} lines")) }
    })
    .await;
    assert!(guide.run("peek order_timeout --routes --config shadow.yaml").contains("events: stream orders:due"));
    assert_eq!(shadow.stop().await, 0);
    lengths(&redis, 0, 0).await;

    let told = guide.run("migrate order_timeout --to new --config shadow.yaml");
    assert!(told.contains("1 element would be converted"), "{told}");
    guide.run("migrate order_timeout --to new --apply --config shadow.yaml");
    let element = Layout::New.pack(old.id, &old.payload);
    let score: Option<i64> = redis.zscore(&queue.timeouts, element).await.unwrap();
    assert_eq!(score, Some(old.due_ms));

    guide.run("check --live --config tee.yaml");
    let mut tee = guide.start("run --config tee.yaml").await;
    lengths(&redis, 2, 2).await;
    let consumed: Option<String> = redis.lpop("order:timeout", None).await.unwrap();
    assert_eq!(consumed.as_deref(), Some("{\"n\":1}"), "what a consumer of Redisson expects there");
    assert_eq!(tee.stop().await, 0);
    let consumed: Option<String> = redis.lpop("order:timeout", None).await.unwrap();
    assert_eq!(consumed.as_deref(), Some("{\"n\":2}"));

    guide.run("check --live --config deliver.yaml");
    let mut deliver = guide.start("run --config deliver.yaml").await;
    lengths(&redis, 2, 0).await;
    assert!(guide.run("queues --config deliver.yaml").contains("order_timeout"));
    // Undeliverable elements wait for a retry when the daemon is stopped.
    let _: () = redis::cmd("RENAME").arg("orders:due").arg("aside").query_async(&mut redis).await.unwrap();
    let _: () = redis.set("orders:due", "not a stream").await.unwrap();
    deliver.expect_log("queue on hold");
    let now = redis_now_ms(&mut redis).await;
    let late = queue.offer(&mut redis, now, "{\"n\":4}").await;
    eventually("the queue to be on hold", PATIENCE, async || {
        let held = deliver.log().all().iter().any(|line| line.contains("queue on hold"));
        if held { Ok(()) } else { Err("it is not".to_owned()) }
    })
    .await;
    assert_eq!(deliver.stop().await, 0);

    assert!(guide.run("restore order_timeout --config deliver.yaml").contains("1 element would be scheduled again"));
    guide.run("restore order_timeout --apply --config deliver.yaml");
    let all: Vec<Vec<u8>> = redis.lrange(&queue.list, 0, -1).await.unwrap();
    let scheduled: Option<i64> = redis.zscore(&queue.timeouts, &late.member).await.unwrap();
    assert_eq!((all.len(), all.last(), scheduled), (2, Some(&late.member), Some(late.due_ms)));
    assert!(queue.contains(&mut redis, &late.payload).await.unwrap());

    guide.run("check --config rescue.yaml");
    let mut rescue = guide.start("run --config rescue.yaml").await;
    eventually("what is overdue to be rescued", PATIENCE, async || match length(&redis, "order:timeout").await {
        1 => Ok(()),
        n => Err(format!("{n} on the ready list")),
    })
    .await;
    assert_eq!(rescue.stop().await, 0);
    assert!(guide.commands.is_empty(), "not run: {:?}", guide.commands);
    // The page quotes the command's refusal.
    let (code, _, _) =
        ask(&ConfigFile::new(&format!("http: none\n{}", guide.file("deliver.yaml"))), "restore order_timeout");
    assert_eq!(code, 0);
}
