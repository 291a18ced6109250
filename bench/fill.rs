//! Fills a queue as Redisson does, in an order that is asked for.

use anyhow::Result;
use redis::aio::MultiplexedConnection;

use crate::redisson::{Element, Layout, RedissonQueue, redis_now_ms};

/// How due times follow the order of the offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Not at all.
    Random,
    /// What was offered first falls due first.
    Offers,
    /// Everything falls due in the same millisecond.
    OneMillisecond,
    /// What was offered last falls due first.
    Reverse,
}

/// Due times lie within so long.
const SPAN_MS: i64 = 3_600_000;

impl Order {
    /// All of them.
    pub const ALL: [Order; 4] = [Order::Random, Order::Offers, Order::OneMillisecond, Order::Reverse];

    /// As the tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Random => "random",
            Order::Offers => "order of offers",
            Order::OneMillisecond => "one millisecond",
            Order::Reverse => "reverse",
        }
    }

    /// How long before the last due time offer `n` of `count` falls due.
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

/// Elements for [`fill`].
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How many.
    pub count: usize,
    /// Bytes of each payload.
    pub size: usize,
    /// When they fall due.
    pub order: Order,
    /// How long from now the last one falls due; the first up to an hour before it.
    pub last_in_ms: i64,
}

impl Load {
    /// Overdue elements of 256 bytes in random order.
    pub fn overdue(count: usize) -> Self {
        Load { count, size: 256, order: Order::Random, last_in_ms: -1_000 }
    }
}

/// Elements of one pipeline.
const PIECE: usize = 10_000;

/// Offers all of it and shows each piece to `see`.
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

/// The body of element `n`.
pub fn payload(n: usize, size: usize) -> String {
    format!("{n:0size$}")
}
