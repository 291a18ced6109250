//! The cost of an element at a steady rate of single ones: Redis compared with the smallest script called once for
//! each, and the daemon compared with the least loop that makes the same calls, and with another build.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::daemon::{Build, Daemon};
use crate::floor;
use crate::observed::Counters;
use crate::passage::median;
use crate::report::Table;
use crate::settings::{number, numbers, rounds, said};
use crate::yardstick::Yardstick;
use harness::fill::{Load, Order, fill};
use harness::redis_server::RedisServer;
use harness::redisson::{RedissonQueue, redis_now_ms};

const RATES: &[usize] = &[20, 200, 1_000];
const DAY_MS: i64 = 86_400_000;
/// Time for which an idle server is measured.
const IDLE: Duration = Duration::from_secs(2);
/// Time after the last due time, for its settling.
const AFTER: Duration = Duration::from_secs(1);
/// Time-out for elements that have not arrived by then.
const PATIENCE: Duration = Duration::from_secs(30);

const COLUMNS: &[&str] = &[
    "rate",
    "by",
    "Redis to smallest script",
    "bar",
    "Redis CPU to the same",
    "daemon to the floor",
    "bar",
    "daemon to the other build",
    "bar",
    "Redis us each",
    "Redis CPU us each",
    "daemon CPU us each",
];

/// The program that works on the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Daemon(Build),
    /// The loop of [`floor`].
    Floor,
    Smallest,
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    redis_us: f64,
    redis_cpu_us: f64,
    daemon_us: f64,
}

/// Measures the table of `ROWS=rate`.
pub async fn measure() -> Result<Table> {
    let seconds = number("RATE_SECONDS", 20)?;
    let pending = number("RATE_PENDING", 100_000)?;
    let rates = numbers("RATES", RATES)?;
    let rounds = rounds()?;
    let contenders: Vec<By> = Build::all().into_iter().map(By::Daemon).chain([By::Floor, By::Smallest]).collect();
    let title = format!(
        "Single elements of {pending} pending, in the order of offers, 256 B, {seconds} s to a stream of another Redis, \
         medians of {rounds}"
    );
    let mut table = Table::new(title, COLUMNS);
    for rate in rates {
        let mut runs: Vec<Vec<Cost>> = vec![Vec::new(); contenders.len()];
        for round in 0..rounds {
            for at in 0..contenders.len() {
                let n = (at + round) % contenders.len();
                let by = contenders[n];
                said(&format!("rate: {rate}/s, {}", by.name()));
                runs[n].push(by.run(rate, seconds, pending).await.with_context(|| format!("{rate}/s"))?);
            }
        }
        let costs: Vec<Cost> = runs.iter().map(|runs| middle(runs)).collect();
        for (by, cost) in contenders.iter().zip(&costs) {
            table.lines.push(by.cells(rate, cost, &contenders, &costs));
        }
    }
    table.notes = vec![
        "Redis us: time in EVALSHA and UNLINK (smallest script: and ZREM), of the queue's Redis only.".into(),
        "Redis CPU us: of its main thread, connections and plain reads included, less what it takes without clients."
            .into(),
        "The floor claims, writes to the sink and confirms by the daemon's own calls, with nothing in between.".into(),
        "The smallest script is called once for each element, right after its due time. The other build: \
         DELAYBRIDGE_BENCH_BESIDE=/path/to/delaybridge."
            .into(),
    ];
    Ok(table)
}

fn middle(runs: &[Cost]) -> Cost {
    let of = |figure: fn(&Cost) -> f64| median(runs.iter().map(figure));
    Cost {
        redis_us: of(|run| run.redis_us),
        redis_cpu_us: of(|run| run.redis_cpu_us),
        daemon_us: of(|run| run.daemon_us),
    }
}

/// The promises for Redis and for the daemon.
fn bars(rate: usize) -> [&'static str; 3] {
    match rate {
        20 => ["<= 1.4x", "<= 1.3x", "<= 0.75x"],
        200 => ["<= 1.2x", "<= 1.3x", "<= 0.7x"],
        1_000 => ["<= 0.85x", "<= 1.3x", "<= 0.6x"],
        _ => ["-"; 3],
    }
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Daemon(build) => build.name(),
            By::Floor => "the floor",
            By::Smallest => "the smallest script",
        }
    }

    fn cells(self, rate: usize, cost: &Cost, all: &[By], costs: &[Cost]) -> Vec<String> {
        let other = |by: By, figure: fn(&Cost) -> f64| {
            let other = all.iter().position(|one| *one == by).filter(|_| self != by && matches!(self, By::Daemon(_)));
            other.map_or("-".to_owned(), |n| format!("{:.2}x", figure(cost) / figure(&costs[n])))
        };
        let [redis, floor, daemon] = if self == By::Daemon(Build::This) { bars(rate) } else { ["-"; 3] };
        vec![
            format!("{rate}/s"),
            self.name().to_owned(),
            other(By::Smallest, |cost| cost.redis_us),
            redis.to_owned(),
            other(By::Smallest, |cost| cost.redis_cpu_us),
            other(By::Floor, |cost| cost.daemon_us),
            floor.to_owned(),
            other(By::Daemon(Build::Beside), |cost| cost.daemon_us),
            daemon.to_owned(),
            format!("{:.0}", cost.redis_us),
            format!("{:.0}", cost.redis_cpu_us),
            if self == By::Smallest { "-".to_owned() } else { format!("{:.0}", cost.daemon_us) },
        ]
    }

    async fn run(self, rate: usize, seconds: usize, pending: usize) -> Result<Cost> {
        let server = RedisServer::start().await;
        let sink = RedisServer::start().await;
        let mut redis = server.client().await;
        let queue = RedissonQueue::new("rate");
        let count = rate * seconds;
        ensure!(count < pending, "{count} elements cannot fall due out of {pending}");
        let load = Load { count: pending, size: 256, order: Order::Offers, last_in_ms: 2 * DAY_MS };
        let mut chosen = Vec::new();
        fill(&mut redis, &queue, load, |some| {
            let room = count - chosen.len();
            chosen.extend(some.iter().take(room).map(|element| element.member.clone()));
        })
        .await?;
        let idle = Counters::read(&mut redis).await?;
        tokio::time::sleep(IDLE).await;
        let idle_us = Counters::read(&mut redis).await?.cpu_us_since(&idle) / IDLE.as_secs_f64();

        let mut daemon = None;
        if let By::Daemon(build) = self {
            let yaml = format!(
                "sinks: {{ out: {{ redis: {{ url: '{}' }} }} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: rate }} }}, to: [{{ sink: out, stream: out }}] }}\n",
                sink.url()
            );
            daemon.insert(Daemon::spawn_of(build, &server.url(), &yaml)?).ready().await?;
        }
        // The due times are set only now, because loading takes an unknown time.
        let start = redis_now_ms(&mut redis).await + 3_000;
        schedule(&mut redis, &queue, &chosen, |n| start + (n * 1_000 / rate) as i64).await?;
        let floor = match self {
            By::Floor => Some(floor::spawn(&server, &sink, "rate", count, start)?),
            _ => None,
        };
        let wait = start - redis_now_ms(&mut redis).await - 500;
        tokio::time::sleep(Duration::from_millis(u64::try_from(wait).context("schedule the elements in time")?)).await;

        let process = daemon.as_ref().map(|daemon| &daemon.process).or(floor.as_ref());
        let used = || process.map(|process| process.usage().cpu);
        let before = Counters::read(&mut redis).await?;
        let used_before = used();
        let began = Instant::now();
        let end = began + Duration::from_millis(500) + Duration::from_secs(seconds as u64) + AFTER;
        if self == By::Smallest {
            let mut yardstick = Yardstick::new(&redis, &queue, Order::Offers);
            for n in 0..count {
                // One millisecond later the element is certainly due.
                let due = began + Duration::from_millis((501 + n * 1_000 / rate) as u64);
                tokio::time::sleep_until(due.into()).await;
                while yardstick.once(1).await? == 0 {
                    ensure!(Instant::now() < end, "element {n} was not due");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
        tokio::time::sleep_until(end.into()).await;
        let mut at_sink = sink.client().await;
        if process.is_some() {
            // On a busy machine the last elements are late.
            while at_sink.xlen::<_, usize>("out").await? < count && Instant::now() < end + PATIENCE {
                tokio::time::sleep(AFTER).await;
            }
        }
        let after = Counters::read(&mut redis).await?;
        let used_after = used();
        let watched = began.elapsed();
        let left: usize = redis.zcard(&queue.timeouts).await?;
        ensure!(left == pending - count, "{} of {count} elements were taken", pending - left);
        if process.is_some() {
            let arrived: usize = at_sink.xlen("out").await?;
            let said = daemon.as_ref().map(Daemon::said).unwrap_or_default();
            ensure!(arrived == count, "{arrived} of {count} elements arrived: {said}");
        }
        if let Some(daemon) = daemon {
            daemon.stop().await;
        }
        let redis_us = match self {
            By::Daemon(_) | By::Floor => after.daemon_us_since(&before),
            By::Smallest => Yardstick::us_since(&after, &before),
        };
        let used = used_after.zip(used_before).map_or(Duration::ZERO, |(after, before)| after.saturating_sub(before));
        let daemon_us = used.as_secs_f64() * 1e6;
        let cpu_us = after.cpu_us_since(&before) - idle_us * watched.as_secs_f64();
        let count = count as f64;
        Ok(Cost { redis_us: redis_us / count, redis_cpu_us: cpu_us / count, daemon_us: daemon_us / count })
    }
}

/// Sets the due times of elements, and announces the first.
async fn schedule(
    redis: &mut MultiplexedConnection,
    queue: &RedissonQueue,
    members: &[Vec<u8>],
    due: impl Fn(usize) -> i64,
) -> Result<()> {
    let scored: Vec<(i64, &Vec<u8>)> = members.iter().enumerate().map(|(n, member)| (due(n), member)).collect();
    for piece in scored.chunks(500) {
        let () = redis.zadd_multiple(&queue.timeouts, piece).await?;
    }
    let _: i64 = redis.publish(&queue.channel, due(0)).await?;
    Ok(())
}
