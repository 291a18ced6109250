//! How long a script holds Redis up at adverse sizes: the processor time of the server's main thread. A busy machine adds
//! less to that than to the time by the clock; still, the shortest of several runs counts, and a run fails only beyond four
//! times the limit.
//! Without the measures against these sizes the cases take 70 to 1,500 ms. The printed figures are what the limit is for.

use std::sync::Arc;
use std::time::Duration;

use delaybridge::link::{Conn, Link, LinkOptions};
use delaybridge::message::{MessageId, Origin};
use delaybridge::source::ledger::Hints;
use delaybridge::source::ledger::claims::{
    ClaimName, ClaimReply, ClaimRequest, Header, TakeOverReply, TakeOverRequest,
};
use delaybridge::source::redisson::{ListCleanup, Redisson};
use delaybridge::source::{Start, UpkeepRequest, UpkeepState};
use redis::aio::MultiplexedConnection;

use crate::limits::{SCRIPT_MS, SCRIPT_MS_PER_MB};
use crate::redis_server::RedisServer;

const RUNS: usize = 5;
const SMALL: usize = 256;
const MIB: usize = 1 << 20;
const LEASE: Duration = Duration::from_secs(60);

/// A queue on a server of its own.
struct Rig {
    queue: Redisson,
    conn: Conn,
    redis: MultiplexedConnection,
    now_ms: i64,
    next: u64,
    /// Processor time of the server before the script, in ms.
    before_ms: f64,
    _link: Link,
    _server: RedisServer,
}

impl Rig {
    async fn start() -> Rig {
        let server = RedisServer::start().await;
        let options = LinkOptions { heartbeat: LEASE, ..LinkOptions::default() };
        let link = Link::start(Arc::new(server.endpoint()), options);
        let (conn, mut redis) = (link.ready().await, server.client().await);
        let (seconds, _): (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
        let queue = Redisson::new("orders", [1; 8], true, true, ListCleanup::Auto);
        Rig { queue, conn, redis, now_ms: seconds * 1_000, next: 0, before_ms: 0.0, _link: link, _server: server }
    }

    async fn run(&mut self, command: &mut redis::Cmd) {
        command.exec_async(&mut self.redis).await.unwrap();
    }

    fn element(&mut self, size: usize) -> Vec<u8> {
        self.next += 1;
        let mut element = self.next.to_be_bytes().to_vec();
        element.resize(size, 7);
        element
    }

    /// Offers elements of this size, in the order of their due times.
    async fn offer(&mut self, count: usize, size: usize, after_ms: i64) {
        let (zset, list) = (self.queue.keys.delayed.clone(), self.queue.keys.list.clone());
        for n in 0..count {
            let (element, due_ms) = (self.element(size), self.now_ms + after_ms + n as i64);
            self.run(redis::cmd("ZADD").arg(&zset[..]).arg(due_ms).arg(&element)).await;
            self.run(redis::cmd("RPUSH").arg(&list[..]).arg(&element)).await;
        }
    }

    async fn reset(&mut self) {
        self.run(&mut redis::cmd("FLUSHALL")).await;
        self.run(redis::cmd("CONFIG").arg("RESETSTAT")).await;
    }

    /// Time of the one script since the counts were reset, in ms. It must have been loaded before.
    async fn longest(&mut self) -> f64 {
        let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut self.redis).await.unwrap();
        let took = self.processor_ms().await - self.before_ms;
        self.run(redis::cmd("CONFIG").arg("RESETSTAT")).await;
        let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("a script has run");
        let field = |name: &str| -> f64 {
            let field = line.split([':', ',']).find_map(|field| field.strip_prefix(name)).unwrap();
            field.parse().unwrap()
        };
        assert_eq!(field("calls="), 1.0, "{line}");
        took
    }

    /// Processor time that the server's main thread has taken, in ms.
    async fn processor_ms(&mut self) -> f64 {
        let info: String = redis::cmd("INFO").arg("cpu").query_async(&mut self.redis).await.unwrap();
        let seconds = |name: &str| -> f64 {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_else(|| panic!("no {name}")).trim().parse().unwrap()
        };
        1_000.0 * (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread"))
    }

    /// Claims all that is due; how many elements of how many bytes.
    async fn claim(&mut self) -> (usize, usize) {
        self.next += 1;
        let request = ClaimRequest {
            name: ClaimName::new([1; 8], self.next),
            not_after_ms: i64::MAX,
            lease: LEASE,
            ahead: Duration::ZERO,
            most: 500,
            bytes: MIB,
            rotation: 0,
            hints: Hints::default(),
        };
        match self.queue.claims().claim(&self.conn, &request).await.unwrap() {
            ClaimReply::Claimed(claimed) => {
                (claimed.elements.len(), claimed.elements.iter().map(|element| element.member.len()).sum())
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The shortest of several runs of a case is within the limit; a case answers the bytes moved.
async fn within_the_limit(what: &str, case: impl AsyncFn(&mut Rig) -> usize) {
    let mut rig = Rig::start().await;
    let (mut shortest, mut limit) = (f64::MAX, 0.0);
    // The first one loads the script.
    for run in 0..=RUNS {
        rig.reset().await;
        let moved = case(&mut rig).await;
        if run == 0 {
            continue;
        }
        limit = SCRIPT_MS + SCRIPT_MS_PER_MB * moved as f64 / 1e6;
        shortest = shortest.min(rig.longest().await);
    }
    println!("{what}: {shortest:.2} ms of {limit:.2}");
    assert!(shortest <= 4.0 * limit, "{what}: {shortest:.2} ms, more than four times {limit:.2}");
}

async fn reset_counts(rig: &mut Rig) {
    rig.run(redis::cmd("CONFIG").arg("RESETSTAT")).await;
    rig.before_ms = rig.processor_ms().await;
}

#[tokio::test]
async fn large_elements_behind_small_ones() {
    for (what, small, large, after_ms) in [
        ("63 small elements before 64 of 1 MiB", 63, (64, MIB), -1_000),
        ("the same, not due", 63, (64, MIB), 900_000),
        // So few are read at once where they are small.
        ("5 small elements before 3 of 10 MiB", 5, (3, 10 * MIB), -1_000),
        ("the same, not due", 5, (3, 10 * MIB), 900_000),
        ("the same, due in a moment", 5, (3, 10 * MIB), 500),
        ("1 small element before one of 10 MiB", 1, (1, 10 * MIB), -1_000),
        ("the same, not due", 1, (1, 10 * MIB), 900_000),
        ("2 small elements before one of 10 MiB", 2, (1, 10 * MIB), 900_000),
        ("a claim that finds nothing, before one of 10 MiB", 0, (1, 10 * MIB), 900_000),
    ] {
        within_the_limit(what, async |rig: &mut Rig| {
            rig.offer(small, SMALL, -10_000).await;
            rig.offer(large.0, large.1, after_ms).await;
            reset_counts(rig).await;
            let (count, bytes) = rig.claim().await;
            assert_eq!(count, small);
            bytes
        })
        .await;
    }
}

#[tokio::test]
async fn large_entries_before_small_ones_of_the_retry_set() {
    for (what, small, large_in_ms) in [
        ("a retry that is due before one of 10 MiB", 1, 900_000),
        ("no retry that is due, and one of 10 MiB", 0, 900_000),
    ] {
        within_the_limit(what, async |rig: &mut Rig| {
            let retry = rig.queue.keys.retry.clone();
            for (size, after_ms) in std::iter::repeat_n((SMALL, -1_000), small).chain([(10 * MIB, large_in_ms)]) {
                let element = rig.element(size);
                let entry =
                    [Header::redriven(Origin::Delayed, MessageId([7; 8]), 5_000, vec![]).encode(), element].concat();
                let at = rig.now_ms + after_ms;
                rig.run(redis::cmd("ZADD").arg(&retry[..]).arg(at).arg(entry)).await;
            }
            // The claim that finds nothing at all is a read.
            rig.offer(1, SMALL, -1_000).await;
            reset_counts(rig).await;
            let (count, bytes) = rig.claim().await;
            assert_eq!(count, small + 1);
            bytes
        })
        .await;
    }
}

#[tokio::test]
async fn large_payloads_behind_small_ones_of_the_ready_list() {
    for (what, small, size) in [
        ("63 small payloads before those of 1 MiB", 63, MIB),
        ("2,000 small payloads, and those of 10 MiB", 2_000, 10 * MIB),
    ] {
        within_the_limit(what, async |rig: &mut Rig| {
            for n in 0..small + 3 {
                let payload = rig.element(if n < small { SMALL } else { size });
                rig.run(redis::cmd("RPUSH").arg("orders").arg(payload)).await;
            }
            reset_counts(rig).await;
            let (count, bytes) = rig.claim().await;
            assert_eq!(count, small.min(500));
            bytes
        })
        .await;
    }
}

#[tokio::test]
async fn gauges_and_offers_beside_a_large_head() {
    for after_ms in [900_000, -900_000] {
        within_the_limit("the gauges, with a head of 10 MiB", async |rig: &mut Rig| {
            rig.offer(1, 10 * MIB, after_ms).await;
            reset_counts(rig).await;
            let stats = rig.queue.stats(&rig.conn).await.unwrap();
            let head_ms = stats.source.head_ms.expect("a head");
            // Right to a factor of two, and never too much.
            let (far, real) = ((head_ms - stats.now_ms).abs(), (rig.now_ms + after_ms - stats.now_ms).abs());
            assert!(far <= real && 2 * far >= real, "{far} of {real}");
            0
        })
        .await;
    }
    within_the_limit("an offer behind a head of 10 MiB", async |rig: &mut Rig| {
        rig.offer(1, 10 * MIB, 1_000).await;
        reset_counts(rig).await;
        let element = rig.element(SMALL);
        rig.queue.offer(&rig.conn, element.into(), Duration::from_secs(60)).await.unwrap();
        0
    })
    .await;
}

#[tokio::test]
async fn large_entries_at_the_ends_of_the_list() {
    within_the_limit("10 MiB at both ends of the list", async |rig: &mut Rig| {
        rig.offer(1, 10 * MIB, 900_000).await;
        rig.offer(100, SMALL, -10_000).await;
        // Due as well, so that the head of the sorted set need not be read.
        rig.offer(500, SMALL, -5_000).await;
        rig.offer(1, 10 * MIB, 900_000).await;
        reset_counts(rig).await;
        let (count, bytes) = rig.claim().await;
        assert_eq!(count, 500);
        bytes
    })
    .await;
}

/// Those of a ghost and a large entry at an end: the ends are looked at while a ghost exists.
#[tokio::test]
async fn large_entries_at_the_ends_of_the_list_beside_a_ghost() {
    within_the_limit("10 MiB at both ends of the list, and a ghost", async |rig: &mut Rig| {
        rig.offer(1, 10 * MIB, 900_000).await;
        rig.offer(100, SMALL, -10_000).await;
        rig.offer(500, SMALL, -5_000).await;
        rig.offer(1, 10 * MIB, 900_000).await;
        let ghosts = rig.queue.keys.ghosts.clone();
        rig.run(redis::cmd("SADD").arg(&ghosts[..]).arg("0123456789abcdef")).await;
        reset_counts(rig).await;
        let (count, bytes) = rig.claim().await;
        assert_eq!(count, 500);
        bytes
    })
    .await;
}

#[tokio::test]
async fn a_takeover_of_large_elements() {
    within_the_limit("300 expired elements of 64 KiB", async |rig: &mut Rig| {
        let old = ClaimName::new([2; 8], rig.next);
        let [d, _] = rig.queue.keys.of_claim(old);
        for n in 0..300 {
            let element = rig.element(64 << 10);
            rig.run(redis::cmd("ZADD").arg(&d[..]).arg(n).arg(element)).await;
        }
        let leases = rig.queue.keys.leases.clone();
        rig.run(redis::cmd("ZADD").arg(&leases[..]).arg(1).arg(old.to_string())).await;
        reset_counts(rig).await;
        let new = old.taken_over_by([1; 8], rig.next);
        let (not_after_ms, lease) = (i64::MAX, LEASE);
        let request = TakeOverRequest { old, new, not_after_ms, lease, most: 500, bytes: MIB, largest: 0 };
        match rig.queue.claims().take_over(&rig.conn, &request).await.unwrap() {
            TakeOverReply::Taken { elements, left, .. } => {
                assert!(elements.len() >= 10 && left > 0, "{} taken, {left} left", elements.len());
                elements.iter().map(|element| element.member.len()).sum()
            }
            other => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn a_million_ghosts_at_the_end_of_a_turn() {
    let mut rig = Rig::start().await;
    rig.offer(1, SMALL, 900_000).await;
    let ghosts = rig.queue.keys.ghosts.clone();
    for first in (0..1_000_000_u64).step_by(10_000) {
        let mut add = redis::cmd("SADD");
        add.arg(&ghosts[..]);
        for n in first..first + 10_000 {
            add.arg(format!("{n:016}"));
        }
        rig.run(&mut add).await;
    }
    let mut step = None;
    loop {
        reset_counts(&mut rig).await;
        let request =
            UpkeepRequest { step, max_age: Duration::ZERO, bandwidth: 1 << 40, start: Start::Urgent, largest: 0 };
        let upkept = rig.queue.sweep(&rig.conn, &request).await.unwrap();
        if step.is_some() {
            let took = rig.longest().await;
            println!("step of the sweep with 1,000,000 ghosts: {took:.2} ms of {SCRIPT_MS}");
            assert!(took <= 10.0 * SCRIPT_MS, "{took} ms; freed at once, the sets take 1,500 ms");
        }
        if upkept.state == UpkeepState::Done {
            break;
        }
        step = Some(upkept.step);
    }
}
