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
    // Measured: 4,355 and 1.0; 50,734 and 25.1. A tenth more, for compilers and processors.
    PerElement { way: "raw", instructions: 4_800, allocations: 1.1 },
    PerElement { way: "json", instructions: 54_500, allocations: 26.0 },
];

/// Most bytes that the values of an element take in this process, without what the bytes of its payload take: what a claim
/// read (its bytes, its due time, its score, and the places of a header and a body that most have not), and what a sink is
/// given. They are what was measured: a field more is a decision.
pub const ELEMENT_BYTES: usize = 64;
/// See [`ELEMENT_BYTES`].
pub const OUTBOUND_BYTES: usize = 200;

/// Limits of what one element asks the allocator for on its whole way, from the reply that brings it to its confirmation.
pub struct PerWay {
    /// How it is claimed.
    pub what: &'static str,
    /// Most calls of the allocator.
    pub allocations: f64,
    /// Most bytes, those of the element itself and of the buffers that it is read into among them.
    pub bytes: f64,
}

/// Elements of 256 bytes to a sink that answers at once.
pub const WHOLE_WAY: [PerWay; 2] = [
    // Measured: 4.39 of 837 bytes; 91.3 of 18,103 bytes. A few percent more: when replies are read depends on the moment.
    PerWay { what: "one of a claim of 500", allocations: 4.6, bytes: 860.0 },
    PerWay { what: "the one of a claim", allocations: 95.0, bytes: 18_800.0 },
];

/// Limits of the instructions that traces cost an element in a process that makes none.
pub struct PerUntraced {
    /// Where the pipeline asks whether there are any.
    pub asking: f64,
    /// In the code that makes them: nothing but the end of what is not there, once a claim.
    pub making: f64,
}

/// See [`PerUntraced`]. Measured: 40.1 and 0.06, of 65,900 on the whole way; with a trace of every element it is 80,400.
pub const TRACES_OFF: PerUntraced = PerUntraced { asking: 44.0, making: 0.1 };

/// Most bytes that a queue holds while nothing happens, after its first claim. Measured: 535, of which 472 are its
/// configuration. With a store, counters and a claimer of its own it was 4,377.
pub const IDLE_QUEUE_BYTES: f64 = 545.0;

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
    // Ten claims of 5,000 elements, and one removal of their ten names. Their settlings are ten plain commands.
    PerRedis { what: "scripts sent", most: 0.0022 },
    // Measured: 0.112.
    PerRedis { what: "commands inside of scripts", most: 0.13 },
    // Measured: 2.0, because a claim is settled by its name; 301.7, of which 256 are the payload.
    PerRedis { what: "bytes to Redis", most: 2.2 },
    PerRedis { what: "bytes from Redis", most: 310.0 },
    // Measured: 1.10.
    PerRedis { what: "commands of the sweep, for each entry", most: 1.2 },
    // Measured: 0.0036. Batches are what the moment makes them; a round trip for each element would be 1.
    PerRedis { what: "scripts sent by the daemon", most: 0.05 },
    PerRedis { what: "commands sent by the sink", most: 1.0 },
];

/// The most that one script may hold Redis up, in ms: this, and for each MB that it moves that. Measured on a machine with
/// other work: 0.8 to 1.9 ms with large elements behind small ones (70 to 970 when they were read), 0.6 ms with 10 MiB at
/// both ends of the list (85 and more), 3 to 5 ms for a takeover of 64 KiB elements, 1.3 ms for the end of a turn with
/// 1,000,000 ghosts (1,500).
pub const SCRIPT_MS: f64 = 5.0;
/// See [`SCRIPT_MS`].
pub const SCRIPT_MS_PER_MB: f64 = 10.0;
