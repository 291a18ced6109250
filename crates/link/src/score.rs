//! Scores of sorted sets, as Redis stores and writes them, without a unit.

use std::fmt;

use redis::{RedisWrite, ToRedisArgs};

/// A score as Redis stores it: a double, never NaN.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Score(
    /// The number.
    pub f64,
);

// Redis rejects NaN, and so does `parse`.
impl Eq for Score {}

impl Score {
    /// Returns the score of a time in ms, if scores are in ms.
    pub fn of_ms(ms: i64) -> Score {
        Score(ms as f64)
    }

    /// Parses a score as Redis writes it; `None` if it is not a number.
    pub fn parse(text: &str) -> Option<Score> {
        text.parse().ok().filter(|score: &f64| !score.is_nan()).map(Score)
    }

    /// Returns the time in ms, rounded up, if scores are in ms.
    pub fn ceil_ms(self) -> i64 {
        self.0.ceil() as i64 // `as` saturates: infinity becomes the last time
    }

    /// Returns the bytes of the score, for a header.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Creates the score of these bytes; `None` for NaN.
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Score> {
        Some(f64::from_be_bytes(bytes)).filter(|score| !score.is_nan()).map(Score)
    }
}

/// Writes the text that Redis parses to the same double.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Digits within the range of integers, otherwise an exponent: the largest double has 309 digits.
        match self.0.abs() {
            size if size == 0.0 || (1e-9..1e21).contains(&size) || size.is_infinite() => write!(f, "{}", self.0),
            _ => write!(f, "{:e}", self.0),
        }
    }
}

impl ToRedisArgs for Score {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg(self.to_string().as_bytes());
    }
}
