//! `max_in_flight: auto`: a bound that follows the sink.
//!
//! It grows while the sink answers in good time and the bound is what limits, and shrinks when answers take long: more in
//! flight would then only wait longer, here instead of in Redis, and before the elements of other queues on the same sink.

use std::time::Duration;

use parking_lot::Mutex;

/// The bound of one queue.
#[derive(Debug)]
pub struct Adaptive(Mutex<AdaptiveState>);

#[derive(Debug)]
struct AdaptiveState {
    limit: u64,
    /// Smoothed time from claim to answer, in microseconds; 0 before the first.
    smoothed_us: u64,
    /// Answers since the last change.
    answers: u64,
}

/// Answers within this time leave room for more. Where the processor is what limits, elements wait for each other a little
/// at every step, and larger batches make each of them cheaper: at 50 ms the bound stayed near 2,000 on the way to Kafka.
const FAST: Duration = Duration::from_millis(200);
/// Answers beyond this time mean that elements wait for each other.
const SLOW: Duration = Duration::from_secs(1);

impl Adaptive {
    /// The bound to begin with.
    pub const FIRST: u64 = 1_000;
    /// The highest bound.
    pub const MOST: u64 = 10_000;
    /// The lowest bound.
    pub const LEAST: u64 = 64;

    /// Creates the bound of a queue that has delivered nothing yet.
    pub fn new() -> Self {
        Adaptive(Mutex::new(AdaptiveState { limit: Self::FIRST, smoothed_us: 0, answers: 0 }))
    }

    /// Takes note of `count` answers after this time, with so many in flight; returns the bound.
    pub fn answered(&self, took: Duration, count: u64, in_flight: u64) -> u64 {
        let mut state = self.0.lock();
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        state.smoothed_us = match state.smoothed_us {
            0 => us,
            // As if they had come one after the other.
            old => (us as f64 + (old as f64 - us as f64) * (15.0 / 16.0f64).powf(count as f64)) as u64,
        };
        state.answers += count;
        // One change for each bound's worth of answers: the effect of the last one must be seen first.
        if state.answers < state.limit {
            return state.limit;
        }
        state.answers = 0;
        let smoothed = Duration::from_micros(state.smoothed_us);
        let limit = if smoothed <= FAST && in_flight * 2 > state.limit {
            state.limit * 2
        } else if smoothed >= SLOW {
            state.limit / 2
        } else {
            state.limit
        };
        state.limit = limit.clamp(Self::LEAST, Self::MOST);
        state.limit
    }
}

impl Default for Adaptive {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bound after many answers of one kind.
    fn settles_at(took: Duration, in_flight: u64) -> u64 {
        let adaptive = Adaptive::new();
        (0..200_000).map(|_| adaptive.answered(took, 1, in_flight)).last().unwrap_or(Adaptive::FIRST)
    }

    #[test]
    fn it_follows_the_sink() {
        assert_eq!(settles_at(Duration::from_millis(2), u64::MAX / 4), Adaptive::MOST);
        assert_eq!(settles_at(Duration::from_millis(2), 10), Adaptive::FIRST, "unused room needs no more room");
        assert_eq!(settles_at(Duration::from_millis(500), u64::MAX / 4), Adaptive::FIRST);
        assert_eq!(settles_at(Duration::from_secs(3), u64::MAX / 4), Adaptive::LEAST);
    }
}
