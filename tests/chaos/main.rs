//! Random faults on real processes, and an oracle that knows what must have arrived.
//!
//! A run is made from its seed first: settings, faults, their times. The schedule is written to a file, then played against
//! daemons, a Redis with the queues and a Redis with the destinations. After the faults everything is healed, and from then on
//! the daemons must finish within a stated bound. Then the oracle judges (`judge.rs` has its rules). A run that fails replays
//! itself with fewer faults, to name the few that are needed.
//!
//! `make chaos SEED=7 MINUTES=10` plays a seed. As a part of the tests it plays one fixed seed and two daemons that lie.

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
    cluster "../it/harness/cluster.rs",
    daemon "../it/harness/daemon.rs",
    eventually "../it/harness/eventually.rs",
    failovers "../it/harness/failovers.rs",
    http "../it/harness/http.rs",
    kafka "../it/harness/kafka.rs",
    least "../it/harness/least.rs",
    logs "../it/harness/logs.rs",
    metrics "../it/harness/metrics.rs",
    oracle "../it/harness/oracle.rs",
    ports "../it/harness/ports.rs",
    proxy "../it/harness/proxy.rs",
    redis_server "../it/harness/redis_server.rs",
    redisson "../it/harness/redisson.rs",
    resp "../it/harness/resp.rs",
    sentinels "../it/harness/sentinels.rs",
    tls "../it/harness/tls.rs",
    toxic "../it/harness/toxic.rs",
}
use brokers::process;

mod clock;
mod disk;
mod evidence;
mod faults;
mod foreign;
mod forgets;
mod jobs;
mod judge;
mod life;
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
mod run;
mod shrink;
mod source;
mod stage;
mod strangers;
mod suite;
mod target;
mod topics;
