//! Clocks: which one a delay is counted from.

use serde_json::json;

use super::offers::HOUR;
use crate::bench::{Bench, Check, Opening, Stop, now_ms};
use crate::statements::{T1, T2};

/// The largest difference between the clocks of the kit and of a producer on another machine, in ms.
const TOLERANCE_MS: i64 = 1_000;

pub const PRODUCER: Check = Check { name: "the producer's clock", about: &[T1], run: producer };

fn producer(bench: &mut Bench) -> Result<(), Stop> {
    for offset in [0, 3 * HOUR, -3 * HOUR] {
        let queue = bench.queue("%")?;
        bench.open(&queue, Opening { clock_offset_ms: offset, ..Opening::default() })?;
        if offset != 0 {
            bench.needs("clock_offset")?;
        }
        for (place, delay) in [HOUR, 0].into_iter().enumerate() {
            let from = now_ms() + offset;
            bench.offer(json!({"value": "x", "delay_ms": delay}))?;
            let to = now_ms() + offset;
            let seen = bench.look(&queue)?;
            // One that is due may be gone: Redisson itself has a transfer task.
            let this = seen.scheduled.iter().find(|one| Some(&one.element) == seen.listed.get(place));
            let Some(due) = this.and_then(|one| one.score.parse::<f64>().ok()) else { return Ok(()) };
            #[expect(clippy::cast_precision_loss, reason = "times in ms are below 2^53")]
            let least = (from + delay - TOLERANCE_MS) as f64;
            let most = (to + delay + TOLERANCE_MS) as f64;
            bench.require(T1, due >= least && due <= most, || {
                format!("the producer's clock is {offset} ms ahead and shows {from}; a delay of {delay} ms gave the score {due}")
            });
        }
    }
    Ok(())
}

pub const REDIS: Check = Check { name: "Redis's clock", about: &[T2], run: redis };

fn redis(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening { redis_clock: true, clock_offset_ms: 3 * HOUR, ..Opening::default() })?;
    bench.needs("clock_redis")?;
    let from = bench.server.now_ms()?;
    bench.offer(json!({"value": "x", "delay_ms": HOUR}))?;
    let to = bench.server.now_ms()?;
    let seen = bench.look(&queue)?;
    let Some(score) = seen.score_of_entry(0) else { return Ok(()) };
    // Exact, whatever the clocks of the machines say: Redis counted.
    let right = score.parse().is_ok_and(|due: i64| due >= from + HOUR && due <= to + HOUR);
    bench.require(T2, right, || {
        format!(
            "Redis's clock shows {from}, the producer's is three hours ahead; a delay of an hour gave the score {score}"
        )
    });
    Ok(())
}
