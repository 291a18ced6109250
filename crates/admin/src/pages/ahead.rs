//! What falls due next: a sentence, and drawings of the next hour, day and week with the same in words.

use maud::{Markup, html};

use super::show::number;
use delaybridge_core::clock::utc;
use delaybridge_ops::forecast::{Forecast, ForecastStep};

/// Height of a drawing in its own units.
const HEIGHT: u64 = 100;

/// The names of the charts, and of their steps, in the order of `charts`.
const CHARTS: [(&str, &str); 3] = [("hour", "minute"), ("day", "half hour"), ("week", "six hours")];

/// Returns the forecast in words, and a chart for each length of time.
pub fn ahead(forecast: &Forecast, charts: &[Vec<ForecastStep>; 3]) -> Markup {
    html! {
        p.forecast { (forecast.summary) }
        @if forecast.absurd_due > 0 {
            ul.notes { li.warn {
                strong { (number(forecast.absurd_due)) } " with due times that are hardly meant: before 2001, or more than a year ahead."
            } }
        }
        @if forecast.scheduled > 0 {
            div.charts { @for ((name, step), steps) in CHARTS.iter().zip(charts) { (chart(name, step, steps)) } }
        }
    }
}

fn chart(name: &str, step: &str, steps: &[ForecastStep]) -> Markup {
    let total: u64 = steps.iter().map(|step| step.due).sum();
    let most = steps.iter().max_by_key(|step| step.due).filter(|step| step.due > 0);
    let caption = match most {
        None => "nothing".to_owned(),
        Some(most) => {
            format!("{}, most in the {step} until {}: {}", number(total), time(most.until_ms), number(most.due))
        }
    };
    html! {
        figure.chart {
            svg viewBox={ "0 0 " (steps.len()) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label={ "Due within the next " (name) ": " (caption) } {
                @for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.due > 0) {
                    @let height = height(step.due, most.map_or(1, |most| most.due));
                    rect.bar x={ (at) ".1" } y=(HEIGHT - height) width="0.8" height=(height) {
                        title { "until " (time(step.until_ms)) ": " (number(step.due)) }
                    }
                }
            }
            figcaption { strong { "Next " (name) } " " (caption) }
        }
    }
}

/// Of the fullest bar the whole height; the least that is seen for one element.
fn height(due: u64, most: u64) -> u64 {
    let height = u128::from(due) * u128::from(HEIGHT) / u128::from(most.max(1));
    u64::try_from(height).unwrap_or(HEIGHT).clamp(2, HEIGHT)
}

/// `2026-11-25 18:00 UTC`.
fn time(ms: i64) -> String {
    let text = utc(ms.saturating_add(30_000));
    match text.split_once('T') {
        Some((date, time)) => format!("{date} {} UTC", time.get(..5).unwrap_or(time)),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_626_000_000;

    fn steps(counts: &[u64]) -> Vec<ForecastStep> {
        let step = |(at, due): (i64, &u64)| ForecastStep {
            from_ms: NOW + at * 60_000,
            until_ms: NOW + (at + 1) * 60_000,
            due: *due,
            ..ForecastStep::default()
        };
        (0..).zip(counts).map(step).collect()
    }

    #[test]
    fn a_chart_says_in_words_what_it_draws() {
        let drawn = chart("hour", "minute", &steps(&[0, 1, 0, 12_000])).into_string();
        let words = "12,001, most in the minute until 2026-11-25 17:04 UTC: 12,000";
        assert!(drawn.contains(&format!("aria-label=\"Due within the next hour: {words}\"")), "{drawn}");
        assert!(drawn.contains(&format!("</strong> {words}</figcaption>")), "{drawn}");
        assert_eq!(drawn.matches("<rect").count(), 2, "{drawn}");
        assert!(drawn.contains(r#"x="1.1" y="98" width="0.8" height="2""#), "one element is seen: {drawn}");
        assert!(drawn.contains(r#"x="3.1" y="0" width="0.8" height="100""#), "{drawn}");
        assert!(chart("day", "half hour", &steps(&[0, 0])).into_string().contains("Next day</strong> nothing"));
        assert_eq!(height(u64::MAX, u64::MAX), HEIGHT);
    }
}
