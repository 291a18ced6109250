//! Where a test program has its place in a run: how much of the machine it takes, and what may run beside it.

/// The capacity that test programs share, for each processor. Tests wait for servers, due times and leases most of the
/// time, so that one thread for each processor would leave the processors idle. At 8 the load of two
/// processors was 17 to 24, and time-outs of five and ten seconds were reached.
const FOR_EACH_PROCESSOR: usize = 6;

/// The place of a test program in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of its tests that run at once.
    pub threads: usize,
    /// Its share of the capacity.
    pub weight: usize,
    /// Whether nothing else runs beside it, because it counts what an element costs.
    pub alone: bool,
    /// Programs with a higher rank start first: the longest, so that none of them is left at the end.
    pub rank: usize,
}

/// The capacity of this machine.
pub fn capacity() -> usize {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    (processors * FOR_EACH_PROCESSOR).max(12)
}

/// The place of the program of this target.
pub fn of(target: &str) -> Place {
    // A test that waits for servers most of the time has the weight 1, one that computes or runs many processes more.
    let place = |threads, weight, rank| Place { threads, weight, alone: false, rank };
    match target {
        "guard" | "allocations" | "memory" => Place { alone: true, ..place(4, 4, 0) },
        "it" => place(8, 8, 4),
        // Its clusters are two processes of Java each.
        "delaybridge_sink_rocketmq" => place(4, 4, 3),
        "delaybridge_sink_kafka" | "delaybridge_sink_amqp" | "delaybridge_sink_amqp1" => place(4, 4, 2),
        // Each of its tests runs several daemons and servers.
        "chaos" => place(2, 4, 1),
        "delaybridge_source" => place(4, 4, 1),
        // They compute for half a minute.
        "explored" | "delaybridge_pipeline" => place(2, 4, 1),
        _ => place(4, 4, 0),
    }
}
