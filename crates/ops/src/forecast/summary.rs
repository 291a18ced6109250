//! A forecast in words. Pure.

use super::answer::{Forecast, ForecastWave, RateFrom};
use crate::plural::{duration, number};
use delaybridge_core::clock::utc;

/// Lateness that is not worth a word, in ms.
const IN_TIME_MS: u64 = 2_000;
/// Time within which elements fall due together, as far as a forecast knows, in ms.
const TOGETHER_MS: i64 = 3_000;

/// Returns the forecast in a sentence or two.
pub(super) fn summary(found: &Forecast, by_daemon: bool, delivers: bool) -> String {
    let until = at(found.until_ms, found.now_ms);
    let Some(rate) = found.rate else {
        let now = if found.backlog > 0 { format!("{}. ", are_due(found.backlog)) } else { String::new() };
        let due = match (found.due, found.backlog) {
            (0, 0) => format!("Nothing falls due until {until}."),
            (0, _) => format!("Nothing else falls due until {until}."),
            (1, _) => format!("1 element falls due until {until}."),
            (due, _) => format!("{} elements fall due until {until}.", number(due)),
        };
        let why = match (delivers, by_daemon, found.backlog) {
            (false, ..) => "this queue is not in mode deliver",
            (true, false, _) => "Redis alone knows no rate; give one, or ask a daemon",
            (true, true, 0) => "the rate is measured only while the queue has a backlog",
            (true, true, _) => "this daemon has delivered none of the backlog within the last day",
        };
        return format!("{now}{due} No estimate of lateness: {why}.");
    };
    let from = match found.rate_from {
        RateFrom::Measured => ", as this daemon measured",
        RateFrom::MaxRate => ", its max_rate",
        RateFrom::Given | RateFrom::None => "",
    };
    let rate = format!("at {rate}/s{from}");
    let backlog = match (found.backlog, found.worst) {
        (0, _) | (_, Some(ForecastWave { backlog: 1.., .. })) => String::new(),
        (waiting, _) if found.due == 0 => {
            let through =
                found.through_ms.map(|ms| format!(", and will be through by {}, {rate}", at(ms, found.now_ms)));
            format!("{}{}. ", are_due(waiting), through.unwrap_or_default())
        }
        (waiting, _) => format!("{}. ", are_due(waiting)),
    };
    let Some(wave) = found.worst.filter(|wave| wave.lateness_ms >= IN_TIME_MS) else {
        return match found.due {
            0 if found.backlog > 0 => format!("{backlog}Nothing else falls due until {until}."),
            0 => format!("Nothing falls due until {until}."),
            due => format!("{backlog}{} until {until} will be in time, {rate}.", fall_due(due)),
        };
    };
    let when = match wave.latest_ms - wave.from_ms {
        ..=TOGETHER_MS => format!("due at {}", at(wave.latest_ms, found.now_ms)),
        _ => format!("due from {} on", at(wave.from_ms, found.now_ms)),
    };
    let behind = match wave.backlog {
        0 => String::new(),
        waiting => format!(", behind {} that are due already,", number(waiting)),
    };
    format!(
        "{} {when}{behind} will be through by {}; the latest {} late, {rate}.",
        number(wave.due),
        at(wave.through_ms, found.now_ms),
        duration(wave.lateness_ms)
    )
}

fn are_due(waiting: u64) -> String {
    match waiting {
        1 => "1 element is due now".to_owned(),
        waiting => format!("{} are due now", number(waiting)),
    }
}

fn fall_due(due: u64) -> String {
    match due {
        1 => "The one element that falls due".to_owned(),
        due => format!("All {} elements that fall due", number(due)),
    }
}

/// Returns a time to the second, without the date if that is today, and without seconds at a full minute.
fn at(ms: i64, now_ms: i64) -> String {
    // A forecast is exact to a second, so that a little before a full minute is the minute.
    let near = ms.saturating_add(30_000).div_euclid(60_000).saturating_mul(60_000);
    let ms = if near.abs_diff(ms) <= 1_000 { near } else { ms.saturating_add(500) };
    let text = utc(ms);
    let today = utc(now_ms);
    let Some((date, time)) = text.trim_end_matches('Z').split_once('T') else { return text };
    let time = time.strip_suffix(":00").unwrap_or(time);
    if today.starts_with(date) { format!("{time} UTC") } else { format!("{time} UTC on {date}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::ForecastStep;

    /// 2026-11-25T17:00:00Z.
    const NOW: i64 = 1_795_626_000_000;
    const HOUR: i64 = 3_600_000;

    fn some() -> Forecast {
        Forecast {
            queue: "q".to_owned(),
            now_ms: NOW,
            until_ms: NOW + 24 * HOUR,
            summary: String::new(),
            rate: Some(55.0),
            rate_from: RateFrom::Measured,
            backlog: 0,
            oldest_overdue_ms: None,
            scheduled: 13_000,
            due: 13_000,
            last_due_ms: None,
            absurd_due: 0,
            through_ms: None,
            lateness_ms: Some(0),
            exact_to_ms: Some(1_000),
            worst: None,
            steps: Vec::<ForecastStep>::new(),
        }
    }

    fn check(found: Forecast, expected: &str) {
        assert_eq!(summary(&found, true, true), expected);
    }

    #[test]
    fn the_worst_wave_is_what_it_says() {
        let wave = ForecastWave {
            from_ms: NOW + HOUR - 700,
            latest_ms: NOW + HOUR - 200,
            due: 13_000,
            backlog: 0,
            through_ms: NOW + HOUR + 236_000,
            lateness_ms: 236_000,
        };
        check(
            Forecast { worst: Some(wave), ..some() },
            "13,000 due at 18:00 UTC will be through by 18:03:56 UTC; the latest 3m 56s late, at 55/s, as this daemon measured.",
        );
        let wave = ForecastWave { from_ms: NOW, latest_ms: NOW + HOUR, due: 10, backlog: 6_000, ..wave };
        check(
            Forecast { worst: Some(wave), backlog: 6_000, rate_from: RateFrom::MaxRate, ..some() },
            "10 due from 17:00 UTC on, behind 6,000 that are due already, will be through by 18:03:56 UTC; the latest 3m 56s late, \
             at 55/s, its max_rate.",
        );
        let wave = ForecastWave { lateness_ms: 1_500, ..wave };
        check(
            Forecast { worst: Some(wave), rate_from: RateFrom::Given, ..some() },
            "All 13,000 elements that fall due until 17:00 UTC on 2026-11-26 will be in time, at 55/s.",
        );
    }

    #[test]
    fn what_is_not_known_is_said() {
        let unknown = Forecast { rate: None, rate_from: RateFrom::None, ..some() };
        let text = summary(&unknown, false, true);
        assert!(
            text.starts_with("13,000 elements fall due until 17:00 UTC on 2026-11-26. No estimate of lateness: Redis")
        );
        assert!(summary(&unknown, true, true).contains("only while the queue has a backlog"));
        let behind = summary(&Forecast { backlog: 60, due: 0, ..unknown.clone() }, true, true);
        let expected = "60 are due now. Nothing else falls due until 17:00 UTC on 2026-11-26. No estimate of lateness: this daemon has \
                        delivered none of the backlog within the last day.";
        assert_eq!(behind, expected, "it is behind, and says nothing else");
        assert!(summary(&unknown, true, false).contains("not in mode deliver"));
        check(Forecast { due: 0, ..some() }, "Nothing falls due until 17:00 UTC on 2026-11-26.");
        check(
            Forecast { due: 0, backlog: 7, ..some() },
            "7 are due now. Nothing else falls due until 17:00 UTC on 2026-11-26.",
        );
        let backlog = Forecast { due: 0, backlog: 3_586, rate_from: RateFrom::MaxRate, ..some() };
        check(
            Forecast { through_ms: Some(NOW + 65_000), ..backlog },
            "3,586 are due now, and will be through by 17:01:05 UTC, at 55/s, its max_rate. Nothing else falls due until 17:00 UTC on \
             2026-11-26.",
        );
    }
}
