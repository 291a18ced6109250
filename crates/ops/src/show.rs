//! Times, sizes and names as a person reads them. Pure.

use std::time::{Duration, UNIX_EPOCH};

use crate::plural::duration;

/// The last millisecond of the year 9999, where calendars end.
const LAST: i64 = 253_402_300_799_999;

/// Returns a point in time as UTC; outside of the calendar the bare number.
pub fn absolute(ms: i64) -> String {
    match u64::try_from(ms).ok().filter(|_| ms <= LAST) {
        Some(since) => humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(since)).to_string(),
        None => format!("{ms} ms"),
    }
}

/// Returns a point in time seen from `now_ms`: `in 2m 5s`, `3h ago`, `now`.
pub fn relative(ms: i64, now_ms: i64) -> String {
    let gap = duration(ms.abs_diff(now_ms));
    match ms.cmp(&now_ms) {
        std::cmp::Ordering::Greater => format!("in {gap}"),
        std::cmp::Ordering::Less => format!("{gap} ago"),
        std::cmp::Ordering::Equal => "now".to_owned(),
    }
}

/// Returns a number of bytes.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => format!("{:.1}", bytesize::ByteSize(bytes as u64).display().iec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_absolute_and_relative() {
        assert_eq!(absolute(1_795_251_632_252), "2026-11-21T09:00:32.252Z");
        assert_eq!(absolute(-1), "-1 ms");
        assert_eq!(absolute(i64::MAX), format!("{} ms", i64::MAX));
        for (ms, expected) in [
            (0, "now"),
            (999, "in 999ms"),
            (5_000, "in 5s"),
            (-65_000, "1m 5s ago"),
            (3_600_000, "in 1h"),
            (-90_061_000, "1d 1h ago"),
            (86_400_000 + 59_000, "in 1d"),
        ] {
            assert_eq!(relative(1_000_000_000 + ms, 1_000_000_000), expected);
        }
        assert!(relative(i64::MIN, i64::MAX).ends_with("ago"));
    }

    #[test]
    fn sizes_are_shown_in_the_units_of_the_configuration() {
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (100 << 20, "100.0 MiB")] {
            assert_eq!(size(bytes), expected);
        }
    }
}
