//! The values of `java.time` as text in ISO 8601, as their `toString` returns it.
//!
//! Pure. An invalid value is `None`, so that a damaged payload does not become a date.

const NANOS: u32 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Formats a year with at least four digits, and a sign if there are more.
fn year(year: i32, plus: bool) -> String {
    match year {
        ..-999 => year.to_string(),
        -999..0 => format!("-{:04}", year.unsigned_abs()),
        10_000.. if plus => format!("+{year}"),
        _ => format!("{year:04}"),
    }
}

pub(super) fn date(of_year: i32, month: u8, day: u8) -> Option<String> {
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    valid.then(|| format!("{}-{month:02}-{day:02}", year(of_year, true)))
}

/// Formats a `LocalTime`, with seconds and fractions only if there are any.
pub(super) fn time(hour: u8, minute: u8, second: u8, nano: u32) -> Option<String> {
    let valid = hour < 24 && minute < 60 && second < 60 && nano < NANOS;
    valid.then(|| match (second, nano) {
        (0, 0) => format!("{hour:02}:{minute:02}"),
        _ => format!("{hour:02}:{minute:02}:{second:02}{}", fraction(nano)),
    })
}

/// Formats the fraction with three, six or nine digits, as few as possible.
fn fraction(nano: u32) -> String {
    match nano {
        0 => String::new(),
        nano if nano % 1_000_000 == 0 => format!(".{:03}", nano / 1_000_000),
        nano if nano % 1_000 == 0 => format!(".{:06}", nano / 1_000),
        nano => format!(".{nano:09}"),
    }
}

/// Formats a `ZoneOffset` of this many seconds.
pub(super) fn offset(seconds: i32) -> Option<String> {
    let whole = seconds.unsigned_abs();
    let sign = if seconds < 0 { '-' } else { '+' };
    let clock = format!("{sign}{:02}:{:02}", whole / 3600, whole / 60 % 60);
    match whole {
        0 => Some("Z".to_owned()),
        64_801.. => None,
        whole if whole % 60 == 0 => Some(clock),
        whole => Some(format!("{clock}:{:02}", whole % 60)),
    }
}

/// Formats a `ZonedDateTime`. Kryo writes no offset; a zone that is itself an offset is not repeated.
pub(super) fn zoned(date_time: &str, offset: Option<&str>, zone: &str) -> String {
    match (offset, zone.starts_with(['+', '-']) || zone == "Z") {
        (None, true) => format!("{date_time}{zone}"),
        (Some(offset), _) if offset == zone => format!("{date_time}{zone}"),
        (offset, _) => format!("{date_time}{}[{zone}]", offset.unwrap_or_default()),
    }
}

pub(super) fn instant(seconds: i64, nano: u32) -> Option<String> {
    if seconds.unsigned_abs() > 31_556_889_864_403_199 + 31_557_014_167_219_200 || nano >= NANOS {
        return None;
    }
    let of_day = u32::try_from(seconds.rem_euclid(DAY)).ok()?;
    let (of_year, month, day) = civil(seconds.div_euclid(DAY))?;
    let hour = of_day / 3600;
    let minute = of_day / 60 % 60;
    let second = of_day % 60;
    let date = date(of_year, month, day)?;
    Some(format!("{date}T{hour:02}:{minute:02}:{second:02}{}Z", fraction(nano)))
}

/// Computes the calendar day this many days after 1970-01-01. Eras of 400 years start in March, so that the leap day is
/// the last of a year.
fn civil(days: i64) -> Option<(i32, u8, u8)> {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Some((i32::try_from(year).ok()?, u8::try_from(month).ok()?, u8::try_from(day).ok()?))
}

/// Formats a `Duration`: nanoseconds count upwards from the whole seconds, also from negative ones.
pub(super) fn duration(seconds: i64, nano: u32) -> Option<String> {
    if nano >= NANOS {
        return None;
    }
    let borrows = seconds < 0 && nano > 0;
    let whole = if borrows { seconds + 1 } else { seconds };
    let hours = whole / 3600;
    let minutes = whole % 3600 / 60;
    let rest = whole % 60;
    let mut text = String::from("PT");
    for (number, unit) in [(hours, 'H'), (minutes, 'M')] {
        if number != 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    }
    if rest == 0 && nano == 0 && text.len() > 2 {
        return Some(text);
    }
    text.push_str(if borrows && rest == 0 { "-" } else { "" });
    text.push_str(&rest.to_string());
    if nano > 0 {
        let digits = format!("{:09}", if borrows { NANOS - nano } else { nano });
        text.push('.');
        text.push_str(digits.trim_end_matches('0'));
    }
    text.push('S');
    Some(text)
}

pub(super) fn year_month(of_year: i32, month: u8) -> Option<String> {
    (1..=12).contains(&month).then(|| format!("{}-{month:02}", year(of_year, false)))
}

pub(super) fn month_day(month: u8, day: u8) -> Option<String> {
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    valid.then(|| format!("--{month:02}-{day:02}"))
}

pub(super) fn period(years: i32, months: i32, days: i32) -> String {
    let part = |number: i32, unit| if number == 0 { String::new() } else { format!("{number}{unit}") };
    match (years, months, days) {
        (0, 0, 0) => "P0D".to_owned(),
        _ => format!("P{}{}{}", part(years, 'Y'), part(months, 'M'), part(days, 'D')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_as_java_prints_them() {
        let check = |got: Option<String>, expected: &str| assert_eq!(got.as_deref(), Some(expected));
        check(date(2024, 2, 29), "2024-02-29");
        check(date(-5, 1, 1), "-0005-01-01");
        check(date(12_024, 1, 1), "+12024-01-01");
        check(time(7, 0, 0, 0), "07:00");
        check(time(7, 8, 9, 1_000), "07:08:09.000001");
        check(offset(-5_400), "-01:30");
        check(instant(0, 0), "1970-01-01T00:00:00Z");
        check(instant(-1, 999_999_999), "1969-12-31T23:59:59.999999999Z");
        check(instant(1_709_164_800, 5_000_000), "2024-02-29T00:00:00.005Z");
        check(duration(0, 0), "PT0S");
        check(duration(3_600, 0), "PT1H");
        check(duration(-1, 500_000_000), "PT-0.5S");
        check(duration(-61, 0), "PT-1M-1S");
        assert_eq!(period(0, 0, 0), "P0D");
        assert_eq!(period(1, -2, 3), "P1Y-2M3D");
        assert_eq!((date(2024, 13, 1), time(24, 0, 0, 0), offset(70_000)), (None, None, None));
        assert_eq!(instant(i64::MAX, 0), None);
    }
}
