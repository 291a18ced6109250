//! The reply of a script is lost after it ran: for a client this looks like a script that never ran.

use delaybridge_source::redisson::SCRIPTS;
use redis::AsyncCommands;

use super::rig::{
    Feed, PATIENCE, all_in_list, all_in_stream, assert_complete, elements, lateness, settled, summary, tolerate_stalls,
};
use harness::oracle::Delivery;
use harness::proxy::CutCount;
use harness::redisson::redis_now_ms;
use harness::{Cut, Daemon, Proxy, RedisServer, RedissonQueue, eventually};

/// Number of elements due in an hour: they make the list long, so that claims leave ghosts, and must not be touched.
const PENDING: usize = 30_000;

#[derive(Clone, Copy, PartialEq)]
enum Sink {
    Stream,
    ExactlyOnce,
}

/// Lease and time-out of the sink: so long that a stalled machine does not reach them.
const LONG: (&str, &str) = ("30s", "20s");

/// One daemon behind a proxy of its own.
struct Rig {
    proxy: Proxy,
    daemon: Daemon,
    feed: Feed,
    redis: redis::aio::MultiplexedConnection,
    sink: Sink,
    destination: String,
}

fn sha(script: &str) -> &'static str {
    SCRIPTS.all().into_iter().find(|known| known.name() == script).expect("a script of this name").sha1()
}

impl Rig {
    async fn start(
        server: &RedisServer,
        name: &str,
        sink: Sink,
        times: (&str, &str),
        (source, settings): (&str, &str),
    ) -> Self {
        let (lease, timeout) = times;
        let proxy = Proxy::start(server.port()).await;
        let destination = format!("{{{name}}}:arrived");
        let target = match sink {
            // The sink bypasses the proxy, so that only replies of scripts are lost.
            Sink::Stream => {
                format!("redis: {{ url: '{}', stream: '{destination}', timeout: {timeout} }}", server.url())
            }
            Sink::ExactlyOnce => format!("redis: {{ list: '{destination}', exactly_once: true, timeout: {timeout} }}"),
        };
        let mut daemon = Daemon::start(&format!(
            "redis: {{ url: '{}', command_timeout: 1s }}\n\
             sinks: {{ out: {{ {target} }} }}\n\
             queues:\n  q:\n    source: {{ redisson: {{ name: {name}{source} }} }}\n    lease: {lease}\n    to: [{{ sink: out }}]\n    {settings}\n",
            proxy.url()
        ))
        .await;
        tolerate_stalls(&mut daemon);
        let feed = Feed::new(server, RedissonQueue::new(name)).await;
        Rig { proxy, daemon, feed, redis: server.client().await, sink, destination }
    }

    /// Feeds the queue until each cut has struck the wanted number of times, and ends the cuts. They have no limit,
    /// because a limited one may be spent when the connection breaks for another reason.
    async fn feed_until(&mut self, cuts: &[(CutCount, u64)]) {
        // Each cut costs a reconnect with backoff.
        let until = tokio::time::Instant::now() + PATIENCE * 2;
        while cuts.iter().any(|(cut, wanted)| cut.lost() < *wanted) {
            assert!(tokio::time::Instant::now() < until, "too few cuts: {:?}", lost(cuts));
            self.feed.tick(4, 1).await;
        }
        self.proxy.stop_cutting();
    }

    /// Waits for all deliveries, and checks the conditions that hold after every cut.
    async fn judge(mut self, what: &str, cuts: &[(CutCount, u64)]) {
        let deliveries: Vec<Delivery> = match self.sink {
            Sink::Stream => {
                let deliveries = all_in_stream(&mut self.redis, &self.destination, &self.feed.oracle).await;
                let report = self.feed.oracle.judge(&deliveries);
                // A time-out of the sink on a busy machine is the only cause of a duplicate, and of a counted attempt.
                if assert_complete(&report, &[&self.daemon]).await == 0.0 {
                    assert!(
                        deliveries.iter().all(|delivery| delivery.attempt == Some(1)),
                        "{what}: a retry was counted"
                    );
                }
                deliveries
            }
            Sink::ExactlyOnce => {
                let deliveries = all_in_list(&mut self.redis, &self.destination, &self.feed.oracle).await;
                self.feed.oracle.judge_payloads(&deliveries).assert_complete(0);
                deliveries
            }
        };
        settled(&mut self.redis, &self.feed.queue).await;
        let metrics = self.daemon.metrics().await;
        let recovered = metrics.sum("delaybridge_recovered_messages_total");
        let late = lateness(&deliveries);
        // Elements that waited for a recovery are among the latest.
        let latest = late.len().saturating_sub(recovered as usize);
        println!(
            "{what}: {} elements, replies lost {:?}, recovered {recovered}; lateness of all {}, of the {recovered} latest {}",
            deliveries.len(),
            lost(cuts),
            summary(&late),
            summary(&late[latest..]),
        );
        for nothing in [
            "delaybridge_leases_expired_total",
            "delaybridge_dead_lettered_messages_total",
            "delaybridge_stale_acks_total",
        ] {
            assert_eq!(metrics.sum(nothing), 0.0, "{what}: {nothing}");
        }
    }
}

fn lost(cuts: &[(CutCount, u64)]) -> Vec<u64> {
    cuts.iter().map(|(cut, _)| cut.lost()).collect()
}

async fn claims(server: &RedisServer, sink: Sink, times: u64) {
    let mut rig = Rig::start(server, "claims", sink, LONG, ("", "")).await;
    let cuts = [(rig.proxy.cut(Cut::script(sha("claim")).every(2).times(u64::MAX)), times)];
    rig.feed_until(&cuts).await;
    let recovered = rig.daemon.metric("delaybridge_recovered_messages_total").await;
    assert!(recovered > 0.0, "no lost claim had taken anything: the test shows nothing");
    rig.judge("claim", &cuts).await;
}

/// A limit in flight of one claim: the lost claim holds all of it.
async fn claims_without_room_to_spare(server: &RedisServer, sink: Sink, times: u64) {
    let mut rig = Rig::start(server, "narrow", sink, LONG, ("", "max_in_flight: 1")).await;
    let cuts = [(rig.proxy.cut(Cut::script(sha("claim")).every(7).times(u64::MAX)), times)];
    rig.feed_until(&cuts).await;
    rig.judge("claim with max_in_flight 1", &cuts).await;
}

/// A backlog with two outstanding claims: the lost connection loses both replies.
async fn claims_of_a_backlog(server: &RedisServer, sink: Sink, times: u64) {
    let mut rig = Rig::start(server, "backlog", sink, LONG, ("", "")).await;
    let cut = rig.proxy.cut(Cut::script(sha("claim")).after(8).every(9).times(u64::MAX));
    let until = tokio::time::Instant::now() + PATIENCE * 2;
    while cut.lost() < times {
        assert!(tokio::time::Instant::now() < until, "too few cuts: {}", cut.lost());
        rig.feed.tick(1_000, 0).await;
    }
    rig.proxy.stop_cutting();
    rig.judge("claims of a backlog", &[(cut, times)]).await;
}

async fn recoveries(server: &RedisServer, sink: Sink, times: u64) {
    let mut rig = Rig::start(server, "recoveries", sink, LONG, ("", "")).await;
    let cuts = [
        (rig.proxy.cut(Cut::script(sha("claim")).every(2).times(u64::MAX)), 1),
        // Two rules, so that some look-ups are lost twice in a row.
        (rig.proxy.cut(Cut::script(sha("extend")).every(2).times(u64::MAX)), times - times / 4),
        (rig.proxy.cut(Cut::script(sha("extend")).every(3).times(u64::MAX)), times / 4),
    ];
    rig.feed_until(&cuts).await;
    rig.judge("claim and look-up", &cuts).await;
}

async fn verdicts(server: &RedisServer, sink: Sink, times: u64) {
    let mut rig = Rig::start(server, "verdicts", sink, LONG, ("", "")).await;
    let cut = match sink {
        Sink::Stream => Cut::command("UNLINK"),
        Sink::ExactlyOnce => Cut::script(sha("settle")),
    };
    let cuts = [(rig.proxy.cut(cut.every(2).times(u64::MAX)), times)];
    rig.feed_until(&cuts).await;
    rig.judge("settle", &cuts).await;
}

/// Leases are extended while verdicts cannot be written, because the dead stream has the wrong type for some time.
/// Writing a verdict checks that stream, but a mere confirmation does not.
async fn extensions(server: &RedisServer, times: u64) {
    let mut rig = Rig::start(server, "extensions", Sink::ExactlyOnce, ("5s", "3s"), ("", "")).await;
    rig.daemon.expect_log("queue on hold");
    let queue = rig.feed.queue.clone();
    let dead = rig.feed.queue.bridge_key("dead");
    loop {
        // Lost claims are recovered a second later: enough time to break the key that verdicts need.
        let cut = rig.proxy.cut(Cut::script(sha("claim")).times(u64::MAX));
        rig.feed_until(&[(cut, 1)]).await;
        let () = rig.redis.set(&dead, "no stream").await.expect("break the dead stream");
        let held = queue.in_flight(&rig.redis).await.expect("count what is in flight");
        if held > 0 {
            break;
        }
        let () = rig.redis.del(&dead).await.expect("repair the dead stream");
    }
    let cuts = [(rig.proxy.cut(Cut::script(sha("extend")).times(u64::MAX)), times)];
    eventually("the replies of extend to be lost", PATIENCE * 2, async || match cuts[0].0.lost() {
        lost if lost >= times => Ok(()),
        lost => Err(format!("{lost} of {times}, {} calls", cuts[0].0.seen())),
    })
    .await;
    rig.proxy.stop_cutting();
    let () = rig.redis.del(&dead).await.expect("repair the dead stream");
    rig.judge("extend", &cuts).await;
}

async fn slices(server: &RedisServer, sink: Sink, times: u64) {
    let mut rig = Rig::start(server, "slices", sink, LONG, (", ghost_max_age: 1s", "")).await;
    let queue = rig.feed.queue.clone();
    let hour = redis_now_ms(&mut rig.redis).await + 3_600_000;
    let mut pending = elements(&queue, "pending", PENDING, hour, 3_600_000);
    queue.offer_bulk(&mut rig.redis, &pending).await;
    // The budget of LREM is spent, so that elements away from both ends of the list become ghosts.
    let spent = [("lrem_at", 9_000_000_000_000_000_i64), ("lrem_us", 0)];
    let () = rig.redis.hset_multiple(queue.bridge_key("sweep"), &spent).await.expect("spend the budget of LREM");
    let cuts = [(rig.proxy.cut(Cut::script(sha("sweep")).every(3).times(u64::MAX)), times)];
    let until = tokio::time::Instant::now() + PATIENCE * 2;
    for round in 0.. {
        if cuts[0].0.lost() >= times {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "too few cuts: {:?}", lost(&cuts));
        rig.feed.tick(4, 1).await;
        // After the elements that fall due next, so that no claim finds those near an end of the list.
        let behind = elements(&queue, &format!("behind {round}"), 40, hour, 3_600_000);
        queue.offer_bulk(&mut rig.redis, &behind).await;
        pending.extend(behind);
    }
    rig.proxy.stop_cutting();
    let mut redis = server.client().await;
    // Not the gauge, which is absent while Redis is away.
    eventually("the ghosts to be swept", PATIENCE, async || {
        let sets = ["ghosts", "ghosts-turn"].map(|set| queue.bridge_key(set));
        match redis.clone().exists::<_, i64>(&sets).await {
            Ok(0) => Ok(()),
            left => Err(format!("{left:?} sets")),
        }
    })
    .await;
    rig.judge("sweep", &cuts).await;

    let mut listed: Vec<Vec<u8>> = redis.lrange(&queue.list, 0, -1).await.expect("read the list");
    let mut expected: Vec<Vec<u8>> = pending.into_iter().map(|element| element.member).collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert!(listed == expected, "{} entries in the list, {} pending", listed.len(), expected.len());
}

// The proxies run concurrently with the rigs: starting a daemon blocks its thread for a while on a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_lose_nothing_and_burn_no_attempt() {
    let server = RedisServer::start().await;
    let sink = Sink::Stream;
    tokio::join!(
        claims(&server, sink, 35),
        claims_without_room_to_spare(&server, sink, 10),
        claims_of_a_backlog(&server, sink, 5),
        recoveries(&server, sink, 25),
        verdicts(&server, sink, 45),
        slices(&server, sink, 30),
    );
}

// The proxies run concurrently with the rigs: starting a daemon blocks its thread for a while on a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_double_nothing_with_exactly_once() {
    let server = RedisServer::start().await;
    let sink = Sink::ExactlyOnce;
    tokio::join!(
        claims(&server, sink, 35),
        claims_of_a_backlog(&server, sink, 5),
        recoveries(&server, sink, 20),
        verdicts(&server, sink, 45),
        extensions(&server, 40),
        slices(&server, sink, 15),
    );
}
