//! From a message's headers to its due time. Pure.

use std::time::Duration;

use delaybridge_jobs::Due;

/// The last due time, in ms since 1970: the job queue is exact up to here.
const LAST_MS: i64 = 1 << 52;

/// Reads the due time of a message: `delay` is its header `x-delay`, `due` its header `x-due`. Without either it is due
/// now.
///
/// # Errors
/// A text that says what is wrong with the header.
pub fn due(
    delay: Option<&str>,
    due: Option<&str>,
    published_ms: Option<i64>,
    now_ms: i64,
    max: Duration,
) -> Result<Due, &'static str> {
    let max_ms = i64::try_from(max.as_millis()).unwrap_or(i64::MAX);
    match (delay, due) {
        (Some(_), Some(_)) => Err("there is both `x-delay` and `x-due`"),
        (None, None) => Ok(Due::After(Duration::ZERO)),
        (Some(delay), None) => {
            let delay = number(delay).ok_or_else(|| match instant(delay) {
                Some(_) => "`x-delay` is a point in time: write it as `x-due`",
                None => "`x-delay` is no number of milliseconds",
            })?;
            if delay < 0 {
                return Err("`x-delay` is negative");
            }
            if delay > max_ms {
                return Err("`x-delay` is longer than `max_delay`");
            }
            match published_ms {
                Some(published) => Ok(Due::At(published.saturating_add(delay).clamp(0, LAST_MS))),
                None => Ok(Due::After(Duration::from_millis(delay.unsigned_abs()))),
            }
        }
        (None, Some(due)) => {
            let at = match number(due) {
                Some(ms) => ms,
                None => instant(due).ok_or("`x-due` is no time: milliseconds since 1970, or RFC 3339")?,
            };
            if at < now_ms.saturating_sub(max_ms).min(now_ms - delaybridge_core::message::LATEST_MS) {
                return Err("`x-due` is more than ten years ago: it counts in milliseconds");
            }
            if at.saturating_sub(now_ms) > max_ms {
                return Err("`x-due` is further away than `max_delay`");
            }
            Ok(Due::At(at.clamp(0, LAST_MS)))
        }
    }
}

/// Returns a whole number, or a decimal one that is rounded up: no message is early.
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(whole) = text.parse() {
        return Some(whole);
    }
    let decimal: f64 = text.parse().ok()?;
    let fits = decimal.is_finite() && decimal.abs() < 9e18;
    fits.then(|| decimal.ceil() as i64)
}

/// Returns a time of RFC 3339, in milliseconds since 1970, rounded up.
fn instant(text: &str) -> Option<i64> {
    let (date, rest) = text.trim().split_at_checked(10)?;
    let time = rest.strip_prefix(['T', 't', ' '])?;
    let year = digits(date, 0, 4)?;
    let month = digits(date, 5, 2)?;
    let day = digits(date, 8, 2)?;
    let hour = digits(time, 0, 2)?;
    let minute = digits(time, 3, 2)?;
    let second = digits(time, 6, 2)?;
    let marks = [(date, 4, '-'), (date, 7, '-'), (time, 2, ':'), (time, 5, ':')];
    if marks.iter().any(|(text, at, mark)| !text[*at..].starts_with(*mark)) {
        return None;
    }
    if !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let mut zone = time.get(8..)?;
    let mut millis = 0;
    if let Some(fraction) = zone.strip_prefix('.') {
        let end = fraction.find(|letter: char| !letter.is_ascii_digit())?;
        let parts = fraction.get(..end).filter(|parts| !parts.is_empty())?;
        millis = format!("{parts:0<3}")[..3].parse().ok()?;
        millis += i64::from(parts.bytes().skip(3).any(|digit| digit != b'0'));
        zone = &fraction[end..];
    }
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let sign = if zone.starts_with('+') { 1 } else { -1 };
            let zone = zone.strip_prefix(['+', '-'])?;
            let hours = digits(zone, 0, 2)?;
            let minutes = digits(zone, 3, 2)?;
            if zone.len() != 5 || !zone[2..].starts_with(':') || hours > 23 || minutes > 59 {
                return None;
            }
            sign * (hours * 60 + minutes)
        }
    };
    let seconds = days(year, month, day) * 86_400 + (hour * 60 + minute - offset) * 60 + second;
    Some(seconds * 1000 + millis)
}

/// Returns the number that these digits write.
fn digits(text: &str, from: usize, count: usize) -> Option<i64> {
    let part = text.get(from..from + count)?;
    part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
}

fn days_in(year: i64, month: i64) -> i64 {
    days(if month == 12 { year + 1 } else { year }, month % 12 + 1, 1) - days(year, month, 1)
}

/// Returns the days from 1970 to a date, in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // A year begins in March here, so that the leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
        - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;
    const YEAR: Duration = Duration::from_secs(365 * 86_400);

    #[test]
    fn a_delay_is_whole_milliseconds_and_never_shortened() {
        fn check(text: &str, expected: Result<u64, &str>) {
            let expected = expected.map(|ms| Due::After(Duration::from_millis(ms)));
            let got = due(Some(text), None, None, NOW, YEAR).map_err(|why| why.trim_start_matches("`x-delay` is "));
            assert_eq!(got, expected, "{text}");
        }
        check("0", Ok(0));
        check(" 5000 ", Ok(5000));
        check("1500.2", Ok(1501));
        check("1e3", Ok(1000));
        // The plugin's limit was (2^32)-1 ms.
        check("4294967295", Ok(4_294_967_295));
        check("4294967296", Ok(4_294_967_296));
        check("31536000000", Ok(31_536_000_000));
        check("31536000001", Err("longer than `max_delay`"));
        check("9223372036854775807", Err("longer than `max_delay`"));
        check("-1", Err("negative"));
        check("-5000", Err("negative"));
        check("2027-01-15T08:00:00Z", Err("a point in time: write it as `x-due`"));
        for text in ["", "soon", "NaN", "inf", "5s", "true", "1e300"] {
            check(text, Err("no number of milliseconds"));
        }
    }

    #[test]
    fn a_due_time_is_a_number_or_a_date() {
        fn check(text: &str, expected: Result<i64, &str>) {
            let got = due(None, Some(text), None, NOW, YEAR).map_err(|why| why.trim_start_matches("`x-due` is "));
            assert_eq!(got, expected.map(Due::At), "{text}");
        }
        check("1800000005000", Ok(NOW + 5000));
        // Late is late, and goes at once.
        check("1799999995000", Ok(NOW - 5000));
        check("1800000005", Err("more than ten years ago: it counts in milliseconds"));
        check("1800000000000000", Err("further away than `max_delay`"));
        check("2027-01-15T08:00:00Z", Ok(NOW));
        check("2027-01-15T08:00:00.5Z", Ok(NOW + 500));
        check("2027-01-15T08:00:00.0001z", Ok(NOW + 1));
        check("2027-01-15T10:30:00+02:30", Ok(NOW));
        check("2027-01-15 03:00:00-05:00", Ok(NOW));
        check("2027-02-28T24:00:00Z", Err("no time: milliseconds since 1970, or RFC 3339"));
        for text in
            ["", "tomorrow", "2027-01-15", "2027-01-15T08:00:00", "2027-02-29T08:00:00Z", "2027-13-01T08:00:00Z"]
        {
            check(text, Err("no time: milliseconds since 1970, or RFC 3339"));
        }
        for text in
            ["2027-01-15T08:00:00+2:30", "2027-01-15T08:00:00.Z", "2027/01/15T08:00:00Z", "2027-01-15Täö:00:00Z"]
        {
            check(text, Err("no time: milliseconds since 1970, or RFC 3339"));
        }
    }

    #[test]
    fn the_days_of_the_calendar_are_counted() {
        for (date, expected) in
            [((1970, 1, 1), 0), ((2000, 3, 1), 11_017), ((2028, 2, 29), 21_243), ((1969, 12, 31), -1)]
        {
            let (year, month, day) = date;
            assert_eq!(days(year, month, day), expected, "{date:?}");
        }
    }

    #[test]
    fn without_a_header_it_is_due_now_and_both_are_refused() {
        assert_eq!(due(None, None, Some(NOW), NOW, YEAR), Ok(Due::After(Duration::ZERO)));
        assert_eq!(due(Some("1"), Some("1"), None, NOW, YEAR), Err("there is both `x-delay` and `x-due`"));
    }

    #[test]
    fn a_delay_counts_from_the_time_of_publication_where_that_is_known() {
        assert_eq!(due(Some("5000"), None, Some(NOW - 3000), NOW, YEAR), Ok(Due::At(NOW + 2000)));
    }
}
