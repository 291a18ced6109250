//! The smallest scripts that can claim and settle: they move a range from the sorted set into a key, add a lease, and
//! settle by name. They check nothing, so no daemon could use them; the daemon's own cost is compared with theirs.

use anyhow::{Result, ensure};
use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::observed::Counters;
use harness::fill::Order;
use harness::redisson::RedissonQueue;

/// KEYS: sorted set, list, key of the claim, leases, identities of ghosts. ARGV: name of the claim, maximum number of
/// elements.
const MOVE: &str = "
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[4], now + 30000, ARGV[1])
local n = redis.call('ZRANGESTORE', KEYS[3], KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[2])
if n == 0 then return {} end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, n - 1)
local taken = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
";
/// The end of the script for the order of offers: the taken elements are the head of the list.
const CUT: &str = "redis.call('LTRIM', KEYS[2], n, -1) return taken";
/// The end for any other order: the elements are anywhere in the list, and their entries must be recorded.
const RECORD: &str = "
local ids = {}
for i = 1, #taken, 2 do ids[#ids + 1] = string.sub(taken[i], 1, 16) end
redis.call('SADD', KEYS[5], unpack(ids))
return taken";

/// One connection that does the minimum for a queue.
pub struct Yardstick {
    redis: MultiplexedConnection,
    queue: RedissonQueue,
    script: Script,
    leases: String,
    ghosts: String,
    claims: u64,
}

impl Yardstick {
    /// Creates it for a queue with elements in this order.
    pub fn new(redis: &MultiplexedConnection, queue: &RedissonQueue, order: Order) -> Self {
        let rest = if order == Order::Offers { CUT } else { RECORD };
        Yardstick {
            redis: redis.clone(),
            queue: queue.clone(),
            script: Script::new(&format!("{MOVE}{rest}")),
            leases: queue.bridge_key("leases"),
            ghosts: queue.bridge_key("ghosts"),
            claims: 0,
        }
    }

    /// Claims at most `most` due elements, and settles them; returns their number.
    pub async fn once(&mut self, most: usize) -> Result<usize> {
        self.claims += 1;
        let name = format!("1.00000000000000aa.{}.0", self.claims);
        let claim = self.queue.bridge_key(&format!("claim:{name}:d"));
        let mut call = self.script.prepare_invoke();
        call.key(&self.queue.timeouts).key(&self.queue.list).key(&claim).key(&self.leases).key(&self.ghosts);
        let taken: Vec<(Vec<u8>, Vec<u8>)> = call.arg(&name).arg(most).invoke_async(&mut self.redis).await?;
        let mut settle = redis::pipe();
        settle.cmd("UNLINK").arg(&claim).ignore().zrem(&self.leases, &name).ignore();
        let () = settle.query_async(&mut self.redis).await?;
        Ok(taken.len())
    }

    /// Claims and settles `count` elements in batches of 500.
    pub async fn drain(&mut self, count: usize) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let taken = self.once(left.min(500)).await?;
            ensure!(taken > 0, "the yardstick took nothing with {left} to go");
            left -= taken;
        }
        Ok(())
    }

    /// Removes the records, and the whole list if `emptied`.
    pub async fn tidy(&mut self, emptied: bool) -> Result<()> {
        let mut keys = redis::cmd("UNLINK");
        keys.arg(&self.ghosts);
        if emptied {
            keys.arg(&self.queue.list);
        }
        Ok(keys.query_async(&mut self.redis).await?)
    }

    /// Microseconds of Redis in these scripts since `before`.
    pub fn us_since(after: &Counters, before: &Counters) -> f64 {
        after.us_since(before, &["evalsha", "unlink", "zrem"])
    }
}
