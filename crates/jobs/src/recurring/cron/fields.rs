//! The fields of a cron expression as they are written: what is refused although the parser would take it.

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A field of an expression: its name, and the names of its values.
struct Field {
    name: &'static str,
    values: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", values: &[] },
    Field { name: "hour", values: &[] },
    Field { name: "day of the month", values: &[] },
    Field { name: "month", values: &MONTHS },
    Field { name: "day of the week", values: &WEEKDAYS },
];
const DAY: usize = 2;
const WEEKDAY: usize = 4;

/// Expands a nickname such as `@daily` to its five fields; any other expression stays as it is.
pub(super) fn spelled_out(expression: &str) -> &str {
    const NICKNAMES: [(&str, &str); 7] = [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ];
    let known = NICKNAMES.iter().find(|(nickname, _)| expression.eq_ignore_ascii_case(nickname));
    known.map_or(expression, |(_, fields)| fields)
}

/// Returns whether the minute and the hour are given in numbers. Cron moves such times when a clock is put forward or
/// back.
pub(super) fn is_fixed_time(expression: &str) -> bool {
    expression.split(' ').take(2).all(|field| !field.starts_with('*'))
}

/// Returns whether a day has to match both fields. One that starts with a star narrows the other, also with a step; two
/// that are given each add days.
pub(super) fn needs_both_days(expression: &str) -> bool {
    let mut fields = expression.split(' ').skip(DAY).step_by(WEEKDAY - DAY);
    fields.any(|field| field.starts_with(['*', '?']))
}

/// Checks each part of each field of an expression that the parser accepts. An error is the part that means nothing, or
/// that the parser would read as something else.
pub(super) fn check_parts(expression: &str) -> Result<(), String> {
    for (n, (field, text)) in FIELDS.iter().zip(expression.to_uppercase().split(' ')).enumerate() {
        let text = if n == WEEKDAY { text.strip_prefix('+').unwrap_or(text) } else { text };
        let parts: Vec<&str> = text.split(',').collect();
        if let Some(part) = parts.iter().find(|part| !is_part(n, field, part)) {
            return Err(if part.is_empty() {
                format!("the {} `{text}` has an empty part.", field.name)
            } else {
                format!("the {} `{text}` has a part that means nothing: `{part}`.", field.name)
            });
        }
        // The parser would forget the first.
        if n == DAY && parts.contains(&"L") && parts.contains(&"LW") {
            return Err(format!("the {} `{text}` has `L` beside `LW`.", field.name));
        }
    }
    Ok(())
}

fn is_part(n: usize, field: &Field, part: &str) -> bool {
    let is_number = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_value = |text: &str| is_number(text) || field.values.contains(&text);
    let is_range =
        |text: &str| text.split_once('-').map_or_else(|| is_value(text), |(a, b)| is_value(a) && is_value(b));
    let is_star = |text: &str| text == "*" || (n == DAY || n == WEEKDAY) && text == "?";
    if n == DAY && (["L", "LW"].contains(&part) || part.strip_suffix('W').is_some_and(is_number)) {
        return true;
    }
    if n == WEEKDAY && part.ends_with(['L', '1', '2', '3', '4', '5']) {
        if let Some((days, which)) = part.split_once('#') {
            return is_range(days) && which.len() == 1;
        }
        if let Some(day) = part.strip_suffix('L') {
            return is_value(day);
        }
    }
    match part.split_once('/') {
        Some((range, step)) => (is_star(range) || is_range(range)) && !step.is_empty() && step.len() <= 3,
        None => is_star(part) || is_range(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_parser_would_drop_or_read_as_something_else_is_refused() {
        for (expression, accepted) in [
            ("0 0 15W * *", true),
            ("0 0 LW,3 * *", true),
            ("0 0 L,15W * *", true),
            ("*/5 0-3,5 1-31/2 JAN-MAR MON,FRI", true),
            ("0 0 ? * mon#2", true),
            ("0 0 * * +1-5#3", true),
            ("0 0 * * FRIL", true),
            ("0 0 * * 5#L", true),
            ("0 0 15WL * *", false),
            ("0 0 15W3 * *", false),
            ("0 0 L,LW * *", false),
            ("1, 0 * * *", false),
            (",1 0 * * *", false),
            ("1,,2 0 * * *", false),
            ("0 0 * * MON,", false),
            ("0 0 * * +", false),
            // A day's name is its number for the parser, wherever it is.
            ("0 0 MON * *", false),
            ("JAN 0 * * *", false),
            ("0 0 * 1JAN *", false),
            // No day of the week, so it would have no effect.
            ("0 0 * * L", false),
            ("0 0 * * MON,L", false),
            ("0 0 * * 5#2L", false),
            ("0 0 * * 5LL", false),
        ] {
            assert_eq!(check_parts(expression).is_ok(), accepted, "{expression}");
        }
    }
}
