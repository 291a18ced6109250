//! The costs of an element in numbers that do not depend on the load of the machine: instructions and allocations of
//! the code that processes every element, and commands of Redis. Only the bounds of single scripts use a clock, the
//! server's.
//!
//! A binary of its own, because callgrind reads a whole binary before it begins, and that of the other tests is large.
//! The limits are in `limits.rs`.

mod bounds;
#[allow(dead_code, reason = "`allocations.rs` uses the rest")]
mod callgrind;
mod commands;
mod hot_path;
#[allow(dead_code, reason = "`allocations.rs` uses the rest")]
mod limits;
#[path = "../../bench/scripts.rs"]
#[allow(dead_code, reason = "the benchmarks use the rest")]
mod scripts;
