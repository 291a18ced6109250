//! The bounds of a queue: the number in flight, the rate, and the times when it must not claim at all.
//!
//! Each file is a state machine of its own that knows neither queues nor Redis.

pub mod adaptive;
pub mod budget;
pub mod circuit;
mod growing;
pub mod growth;
pub mod large;
pub mod neighbours;
pub mod pauses;
pub mod rate;
pub mod reserved;
pub mod share;
