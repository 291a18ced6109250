//! All limits, each with the value measured when it was set.
//!
//! Change a limit only deliberately: measure (`cargo test --test guard -- --nocapture` prints all figures), find the
//! reason, and state in the commit the new cost of an element and its benefit. If a figure falls far below its limit,
//! lower the limit, or the next regression goes unnoticed.

/// The limits of one element in this process. They are for a build without optimisation, because the tests are built
/// that way. It overstates everything alike, but shows an additional pass, copy or allocation as well.
pub struct PerElement {
    /// The name of a [`Way`](crate::hot_path::Way).
    pub way: &'static str,
    /// Maximum number of instructions.
    pub instructions: u64,
    /// Maximum number of allocator calls.
    pub allocations: f64,
}

/// The limits for decoding the entry and the payload, routing, and writing the verdict.
pub const HOT_PATH: [PerElement; 2] = [
    // Measured: 3,911 and 1.0; 52,615 and 25.1. The limits are a few percent higher, for other compilers and processors.
    PerElement { way: "raw", instructions: 4_300, allocations: 1.1 },
    PerElement { way: "json", instructions: 54_500, allocations: 26.0 },
];

/// Maximum size in bytes of a claimed element in this process, without its payload: its bytes, due time and score, and
/// the offsets of a header and a body, which most do not have. [`OUTBOUND_BYTES`] is that of an element for a sink.
/// Both are the measured values, because another field is a deliberate decision.
pub const ELEMENT_BYTES: usize = 64;
/// See [`ELEMENT_BYTES`].
pub const OUTBOUND_BYTES: usize = 176;

/// The allocation limits of one element on its whole way, from the reply with it to its confirmation.
pub struct PerWay {
    /// The size of its claim.
    pub what: &'static str,
    /// Maximum number of allocator calls.
    pub allocations: f64,
    /// Maximum number of bytes, including those of the element itself and of the read buffers.
    pub bytes: f64,
}

/// The limits for elements of 256 bytes to a sink that answers at once.
pub const WHOLE_WAY: [PerWay; 2] = [
    // Measured: 3.39 of 779 bytes; 89.3 of 18,500 bytes. The limits are a few percent higher, because the grouping of
    // replies varies.
    PerWay { what: "one of a claim of 500", allocations: 3.6, bytes: 800.0 },
    PerWay { what: "the one of a claim", allocations: 91.0, bytes: 18_800.0 },
];

/// The limits of the instructions per element for traces in a process without traces.
pub struct PerUntraced {
    /// In the pipeline's checks whether traces are on.
    pub asking: f64,
    /// In the code of traces: only the drop of an absent one, once per claim.
    pub making: f64,
}

/// See [`PerUntraced`]. Measured: 22.2 and 0.06, of 68,000 on the whole way; with a trace of every element it is 82,600.
pub const TRACES_OFF: PerUntraced = PerUntraced { asking: 25.0, making: 0.1 };

/// Maximum number of bytes that an idle queue holds after its first claim. Measured: 568, of which 504 are its
/// configuration, and of those 24 the prefix of its keys and its database. With a store, counters and a claimer of its own it was
/// 4,377.
pub const IDLE_QUEUE_BYTES: f64 = 570.0;

/// Maximum number of bytes of the metrics of a queue that has delivered to one sink. Measured: 15,540, of which 5,070 are the
/// counters that begin at zero, one for each reason of a dead letter among them. With the help text in each series the rest were 13,929.
pub const QUEUE_WITH_SERIES_BYTES: f64 = 15_700.0;
/// The same of a queue beyond those with series of their own. Measured: 1,060. With a table of queues for each gauge they were
/// 1,572.
pub const QUEUE_WITHOUT_SERIES_BYTES: f64 = 1_080.0;

/// A limit of the cost of one element in Redis.
pub struct PerRedis {
    /// The name of a figure of `commands.rs`.
    pub what: &'static str,
    /// Maximum for each element.
    pub most: f64,
}

/// The limits for claims and settlings of elements in batches of 500, with random due times, and a turn of the sweep
/// afterwards; then those of the daemon with the same elements and a Redis stream.
pub const REDIS: [PerRedis; 8] = [
    // Ten claims of 5,000 elements, and one removal of their ten names. Their settlings are ten plain commands.
    PerRedis { what: "scripts sent", most: 0.0022 },
    // Measured: 0.104.
    PerRedis { what: "commands inside of scripts", most: 0.115 },
    // Measured: 1.96, because a claim is settled by its name; 301.7, of which 256 are the payload.
    PerRedis { what: "bytes to Redis", most: 2.1 },
    PerRedis { what: "bytes from Redis", most: 310.0 },
    // Measured: 1.10.
    PerRedis { what: "commands of the sweep, for each entry", most: 1.2 },
    // Measured: 33.5 by the scripts alone.
    PerRedis { what: "bytes to a replica, those of the sweep included", most: 40.0 },
    // Measured: 0.0036. The size of batches varies; a round trip for each element would be 1.
    PerRedis { what: "scripts sent by the daemon", most: 0.05 },
    PerRedis { what: "commands sent by the sink", most: 1.0 },
];

/// Maximum time for which one script may block Redis, in ms: this constant, plus the next one for each MB moved.
/// Measured on a busy machine: 0.8 to 1.9 ms with large elements behind small ones (70 to 970 when they were read), 0.6
/// ms with 10 MiB at both ends of the list (85 and more), 3 to 5 ms for a takeover of 64 KiB elements, 1.3 ms for the
/// end of a turn with 1,000,000 ghosts (1,500).
pub const SCRIPT_MS: f64 = 5.0;
/// See [`SCRIPT_MS`].
pub const SCRIPT_MS_PER_MB: f64 = 10.0;
