//! A few elements a second out of very many: the daemon's cost in Redis, the lateness, and the ghosts.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::observed::{Counters, log_scripts, longest_scripts, show_longest};
use crate::peer::REDISSON;
use crate::report::{Table, at};
use crate::settings::{number, said};
use harness::fill::{Load, Order, fill};
use harness::java::JavaClient;
use harness::oracle::read_stream;
use harness::redis_server::RedisServer;
use harness::redisson::{RedissonQueue, redis_now_ms};

const DAY_MS: i64 = 86_400_000;

const COLUMNS: &[&str] = &[
    "pending",
    "rate",
    "due times",
    "Redisson",
    "delivered",
    "late p50/p99/max ms",
    "PING p50/p99 ms",
    "Redis us each",
    "of Redis",
    "longest scripts",
    "ghosts",
    "oldest",
    "replicas B each",
];

/// The conditions of one measurement.
struct Trickle {
    pending: usize,
    per_second: usize,
    seconds: usize,
    order: Order,
    /// Whether claims take elements from the middle of the list, and so leave their entries there.
    planted: bool,
    client: bool,
}

/// Measures the table of `ROWS=trickle`.
pub async fn measure() -> Result<Table> {
    let seconds = number("TRICKLE_SECONDS", 600)?;
    let deep = number("TRICKLE_PENDING", 5_000_000)?;
    let in_order = Trickle {
        pending: deep / 10,
        per_second: 100,
        seconds: (seconds / 5).max(1),
        order: Order::Offers,
        planted: true,
        client: false,
    };
    let all = [
        Trickle { pending: deep, per_second: 10, seconds, order: Order::Random, planted: false, client: false },
        Trickle { ..in_order },
        Trickle { client: true, ..in_order },
    ];
    let mut table = Table::new(format!("A trickle out of many, 256 B, to a Redis stream, {seconds} s"), COLUMNS);
    for trickle in all {
        said(&format!("trickle: {}/s of {} pending", trickle.per_second, trickle.pending));
        table.lines.push(trickle.run().await.context("let elements trickle")?);
    }
    table.notes = vec![
        "late: from the due time to the entry in the stream, by Redis's clock; elements that Redisson moved first have no \
         due time and are left out."
            .into(),
        "Redis us each, of Redis: all scripts of all clients, sweeps and polls too.".into(),
        "ghosts, oldest: the daemon's gauges once a second, at worst. In the order of offers one ghost is planted in the \
         middle of the list."
            .into(),
        "The server writes what a replica would get.".into(),
    ];
    Ok(table)
}

impl Trickle {
    async fn run(&self) -> Result<Vec<String>> {
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        server.keep_backlog().await.map_err(anyhow::Error::msg)?;
        let queue = RedissonQueue::new("trickle");
        let count = self.per_second * self.seconds;
        ensure!(count < self.pending, "{count} elements cannot trickle out of {}", self.pending);
        let chosen = self.fill(&mut redis, &queue, count).await?;
        let java = if self.client { Some(JavaClient::connect(REDISSON, &server.url()).await) } else { None };
        if let Some(java) = &java {
            java.queue(&queue.name, "StringCodec").listen().await;
        }
        log_scripts(&mut redis).await?;
        let mut daemon = Daemon::spawn(
            &server.url(),
            "sinks: { same: { redis: {} } }\nqueues:\n  q: { source: { redisson: { name: trickle } }, to: [{ sink: same, stream: out }] }\n",
        )?;
        daemon.ready().await?;
        // The due times are set only now, because loading takes an unknown time.
        let start = redis_now_ms(&mut redis).await + 3_000;
        let due = |n: usize| start + (n * 1_000 / self.per_second) as i64;
        let scored: Vec<(i64, &Vec<u8>)> = chosen.iter().enumerate().map(|(n, member)| (due(n), member)).collect();
        for piece in scored.chunks(500) {
            let () = redis.zadd_multiple(&queue.timeouts, piece).await?;
        }
        let head: i64 = redis.publish(&queue.channel, start).await?;
        ensure!(head > 0, "no client subscribes to the queue's channel");
        let before = Counters::read(&mut redis).await?;
        let began = Instant::now();
        let mut ghosts = 0.0f64;
        let mut oldest = 0.0f64;
        let mut pings = Vec::new();
        let patience = Duration::from_secs(self.seconds as u64 * 2 + 60);
        while redis.xlen::<_, usize>("out").await? < count {
            ensure!(began.elapsed() < patience, "not all of {count} arrived within {patience:?}");
            ensure!(daemon.process.exit_status().is_none(), "the daemon ended: {}", daemon.said());
            tokio::time::sleep(Duration::from_secs(1)).await;
            let metrics = daemon.metrics().await?;
            ghosts = ghosts.max(metrics.sum("delaybridge_redisson_ghosts"));
            oldest = oldest.max(metrics.sum("delaybridge_redisson_oldest_ghost_age_seconds"));
            let asked = Instant::now();
            let () = redis::cmd("PING").query_async(&mut redis).await?;
            pings.push(asked.elapsed().as_micros() as i64);
        }
        let after = Counters::read(&mut redis).await?;
        let seconds = began.elapsed().as_secs_f64();
        let deliveries = read_stream(&mut redis, "out").await;
        let mut late: Vec<i64> = deliveries.iter().filter_map(|d| Some(d.arrived_ms? - d.due_ms?)).collect();
        late.sort_unstable();
        pings.sort_unstable();
        daemon.stop().await;
        let us = after.scripts_us_since(&before);
        Ok(vec![
            self.pending.to_string(),
            format!("{}/s", self.per_second),
            self.order.name().to_owned(),
            if self.client { format!("{REDISSON}, live") } else { "no client".to_owned() },
            format!("{} ({} by Redisson first)", deliveries.len(), deliveries.len() - late.len()),
            format!("{} / {} / {}", at(&late, 0.5), at(&late, 0.99), at(&late, 1.0)),
            format!("{:.2} / {:.2}", at(&pings, 0.5) as f64 / 1e3, at(&pings, 0.99) as f64 / 1e3),
            format!("{:.0}", us / count as f64),
            format!("{:.2} %", us / seconds / 1e4),
            show_longest(&longest_scripts(&mut redis).await?),
            format!("{ghosts:.0}"),
            format!("{oldest:.1} s"),
            format!("{:.0}", (after.replicated - before.replicated) as f64 / count as f64),
        ])
    }

    /// Offers elements that are due in a day or two; returns those that will trickle, in the order of their due times.
    async fn fill(
        &self,
        redis: &mut MultiplexedConnection,
        queue: &RedissonQueue,
        count: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let load = Load { count: self.pending, size: 256, order: self.order, last_in_ms: 2 * DAY_MS };
        // In the order of offers, take the head of the list; in random order, take elements from the whole list.
        let stride = if self.order == Order::Offers { 1 } else { self.pending / count };
        let mut seen = 0;
        let mut chosen = Vec::with_capacity(count);
        let mut middle = Vec::new();
        fill(redis, queue, load, |elements| {
            for element in elements {
                if seen % stride == 0 && chosen.len() < count {
                    chosen.push(element.member.clone());
                }
                if seen == self.pending / 2 {
                    middle.clone_from(&element.member);
                }
                seen += 1;
            }
        })
        .await?;
        if self.order == Order::Random {
            fastrand::shuffle(&mut chosen);
        }
        if self.planted {
            // Recorded with the time, as a claim does.
            let now = redis_now_ms(redis).await;
            let () = redis.hset(queue.bridge_key("sweep"), "oldest", now).await?;
            let () = redis.zrem(&queue.timeouts, &middle).await?;
            let () = redis.sadd(queue.bridge_key("ghosts"), &middle[..16]).await?;
        }
        Ok(chosen)
    }
}
