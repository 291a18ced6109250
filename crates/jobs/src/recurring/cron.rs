//! Cron expressions with a time zone: the times at which a recurring job fires.
//!
//! Five fields: minute, hour, day of the month, month, day of the week. When a clock is put forward, a fixed time that does
//! not exist fires right after the gap, and a job of every hour or minute skips what does not exist. When it is put back, a
//! fixed time fires once, at its first occurrence, and a job of every hour or minute fires in both hours. As in Debian's cron,
//! a time is fixed unless its minute or its hour starts with a star.

mod fields;
mod occurrences;
#[cfg(test)]
mod vectors;

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use fields::{check_parts, is_fixed_time, needs_both_days, spelled_out};
use occurrences::Occurrences;

/// Maximum length of an expression, in bytes.
const MAX_EXPRESSION: usize = 128;
/// Maximum length of the name of a time zone, in bytes.
const MAX_ZONE: usize = 64;
/// 41 years before the last one that a search looks at, in ms since 1970. Every kind of year comes within 40: by leap day and
/// first day of the week.
const LAST_YEARS_MS: i64 = 94_323_744_000_000;

/// A cron expression in a time zone.
#[derive(Clone)]
pub struct CronSchedule {
    expression: Box<str>,
    zone: Box<str>,
    occurrences: Occurrences,
}

impl CronSchedule {
    /// Reads an expression and the name of a zone of the IANA database.
    ///
    /// # Errors
    ///
    /// The rule that one of them breaks.
    pub fn new(expression: &str, zone: &str) -> Result<CronSchedule, String> {
        let schedule = CronSchedule::stored(expression, zone)?;
        check_parts(spelled_out(&schedule.expression)).map_err(with_example)?;
        Ok(schedule)
    }

    /// Reads what was accepted once, also by a version that accepted more: it fires as the parser understands it.
    pub(super) fn stored(expression: &str, zone: &str) -> Result<CronSchedule, String> {
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        if expression.len() > MAX_EXPRESSION {
            return Err(format!("the expression has more than {MAX_EXPRESSION} bytes"));
        }
        let fields = spelled_out(&expression);
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed);
        let parser = parser.dom_and_dow(needs_both_days(fields)).build();
        let cron = parser.parse(fields).map_err(|error| with_example(error.to_string()))?;
        let none =
            || format!("the IANA database has no time zone `{}`; write one as `Europe/Berlin` or `UTC`", shown(zone));
        let tz = if zone.len() > MAX_ZONE { return Err(none()) } else { TimeZone::get(zone).map_err(|_| none())? };
        let zone = tz.iana_name().unwrap_or(zone).into();
        let occurrences = Occurrences { cron, tz, fixed: is_fixed_time(fields) };
        Ok(CronSchedule { expression: expression.into(), zone, occurrences })
    }

    /// Returns the expression.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Returns the name of the time zone.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// Returns whether it fires at all. An expression that never does costs a search to the end of the calendar, which
    /// takes long enough to be noticed by others; here it is a search of 41 years.
    pub fn fires(&self) -> bool {
        self.after(LAST_YEARS_MS).is_some()
    }

    /// Returns the first firing after a time, both in ms since 1970; `None` if there is none.
    pub fn after(&self, ms: i64) -> Option<i64> {
        let found = self.occurrences.after(Timestamp::from_millisecond(ms).ok()?)?;
        Some(found.as_millisecond())
    }

    /// Returns the last firing before or at a time, both in ms since 1970.
    pub fn until(&self, ms: i64) -> Option<i64> {
        let found = self.occurrences.until(Timestamp::from_millisecond(ms).ok()?)?;
        Some(found.as_millisecond())
    }
}

fn with_example(rule: String) -> String {
    format!("{rule} Write minute, hour, day of the month, month and day of the week, as in `30 4 * * MON-FRI`")
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_ZONE).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

impl fmt::Debug for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.expression, self.zone)
    }
}

impl PartialEq for CronSchedule {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, &self.zone) == (&other.expression, &other.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    /// Returns the firings after a time; each is also the last one until itself, and the one before the next.
    fn firings(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let cron = CronSchedule::new(expression, zone).unwrap();
        let mut at = ms(from);
        let mut found = Vec::new();
        for n in 0..count {
            let next = cron.after(at).unwrap();
            assert_eq!(cron.until(next + 999), Some(next), "{expression} {zone}");
            assert!(n == 0 || cron.until(next - 1) == Some(at), "{expression} {zone}");
            found.push(Timestamp::from_millisecond(next).unwrap().to_string());
            at = next;
        }
        found
    }

    #[test]
    fn a_clock_that_is_put_forward_or_back_neither_drops_nor_repeats_a_fixed_time() {
        for (expression, zone, from, expected) in [
            // 02:30 does not exist on 28 March: right after the gap.
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2027-03-26T23:00:00Z",
                ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"],
            ),
            // 02:30 comes twice on 31 October: the first.
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2027-10-29T22:00:00Z",
                ["2027-10-30T00:30:00Z", "2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"],
            ),
            // Every hour: the hour that does not exist is skipped, and both of those that come twice have one.
            (
                "30 * * * *",
                "Europe/Berlin",
                "2027-03-28T00:00:00Z",
                ["2027-03-28T00:30:00Z", "2027-03-28T01:30:00Z", "2027-03-28T02:30:00Z"],
            ),
            (
                "30 * * * *",
                "Europe/Berlin",
                "2027-10-30T23:40:00Z",
                ["2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z", "2027-10-31T02:30:00Z"],
            ),
            // Steps within a fixed hour that does not exist are skipped.
            (
                "*/20 2 * * *",
                "Europe/Berlin",
                "2027-03-27T01:20:00Z",
                ["2027-03-27T01:40:00Z", "2027-03-29T00:00:00Z", "2027-03-29T00:20:00Z"],
            ),
            // A midnight that does not exist, and a clock that is moved by half an hour.
            (
                "0 0 * * *",
                "America/Santiago",
                "2027-09-03T05:00:00Z",
                ["2027-09-04T04:00:00Z", "2027-09-05T04:00:00Z", "2027-09-06T03:00:00Z"],
            ),
            // Lists and ranges of numbers are fixed times, each once: at the end of the gap, and of two the first.
            (
                "30 2,14 * * *",
                "Europe/Berlin",
                "2027-03-27T13:30:00Z",
                ["2027-03-28T01:00:00Z", "2027-03-28T12:30:00Z", "2027-03-29T00:30:00Z"],
            ),
            (
                "30 2,14 * * *",
                "Europe/Berlin",
                "2027-10-30T12:30:00Z",
                ["2027-10-31T00:30:00Z", "2027-10-31T13:30:00Z", "2027-11-01T01:30:00Z"],
            ),
            (
                "0,30 1-3 * * *",
                "Europe/Berlin",
                "2027-10-30T23:30:00Z",
                ["2027-10-31T00:00:00Z", "2027-10-31T00:30:00Z", "2027-10-31T02:00:00Z"],
            ),
            // Both are in the gap, whose end is on a day that the pattern does not have.
            (
                "15,45 23 * * SAT",
                "America/Nuuk",
                "2027-03-27T12:00:00Z",
                ["2027-03-28T01:00:00Z", "2027-04-04T00:15:00Z", "2027-04-04T00:45:00Z"],
            ),
            (
                "15 2 * * *",
                "Australia/Lord_Howe",
                "2027-10-01T00:00:00Z",
                ["2027-10-01T15:45:00Z", "2027-10-02T15:30:00Z", "2027-10-03T15:15:00Z"],
            ),
        ] {
            assert_eq!(firings(expression, zone, from, 3), expected, "{expression} {zone}");
        }
    }

    #[test]
    fn expressions_mean_what_they_mean_to_cron() {
        for (expression, first) in [
            ("0 9 * * MON-FRI", "2027-01-01T09:00:00Z"),
            ("0 9 * * 6,7", "2027-01-02T09:00:00Z"),
            ("*/15 * * * *", "2027-01-01T00:15:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 0 L * *", "2027-01-31T00:00:00Z"),
            // With both days, either of them.
            ("0 12 13 * SUN", "2027-01-03T12:00:00Z"),
            // A star with a step narrows the other day, as in cron.
            ("0 9 1-7 * */7", "2027-01-03T09:00:00Z"),
            ("0 9 */10 * FRI", "2027-01-01T09:00:00Z"),
            ("0 9 */10 * THU", "2027-01-21T09:00:00Z"),
            (" @weekly ", "2027-01-03T00:00:00Z"),
            ("@midnight", "2027-01-02T00:00:00Z"),
            ("0 9\n*  * *", "2027-01-01T09:00:00Z"),
        ] {
            assert_eq!(firings(expression, "UTC", "2027-01-01T00:00:00Z", 5)[0], first, "{expression}");
        }
        let tidy = CronSchedule::new(" 0 9\n*  * * ", "europe/berlin").unwrap();
        assert_eq!((tidy.expression(), tidy.zone()), ("0 9 * * *", "Europe/Berlin"));
        let never = CronSchedule::new("0 0 31 2 *", "UTC").unwrap();
        assert_eq!((never.after(0), never.until(0)), (None, None));
    }

    fn timed<T>(work: impl FnOnce() -> T) -> (std::time::Duration, T) {
        let began = delaybridge_core::clock::Instant::now();
        let result = work();
        (began.elapsed(), result)
    }

    #[test]
    fn an_expression_that_never_fires_is_found_out_in_a_part_of_the_calendar() {
        let first = Timestamp::from_millisecond(LAST_YEARS_MS).unwrap().to_string();
        assert_eq!(first, "4959-01-01T00:00:00Z");
        for (expression, zone, expected) in [
            ("0 0 31 2,4,6,9,11 *", "America/Scoresbysund", false),
            ("* * 1-28 * +MON#5", "UTC", false),
            // The hour that a clock is put forward over.
            ("* 2 * 3 SUNL", "Europe/Berlin", false),
            ("* 2 * 3 SUNL", "UTC", true),
            ("0 0 29 2 *", "UTC", true),
            ("0 0 29 2 +MON", "Africa/Casablanca", true),
            ("0 0 29 2 +SUN#5", "UTC", true),
            ("30 4 * * *", "UTC", true),
        ] {
            let cron = CronSchedule::new(expression, zone).unwrap();
            let (short, found) = (0..5).map(|_| timed(|| cron.fires())).min().unwrap();
            let (whole, next) = timed(|| cron.after(ms("2026-11-27T00:00:00Z")));
            assert_eq!((found, next.is_some()), (expected, expected), "{expression} {zone}");
            // The calendar has 3,000 years more, the last ones 41: a ratio, because a busy machine makes both slow.
            assert!(expected || short < whole / 10, "{expression} {zone}: {short:?} of {whole:?}");
        }
    }

    #[test]
    fn what_is_no_expression_or_no_zone_is_refused_with_the_rule() {
        for (expression, zone, words) in [
            ("* * * * * *", "UTC", "minute, hour, day of the month"),
            ("", "UTC", "empty"),
            ("60 * * * *", "UTC", "out of bounds"),
            ("0 0 15WL * *", "UTC", "means nothing: `15WL`"),
            ("1, 0 * * *", "UTC", "`1,` has an empty part"),
            (",1 0 * * *", "UTC", "`,1` has an empty part"),
            ("0 9 * * MON\n", "Europe/Nowhere", "no time zone `Europe/Nowhere`"),
            ("0 9 * * *", "../../etc/passwd", "no time zone"),
            ("0 9 * * *", "", "no time zone"),
        ] {
            let rule = CronSchedule::new(expression, zone).unwrap_err();
            assert!(rule.contains(words), "{expression}: {rule}");
        }
        assert!(CronSchedule::new(&"1,".repeat(100), "UTC").unwrap_err().contains("128 bytes"));
        assert!(CronSchedule::new("0 9 * * *", &"x".repeat(1_000)).unwrap_err().len() < 200);
    }
}
