//! One element among many: with its due time it is found at once, without it by a search that may be ended and continued.

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::json;

use super::{ask, config};
use delaybridge_ops::element::{Wanted, find, search_part};
use delaybridge_ops::progress::{Progress, ProgressWatch};
use delaybridge_ops::{ErrorKind, Session};
use harness::daemon::{ConfigFile, Daemon};
use harness::fill::{Load, Order, fill};
use harness::redisson::Element;
use harness::{RedisServer, RedissonQueue};

/// More than are searched before the dead letters are.
const MANY: usize = 120_000;
const IN_MS: i64 = 86_400_000;

async fn deep(redis: &mut MultiplexedConnection) -> (RedissonQueue, Vec<Element>) {
    let queue = RedissonQueue::new("app:texts");
    let load = Load { count: MANY, size: 16, order: Order::Random, last_in_ms: IN_MS };
    let mut all = Vec::new();
    fill(redis, &queue, load, |some| all.extend_from_slice(some)).await.expect("the server takes them");
    (queue, all)
}

/// Ends at once, and remembers what it saw.
#[derive(Default)]
struct Impatient(Vec<Progress>);

impl ProgressWatch for Impatient {
    fn at(&mut self, step: Progress) {
        self.0.push(step);
    }

    fn is_stopped(&self) -> bool {
        self.0.last().is_some_and(|step| step.done > 0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_is_found_by_its_due_time_without_a_search() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let (queue, all) = deep(&mut redis).await;
    let [seen, moved, killed, cancelled] = [&all[7], &all[MANY / 2], &all[MANY / 3], &all[MANY - 1]];
    let named = |element: &Element| format!("texts {} --due {}", element.id_text(), element.due_ms);

    let text = ask(&config, &format!("why {}", named(seen))).well();
    assert!(text.contains("scheduled"), "{text}");
    let id = seen.id_text();
    let found = ask(&config, &format!("peek texts --id {id} --due {} --output json", seen.due_ms)).json();
    assert_eq!((&found["elements"][0]["id"], &found["elements"][0]["due_ms"]), (&json!(id), &json!(seen.due_ms)));
    ask(&config, &format!("reschedule {} --in 30d", named(moved))).well();
    ask(&config, &format!("kill {} --why test", named(killed))).well();
    ask(&config, &format!("cancel {}", named(cancelled))).well();
    let score: Option<i64> = redis.zscore(&queue.timeouts, &cancelled.member).await.expect("an answer");
    assert_eq!(score, None);
    // The claims are few, and there are none.
    let before = server.calls("zscan").await;
    assert!(before <= 10, "{before} calls of ZSCAN");

    // A dead letter is met before the schedule is searched.
    let text = ask(&config, &format!("why texts {}", killed.id_text())).well();
    assert!(text.contains("dead"), "{text}");
    let calls = server.calls("zscan").await - before;
    assert!(calls <= 4, "{calls} calls of ZSCAN");

    // With a time that is not its own any more it is searched for.
    let text = ask(&config, &format!("why {}", named(moved))).well();
    assert!(text.contains("scheduled"), "{text}");
    ask(&config, &format!("run-now {}", named(cancelled))).failed(1, &["not found among"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_goes_on_where_it_was_ended() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let (_, all) = deep(&mut redis).await;
    let yaml = super::yaml(&server.url()).replace("http: none\n", "");
    let (mut daemon, port) = Daemon::start_for_operators(&yaml).await;

    let file = ConfigFile::new(&yaml);
    let loaded = delaybridge_config::load(&file.path(), &|_| None).expect("a good file");
    let session = Session::open(loaded.config.clone(), "ann").await.expect("the server answers");
    let spec = loaded.config.queues.iter().find(|spec| &*spec.id == "texts").expect("the queue");
    let opened = session.queue(spec.clone()).await.expect("the server answers");
    let id = all[MANY / 2].id_text();

    let mut watch = Impatient::default();
    let error = find(&opened, Wanted { id: &id, due_ms: None }, &mut watch).await.expect_err("it was ended");
    assert_eq!(error.kind, ErrorKind::Ended);
    for words in ["of 120000 scheduled elements", "--due", &format!("delaybridge find texts --id {id}")] {
        assert!(error.message.contains(words), "{words}: {}", error.message);
    }

    let (mut parts, mut after, mut compared) = (0, None, 0);
    let found = loop {
        let part = search_part(&opened, &id, after, &mut Impatient::default()).await.expect("an answer");
        (parts, compared) = (parts + 1, compared + part.compared);
        assert_eq!(part.of, MANY as u64);
        match (part.found, part.next) {
            (Some(element), _) => break element,
            (None, next) => after = Some(next.expect("it is there, so the search goes on")),
        }
    };
    assert_eq!(found.id.expect("its id").to_string(), id);
    assert!(parts > 2 && compared <= MANY as u64 + 1_000, "{parts} parts, {compared} compared");
    let (mut after, mut parts) = (None, 0);
    loop {
        let part = search_part(&opened, "0000000000000000", after, &mut Impatient::default()).await.expect("an answer");
        assert!(part.found.is_none());
        parts += 1;
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    assert!((100..=200).contains(&parts), "{parts} parts of a thousand elements");

    // The same for people: here, and by a daemon.
    let url = format!("http://127.0.0.1:{port}");
    for over in [String::new(), format!(" --daemon {url}")] {
        let hits = ask(&file, &format!("find texts --id {id} --output json{over}")).json();
        assert_eq!((&hits["elements"][0]["id"], &hits["total"]), (&json!(id), &json!(MANY)), "{hits}");
        let text = ask(&file, &format!("find texts --id 0000000000000000{over}")).well();
        assert_eq!(text, "not found among the scheduled, retried, in-flight and dead elements\n");
    }
    ask(&file, &format!("find texts --id {id} --text x")).failed(2, &["cannot be used with"]);
    ask(&file, "find texts --id ?").failed(2, &["?"]);
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_due_time_finds_an_element_whatever_the_unit_of_its_score() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let units = [
        ("s", "4000000000.4567"),
        ("ms", "4000000000456"),
        ("us", "4000000000456700"),
        ("ns", "4000000000456700123"),
        ("ms*4096", "16384000001867777"),
    ];
    let queues: String = units
        .iter()
        .enumerate()
        .map(|(n, (unit, _))| {
            format!(
                "  q{n}: {{ source: {{ zset: {{ key: set{n}, score: '{unit}', id: '${{payload.id}}' }} }}, codec: json, to: [{{ sink: out }}] }}\n"
            )
        })
        .collect();
    let config = ConfigFile::new(&format!(
        "http: none\nredis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n{queues}",
        server.url()
    ));
    for (n, (unit, score)) in units.into_iter().enumerate() {
        let member = format!(r#"{{"id":"{n}"}}"#);
        redis::cmd("ZADD")
            .arg(format!("set{n}"))
            .arg(score)
            .arg(&member)
            .exec_async(&mut redis)
            .await
            .expect("a member");
        let peeked = ask(&config, &format!("peek q{n} --output json")).json();
        let due = peeked["elements"][0]["due_ms"].as_i64().expect("its due time");
        // People see it without its milliseconds.
        let due = if n == 1 { due / 1_000 * 1_000 } else { due };
        let before = server.calls("zscan").await;
        ask(&config, &format!("reschedule q{n} {n} --due {due} --in 1h")).well();
        assert_eq!(server.calls("zscan").await, before, "{unit}: it was searched for");
    }
    let left: i64 = redis.zcard("set0").await.expect("an answer");
    assert_eq!(left, 1);
}
