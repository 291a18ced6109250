//! Scores of sorted sets, as Redis keeps and writes them. Knows no unit.

use std::fmt;

use redis::{RedisWrite, ToRedisArgs};

/// A score as Redis keeps it: a double, never NaN.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Score(pub(crate) f64);

// Redis refuses NaN, and so does `parse`.
impl Eq for Score {}

impl Score {
    /// A time in ms, where scores are that.
    pub fn of_ms(ms: i64) -> Score {
        Score(ms as f64)
    }

    /// The score that Redis wrote as this text; `None` for what is no number.
    pub fn parse(text: &str) -> Option<Score> {
        text.parse().ok().filter(|score: &f64| !score.is_nan()).map(Score)
    }

    /// The first whole millisecond that is not before it, where scores are ms.
    pub fn ceil_ms(self) -> i64 {
        self.0.ceil() as i64 // `as` saturates: inf is the far end of time
    }

    /// Its bytes, to be kept in a header.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The score with these bytes; `None` for those of none.
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Score> {
        Some(f64::from_be_bytes(bytes)).filter(|score| !score.is_nan()).map(Score)
    }
}

/// As Redis reads it back to the same double.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Plain digits up to what an integer can be, else an exponent: the largest double has 309 digits.
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
