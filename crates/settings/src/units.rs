//! Durations, sizes and rates as people write them: `30s`, `1h30m`, `16MiB`, `5000/s`.
//!
//! Own readers instead of crates, for the sake of the messages: a number without its unit is the most frequent mistake,
//! and the answer has to say which units there are.

use std::time::Duration;

/// A fault in a value, and its correction.
#[derive(Debug, PartialEq, Eq)]
pub struct BadUnit {
    /// The problem.
    pub message: String,
    /// The advice.
    pub help: String,
}

const DURATIONS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];
const RATES: [(&str, f64); 3] = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Reads `30s`, `500ms`, `1h30m`; whole milliseconds, at most ten years.
pub fn duration(text: &str) -> Result<Duration, BadUnit> {
    let bad = |message: String, help: &str| BadUnit { message, help: help.to_owned() };
    if is_number(text) {
        return Err(bad(
            format!("`{text}` has no unit"),
            &format!("write `{text}s` for seconds or `{text}ms` for milliseconds"),
        ));
    }
    let help = "durations are written `500ms`, `30s`, `5m`, `1h30m`, `2d`";
    let mut rest = text;
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let letters = rest[digits..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len() - digits);
        let number = &rest[..digits];
        let unit = &rest[digits..digits + letters];
        let factor = DURATIONS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let part = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
        let Some(sum) = part.and_then(|part| millis.checked_add(part)) else {
            return Err(bad(format!("`{text}` is not a duration"), help));
        };
        millis = sum;
        rest = &rest[digits + letters..];
    }
    if text.is_empty() {
        return Err(bad("the duration is empty".to_owned(), help));
    }
    if millis > 3_650 * 86_400_000 {
        return Err(bad(format!("`{text}` is longer than ten years"), help));
    }
    Ok(Duration::from_millis(millis))
}

/// Reads `16MiB`, `1GB`, `1.5GiB`, `512B`.
pub fn size(text: &str) -> Result<u64, BadUnit> {
    if is_number(text) {
        return Err(BadUnit {
            message: format!("`{text}` has no unit"),
            help: format!("write `{text}MiB`, or `{text}B` for bytes"),
        });
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = &text[..digits];
    let unit = &text[digits..];
    let factor = SIZES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let bytes = match number.parse::<u64>() {
        Ok(number) => factor.and_then(|factor| number.checked_mul(factor)),
        // Fractions are rare and small: what a float rounds away here is below a byte.
        Err(_) => factor.zip(number.parse::<f64>().ok()).map(|(factor, number)| (number * factor as f64) as u64),
    };
    bytes.ok_or_else(|| BadUnit {
        message: format!("`{text}` is not a size"),
        help: "sizes are written `512B`, `64KiB`, `16MiB`, `1GiB`, or `kB`, `MB`, `GB` for powers of 1000".to_owned(),
    })
}

/// Reads `5000/s`, `100/m`, `10/h` as elements per second.
pub fn rate(text: &str) -> Result<f64, BadUnit> {
    if is_number(text) {
        return Err(BadUnit {
            message: format!("`{text}` has no unit"),
            help: format!("write `{text}/s` for elements per second, or `none`"),
        });
    }
    let parsed = text.split_once('/').and_then(|(number, unit)| {
        let factor = RATES.iter().find(|(name, _)| *name == unit)?.1;
        Some(number.parse::<f64>().ok().filter(|_| is_number(number))? / factor)
    });
    parsed.ok_or_else(|| BadUnit {
        message: format!("`{text}` is not a rate"),
        help: "rates are written `5000/s`, `100/m`, `10/h`, or `none`".to_owned(),
    })
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.')
        && text.parse::<f64>().is_ok()
}

/// Returns the shortest exact way to write a duration.
pub fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let fits = DURATIONS.iter().rev().find(|(_, factor)| millis > 0 && millis.is_multiple_of(u128::from(*factor)));
    match fits {
        Some((unit, factor)) => format!("{}{unit}", millis / u128::from(*factor)),
        None => "0s".to_owned(),
    }
}

/// Returns the shortest exact way to write a size.
pub fn show_size(bytes: u64) -> String {
    // Powers of 1024 first, then those of 1000, then bytes.
    let (binary, decimal) = SIZES.split_at(4);
    let units = binary[1..].iter().rev().chain(decimal.iter().rev()).chain(&binary[..1]);
    let fits = units.into_iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    match fits {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => "0B".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_its_unit() {
        fn check(text: &str, expected: Result<u64, &str>) {
            let got = duration(text).map(|duration| duration.as_millis() as u64).map_err(|bad| bad.message);
            assert_eq!(got, expected.map_err(str::to_owned), "{text}");
        }
        check("30s", Ok(30_000));
        check("500ms", Ok(500));
        check("1h30m", Ok(5_400_000));
        check("0s", Ok(0));
        check("2d", Ok(172_800_000));
        check("30", Err("`30` has no unit"));
        check("1.5", Err("`1.5` has no unit"));
        check("1.5s", Err("`1.5s` is not a duration"));
        check("30 s", Err("`30 s` is not a duration"));
        check("-3s", Err("`-3s` is not a duration"));
        check("30S", Err("`30S` is not a duration"));
        check("s", Err("`s` is not a duration"));
        check("3s4", Err("`3s4` is not a duration"));
        check("ü", Err("`ü` is not a duration"));
        check("", Err("the duration is empty"));
        check("99999999999999999999d", Err("`99999999999999999999d` is not a duration"));
        check("9999d", Err("`9999d` is longer than ten years"));
    }

    #[test]
    fn a_size_needs_its_unit() {
        fn check(text: &str, expected: Result<u64, &str>) {
            assert_eq!(size(text).map_err(|bad| bad.message), expected.map_err(str::to_owned), "{text}");
        }
        check("1MiB", Ok(1 << 20));
        check("1.5KiB", Ok(1536));
        check("2MB", Ok(2_000_000));
        check("7B", Ok(7));
        check("1024", Err("`1024` has no unit"));
        check("1mib", Err("`1mib` is not a size"));
        check("MiB", Err("`MiB` is not a size"));
        check("1..2MiB", Err("`1..2MiB` is not a size"));
        check("99999999999GiB", Err("`99999999999GiB` is not a size"));
    }

    #[test]
    fn a_rate_needs_its_unit() {
        fn check(text: &str, expected: Result<f64, &str>) {
            assert_eq!(rate(text).map_err(|bad| bad.message), expected.map_err(str::to_owned), "{text}");
        }
        check("5000/s", Ok(5000.0));
        check("90/m", Ok(1.5));
        check("5000", Err("`5000` has no unit"));
        check("inf/s", Err("`inf/s` is not a rate"));
        check("-1/s", Err("`-1/s` is not a rate"));
        check("5000/d", Err("`5000/d` is not a rate"));
    }

    #[test]
    fn what_is_shown_reads_back() {
        for text in ["500ms", "30s", "90m", "1h", "2d", "0s"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
        for text in ["1B", "1536B", "64KiB", "16MiB", "3GiB", "0B", "1MB", "1500kB"] {
            assert_eq!(show_size(size(text).unwrap()), text);
        }
    }
}
