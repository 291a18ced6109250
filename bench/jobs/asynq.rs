//! asynq: its client adds and its server processes jobs, both in one process of their own (`bench/peers/asynq`).

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use brokers::process::{Process, command};

use super::{CONSUMERS, Kept, PRODUCERS, Ran};

pub(super) async fn run(count: usize, kept: Kept) -> Result<Ran> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/peers/asynq");
    let program = std::env::temp_dir().join(format!("asynq-peer-{}", std::process::id()));
    let built =
        std::process::Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(folder).status();
    ensure!(built.context("run go: `scripts/setup.sh bench` installs it")?.success(), "go build in {folder} failed");
    let mut server = kept.redis().await;
    let before = server.running().usage().cpu;
    let mut peer = command(&program);
    peer.arg(format!("127.0.0.1:{}", server.port()));
    peer.args([count, PRODUCERS, CONSUMERS].map(|n| n.to_string()));
    peer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut peer = Process::spawn("asynq", peer)?;
    let mut pipe = peer.child_mut().stdout.take().context("take what asynq prints")?;
    let text = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut pipe, &mut text)?;
        std::io::Result::Ok(text)
    })
    .await??;
    let after = server.running().usage().cpu;
    let _ = std::fs::remove_file(&program);
    let report: serde_json::Value = serde_json::from_str(&text).context("read the report of asynq")?;
    let figure = |name: &str| report[name].as_f64().with_context(|| format!("asynq reports no {name}"));
    let jobs = figure("jobs")?;
    Ok(Ran {
        add_rate: jobs / figure("add_seconds")?,
        add_p99: figure("add_p99_ms")?,
        take_rate: jobs / figure("process_seconds")?,
        take_p99: figure("process_p99_ms")?,
        server_us: after.saturating_sub(before).as_secs_f64() * 1e6 / jobs,
        daemon_us: None,
        client_us: (figure("add_cpu")? + figure("process_cpu")?) * 1e6 / jobs,
        memory: None,
    })
}
