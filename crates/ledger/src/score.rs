//! Scores of a source's sorted set, and the times that they mean.
//!
//! A foreign program chooses the unit. What it wrote is never rewritten, so a claim holds scores as they are, and only a
//! source knows which time a score means. The conversion is here and nowhere else. In scripts a bound is made by the same
//! arithmetic (`raw` in `zset/scripts/claims/keys.lua`): one multiplication, one division, one addition of doubles, each
//! rounded alike everywhere. So Redis and the daemon agree on every score whether it is due.
//!
//! An entry keeps its score in its header (`Source::id_from_score`), so that it can go back.

use delaybridge_link::Score;
use delaybridge_settings::words::words;

words! {
    /// The unit of scores: which time a score means.
    ///
    /// The bound of a millisecond is the largest score that is due in it. A score is due in the first millisecond with a
    /// bound that is not below it. So fractions are never early, and a score that was written for a whole millisecond is
    /// due in exactly that one, whatever its double was rounded to.
    pub enum Unit {
        /// Seconds, with a fraction or without.
        Seconds = "s",
        /// Milliseconds.
        Millis = "ms",
        /// Microseconds.
        Micros = "us",
        /// Nanoseconds: beyond 2^53, so Redis rounds them to 256 ns.
        Nanos = "ns",
        /// Milliseconds times 4096, and a counter in the lower 12 bits.
        Millis4096 = "ms*4096",
    }
}

impl Unit {
    /// Returns the factor, the divisor and the addend for a time in ms: the largest score that is due at that time.
    pub fn factors(self) -> [i64; 3] {
        match self {
            Unit::Seconds => [1, 1_000, 0],
            Unit::Millis => [1, 1, 0],
            Unit::Micros => [1_000, 1, 0],
            Unit::Nanos => [1_000_000, 1, 0],
            Unit::Millis4096 => [4_096, 1, 4_095],
        }
    }

    /// Returns the largest score that is due at this time.
    pub fn until(self, ms: i64) -> Score {
        let [times, by, more] = self.factors().map(|factor| factor as f64);
        Score(ms as f64 * times / by + more)
    }

    /// Returns the score that the source's programs would write for this time: a whole number, so that it may mean an
    /// earlier time by less than one.
    pub fn whole(self, ms: i64) -> Score {
        let [times, by, _] = self.factors().map(|factor| factor as f64);
        Score((ms as f64 * times / by).floor())
    }

    /// Returns the smallest score that is not due before this time.
    pub fn at(self, ms: i64) -> Score {
        let [times, by, _] = self.factors().map(|factor| factor as f64);
        Score((ms as f64 * times / by).ceil())
    }

    /// Returns the first millisecond at which the score is due; `i64::MIN` of -inf alone.
    pub fn due_ms(self, score: Score) -> i64 {
        if score.0 == f64::NEG_INFINITY {
            return i64::MIN;
        }
        self.finite_ms(score).max(i64::MIN + 1)
    }

    fn finite_ms(self, score: Score) -> i64 {
        if self == Unit::Millis {
            return score.ceil_ms();
        }
        let [times, by, more] = self.factors().map(|factor| factor as f64);
        let about = (score.0 - more) * by / times;
        // Beyond this a double has no milliseconds, and the daemon no use for them.
        if about.abs() > 4e15 {
            return about.ceil() as i64; // `as` saturates: inf is the far end of time
        }
        let mut ms = about.floor() as i64 - 2;
        while self.until(ms) < score {
            ms += 1;
        }
        ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_settings::words::Words as _;

    fn due(unit: Unit, text: &str) -> i64 {
        unit.due_ms(Score::parse(text).expect("a score"))
    }

    #[test]
    fn a_fraction_is_never_early() {
        for (unit, text, expected) in [
            (Unit::Seconds, "1700000000", 1_700_000_000_000),
            (Unit::Seconds, "1700000000.4567", 1_700_000_000_457),
            (Unit::Seconds, "1700000000.456", 1_700_000_000_456),
            (Unit::Seconds, "1700000000.4560001", 1_700_000_000_456),
            (Unit::Seconds, "1700000000.456001", 1_700_000_000_457),
            (Unit::Seconds, "0.0000001", 1),
            (Unit::Seconds, "-0.5", -500),
            (Unit::Millis, "1700000000456", 1_700_000_000_456),
            (Unit::Millis, "1700000000456.1", 1_700_000_000_457),
            (Unit::Micros, "1700000000456700", 1_700_000_000_457),
            (Unit::Micros, "1700000000456000", 1_700_000_000_456),
            (Unit::Micros, "1700000000456001", 1_700_000_000_457),
            (Unit::Nanos, "1700000000456700123", 1_700_000_000_457),
            (Unit::Nanos, "1700000000456000000", 1_700_000_000_456),
            (Unit::Nanos, "1.700000000456e+18", 1_700_000_000_456),
            (Unit::Millis4096, "6963200001867776", 1_700_000_000_456),
            (Unit::Millis4096, "6963200001867777", 1_700_000_000_456),
            (Unit::Millis4096, "6963200001871871", 1_700_000_000_456),
            (Unit::Millis4096, "6963200001871872", 1_700_000_000_457),
        ] {
            assert_eq!(due(unit, text), expected, "{text} {}", unit.as_str());
        }
    }

    #[test]
    fn every_whole_millisecond_reads_back_and_the_next_score_is_later() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for &(name, unit) in Unit::VALUES {
            for _ in 0..20_000 {
                let ms = random.i64(-10_000..5_000_000_000_000);
                let bound = unit.until(ms);
                assert_eq!(unit.due_ms(bound), ms, "{name} {ms}");
                let next = Score(bound.0.next_up());
                assert_eq!(unit.due_ms(next), ms + 1, "{name} behind {ms}");
                // What a program writes for that time: its text is rounded once.
                let text = match unit {
                    Unit::Seconds if ms >= 0 => format!("{}.{:03}", ms / 1_000, ms % 1_000),
                    Unit::Millis => ms.to_string(),
                    Unit::Micros => format!("{ms}000"),
                    Unit::Nanos => format!("{ms}000000"),
                    _ => continue,
                };
                assert_eq!(due(unit, &text), ms, "{name} {text}");
            }
        }
    }

    #[test]
    fn a_score_is_due_exactly_when_the_bound_reaches_it() {
        let mut random = fastrand::Rng::with_seed(7);
        for &(name, unit) in Unit::VALUES {
            for _ in 0..20_000 {
                let score = Score(unit.until(random.i64(0..3_000_000_000_000)).0 + random.f64() * 1e7 - 5e6);
                let ms = unit.due_ms(score);
                assert!(unit.until(ms) >= score && unit.until(ms - 1) < score, "{name} {score}");
            }
        }
    }

    #[test]
    fn the_ends_of_time_are_far_away() {
        for &(name, unit) in Unit::VALUES {
            assert!(due(unit, "inf") > i64::MAX / 2 && due(unit, "-1e300") < i64::MIN / 2, "{name}");
            assert!(due(unit, "-inf") == i64::MIN && due(unit, "-1e300") > i64::MIN, "{name}");
            assert!(due(unit, "1.7976931348623157e+308") > i64::MAX / 2, "{name}");
        }
        assert_eq!(Score::parse("nan"), None);
    }

    #[test]
    fn a_score_is_written_as_redis_reads_it_back() {
        let mut random = fastrand::Rng::with_seed(11);
        let drawn =
            std::iter::repeat_with(|| f64::from_bits(random.u64(..))).filter(|score| !score.is_nan()).take(5_000);
        for score in drawn.chain([0.0, -0.0, 1.7e18, 1_700_000_000.456_7, f64::INFINITY, f64::NEG_INFINITY, f64::MAX]) {
            let text = Score(score).to_string();
            assert_eq!(Score::parse(&text), Some(Score(score)), "{text}");
            assert_eq!(Score::from_bytes(Score(score).to_bytes()), Some(Score(score)));
            assert!(text.len() < 32, "{text}");
        }
        assert_eq!(Score::of_ms(1_700_000_000_456).to_string(), "1700000000456");
    }
}
