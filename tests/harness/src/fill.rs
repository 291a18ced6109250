//! Fills a queue as Redisson does, with due times in a chosen order.

use anyhow::Result;
use redis::aio::MultiplexedConnection;

use crate::redisson::{Element, Layout, RedissonQueue, redis_now_ms};

/// The order of the due times compared with the order of the offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Random.
    Random,
    /// The same order.
    Offers,
    /// All due in the same millisecond.
    OneMillisecond,
    /// The reverse order.
    Reverse,
}

/// The range of the due times.
const SPAN_MS: i64 = 3_600_000;

impl Order {
    /// All orders.
    pub const ALL: [Order; 4] = [Order::Random, Order::Offers, Order::OneMillisecond, Order::Reverse];

    /// The name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Order::Random => "random",
            Order::Offers => "order of offers",
            Order::OneMillisecond => "one millisecond",
            Order::Reverse => "reverse",
        }
    }

    /// The time from the due time of offer `n` of `count` to the last due time.
    fn before_last_ms(self, n: usize, count: usize) -> i64 {
        let share = |n: usize| (SPAN_MS as f64 * n as f64 / count as f64) as i64;
        match self {
            Order::Random => fastrand::i64(0..SPAN_MS),
            Order::Offers => share(count - n),
            Order::OneMillisecond => 0,
            Order::Reverse => share(n),
        }
    }
}

/// A load for [`fill`].
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Number of elements.
    pub count: usize,
    /// Size of each payload, in bytes.
    pub size: usize,
    /// The order of the due times.
    pub order: Order,
    /// The time from now to the last due time; the first is up to an hour earlier.
    pub last_in_ms: i64,
}

impl Load {
    /// A load of overdue elements of 256 bytes in random order.
    pub fn overdue(count: usize) -> Self {
        Load { count, size: 256, order: Order::Random, last_in_ms: -1_000 }
    }
}

/// Number of elements in one pipeline.
const PIECE: usize = 10_000;

/// Offers the load, and passes each batch to `see`.
pub async fn fill(
    redis: &mut MultiplexedConnection,
    queue: &RedissonQueue,
    load: Load,
    mut see: impl FnMut(&[Element]),
) -> Result<()> {
    let last = redis_now_ms(redis).await + load.last_in_ms;
    for start in (0..load.count).step_by(PIECE) {
        let some: Vec<Element> = (start..load.count.min(start + PIECE))
            .map(|n| Element::new(Layout::New, last - load.order.before_last_ms(n, load.count), payload(n, load.size)))
            .collect();
        queue.offer_bulk(redis, &some).await;
        see(&some);
    }
    Ok(())
}

/// The payload of element `n`.
pub fn payload(n: usize, size: usize) -> String {
    format!("{n:0size$}")
}
