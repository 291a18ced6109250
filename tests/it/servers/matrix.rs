//! Each version: random histories of the scripts, and the main tasks of the daemon, with the rights that `acl` prints.

use redis::AsyncCommands;

use super::{PATIENCE, on_each};
use crate::claims::rig::Rig;
use crate::claims::{runner, schedule};
use crate::faults::rig::{all_in_list, settled, tolerate_stalls};
use crate::http::receiver::Receiver;
use crate::jobs;
use harness::daemon::cli;
use harness::redisson::{Element, redis_now_ms};
use harness::servers::ALL;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, eventually};

/// Number of histories for each version; `DELAYBRIDGE_SEEDS` runs more.
const SEEDS: u64 = 3;

#[test]
fn random_histories_of_claims_are_the_same_on_every_version() {
    std::thread::scope(|scope| {
        for version in ALL {
            scope.spawn(move || {
                let run = async |rig: &mut Rig, seed, trace, loud| schedule::run(rig, None, seed, trace, loud).await;
                runner::all_seeds(async || Rig::start_with(version.options()).await, SEEDS, run);
                println!("{}: done", version.name);
            });
        }
    });
}

#[tokio::test]
async fn random_histories_of_jobs_are_the_same_on_every_version() {
    on_each(async |version| {
        let mut rig = jobs::rig::Rig::start_with(version.options()).await;
        for seed in 0..runner::number("DELAYBRIDGE_SEEDS").unwrap_or(SEEDS) {
            jobs::random::History::run(&mut rig, jobs::rig::on_test_clock(), seed).await;
        }
    })
    .await;
}

async fn offer_to(redis: &mut redis::aio::MultiplexedConnection, to: &str, count: usize) -> Vec<Element> {
    let queue = RedissonQueue::new("web");
    let now = redis_now_ms(redis).await;
    let payload = |n| format!(r#"{{"to":"{to}","n":{n}}}"#);
    let offered: Vec<_> = (0..count).map(|n| Element::new(queue.layout, now - 1, payload(n))).collect();
    queue.offer_bulk(redis, &offered).await;
    offered
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_does_its_job_on_every_version() {
    on_each(async |version| {
        let server = RedisServer::start_with(version.options()).await;
        let receiver = Receiver::start(&["h2"]).await;
        main_job(&server, &receiver, version.name).await;
    })
    .await;
}

/// Delivers elements exactly once into a list, and to a webhook that confirms, fails for a while, or refuses for good;
/// dead letters are redriven.
pub async fn main_job(server: &RedisServer, receiver: &Receiver, name: &str) {
    let mut redis = server.client().await;
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ quick: {{ initial_interval: 50ms, max_interval: 100ms }} }}\n\
         sinks:\n  same: {{ redis: {{}} }}\n  \
         web: {{ http: {{ url: 'https://localhost:{}', tls: {{ ca_file: '{}' }}, timeout: 5s }} }}\n\
         queues:\n  \
         orders: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: same, list: 'out:{{orders}}', exactly_once: true }}] }}\n  \
         web: {{ source: {{ redisson: {{ name: web }} }}, codec: json, retry: quick, unroutable_after: 0s, \
         to: [{{ sink: web, path: '/${{payload.to}}' }}] }}\n",
        server.url(),
        receiver.port,
        receiver.pki.ca.display(),
    );
    receiver.answer("/again", 500, None);
    receiver.answer("/bad", 422, None);

    let orders = RedissonQueue::new("orders");
    let web = RedissonQueue::new("web");
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<_> = (0..300).map(|n| Element::new(orders.layout, now + n, format!("order {n}"))).collect();
    oracle.offered(&offered);
    orders.offer_bulk(&mut redis, &offered).await;
    let mut hooked = Oracle::new();
    hooked.offered(&offer_to(&mut redis, "good", 50).await);

    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("dead letter stored").expect_log("destination in trouble");
    oracle.judge_payloads(&all_in_list(&mut redis, "out:{orders}", &oracle).await).assert_complete(0);

    hooked.offered(&offer_to(&mut redis, "again", 20).await);
    hooked.offered(&offer_to(&mut redis, "bad", 20).await);
    eventually("a failure and every dead letter", PATIENCE, async || {
        let dead: usize = redis.xlen(web.bridge_key("dead")).await.map_err(|e| e.to_string())?;
        let failed = receiver.received().iter().any(|received| received.status == 500);
        if dead == 20 && failed { Ok(()) } else { Err(format!("{dead} dead letters, failed: {failed}")) }
    })
    .await;
    for path in ["/again", "/bad"] {
        receiver.answer(path, 204, None);
    }
    // Looks and changes, with the rights of an operator.
    for line in ["queues", "peek web", "dead ls web", "dead redrive web --all", "check --live"] {
        let output = cli(daemon.config(), &line.split(' ').collect::<Vec<_>>());
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{name}: {line}: {}", String::from_utf8_lossy(&said));
    }
    eventually("everything to arrive at the webhook", PATIENCE, async || {
        hooked.judge(&receiver.deliveries()).complete().map(drop)
    })
    .await;
    hooked.judge(&receiver.deliveries()).assert_complete(0);
    for queue in [&orders, &web] {
        settled(&mut redis, queue).await;
    }
    assert_eq!(daemon.stop().await, 0, "{name}");
}
