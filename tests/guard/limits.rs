//! Every limit, with what was measured when it was set.
//!
//! Change a limit only deliberately: measure (`cargo test --test guard -- --nocapture` prints all figures), find out why, and
//! say in the commit what an element costs now and what that buys. A figure that falls far below its limit takes the
//! limit down with it, else the next loss goes unnoticed.

/// Limits of what one element costs in this process. A build without optimisation: the one that the tests are built as
/// anyway. It overstates everything alike, and a pass, a copy or an allocation more shows in it as well.
pub struct PerElement {
    /// Name of a [`Way`](crate::hot_path::Way).
    pub way: &'static str,
    /// Most instructions.
    pub instructions: u64,
    /// Most calls of the allocator.
    pub allocations: f64,
}

/// Decode the entry, decode the payload, route it, write the verdict.
pub const HOT_PATH: [PerElement; 2] = [
    // Measured: 7,644 and 1.0, the vectors of a batch; 49,426 and 25.1. A tenth more, for compilers and processors.
    PerElement { way: "raw", instructions: 8_400, allocations: 1.1 },
    PerElement { way: "json", instructions: 54_500, allocations: 26.0 },
];

/// Limits of what one element costs Redis.
pub struct PerRedis {
    /// Name of a figure of `commands.rs`.
    pub what: &'static str,
    /// The most of it for each element.
    pub most: f64,
}

/// Claim and settling of elements in batches of 500, random due times, a turn of the sweep after it; then the daemon with
/// the same elements and a Redis stream.
pub const REDIS: [PerRedis; 7] = [
    // Ten claims of 5,000 elements: their settlings are ten plain commands.
    PerRedis { what: "scripts sent", most: 0.002 },
    // Measured: 0.346; how many LREMs fit into their budget depends a little on the time.
    PerRedis { what: "commands inside of scripts", most: 0.4 },
    // Measured: 368.2 and 368.7, of which 342 are the entry.
    PerRedis { what: "bytes to Redis", most: 385.0 },
    PerRedis { what: "bytes from Redis", most: 380.0 },
    // Measured: 1.10.
    PerRedis { what: "commands of the sweep, for each entry", most: 1.2 },
    // Measured: 0.003. Batches are what the moment makes them; a round trip for each element would be 1.
    PerRedis { what: "scripts sent by the daemon", most: 0.05 },
    PerRedis { what: "commands sent by the sink", most: 1.0 },
];
