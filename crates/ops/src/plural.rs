//! Durations, counts and names in the messages of operations. Pure.

use std::fmt::Display;

use delaybridge_core::clock::utc;

/// Returns a length of time, its two largest units; below a second in milliseconds.
pub fn duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let Some(first) = UNITS.iter().position(|(unit, _)| ms >= *unit) else { return format!("{ms}ms") };
    let (unit, name) = UNITS[first];
    let text = format!("{}{name}", ms / unit);
    match UNITS.get(first + 1) {
        Some((below, below_name)) if ms % unit >= *below => format!("{text} {}{below_name}", ms % unit / below),
        _ => text,
    }
}

/// Returns a time of day, `19:51:39 UTC`, with the date where that is not today's.
pub fn clock(ms: i64, now_ms: i64) -> String {
    let text = utc(ms);
    let today = utc(now_ms);
    match text.trim_end_matches('Z').split_once('T') {
        Some((date, time)) if today.starts_with(date) => format!("{time} UTC"),
        Some((date, time)) => format!("{date} {time} UTC"),
        None => text,
    }
}

/// `1,234,567`; the narrow space of typographers does not survive copying.
pub fn number(number: impl TryInto<i128>) -> String {
    let number = number.try_into().unwrap_or(i128::MAX);
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 element`, `2 elements`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns the names most similar to the given one, best first, at most three.
pub fn similar<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = given.to_lowercase();
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let other = name.to_lowercase();
            let distance = strsim::damerau_levenshtein(&lower, &other);
            let close = distance <= 1 + lower.chars().count() / 4;
            let part = lower.len() >= 3 && (other.contains(&lower) || lower.contains(&other));
            (close || part).then_some((distance, name))
        })
        .collect();
    near.sort();
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_another_day_has_its_date() {
        let now_ms = 1_795_251_632_252;
        assert_eq!(clock(now_ms - 90_000, now_ms), "08:59:02 UTC");
        assert_eq!(clock(now_ms - 86_400_000, now_ms), "2026-11-20 09:00:32 UTC");
    }

    #[test]
    fn a_slip_of_the_pen_finds_the_name() {
        let names = ["order_timeout", "reminders", "reminders_eu"];
        assert_eq!(similar("order_timout", names), ["order_timeout"]);
        assert_eq!(similar("Order_Timeout", names), ["order_timeout"]);
        assert_eq!(similar("reminder", names), ["reminders", "reminders_eu"]);
        assert_eq!(similar("order", names), ["order_timeout"]);
        assert!(similar("x", names).is_empty());
    }
}
