//! Numbers, times and states as a person reads them.

use maud::{Markup, html};

use delaybridge_core::clock::{calendar_seconds, utc};
use delaybridge_ops::content::Content;
use delaybridge_ops::overview::{QueueRow, SinkList};
use delaybridge_ops::plural::duration;
pub use delaybridge_ops::plural::number;

/// Returns a count, or what it is at least.
pub fn at_least(more: bool, n: i64) -> String {
    format!("{}{}", if more { "≥ " } else { "" }, number(n))
}

/// Returns a cell with a count: nothing is quiet.
pub fn count(label: &str, n: i64, class: &str) -> Markup {
    let class = if n == 0 { "n zero" } else { class };
    html! { td class=(class) data-label=(label) { (number(n)) } }
}

/// `3.4 ms`, `12 s`, `2m 5s`.
pub fn late(ms: Option<f64>) -> String {
    match ms {
        None => "–".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) if ms < 1_000.0 => format!("{ms:.0} ms"),
        Some(ms) if ms < 10_000.0 => format!("{:.1} s", ms / 1_000.0),
        Some(ms) => duration(ms as u64),
    }
}

/// `12.5/s`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0".to_owned(),
        n if n < 0.05 => "< 0.1/s".to_owned(),
        n if n < 10.0 => format!("{n:.1}/s"),
        n => format!("{}/s", number(n.round() as i64)),
    }
}

/// Returns a point in time with its distance from now. A script adds the time of the reader's zone.
pub fn when(ms: i64, now_ms: i64) -> Markup {
    let gap = duration(ms.abs_diff(now_ms));
    let text = match ms.cmp(&now_ms) {
        std::cmp::Ordering::Greater => format!("in {gap}"),
        std::cmp::Ordering::Less => format!("{gap} ago"),
        std::cmp::Ordering::Equal => "now".to_owned(),
    };
    html! { time datetime=(utc(ms)) { (text) " " span.at { (at(ms, now_ms)) } } }
}

/// Renders the duration of a state, and its beginning by the clock of this machine.
pub fn lasting(seconds: u64) -> Markup {
    let now_ms = (calendar_seconds() * 1_000.0) as i64;
    let gap_ms = seconds.saturating_mul(1_000);
    let since_ms = now_ms.saturating_sub_unsigned(gap_ms);
    html! { "for " (duration(gap_ms)) " " time datetime=(utc(since_ms)) { span.at { "since " (at(since_ms, now_ms)) } } }
}

/// `09:00:32 UTC` today, else `2026-11-21 09:00 UTC`.
fn at(ms: i64, now_ms: i64) -> String {
    let text = utc(ms);
    let now = utc(now_ms);
    match (text.split_once('T'), now.split_once('T')) {
        (Some((day, time)), Some((today, _))) if day == today => format!("{} UTC", time.trim_end_matches('Z')),
        (Some((day, time)), _) => format!("{day} {} UTC", time.get(..5).unwrap_or(time)),
        _ => text,
    }
}

/// Returns the text of an outcome for the address of a page: bounded, without control characters.
pub fn said(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(300).collect()
}

/// Returns a payload, decoded where a codec could; at most so many bytes, with a way to all of them.
pub fn payload(content: &Content, most: usize, whole: Option<&str>) -> Markup {
    let shown = content.shown(most);
    html! {
        pre tabindex="0" { code { (shown.text) } }
        @if shown.cut {
            p.muted {
                "Cut after " (number(most)) " bytes. "
                @if let Some(whole) = whole { a href=(whole) { "Show whole" } }
            }
        }
        @if let Some(note) = shown.note { p.muted { (note) } }
    }
}

/// Why nothing moves, one line for each reason; nothing if nothing is in the way.
pub fn obstacles(row: &QueueRow, sinks: &SinkList) -> Vec<(&'static str, &'static str, String)> {
    let mut all = Vec::new();
    if let Some(hold) = row.here.as_ref().and_then(|here| here.held.as_ref()) {
        all.push(("bad", "held", format!("{} (for {})", hold.reason, duration(hold.seconds.saturating_mul(1_000)))));
    }
    for sink in sinks.sinks.iter().filter(|sink| row.state.sinks.contains(&sink.sink)) {
        let (class, word) = match sink.state.as_str() {
            "down" => ("bad", "sink down"),
            "blocked" => ("warn", "sink blocked"),
            "unknown" => ("info", "sink unknown"),
            _ => continue,
        };
        let reason = sink.reason.as_deref().unwrap_or("no answer yet");
        let time = duration(sink.seconds.saturating_mul(1_000));
        all.push((class, word, format!("{}: {reason} (for {time})", sink.sink)));
    }
    if let Some(input) = row.here.as_ref().and_then(|here| here.input.as_ref()) {
        match input.state.as_str() {
            "down" => all.push(("bad", "input down", input.words())),
            "waiting" => all.push(("bad", "input waits", input.words())),
            "holding" => all.push(("warn", "input holds", input.words())),
            "unknown" => all.push(("info", "input unknown", input.words())),
            _ => {}
        }
    }
    all.extend(row.behind().map(|words| ("warn", "behind", words)));
    for pause in &row.state.paused {
        let what = if pause.sink.is_some() { "sink paused" } else { "paused" };
        all.push(("warn", what, pause.words(row.state.now_ms)));
    }
    if row.state.mode != "deliver" {
        let text = match row.state.mode.as_str() {
            "shadow" => "nothing is claimed or sent: the log says what would be",
            _ => "overdue elements are moved to the ready list, nothing is sent",
        };
        all.push(("info", if row.state.mode == "shadow" { "shadow" } else { "rescue" }, text.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (n, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567")] {
            assert_eq!(number(n), expected);
        }
    }

    #[test]
    fn a_time_is_there_without_a_pointer() {
        let now = 1_795_251_632_000;
        let shown = |ms| when(ms, now).into_string();
        assert_eq!(
            shown(now - 5_000),
            "<time datetime=\"2026-11-21T09:00:27Z\">5s ago <span class=\"at\">09:00:27 UTC</span></time>"
        );
        assert!(shown(now + 86_400_000).contains("in 1d <span class=\"at\">2026-11-22 09:00 UTC</span>"));
    }

    #[test]
    fn lateness_has_the_unit_that_fits() {
        for (ms, expected) in [(None, "–"), (Some(0.4), "0.4 ms"), (Some(42.4), "42 ms"), (Some(1_500.0), "1.5 s")] {
            assert_eq!(late(ms), expected);
        }
        assert_eq!(late(Some(125_000.0)), "2m 5s");
    }
}
