//! Claim, delivery, settling and sweep at four depths, with due times in another order than the offers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use delaybridge::source::redisson::SCRIPTS;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::Row;
use crate::daemon::Daemon;
use crate::lateness::flood_with;
use crate::redis_server::RedisServer;
use crate::redisson::RedissonQueue;

const DEPTHS: [usize; 4] = [1_000, 20_000, 100_000, 1_000_000];

/// One run of `DEPTHS`.
struct Drained {
    seconds: f64,
    /// Microseconds of Redis in our scripts, for each element.
    scripts_us: f64,
    /// The same in the sink's commands.
    sink_us: f64,
    swept: f64,
    slowest: String,
}

pub async fn measure() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, to) in
        [("list, exactly once", "list: \"{deep}:out\", exactly_once: true"), ("stream", "stream: \"{deep}:out\"")]
    {
        let mut costs = Vec::new();
        for depth in DEPTHS {
            let drained = drain(depth, to).await?;
            let Drained { seconds, scripts_us, sink_us, swept, slowest } = drained;
            costs.push(scripts_us + sink_us);
            rows.push(Row {
                what: format!("{depth} pending, random due times, to a {name}"),
                found: format!(
                    "{:.0}/s; Redis {scripts_us:.1} + {sink_us:.1} us each; swept after {swept:.1} s; longest {slowest}",
                    depth as f64 / seconds
                ),
                bar: "",
            });
        }
        let (least, most) = costs.iter().fold((f64::MAX, 0.0f64), |(low, high), us| (low.min(*us), high.max(*us)));
        rows.push(Row {
            what: format!("Redis per element at any depth, to a {name}"),
            found: format!("within {:.1}x of each other", most / least),
            bar: "within 3x",
        });
    }
    Ok(rows)
}

async fn drain(depth: usize, to: &str) -> Result<Drained> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("deep");
    flood_with(&mut redis, &queue, depth).await;
    for (name, value) in [("slowlog-log-slower-than", 500), ("slowlog-max-len", 100_000)] {
        let () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query_async(&mut redis).await?;
    }
    let () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut redis).await?;
    let mut daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {{ same: {{ redis: {{}} }} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: deep }} }}, ghost_max_age: 1s, to: [{{ sink: same, {to} }}] }}\n"
        ),
    )?;
    // From the first claim on: how long a start takes is another row.
    while redis.zcard::<_, usize>(&queue.timeouts).await? == depth {
        if let Some(status) = daemon.process.exit_status() {
            bail!("the daemon ended with {status}");
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let started = Instant::now();
    let left = async |redis: &mut MultiplexedConnection| -> Result<(usize, usize)> {
        let (scheduled, in_flight, listed): (usize, usize, usize) = redis::pipe()
            .zcard(&queue.timeouts)
            .zcard(queue.bridge_key("inflight"))
            .llen(&queue.list)
            .query_async(redis)
            .await?;
        Ok((scheduled + in_flight, listed))
    };
    while left(&mut redis).await?.0 > 0 {
        tokio::time::sleep(Duration::from_millis(if depth > 1_000 { 20 } else { 1 })).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    while left(&mut redis).await?.1 > 0 {
        if started.elapsed() > Duration::from_secs(300) {
            bail!("ghosts are left after five minutes");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let swept = started.elapsed().as_secs_f64();
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await?;
    let us = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
        let us = line.and_then(|line| line.split(',').find_map(|part| part.strip_prefix("usec=")));
        us.and_then(|us| us.parse::<f64>().ok()).unwrap_or(0.0)
    };
    // With exactly once the push is inside of the settling script. `evalsha` holds what its commands took.
    let sink_us = if to.contains("exactly_once") { 0.0 } else { us("xadd") };
    let slowest = slowest(&mut redis).await?;
    daemon.stop().await;
    Ok(Drained { seconds, scripts_us: us("evalsha") / depth as f64, sink_us: sink_us / depth as f64, swept, slowest })
}

/// The longest run of each script.
async fn slowest(redis: &mut MultiplexedConnection) -> Result<String> {
    let log: Vec<Vec<redis::Value>> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(redis).await?;
    let mut longest: HashMap<String, u64> = HashMap::new();
    for entry in log {
        let [_, _, took, redis::Value::Array(words), ..] = &entry[..] else { continue };
        let word = |n: usize| words.get(n).and_then(|w| redis::from_redis_value::<String>(w.clone()).ok());
        let script = SCRIPTS.all().into_iter().find(|script| Some(script.sha1()) == word(1).as_deref());
        let Some(script) = script else { continue };
        let took: u64 = redis::from_redis_value(took.clone())?;
        let most = longest.entry(script.name().to_owned()).or_default();
        *most = took.max(*most);
    }
    let mut all: Vec<(u64, String)> = longest.into_iter().map(|(name, took)| (took, name)).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    let shown: Vec<String> =
        all.iter().take(2).map(|(us, name)| format!("{name} {:.1} ms", *us as f64 / 1e3)).collect();
    Ok(if shown.is_empty() { "below 0.5 ms".to_owned() } else { shown.join(", ") })
}
