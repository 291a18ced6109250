//! Texts of a request: durations, times, percent-encoding, and how much of them a message quotes.

use std::time::{Duration, UNIX_EPOCH};

use delaybridge_settings::units;

/// Reads a duration as people write it.
///
/// # Errors
/// What is wrong, and what to write.
pub fn time(text: &str) -> Result<Duration, String> {
    units::duration(&clip(text)).map_err(|bad| format!("{}; {}", bad.message, bad.help))
}

/// Reads a point in time as RFC 3339 writes it, in milliseconds since 1970.
///
/// # Errors
/// What to write.
pub fn moment(text: &str) -> Result<i64, String> {
    let help = || "write a time as 2027-01-31T09:00:00Z or 2027-01-31T09:00:00+08:00".to_owned();
    // The parser below knows no offsets.
    let zone = text.len().checked_sub("+08:00".len()).and_then(|at| text.split_at_checked(at));
    let (local, ahead_ms) = match zone {
        Some((local, zone)) if zone.starts_with(['+', '-']) => {
            let minutes = || {
                let (hours, minutes) = zone[1..].split_once(':')?;
                let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
                let ahead = Some(hours * 60 + minutes).filter(|_| hours < 24 && minutes < 60)?;
                Some(if zone.starts_with('-') { -ahead } else { ahead })
            };
            (format!("{local}Z"), minutes().ok_or_else(help)? * 60_000)
        }
        _ => (text.to_owned(), 0),
    };
    let since = humantime::parse_rfc3339(&local).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_millis()).ok()).map(|ms| ms - ahead_ms).ok_or_else(help)
}

/// Decodes percent encoding; what is no UTF-8 then becomes the replacement character, which no name has.
pub fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns a client's word in a message: short, and nothing that a terminal would obey.
pub fn clip(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_a_zone() {
        assert_eq!(moment("2027-01-31T09:00:00Z"), Ok(1_801_386_000_000));
        assert_eq!(moment("2027-01-31T17:00:00.250+08:00"), Ok(1_801_386_000_250));
        assert_eq!(moment("2027-01-31T08:30:00-00:30"), Ok(1_801_386_000_000));
        for bad in
            ["", "soon", "2027-01-31", "2027-01-31T09:00:00", "2027-01-31T09:00:00+25:00", "äöüß+08:00", "+08:00", "1"]
        {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }
}
