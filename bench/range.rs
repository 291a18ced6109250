//! Claim, confirmation and burial in batches of 500, compared with the smallest script that moves a range as a whole.
//! Both drain the same elements on servers of their own, in turns.

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;

use crate::observed::Counters;
use crate::passage::median;
use crate::report::Table;
use crate::scripts::Scripts;
use crate::settings::{number, numbers, rounds, said};
use crate::yardstick::Yardstick;
use harness::fill::{Load, Order, fill};
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

const DEPTHS: &[usize] = &[1_000, 100_000, 1_000_000];
/// Number of elements drained in a round. A smaller depth is filled and drained repeatedly.
const PIECE: usize = 20_000;
const QUEUE: &str = "range";

const COLUMNS: &[&str] = &[
    "due times",
    "pending",
    "to the range script",
    "bar",
    "CPU to the same",
    "to least depth",
    "us each",
    "range script us",
    "CPU us each",
    "range script CPU us",
    "replicas B each",
    "bar B",
    "range script B",
];

/// Measures the table of `ROWS=range`.
pub async fn measure() -> Result<Table> {
    let depths = numbers("DEPTHS", DEPTHS)?;
    let size = number("SIZE", 256)?;
    let rounds = rounds()?;
    let title = format!("Claim, confirm and bury beside a script that moves the range, {size} B, medians of {rounds}");
    let mut table = Table::new(title, COLUMNS);
    for (order, bar, bytes) in [(Order::Offers, "<= 2x", "<= 5"), (Order::Random, "<= 1.35x", "<= 40")] {
        let mut least = None;
        for &depth in &depths {
            said(&format!("range: {depth} pending, {}", order.name()));
            let [ours, range] = at(depth, size, order, rounds).await.with_context(|| format!("drain {depth}"))?;
            let least = *least.get_or_insert(ours.us);
            let ratio = |ours: f64, other: f64| format!("{:.2}x", ours / other);
            let figures = [ours.us, range.us, ours.cpu_us, range.cpu_us].map(|us| format!("{us:.2}"));
            let mut cells = vec![order.name().to_owned(), depth.to_string(), ratio(ours.us, range.us), bar.to_owned()];
            cells.extend([ratio(ours.cpu_us, range.cpu_us), ratio(ours.us, least)]);
            cells.extend(figures);
            cells.extend([format!("{:.1}", ours.bytes), bytes.to_owned(), format!("{:.1}", range.bytes)]);
            table.lines.push(cells);
        }
    }
    table.notes = vec![
        "us: Redis's time in EVALSHA, UNLINK and ZREM. CPU us: of Redis's main thread, its connections included.".into(),
        "to least depth: our us beside those with the fewest pending, in the same order; bar 1.5x.".into(),
        "Without sweeps, which `depth` measures: the list is swept between the rounds. In random order the range script \
         records the identities of what it leaves in the list, as anything must that removes them later. With few pending \
         ours searches the list instead, and leaves nothing for a sweep."
            .into(),
        "replicas: what the replication stream gets for an element in one more round.".into(),
    ];
    Ok(table)
}

#[derive(Clone, Copy)]
struct Cost {
    us: f64,
    cpu_us: f64,
    bytes: f64,
}

/// The medians of the daemon's scripts and of the range script.
async fn at(depth: usize, size: usize, order: Order, rounds: usize) -> Result<[Cost; 2]> {
    let mut both = [Side::start(true, order).await?, Side::start(false, order).await?];
    let load = Load { count: depth, size, order, last_in_ms: -1_000 };
    let piece = PIECE.min(depth);
    // A large depth hardly changes; a small one is drained completely and filled again.
    if depth > PIECE {
        for side in &mut both {
            let count = depth + rounds * piece;
            fill(&mut side.redis, &side.queue, Load { count, ..load }, |_| ()).await?;
        }
    }
    let mut runs = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for n in [round % 2, 1 - round % 2] {
            let side = &mut both[n];
            // Bytes are counted in a round of their own, because a server that writes a replication stream is slower.
            if round == rounds {
                side.server.keep_backlog().await.map_err(anyhow::Error::msg)?;
            }
            let mut sum = Cost { us: 0.0, cpu_us: 0.0, bytes: 0.0 };
            for _ in 0..PIECE / piece {
                if depth <= PIECE {
                    fill(&mut side.redis, &side.queue, load, |_| ()).await?;
                }
                let cost = side.drain(piece, depth <= PIECE).await?;
                sum.us += cost.us;
                sum.cpu_us += cost.cpu_us;
                sum.bytes += cost.bytes;
            }
            let drained = (PIECE / piece * piece) as f64;
            runs[n].push(Cost { us: sum.us / drained, cpu_us: sum.cpu_us / drained, bytes: sum.bytes / drained });
        }
    }
    for side in both {
        if let By::Ours(scripts) = side.by {
            scripts.close().await;
        }
    }
    Ok(runs.map(|runs| Cost {
        us: median(runs[..rounds].iter().map(|run| run.us)),
        cpu_us: median(runs[..rounds].iter().map(|run| run.cpu_us)),
        bytes: runs[rounds].bytes,
    }))
}

/// One of the two, with its server.
struct Side {
    server: RedisServer,
    redis: MultiplexedConnection,
    queue: RedissonQueue,
    by: By,
}

enum By {
    Ours(Box<Scripts>),
    Range(Box<Yardstick>),
}

impl Side {
    async fn start(ours: bool, order: Order) -> Result<Self> {
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        let queue = RedissonQueue::new(QUEUE);
        let by = if ours {
            By::Ours(Box::new(Scripts::connect(&server, &mut redis, QUEUE, false).await?))
        } else {
            By::Range(Box::new(Yardstick::new(&redis, &queue, order)))
        };
        Ok(Side { server, redis, queue, by })
    }

    /// Measures the cost of draining `count` elements; `emptied` if nothing is left afterwards.
    async fn drain(&mut self, count: usize, emptied: bool) -> Result<Cost> {
        let before = Counters::read(&mut self.redis).await?;
        match &mut self.by {
            By::Ours(scripts) => {
                let _ = scripts.drain(count).await?;
            }
            By::Range(yardstick) => yardstick.drain(count).await?,
        }
        let after = Counters::read(&mut self.redis).await?;
        let us = match &mut self.by {
            By::Ours(scripts) => {
                scripts.turn().await?;
                after.daemon_us_since(&before)
            }
            By::Range(yardstick) => {
                yardstick.tidy(emptied).await?;
                Yardstick::us_since(&after, &before)
            }
        };
        let bytes = (after.replicated - before.replicated) as f64;
        Ok(Cost { us, cpu_us: after.cpu_us_since(&before), bytes })
    }
}
