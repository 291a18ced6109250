//! A sink in a loop, without a queue before it: what a program achieves that uses the same client by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use delaybridge_config::load_str;
use delaybridge_link::{LinkOptions, Redis};
use delaybridge_sink::{Answers, Destination, Sink};
use delaybridge_testing::sink::outbound;
use futures_util::stream::{FuturesUnordered, StreamExt};

use harness::fill::payload;

/// The largest number of elements in a claim of the daemon.
const BATCH: usize = 500;
/// The largest number of elements in flight with `max_in_flight: auto`.
const WINDOW: usize = 10_000;
/// Time for one delivery and for the first connection, as the daemon has it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A sink and one destination.
pub struct BareSink {
    sink: Arc<dyn Sink>,
    destination: Destination,
}

impl BareSink {
    /// The sink with these keys and destination keys (YAML), when it is connected.
    pub async fn connect(sink: &str, to: &str) -> Result<BareSink> {
        // No sink of a broker uses the Redis of the queues.
        let yaml = format!(
            "redis: {{ url: redis://127.0.0.1:1 }}\nsinks: {{ out: {sink} }}\n\
             queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out, {to} }}] }} }}\n"
        );
        let loaded = load_str(&yaml, "bare.yaml", &|_| None).map_err(|errors| anyhow!("read {yaml}: {errors:?}"))?;
        let config = loaded.config;
        let redis = Redis::start(config.redis.only().context("find the Redis")?, LinkOptions::default());
        let spec = config.sinks.first().context("find the sink")?;
        let route = config.queues.first().and_then(|queue| queue.to.first()).context("find the route")?;
        let fixed = route.target.fixed().context("find the destination, which has templates")?;
        let bare = BareSink { sink: spec.connect(&redis), destination: fixed.destination };
        let until = Instant::now() + PATIENCE;
        while let Err(failure) = bare.sink.check(std::slice::from_ref(&bare.destination)).await {
            if Instant::now() >= until {
                bail!("connect the bare client: {}", failure.message);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(bare)
    }

    /// Measures the elements/s of so many elements of this size: batches as large as those of the daemon, as many of them
    /// under way.
    pub async fn rate(&self, count: usize, size: usize) -> Result<f64> {
        let started = Instant::now();
        let mut under_way = FuturesUnordered::new();
        let mut handed_over = 0;
        while handed_over < count || !under_way.is_empty() {
            while handed_over < count && under_way.len() < WINDOW / BATCH {
                let end = count.min(handed_over + BATCH);
                under_way.push(self.batch(handed_over..end, size));
                handed_over = end;
            }
            under_way.next().await.transpose()?;
        }
        Ok(count as f64 / started.elapsed().as_secs_f64())
    }

    async fn batch(&self, numbers: std::ops::Range<usize>, size: usize) -> Result<()> {
        let answers = Answers::new(numbers.len());
        let batch: Vec<_> = numbers.map(|n| outbound(n as u64, self.destination.clone(), payload(n, size))).collect();
        self.sink.deliver_all(batch, &answers).await;
        match answers.take().failed.first() {
            None => Ok(()),
            Some((_, failure)) => bail!("a bare element was not confirmed: {}", failure.message),
        }
    }

    pub async fn close(self) {
        self.sink.close().await;
    }
}
