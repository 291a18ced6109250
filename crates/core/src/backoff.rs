//! The wait before the next attempt. Pure: the number of the attempt and the random number are arguments.

use std::time::Duration;

/// Exponential backoff: waits that grow with every consecutive failure, up to a ceiling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// The upper bound of the first wait.
    pub first: Duration,
    /// The upper bound of every wait.
    pub ceiling: Duration,
    /// The factor from one bound to the next; at least 1.
    pub multiplier: f64,
    /// The part of the bound from which a wait is drawn.
    pub jitter: Jitter,
}

/// The random part of a wait, so that many daemons do not retry in step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// Each wait equals its bound.
    None,
    /// A wait is drawn between this fraction of the bound, `0.0..=1.0`, and the bound.
    From(f64),
    /// A wait is drawn between zero and the bound.
    Full,
}

impl Backoff {
    /// Creates a backoff whose bounds double.
    pub const fn doubling(first: Duration, ceiling: Duration, jitter: Jitter) -> Self {
        Backoff { first, ceiling, multiplier: 2.0, jitter }
    }

    /// Computes the longest wait after `waits` earlier ones. Without earlier ones it is `first`, limited by the
    /// ceiling.
    pub fn bound(&self, waits: u32) -> Duration {
        let exponent = i32::try_from(waits).unwrap_or(i32::MAX);
        let bound = self.first.as_secs_f64() * self.multiplier.powi(exponent);
        // Values that a Duration cannot hold, infinity included, become the ceiling.
        Duration::try_from_secs_f64(bound).unwrap_or(self.ceiling).min(self.ceiling)
    }

    /// Computes the wait after `waits` earlier ones. `draw` is a random number in `0.0..=1.0`; it is ignored without
    /// jitter.
    pub fn wait(&self, waits: u32, draw: f64) -> Duration {
        let bound = self.bound(waits);
        let least = match self.jitter {
            Jitter::None => return bound,
            Jitter::From(least) => least,
            Jitter::Full => 0.0,
        };
        let draw = if draw.is_finite() { draw.clamp(0.0, 1.0) } else { 1.0 };
        bound.mul_f64(least + (1.0 - least) * draw).min(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn backoff(jitter: Jitter) -> Backoff {
        Backoff::doubling(MS(500), MS(60_000), jitter)
    }

    #[test]
    fn bounds_grow_to_the_ceiling_and_never_overflow() {
        for (waits, ms) in [(0, 500), (1, 1_000), (6, 32_000), (7, 60_000), (40, 60_000), (u32::MAX, 60_000)] {
            assert_eq!(backoff(Jitter::None).bound(waits), MS(ms), "{waits}");
        }
        let huge = Backoff { first: Duration::MAX, ..backoff(Jitter::Full) };
        assert_eq!(huge.bound(4), MS(60_000));
        let steady = Backoff { multiplier: 1.0, ..backoff(Jitter::None) };
        assert_eq!(steady.bound(u32::MAX), MS(500));
    }

    #[test]
    fn a_wait_is_drawn_from_its_part_of_the_bound() {
        fn check(jitter: Jitter, draw: f64, ms: u64) {
            assert_eq!(backoff(jitter).wait(1, draw), MS(ms), "{jitter:?} {draw}");
        }
        check(Jitter::None, 0.0, 1_000);
        check(Jitter::Full, 0.0, 0);
        check(Jitter::Full, 0.5, 500);
        check(Jitter::Full, 1.0, 1_000);
        check(Jitter::From(0.5), 0.0, 500);
        check(Jitter::From(0.5), 0.5, 750);
        check(Jitter::From(0.5), 1.0, 1_000);
    }

    #[test]
    fn a_draw_out_of_range_stays_within_the_bound() {
        for (draw, ms) in [(7.0, 1_000), (-1.0, 0), (f64::NAN, 1_000), (f64::INFINITY, 1_000)] {
            assert_eq!(backoff(Jitter::Full).wait(1, draw), MS(ms), "{draw}");
        }
    }
}
