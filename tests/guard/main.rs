//! The costs of an element in numbers that do not depend on the load of the machine: instructions and allocations of
//! the code that processes every element, and commands of Redis. Only the bounds of single scripts use a clock, the
//! server's.
//!
//! A binary of its own, because callgrind reads a whole binary before it begins, and that of the other tests is large.
//! The limits are in `limits.rs`.

// The tools of the integration tests, and the runner of the scripts from the benchmarks.
macro_rules! tools {
    ($($name:ident $path:literal),* $(,)?) => {
        $(
            #[path = $path]
            #[allow(dead_code, reason = "others use the rest")]
            mod $name;
        )*
    };
}
tools! {
    daemon "../it/harness/daemon.rs",
    eventually "../it/harness/eventually.rs",
    fill "../../bench/fill.rs",
    http "../it/harness/http.rs",
    least "../it/harness/least.rs",
    logs "../it/harness/logs.rs",
    metrics "../it/harness/metrics.rs",
    redis_server "../it/harness/redis_server.rs",
    redisson "../it/harness/redisson.rs",
    scripts "../../bench/scripts.rs",
    tls "../it/harness/tls.rs",
}
use brokers::{ports, process};

mod bounds;
#[allow(dead_code, reason = "`allocations.rs` uses the rest")]
mod callgrind;
mod commands;
mod hot_path;
#[allow(dead_code, reason = "`allocations.rs` uses the rest")]
mod limits;
