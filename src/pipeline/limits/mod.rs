//! What bounds a queue: how much may be in flight, how fast it may go, and when it must not go on at all.
//!
//! Each file is a state machine of its own that knows neither queues nor Redis.

pub mod adaptive;
pub mod budget;
pub mod circuit;
pub mod rate;
pub mod reserved;
