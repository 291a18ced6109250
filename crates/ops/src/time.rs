//! Lengths and points of time, as people and programs write them.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A length of time, written as in the configuration: `2h 30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String")]
pub struct Length(pub Duration);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        length(text).map(Length)
    }
}

impl TryFrom<String> for Length {
    type Error = String;

    fn try_from(text: String) -> Result<Length, String> {
        text.parse()
    }
}

impl From<Length> for String {
    fn from(length: Length) -> String {
        length.to_string()
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// A point in time in milliseconds since 1970, by the clock of Redis. People may write it as RFC 3339 does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "i64", into = "i64")]
#[schemars(inline, with = "i64")]
pub struct Moment(pub i64);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        point(text).map(Moment)
    }
}

impl TryFrom<i64> for Moment {
    type Error = String;

    fn try_from(ms: i64) -> Result<Moment, String> {
        ms.to_string().parse()
    }
}

impl From<Moment> for i64 {
    fn from(moment: Moment) -> i64 {
        moment.0
    }
}

/// The last millisecond of the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;

/// Reads the length of a pause: as in the configuration, but not zero, and not beyond the calendar.
///
/// # Errors
///
/// What is wrong with the text.
pub fn length(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write 30m, 2h or 1d 12h"))?;
    if time.is_zero() || time > LONGEST { Err("more than 0s, and at most 100 years".to_owned()) } else { Ok(time) }
}

/// Returns a point in time: milliseconds since 1970, or as RFC 3339 writes it. Without an offset it is UTC.
///
/// # Errors
///
/// What is wrong with the text.
pub fn point(text: &str) -> Result<i64, String> {
    let with_offset = || text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    let in_utc = || humantime::parse_rfc3339_weak(text).ok()?.duration_since(UNIX_EPOCH).ok();
    let ms = text.parse().ok().or_else(with_offset).or_else(|| i64::try_from(in_utc()?.as_millis()).ok());
    ms.filter(|ms| (0..=LAST_MS).contains(ms)).ok_or_else(|| {
        "write 2027-01-31T09:00:00Z, with an offset as in 2027-01-31T10:00:00+01:00, or milliseconds since 1970"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_or_refused_in_words() {
        assert_eq!(length("1h 30m"), Ok(Duration::from_secs(5_400)));
        assert!(length("0s").unwrap_err().contains("more than 0s"));
        assert!(length("2").unwrap_err().contains("30m"));
        assert_eq!(point("2027-01-31T09:00:00Z"), Ok(1_801_386_000_000));
        assert_eq!(point("1801386000000"), Ok(1_801_386_000_000));
        for text in [
            "2027-01-31 09:00:00",
            "2027-01-31T10:00:00+01:00",
            "2027-01-31T14:30:00.000+05:30",
            "2027-01-30T23:00:00-10:00",
            "2027-01-31t09:00:00z",
        ] {
            assert_eq!(point(text), Ok(1_801_386_000_000), "{text}");
        }
        for text in ["tomorrow", "-1", "999999999999999", "", "2027-01-31T09:00:00+26:00", "1960-01-01T00:00:00Z"] {
            assert!(point(text).unwrap_err().contains("2027"), "{text}");
        }
    }
}
