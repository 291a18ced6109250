//! TLS in a cluster whose nodes have a host name: certificates contain names, and no addresses.

use std::time::Duration;

use super::{World, assert_first_attempts};
use crate::faults::rig::readyz;
use harness::{Daemon, Oracle, RedisCluster, RedisServer, RedissonQueue};

#[tokio::test]
async fn nodes_are_found_by_the_name_that_their_certificates_have() {
    let (cluster, done) = tokio::join!(RedisCluster::secured(), RedisServer::start());
    let queues = (0..3).map(|number| RedissonQueue::new(&format!("queue-{number}"))).collect();
    let mut world = World { cluster, done, queues, oracle: Oracle::new(), offered: vec![0; 3], last: Duration::ZERO };
    for queue in 0..3 {
        world.offer(queue, 50, -1_000, 1).await;
    }
    let queues: String = (0..3)
        .map(|n| format!("  queue-{n}: {{ source: {{ redisson: {{ name: queue-{n} }} }}, to: [{{ sink: done }}] }}\n"))
        .collect();
    let url = world.done.url();
    let yaml = |redis: &str| {
        let sinks = format!("{{ done: {{ redis: {{ url: '{url}', stream: done }} }} }}");
        format!("redis: {redis}\nsinks: {sinks}\nqueues:\n{queues}")
    };
    let by_name = world.cluster.secured_yaml();
    let done = yaml(&world.cluster.secured_yaml());
    let daemon = Daemon::start(&done).await;
    assert_eq!(world.complete().await.duplicates, 0);
    assert_first_attempts(&world.delivered().await);

    // After a failover, the replica is found by its name too.
    let key = world.queues[0].timeouts.clone();
    let master = world.cluster.owner(&key).await;
    world.cluster.fail_over(master).await;
    world.offer(0, 50, 0, 5).await;
    world.complete().await;
    drop(daemon);

    // With an address the certificate does not match, and the error says so.
    let by_address = by_name.replace("localhost", "127.0.0.1");
    let mut daemon = Daemon::spawn(&yaml(&by_address));
    daemon.expect_log("cannot reach Redis").expect_log("subscription");
    readyz(&daemon, 503, "certificate").await;
}
