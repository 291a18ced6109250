//! Unreadable elements: bytes of no layout, payloads that the codec refuses.

use redis::AsyncCommands;

use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Layout, Oracle, RedisServer, RedissonQueue, eventually};

use super::{PATIENCE, dead_letters, emptied, on, overdue, stream_of, unready};

/// The fields of a dead letter.
const FIELDS: [&str; 20] = [
    "id",
    "reason",
    "queue",
    "origin",
    "due_ms",
    "died_ms",
    "attempts",
    "expiries",
    "in_doubt",
    "first_attempt_ms",
    "last_attempt_ms",
    "class",
    "code",
    "message",
    "sink",
    "destination",
    "confirmed",
    "codec",
    "attempts_seen",
    "element",
];

#[tokio::test]
async fn bytes_that_fit_neither_layout_become_dead_letters_and_their_neighbours_arrive() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("mixed");
    let now = redis_now_ms(&mut redis).await;
    let good = overdue(now, (0..200).map(|n| format!("good {n}")));
    queue.offer_bulk(&mut redis, &good).await;
    let whole = Layout::New.pack([7; 8], b"payload");
    let junk: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"x".to_vec(),
        b"{\"not\":\"packed\"}".to_vec(),
        whole[..whole.len() - 1].to_vec(),
        [&whole[..], b"\0"].concat(),
        Layout::Old.pack([9; 8], b"payload")[..20].to_vec(),
        vec![0xff; 17],
        [&b"\xdb\x01"[..], &[0xaa; 300]].concat(),
        vec![8; 100_000],
    ];
    for (index, bytes) in junk.iter().enumerate() {
        let _: () = redis.zadd(&queue.timeouts, bytes, good[index * 20].due_ms).await.unwrap();
        let _: () = redis.rpush(&queue.list, bytes).await.unwrap();
    }
    let mut oracle = Oracle::new();
    oracle.offered(&good);

    let mut daemon = Daemon::start(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  q:
    source: { redisson: { name: mixed, ghost_max_age: 1s } }
    to: [{ sink: same, stream: out }]
",
    ))
    .await;
    daemon.expect_log("dead letter stored");
    stream_of(&mut redis, "out", good.len()).await;
    emptied(&mut redis, &queue).await;
    oracle.judge(&read_stream(&mut redis, "out").await).assert_complete(0);

    let letters = dead_letters(&mut redis, &queue).await;
    let mut kept: Vec<Vec<u8>> = letters.iter().map(|letter| letter["element"].clone()).collect();
    let mut expected = junk.clone();
    kept.sort();
    expected.sort();
    assert_eq!(kept, expected);
    for letter in &letters {
        let mut names: Vec<&str> = letter.keys().map(String::as_str).collect();
        let mut expected = FIELDS.to_vec();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let text = |name: &str| String::from_utf8_lossy(&letter[name]).into_owned();
        let words = [text("reason"), text("class"), text("code"), text("origin"), text("queue"), text("codec")];
        assert_eq!(words, ["junk", "message_permanent", "junk", "delayed", "q", "raw"]);
        assert_eq!([text("attempts"), text("expiries"), text("sink")], ["0", "0", ""]);
        let due: i64 = text("due_ms").parse().unwrap();
        assert!(due < now && text("died_ms").parse::<i64>().unwrap() > due);
        assert_eq!(text("id").len(), 16);
        assert!(text("message").contains("fit neither layout"), "{}", text("message"));
    }
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total{reason=\"junk\"}").await, junk.len() as f64);
}

const BROKEN: &str = "{\"order\": 7,";

async fn with_broken_json(on_decode_error: &str) -> (RedisServer, RedissonQueue, Daemon) {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("json");
    let now = redis_now_ms(&mut redis).await;
    let payloads = (0..50).map(|n| if n == 10 { BROKEN.to_owned() } else { format!("{{\"order\":{n}}}") });
    queue.offer_bulk(&mut redis, &overdue(now, payloads)).await;
    let daemon = Daemon::spawn(&on(
        &server,
        &format!(
            "
sinks: {{ same: {{ redis: {{}} }} }}
queues:
  q:
    source: {{ redisson: {{ name: json }} }}
    codec: json
    on_decode_error: {on_decode_error}
    to: [{{ sink: same, stream: out, headers: {{ order: \"${{payload.order:-none}}\" }} }}]
"
        ),
    ));
    (server, queue, daemon)
}

#[tokio::test]
async fn json_that_cannot_be_read_is_a_dead_letter_by_default() {
    let (server, queue, mut daemon) = with_broken_json("dead_letter").await;
    daemon.expect_log("dead letter stored");
    let mut redis = server.client().await;
    stream_of(&mut redis, "out", 49).await;
    emptied(&mut redis, &queue).await;
    let letters = dead_letters(&mut redis, &queue).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(Layout::New.unpack(&letters[0]["element"]).unwrap().1, BROKEN.as_bytes());
    assert_eq!((&letters[0]["reason"][..], &letters[0]["codec"][..]), (&b"undecodable"[..], &b"json"[..]));
    assert_eq!(redis.xlen::<_, usize>("out").await.unwrap(), 49);
}

#[tokio::test]
async fn json_that_cannot_be_read_is_forwarded_as_it_is_if_that_is_wanted() {
    let (server, queue, _daemon) = with_broken_json("forward_raw").await;
    let mut redis = server.client().await;
    stream_of(&mut redis, "out", 50).await;
    emptied(&mut redis, &queue).await;
    let deliveries = read_stream(&mut redis, "out").await;
    let broken: Vec<_> = deliveries.iter().filter(|delivery| delivery.payload == BROKEN.as_bytes()).collect();
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0].headers["order"], b"none");
    assert!(dead_letters(&mut redis, &queue).await.is_empty());
}

#[tokio::test]
async fn unreadable_json_holds_the_queue_until_it_is_removed_if_configured() {
    let (server, queue, mut daemon) = with_broken_json("hold").await;
    daemon.expect_log("queue on hold");
    let mut redis = server.client().await;
    unready(&daemon, "held").await;
    let reason = daemon.get("/readyz").await.unwrap().body;
    println!("{reason}");

    // An operator finds it in Redis, and removes it payload by payload.
    let retry = queue.bridge_key("retry");
    eventually("the broken element to be taken away", PATIENCE, async || {
        let mut redis = redis.clone();
        let waiting: Vec<Vec<u8>> = redis.zrange(&retry, 0, -1).await.map_err(|e| e.to_string())?;
        let broken = waiting.iter().find(|member| member.ends_with(BROKEN.as_bytes()));
        let broken = broken.ok_or(format!("{} wait, not among them", waiting.len()))?;
        let removed: usize = redis.zrem(&retry, broken).await.map_err(|e| e.to_string())?;
        if removed == 1 { Ok(()) } else { Err("claimed meanwhile".to_owned()) }
    })
    .await;
    // A hold ends with the next element that succeeds.
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now, "{}").await;
    stream_of(&mut redis, "out", 50).await;
    emptied(&mut redis, &queue).await;
    daemon.wait_ready().await;
    let deliveries = read_stream(&mut redis, "out").await;
    assert_eq!(deliveries.len(), 50, "each once, the broken one not at all");
    assert!(deliveries.iter().all(|delivery| delivery.payload != BROKEN.as_bytes() && delivery.attempt == Some(1)));
    assert!(dead_letters(&mut redis, &queue).await.is_empty());
}

/// An object of a class of the application, as Kryo 5 writes it.
const OBJECT: &[u8] = b"\x01\x00com.example.Orde\xf2\x2a";

#[tokio::test]
async fn an_object_of_java_does_not_reach_a_sink_that_was_promised_decoded_values() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let queues = ["promised", "wanted", "plain", "held"].map(RedissonQueue::new);
    for queue in &queues {
        queue.offer(&mut redis, now, OBJECT).await;
    }
    let mut daemon = Daemon::spawn(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  a: { source: { redisson: { name: promised } }, codec: kryo5, to: [{ sink: same, stream: a, envelope: decoded }] }
  b: { source: { redisson: { name: wanted } }, codec: kryo5, on_opaque: forward_raw, to: [{ sink: same, stream: b, envelope: decoded }] }
  c: { source: { redisson: { name: plain } }, codec: kryo5, to: [{ sink: same, stream: c }] }
  d: { source: { redisson: { name: held } }, codec: kryo5, on_opaque: hold, to: [{ sink: same, stream: d }] }
",
    ));
    daemon.expect_log("dead letter stored").expect_log("queue on hold");
    for stream in ["b", "c"] {
        stream_of(&mut redis, stream, 1).await;
        assert_eq!(read_stream(&mut redis, stream).await[0].payload, OBJECT);
    }
    emptied(&mut redis, &queues[0]).await;
    let letters = dead_letters(&mut redis, &queues[0]).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(Layout::New.unpack(&letters[0]["element"]).unwrap().1, OBJECT);
    assert_eq!((&letters[0]["reason"][..], &letters[0]["code"][..]), (&b"undecodable"[..], &b"opaque_class"[..]));
    unready(&daemon, "com.example.Order").await;
    for stream in ["a", "d"] {
        assert_eq!(redis.xlen::<_, usize>(stream).await.unwrap(), 0, "{stream}");
    }
}
