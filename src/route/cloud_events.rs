//! CloudEvents 1.0 in binary mode: its attributes are headers, the body stays the payload.

use std::sync::{Arc, LazyLock};

use redisson_codecs::Payload;

use super::ElementInfo;

/// Names of the headers, made once and shared by all elements.
static NAMES: LazyLock<[Arc<str>; 6]> =
    LazyLock::new(|| ["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "content-type"].map(Arc::from));

/// The type of every event: what has happened is that an element fell due.
const TYPE: &str = "delaybridge.element.due";

/// The headers of the element, in front of the user's.
pub(super) fn headers(element: &ElementInfo<'_>, payload: &Payload) -> Vec<(Arc<str>, String)> {
    let values = [
        Some("1.0".to_owned()),
        Some(element.id.to_string()),
        Some(format!("/delaybridge/{}", element.queue)),
        Some(TYPE.to_owned()),
        element.due_ms.and_then(rfc3339),
        Some(payload.media_type().to_owned()),
    ];
    NAMES.iter().cloned().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
}

/// `2023-11-14T22:13:20.123Z`; absent outside of the years 0 to 9999, which the format cannot name.
///
/// The calendar is computed from days since 0000-03-01, so that the leap day is the last of its year.
fn rfc3339(unix_ms: i64) -> Option<String> {
    const DAY_MS: i64 = 86_400_000;
    let (days, of_day) = (unix_ms.div_euclid(DAY_MS), unix_ms.rem_euclid(DAY_MS));
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months of 153 days in five, from March on.
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, ms) = (of_day / 1_000, of_day % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    (0..=9999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_rfc_3339() {
        fn check(unix_ms: i64, expected: Option<&str>) {
            assert_eq!(rfc3339(unix_ms).as_deref(), expected, "{unix_ms}");
        }
        check(0, Some("1970-01-01T00:00:00.000Z"));
        check(1_700_000_000_123, Some("2023-11-14T22:13:20.123Z"));
        check(951_782_400_000, Some("2000-02-29T00:00:00.000Z"));
        check(951_868_799_999, Some("2000-02-29T23:59:59.999Z"));
        check(951_868_800_000, Some("2000-03-01T00:00:00.000Z"));
        check(4_107_542_400_000, Some("2100-03-01T00:00:00.000Z"));
        check(1_735_689_599_999, Some("2024-12-31T23:59:59.999Z"));
        check(-1, Some("1969-12-31T23:59:59.999Z"));
        check(253_402_300_799_999, Some("9999-12-31T23:59:59.999Z"));
        check(253_402_300_800_000, None);
        check(-62_167_219_200_000, Some("0000-01-01T00:00:00.000Z"));
        check(-62_167_219_200_001, None);
        check(i64::MAX, None);
        check(i64::MIN, None);
    }

    #[test]
    fn times_agree_with_another_implementation() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..10_000 {
            let unix_ms = random.i64(0..253_402_300_800_000);
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(unix_ms.unsigned_abs());
            assert_eq!(rfc3339(unix_ms), Some(humantime::format_rfc3339_millis(time).to_string()));
        }
    }
}
