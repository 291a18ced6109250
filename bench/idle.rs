//! The costs of the daemon while nothing falls due.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::daemon::Daemon;
use crate::report::Row;
use harness::process::Usage;
use harness::redis_server::RedisServer;

const QUEUES: usize = 10;
const SETTLE: Duration = Duration::from_secs(60);
const WATCH: Duration = Duration::from_secs(30);

/// Measures the rows of `ROWS=idle`.
pub async fn measure() -> Result<Vec<Row>> {
    let mut server = RedisServer::start().await;
    let queues: String = (0..QUEUES)
        .map(|n| {
            format!(
                "  q{n}: {{ source: {{ redisson: {{ name: idle-{n} }} }}, to: [{{ sink: same, list: out-{n} }}] }}\n"
            )
        })
        .collect();
    let mut daemon = Daemon::spawn(&server.url(), &format!("sinks: {{ same: {{ redis: {{}} }} }}\nqueues:\n{queues}"))?;
    daemon.ready().await?;
    Ok(vec![Row {
        what: "idle for 60 s, ten queues".to_owned(),
        found: watch(&daemon, &mut server).await,
        bar: "< 1 %, <= 15 MB",
    }])
}

/// Measures the costs of an idle daemon over a minute.
pub async fn watch(daemon: &Daemon, server: &mut RedisServer) -> String {
    tokio::time::sleep(SETTLE).await;
    let before = daemon.process.usage();
    let redis_before = server.running().usage();
    let since = Instant::now();
    tokio::time::sleep(WATCH).await;
    let after = daemon.process.usage();
    let redis_after = server.running().usage();
    let share = |before: Usage, after: Usage| {
        (after.cpu.saturating_sub(before.cpu)).as_secs_f64() / since.elapsed().as_secs_f64() * 100.0
    };
    format!(
        "{:.2} % of a core, {:.1} MiB resident; Redis {:.2} % of a core",
        share(before, after),
        after.resident as f64 / (1 << 20) as f64,
        share(redis_before, redis_after)
    )
}
