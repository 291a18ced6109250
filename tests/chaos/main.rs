//! Random faults on real processes, and an oracle that knows the required deliveries.
//!
//! A run is first planned from its seed: settings, faults, their times. The schedule is written to a file, then played
//! against daemons, a Redis with the queues and a Redis with the destinations. After the faults everything is repaired,
//! and the daemons must finish within a stated bound. Then the oracle judges (the rules are in `judge.rs`). A failed
//! run is replayed with fewer faults, to find the few that are needed.
//!
//! `make chaos SEED=7 MINUTES=10` plays a seed. The tests play one fixed seed and two daemons with a planted defect.

// The tools of the integration tests.
macro_rules! tools {
    ($($name:ident $path:literal),* $(,)?) => {
        $(
            #[path = $path]
            #[allow(dead_code, reason = "the integration tests use the rest")]
            mod $name;
        )*
    };
}
tools! {
    amqp "../it/harness/amqp.rs",
    amqp1 "../it/harness/amqp1.rs",
    cluster "../it/harness/cluster.rs",
    daemon "../it/harness/daemon.rs",
    eventually "../it/harness/eventually.rs",
    failovers "../it/harness/failovers.rs",
    http "../it/harness/http.rs",
    kafka "../it/harness/kafka.rs",
    least "../it/harness/least.rs",
    logs "../it/harness/logs.rs",
    metrics "../it/harness/metrics.rs",
    nats "../it/harness/nats.rs",
    oracle "../it/harness/oracle.rs",
    proxy "../it/harness/proxy.rs",
    publisher "../it/inputs/publisher.rs",
    redis_server "../it/harness/redis_server.rs",
    redisson "../it/harness/redisson.rs",
    resp "../it/harness/resp.rs",
    rocketmq "../it/harness/rocketmq.rs",
    sentinels "../it/harness/sentinels.rs",
    sqs "../it/harness/sqs.rs",
    tls "../it/harness/tls.rs",
    toxic "../it/harness/toxic.rs",
}
use brokers::{ports, process};

mod artemis_queues;
mod clock;
mod disk;
mod evidence;
mod fates;
mod faults;
mod foreign;
mod forgets;
mod gateway;
mod jobs;
mod judge;
mod life;
mod nats_streams;
mod offers;
mod options;
mod order;
mod others;
mod payload;
mod plan;
mod planted;
mod play;
mod produce;
mod profile;
mod quiet;
mod receiver;
mod report;
mod rights;
mod rocketmq_topics;
mod run;
mod shrink;
mod source;
mod sqs_queues;
mod stage;
mod strangers;
mod suite;
mod target;
mod topics;
mod what;
