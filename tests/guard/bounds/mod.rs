//! The time for which a script blocks Redis at adverse sizes: the CPU time of the server's main thread. Load on the
//! machine affects it less than the elapsed time; still, the shortest of several runs counts, and a run fails only
//! beyond four times the limit. Without the measures against these sizes the cases take 70 to 1,500 ms. The printed
//! figures are to be compared with the limit.
//!
//! Every script has a case, and each case names the file of its script: a test finds files without one.

mod claims;
mod coverage;
mod fsck;
mod jobs;
mod ledger;
mod pools;
mod redisson;

use std::sync::Arc;
use std::time::Duration;

use delaybridge_ledger::Hints;
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest};
use delaybridge_link::{Conn, Link, LinkOptions};
use delaybridge_source::redisson::{ListCleanup, Redisson};
use redis::aio::MultiplexedConnection;

use crate::limits::{SCRIPT_MS, SCRIPT_MS_PER_MB};
use harness::redis_server::RedisServer;

const RUNS: usize = 5;
/// The runs of a case that is not within its limit.
const MOST_RUNS: usize = 30;
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
    /// CPU time of the server before the script, in ms.
    before_ms: f64,
    link: Link,
    _server: RedisServer,
}

impl Rig {
    async fn start() -> Rig {
        let server = RedisServer::start().await;
        let options = LinkOptions { heartbeat: LEASE, ..LinkOptions::default() };
        let link = Link::start(Arc::new(server.endpoint()), options);
        let conn = link.ready().await;
        let mut redis = server.client().await;
        let (seconds, _): (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
        let queue = Redisson::new("orders", [1; 8], true, true, ListCleanup::Auto);
        Rig { queue, conn, redis, now_ms: seconds * 1_000, next: 0, before_ms: 0.0, link, _server: server }
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
        let zset = self.queue.keys.delayed.clone();
        let list = self.queue.keys.list.clone();
        for n in 0..count {
            let element = self.element(size);
            let due_ms = self.now_ms + after_ms + n as i64;
            self.run(redis::cmd("ZADD").arg(&zset[..]).arg(due_ms).arg(&element)).await;
            self.run(redis::cmd("RPUSH").arg(&list[..]).arg(&element)).await;
        }
    }

    async fn reset(&mut self) {
        self.run(&mut redis::cmd("FLUSHALL")).await;
        self.run(redis::cmd("CONFIG").arg("RESETSTAT")).await;
    }

    /// CPU time of scripts since the counts were reset, in ms, and their number. They must have been loaded before.
    async fn longest(&mut self) -> (f64, f64) {
        let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut self.redis).await.unwrap();
        let took = self.processor_ms().await - self.before_ms;
        self.run(redis::cmd("CONFIG").arg("RESETSTAT")).await;
        let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("a script has run");
        let field = |name: &str| -> f64 {
            let field = line.split([':', ',']).find_map(|field| field.strip_prefix(name)).unwrap();
            field.parse().unwrap()
        };
        let calls = field("calls=");
        (took / calls, calls)
    }

    /// CPU time of the server's main thread, in ms.
    async fn processor_ms(&mut self) -> f64 {
        let info: String = redis::cmd("INFO").arg("cpu").query_async(&mut self.redis).await.unwrap();
        let seconds = |name: &str| -> f64 {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_else(|| panic!("no {name}")).trim().parse().unwrap()
        };
        1_000.0 * (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread"))
    }

    /// Fills the list with entries that exist nowhere else, as other clients leave them.
    async fn long_list(&mut self, entries: usize) {
        let push = "for i = 1, ARGV[1] / 500 do local t = {} for j = 1, 500 do t[j] = ARGV[2] .. i * 500 + j end \
                    redis.call('RPUSH', KEYS[1], unpack(t)) end";
        let list = self.queue.keys.list.clone();
        let text = "x".repeat(100);
        self.run(redis::cmd("EVAL").arg(push).arg(1).arg(&list[..]).arg(entries).arg(text)).await;
    }

    /// Claims everything due; returns the number of elements and of bytes.
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
            back_before_ms: None,
        };
        match self.queue.claims().claim(&self.conn, &request).await.unwrap() {
            ClaimReply::Claimed(claimed) => {
                (claimed.elements.len(), claimed.elements.iter().map(|element| element.member.len()).sum())
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Checks that the shortest of several runs of a case is within the limit; a case returns the number of bytes moved.
/// `script` is the file.
async fn within_the_limit(script: &str, what: &str, case: impl AsyncFn(&mut Rig) -> usize) {
    let calls = each_within_the_limit(script, what, case).await;
    assert_eq!(calls, 1.0, "{script}, {what}");
}

/// The same for a call that sends several scripts, by their mean; returns their number.
async fn each_within_the_limit(script: &str, what: &str, case: impl AsyncFn(&mut Rig) -> usize) -> f64 {
    let mut rig = Rig::start().await;
    let mut shortest = f64::MAX;
    let mut limit = 0.0;
    let mut calls = 0.0;
    // The first run loads the script.
    for run in 0..=MOST_RUNS {
        // Other work on the machine makes each run longer, and none shorter.
        if run > RUNS && shortest <= 4.0 * limit {
            break;
        }
        rig.reset().await;
        let moved = case(&mut rig).await;
        if run == 0 {
            continue;
        }
        limit = SCRIPT_MS + SCRIPT_MS_PER_MB * moved as f64 / 1e6;
        let (took, sent) = rig.longest().await;
        (shortest, calls) = (shortest.min(took), sent);
    }
    println!("{script}, {what}: {shortest:.2} ms of {limit:.2}");
    assert!(shortest <= 4.0 * limit, "{script}, {what}: {shortest:.2} ms, more than four times {limit:.2}");
    calls
}

async fn reset_counts(rig: &mut Rig) {
    rig.run(redis::cmd("CONFIG").arg("RESETSTAT")).await;
    rig.before_ms = rig.processor_ms().await;
}
