//! The number of allocations for an element, an idle queue and the metrics of a queue, and the cost of traces.
//!
//! A binary of its own, because the counting allocator costs instructions, which `hot_path.rs` would count too. The
//! limits are in `limits.rs`.

#[allow(dead_code, reason = "`main.rs` uses the rest")]
mod callgrind;
#[allow(dead_code, reason = "`main.rs` uses the rest")]
mod limits;
mod series;
mod traces;
mod whole_way;
