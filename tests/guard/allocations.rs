//! The number of allocations for an element, an idle queue and the metrics of a queue, and the cost of traces.
//!
//! A binary of its own, because the counting allocator costs instructions, which `hot_path.rs` would count too. The
//! limits are in `limits.rs`.

// The tools of the integration tests, and the filler of the benchmarks.
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
    callgrind "callgrind.rs",
    eventually "../it/harness/eventually.rs",
    fill "../../bench/fill.rs",
    least "../it/harness/least.rs",
    limits "limits.rs",
    redis_server "../it/harness/redis_server.rs",
    redisson "../it/harness/redisson.rs",
    tls "../it/harness/tls.rs",
}
use brokers::{ports, process};

mod series;
mod traces;
mod whole_way;
