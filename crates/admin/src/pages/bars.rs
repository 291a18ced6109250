//! Counts over time as bars: a table for those who read, with a drawing in it for those who look.

use maud::{Markup, html};

use super::show::number;
use delaybridge_ops::horizon::{Bar, Horizon};
use delaybridge_ops::plural::duration;

/// Width of the longest bar in the units of its drawing.
const WIDTH: u64 = 300;

/// Returns the bars of a schedule: overdue elements, and those that fall due next.
pub fn schedule(found: &Horizon) -> Markup {
    let all = found.overdue.iter().chain(&found.ahead);
    let most = all.clone().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let total: u64 = all.map(|bar| bar.count).sum();
    html! {
        @if total == 0 { p.muted { "Nothing is scheduled." } }
        @else {
            div.scroll {
                table.bars {
                    thead { tr { th scope="col" { "Due" } th.n scope="col" { "Elements" } th scope="col" { span.sr { "Drawing" } } } }
                    tbody {
                        @for bar in found.overdue.iter().filter(|bar| bar.count > 0) { (row(bar, found.now_ms, most, "late")) }
                        @for bar in trimmed(&found.ahead) { (row(bar, found.now_ms, most, "")) }
                    }
                }
            }
        }
    }
}

/// Without the empty bars at the far end.
fn trimmed(bars: &[Bar]) -> &[Bar] {
    let end = bars.iter().rposition(|bar| bar.count > 0).map_or(0, |at| at + 1);
    &bars[..end]
}

fn row(bar: &Bar, now_ms: i64, most: u64, class: &str) -> Markup {
    let width = (bar.count.saturating_mul(WIDTH) / most).max(u64::from(bar.count > 0));
    html! {
        tr {
            th scope="row" { (label(bar, now_ms)) }
            td class=(if bar.count == 0 { "n zero" } else { "n" }) { (number(bar.count)) }
            td.drawn {
                svg viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                    rect class={ "bar " (class) } x="0" y="0" width=(width) height="10" rx="1.5" {}
                }
            }
        }
    }
}

/// `overdue by 1m to 10m`, `within 5m to 15m`.
fn label(bar: &Bar, now_ms: i64) -> String {
    let gap = |ms: i64| duration(ms.abs_diff(now_ms));
    match (bar.from_ms, bar.until_ms) {
        (None, Some(until)) => format!("overdue by more than {}", gap(until)),
        (Some(from), Some(until)) if until < now_ms => format!("overdue by {} to {}", gap(until), gap(from)),
        (Some(from), Some(until)) if until == now_ms => format!("overdue by up to {}", gap(from)),
        (Some(from), Some(until)) if from <= now_ms => format!("within {}", gap(until)),
        (Some(from), Some(until)) => format!("in {} to {}", gap(from), gap(until)),
        (Some(from), None) => format!("in more than {}", gap(from)),
        (None, None) => "at any time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bar_says_when() {
        let check = |from_ms, until_ms, expected: &str| {
            assert_eq!(label(&Bar { from_ms, until_ms, count: 1 }, 1_000_000_000), expected);
        };
        let at = |offset: i64| Some(1_000_000_000 + offset);
        check(None, at(-86_400_000), "overdue by more than 1d");
        check(at(-600_000), at(-60_000), "overdue by 1m to 10m");
        check(at(-10_000), at(0), "overdue by up to 10s");
        check(at(0), at(60_000), "within 1m");
        check(at(60_000), at(300_000), "in 1m to 5m");
        check(at(300_000), None, "in more than 5m");
    }

    #[test]
    fn the_longest_bar_is_the_fullest_and_a_single_element_is_seen() {
        let bar = |count| Bar { from_ms: Some(5), until_ms: Some(9), count };
        let drawn = |count| row(&bar(count), 5, 100_000, "").into_string();
        assert!(drawn(100_000).contains(r#"width="300""#));
        assert!(drawn(1).contains(r#"width="1""#) && drawn(0).contains(r#"width="0""#));
        assert_eq!(trimmed(&[bar(0), bar(3), bar(0)]).len(), 2);
    }
}
