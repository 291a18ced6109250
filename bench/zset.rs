//! Claim and settling with few and with very many elements in a plain sorted set: the library's own calls alone.

use anyhow::{Context, Result};
use delaybridge_config::load_str;

use crate::pools::{DEPTHS, drain};
use crate::report::Table;
use crate::settings::{number, numbers, said};
use harness::redis_server::RedisServer;

/// The measured units of scores: integers that a double represents exactly, and integers that it rounds.
const UNITS: [&str; 2] = ["ms", "ns"];

/// Measures the table of `ROWS=zset`.
pub async fn measure() -> Result<Table> {
    let depths = numbers("DEPTHS", DEPTHS)?;
    let size = number("SIZE", 256)?;
    let columns = [
        "unit",
        "pending",
        "drained",
        "us of Redis each",
        "to least depth",
        "elements/s with client",
        "longest scripts",
    ];
    let mut table = Table::new(format!("Plain sorted sets: claim and settling alone, {size} B"), &columns);
    for unit in UNITS {
        let mut least = None;
        for &depth in &depths {
            said(&format!("zset: {unit}, {depth} pending"));
            let mut cells = at(unit, depth, size).await.with_context(|| format!("drain {depth} in {unit}"))?;
            let us: f64 = cells[3].parse()?;
            cells.insert(4, format!("{:.1}x", us / *least.get_or_insert(us)));
            table.lines.push(cells);
        }
    }
    table.notes = vec!["to least depth: beside the first row of the same unit.".into()];
    Ok(table)
}

async fn at(unit: &str, depth: usize, size: usize) -> Result<Vec<String>> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let body = "x".repeat(size.saturating_sub(8));
    for first in (0..depth).step_by(5_000) {
        let mut add = redis::cmd("ZADD");
        add.arg("bench");
        for n in first..(first + 5_000).min(depth) {
            add.arg(1_000 + n).arg(format!("{n:08}{body}"));
        }
        add.exec_async(&mut redis).await?;
    }
    let yaml = format!(
        "redis: {{ url: redis://127.0.0.1 }}\nsinks: {{ out: {{ stdout: }} }}\n\
         queues: {{ q: {{ source: {{ zset: {{ key: bench, score: {unit} }} }}, to: [{{ sink: out }}] }} }}\n"
    );
    let loaded = load_str(&yaml, "bench.yaml", &|_| None).map_err(|errors| anyhow::anyhow!("{errors}"))?;
    let source = loaded.config.queues.first().map(|spec| spec.source.build()).context("one queue")?;
    drain(&server, &mut redis, source, unit, depth).await
}
