//! `fsck`: each fault is planted, found, explained and repaired; elements in flight are no fault.

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::Value;

use super::ask;
use delaybridge_ops::acl::AclPurpose;
use harness::daemon::ConfigFile;
use harness::redisson::{Element, Layout};
use harness::{Daemon, RedisServer, RedissonQueue, eventually};
use std::time::Duration;

/// A due time later than any during a test, in ms.
const LATER: i64 = 4_000_000_000_000;

/// The queues `texts` of Redisson, `pool` of yii2-queue, `youzan` with a key for each job, `topic` of the job queue.
fn yaml(server: &RedisServer) -> String {
    let queue = |id: &str, source: &str| format!("  {id}: {{ source: {{ {source} }}, to: [{{ sink: out }}] }}\n");
    format!(
        "http: none\nredis: {{ url: {}, command_timeout: 14s }}\njobs: {{ topics: {{ mail: {{}} }} }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n{}{}{}{}",
        server.url(),
        queue("texts", "redisson: { name: \"app:texts\" }"),
        queue("pool", "job_pool: { preset: yii2, name: pool }"),
        queue(
            "keys",
            "job_pool: { buckets: [keys], score: s, id: member, job: { string: \"keys:job:{id}\" }, record: { format: raw } }"
        ),
        queue("topic", "jobs: { topic: mail }"),
    )
}

struct Planted {
    server: RedisServer,
    config: ConfigFile,
    redis: MultiplexedConnection,
    queue: RedissonQueue,
}

impl Planted {
    async fn new() -> Planted {
        let server = RedisServer::start().await;
        let config = ConfigFile::new(&yaml(&server));
        let redis = server.client().await;
        Planted { server, config, redis, queue: RedissonQueue::new("app:texts") }
    }

    /// Runs `fsck` as a user with the rights of an operator; returns the exit code, and the findings in the only queue.
    fn fsck(&self, arguments: &str) -> (i32, Value) {
        let config = self.config.confined(AclPurpose::Operator);
        let answer = ask(&self.config, &format!("fsck {arguments} --output json --config {}", config.display()));
        let result: Value =
            serde_json::from_str(&answer.out).unwrap_or_else(|_| panic!("{}{}", answer.out, answer.err));
        assert_eq!(result["errors"], Value::Array(vec![]), "{result}");
        (answer.code, result["queues"][0].clone())
    }

    /// Checks that the fault is found without a change, repaired, and not found again. A kept fault stays, with a
    /// reason.
    #[track_caller]
    fn check(&self, queue: &str, fault: &str, count: usize, kept: bool) {
        let of = |found: &Value| {
            let all = found["findings"].as_array().expect("findings");
            assert_eq!(all.len(), 1, "{queue}: {found}");
            assert_eq!(
                (all[0]["fault"].as_str(), all[0]["count"].as_u64()),
                (Some(fault), Some(count as u64)),
                "{found}"
            );
            all[0].clone()
        };
        let (code, dry) = self.fsck(queue);
        assert_eq!(code, 1, "{dry}");
        let finding = of(&dry);
        assert_eq!(finding["repaired"], 0);
        for words in ["what", "cause", "otherwise", "repair"] {
            assert!(finding[words].as_str().is_some_and(|words| words.len() > 10), "{finding}");
        }
        let (code, repaired) = self.fsck(&format!("{queue} --repair"));
        let finding = of(&repaired);
        if kept {
            assert_eq!((code, finding["repaired"].as_u64()), (1, Some(0)), "{repaired}");
            assert!(finding["things"][0]["kept"].as_str().is_some_and(|why| why.len() > 10), "{finding}");
        } else {
            assert_eq!((code, finding["repaired"].as_u64()), (0, Some(count as u64)), "{repaired}");
            let (code, clean) = self.fsck(queue);
            assert_eq!((code, clean["findings"].as_array().map(Vec::len)), (0, Some(0)), "{clean}");
        }
    }

    async fn offer(&mut self, payload: &str) -> Element {
        self.queue.offer(&mut self.redis, LATER, payload).await
    }

    async fn claim(&self, until_ms: i64, element: &Element) {
        self.queue.claim_for(&self.redis, until_ms, &[(element.due_ms, &element.member)]).await;
    }

    async fn now_ms(&mut self) -> i64 {
        let (seconds, _): (i64, i64) = redis::cmd("TIME").query_async(&mut self.redis).await.unwrap();
        seconds * 1_000
    }
}

fn element(payload: &str) -> Element {
    Element::new(Layout::New, LATER, payload)
}

/// An entry as a daemon writes it: the header without attempts, and the element.
fn entry(version: u8, element: &Element) -> Vec<u8> {
    let mut entry = vec![0xdb, version];
    entry.extend(80u16.to_le_bytes());
    entry.extend([0; 4]);
    entry.push(b'D');
    entry.extend([0; 31]);
    entry.extend(element.due_ms.to_le_bytes());
    entry.extend([0; 32]);
    entry.extend(&element.member);
    entry
}

#[tokio::test]
async fn claims_and_leases_that_do_not_belong_together() {
    let mut planted = Planted::new().await;
    let leases = planted.queue.bridge_key("leases");
    let now_ms = planted.now_ms().await;
    // Elements in flight are correct, and so is the lease of a claim that may still run.
    planted.claim(now_ms + 600_000, &element("in flight")).await;
    let _: () = planted.redis.zadd(&leases, "1.00000000000000aa.7.0", now_ms + 20_000).await.unwrap();
    planted.offer("scheduled").await;
    let (code, clean) = planted.fsck("texts");
    assert_eq!((code, clean["findings"].as_array().map(Vec::len)), (0, Some(0)), "{clean}");

    let _: () = planted.redis.del(&leases).await.unwrap();
    planted.check("texts", "claim_without_lease", 1, false);
    let _: () = planted.redis.zadd(&leases, "1.00000000000000ab.7.0", 1_000).await.unwrap();
    planted.check("texts", "lease_without_claim", 1, false);
    let _: () = planted.redis.zadd(&leases, "1.00000000000000fe.1.0", LATER).await.unwrap();
    planted.check("texts", "lease_too_long", 1, false);
    let held: usize = planted.queue.in_flight(&planted.redis).await.unwrap();
    assert_eq!(held, 1, "no element was lost");
    let _: () = planted.redis.zadd(&leases, "9.newer", now_ms).await.unwrap();
    planted.check("texts", "unknown_claim", 1, true);
}

#[tokio::test]
async fn an_element_in_two_places_is_left_in_one() {
    let mut planted = Planted::new().await;
    let retry = planted.queue.bridge_key("retry");
    let dead = planted.queue.bridge_key("dead");
    let now_ms = planted.now_ms().await;
    let one = planted.offer("scheduled and in flight").await;
    planted.claim(now_ms + 600_000, &one).await;
    let two = planted.offer("scheduled and in retry").await;
    let _: () = planted.redis.zadd(&retry, entry(1, &two), LATER).await.unwrap();
    let three = planted.offer("scheduled and dead").await;
    let letter = |element: &Element| {
        [("id", element.id_text().into_bytes()), ("origin", b"delayed".to_vec()), ("element", element.member.clone())]
    };
    let _: String = planted.redis.xadd(&dead, "*", &letter(&three)).await.unwrap();
    planted.check("texts", "two_places", 3, false);
    let scheduled: Vec<Vec<u8>> = planted.redis.zrange(&planted.queue.timeouts, 0, -1).await.unwrap();
    let listed: Vec<Vec<u8>> = planted.redis.lrange(&planted.queue.list, 0, -1).await.unwrap();
    assert_eq!((scheduled, listed), (vec![three.member.clone()], vec![three.member.clone()]));
    assert_eq!(planted.redis.xlen::<_, usize>(&dead).await.unwrap(), 0);

    // In flight and in retry; in retry twice; in retry and dead.
    let _: () = planted.redis.zadd(&retry, entry(1, &one), LATER).await.unwrap();
    let mut again = entry(1, &two);
    again[4] = 3;
    let _: () = planted.redis.zadd(&retry, again, LATER).await.unwrap();
    let _: String = planted.redis.xadd(&dead, "*", &letter(&two)).await.unwrap();
    planted.check("texts", "two_places", 3, false);
    assert_eq!(planted.redis.zcard::<_, usize>(&retry).await.unwrap(), 1);
    assert_eq!(planted.queue.in_flight(&planted.redis).await.unwrap(), 1);
}

#[tokio::test]
async fn entries_and_members_that_cannot_be_read_are_kept_or_get_a_header() {
    let mut planted = Planted::new().await;
    let retry = planted.queue.bridge_key("retry");
    let bare = element("by hand");
    let _: () = planted.redis.zadd(&retry, &bare.member, LATER).await.unwrap();
    planted.check("texts", "entry_without_header", 1, false);
    let held: Vec<Vec<u8>> = planted.redis.zrange(&retry, 0, -1).await.unwrap();
    assert!(held.len() == 1 && held[0].starts_with(&[0xdb, 1]) && held[0].ends_with(&bare.member));
    let _: () = planted.redis.zadd(&retry, entry(9, &bare), LATER).await.unwrap();
    planted.check("texts", "unknown_entry", 1, true);
    let _: () = planted.redis.del(&retry).await.unwrap();
    let _: () = planted.redis.zadd(&planted.queue.timeouts, "junk", LATER).await.unwrap();
    let _: () = planted.redis.rpush(&planted.queue.list, "junk").await.unwrap();
    planted.check("texts", "unreadable_member", 1, true);
    assert_eq!(planted.redis.zcard::<_, usize>(&planted.queue.timeouts).await.unwrap(), 1);
}

#[tokio::test]
async fn redissons_list_is_what_is_scheduled() {
    let mut planted = Planted::new().await;
    let list = planted.queue.list.clone();
    let timeouts = planted.queue.timeouts.clone();
    let lost = element("the last copy");
    let _: () = planted.redis.rpush(&list, &lost.member).await.unwrap();
    let (_, kept) = planted.fsck("texts --repair --orphans keep");
    assert_eq!(
        (kept["findings"][0]["fault"].as_str(), kept["findings"][0]["repaired"].as_u64()),
        (Some("orphan"), Some(0))
    );
    planted.check("texts", "orphan", 1, false);
    let due: i64 = planted.redis.zscore(&timeouts, &lost.member).await.unwrap();
    assert!(due <= planted.now_ms().await + 1_000, "due at once");

    let unlisted = element("not listed");
    let _: () = planted.redis.zadd(&timeouts, &unlisted.member, LATER).await.unwrap();
    planted.check("texts", "not_listed", 1, false);
    let listed: Vec<Vec<u8>> = planted.redis.lrange(&list, 0, -1).await.unwrap();
    assert_eq!(listed, [lost.member, unlisted.member]);

    let claimed = element("in flight");
    planted.claim(planted.now_ms_later(), &claimed).await;
    let _: () = planted.redis.rpush(&list, &claimed.member).await.unwrap();
    planted.check("texts", "unrecorded_ghost", 1, false);
    let ghosts: Vec<Vec<u8>> = planted.redis.smembers(planted.queue.bridge_key("ghosts")).await.unwrap();
    assert_eq!(ghosts, [claimed.member[..9].to_vec()]);
}

impl Planted {
    /// The time in an hour, in ms.
    #[expect(clippy::disallowed_methods, reason = "an hour from now, by any clock")]
    fn now_ms_later(&self) -> i64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        i64::try_from(now.as_millis()).expect("a time") + 3_600_000
    }
}

#[tokio::test]
async fn states_types_and_pauses_that_cannot_be_used() {
    let mut planted = Planted::new().await;
    planted.offer("one").await;
    let sweep = planted.queue.bridge_key("sweep");
    let state = planted.queue.bridge_key("state");
    let turn = [("by", "12345678"), ("until", "1000"), ("left", "1"), ("slice", "3"), ("since", "1000")];
    let _: () = planted.redis.hset_multiple(&sweep, &turn).await.unwrap();
    planted.check("texts", "sweep_abandoned", 1, false);
    let _: () = planted.redis.hset(&sweep, "next_turn", "soon").await.unwrap();
    planted.check("texts", "sweep_unreadable", 1, false);
    let _: () = planted.redis.hset_multiple(&state, &[("pause", "{}"), ("pause:out", "x")]).await.unwrap();
    planted.check("texts", "pause_unreadable", 2, false);
    assert!(ask(&planted.config, "queues").out.contains("paused"), "it stays paused");

    let retry = planted.queue.bridge_key("retry");
    let _: () = planted.redis.set(&retry, "kept").await.unwrap();
    planted.check("texts", "foreign_type", 1, false);
    let aside: String = planted.redis.get(planted.queue.bridge_key("aside:retry")).await.unwrap();
    assert_eq!(aside, "kept");
    let _: () = planted.redis.del(&planted.queue.timeouts).await.unwrap();
    let _: () = planted.redis.set(&planted.queue.timeouts, "another program's").await.unwrap();
    planted.check("texts", "foreign_type", 1, true);
}

#[tokio::test]
async fn jobs_and_ids_belong_together() {
    let planted = Planted::new().await;
    let mut redis = planted.redis.clone();
    // Correct: a job with its id.
    let _: () = redis.zadd("pool.delayed", "1", 4_000_000_000i64).await.unwrap();
    let _: () = redis.hset("pool.messages", "1", "300;one").await.unwrap();
    let _: () = redis.zadd("pool.delayed", "2", 4_000_000_000i64).await.unwrap();
    planted.check("pool", "id_without_body", 1, false);
    let _: () = redis.hset("pool.messages", "3", "300;three").await.unwrap();
    planted.check("pool", "body_without_id", 1, false);
    let ids: Vec<String> = redis.zrange("pool.delayed", 0, -1).await.unwrap();
    assert_eq!(ids, ["3", "1"], "due now");
    assert!(redis.hexists::<_, _, bool>("pool.messages", "3").await.unwrap());

    let _: () = redis.set("keys:job:7", "seven").await.unwrap();
    planted.check("keys", "body_without_id", 1, false);
    let _: () = redis.del("keys:job:7").await.unwrap();
    planted.check("keys", "id_without_body", 1, false);

    ask(&planted.config, "jobs add mail --body hello --delay 1h").well();
    let due = "delaybridge:jobs:due:{mail}";
    let (code, clean) = planted.fsck("topic");
    assert_eq!(code, 0, "{clean}");
    let _: () = redis.del(due).await.unwrap();
    planted.check("topic", "body_without_id", 1, false);
    assert_eq!(redis.zcard::<_, usize>(due).await.unwrap(), 1);
    let _: () = redis.zadd(due, "nothing", 4_000_000_000_000i64).await.unwrap();
    planted.check("topic", "id_without_body", 1, false);
    drop(planted.server);
}

#[tokio::test]
async fn a_person_reads_what_is_wrong_and_what_a_repair_does() {
    let mut planted = Planted::new().await;
    let lost = element("a payload");
    let _: () = planted.redis.rpush(&planted.queue.list, &lost.member).await.unwrap();
    let answer = ask(&planted.config, "fsck");
    assert_eq!(answer.code, 1, "{}{}", answer.out, answer.err);
    for words in [
        "texts: not in order",
        "pool: in order",
        "orphan",
        "cause",
        "otherwise",
        "Nothing was changed",
        &lost.id_text(),
    ] {
        assert!(answer.out.contains(words), "{words}: {}", answer.out);
    }
    assert!(!answer.out.contains("a payload"), "no payload");
    ask(&planted.config, "fsck unheard-of").failed(2, &["no queue with this id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_daemon_at_work_nothing_is_a_fault() {
    let mut planted = Planted::new().await;
    let mut daemon = Daemon::start(&yaml(&planted.server).replace("http: none\n", "")).await;
    let now_ms = planted.now_ms().await;
    let elements: Vec<Element> =
        (0..6_000).map(|n| Element::new(Layout::New, now_ms + 500 + n / 3, format!("element {n}"))).collect();
    planted.queue.offer_bulk(&mut planted.redis, &elements).await;
    let mut runs = 0;
    while planted.redis.zcard::<_, usize>(&planted.queue.timeouts).await.unwrap() > 0 || runs < 2 {
        let (code, found) = planted.fsck("texts --repair");
        assert_eq!(code, 0, "{found}");
        runs += 1;
    }
    eventually("everything to be delivered, once", Duration::from_secs(60), async || {
        let delivered: usize = planted.redis.clone().llen("done").await.map_err(|error| error.to_string())?;
        if delivered == elements.len() { Ok(()) } else { Err(format!("{delivered} delivered")) }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
}
