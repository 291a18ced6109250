//! The last hour and the last day of a queue or a sink: drawings, each with its numbers in words.

use maud::{Markup, html};

use super::layout::encoded;
use super::show::{late, number, rate};
use crate::Admin;
use delaybridge_ops::plural::duration;
use delaybridge_telemetry::history::{Past, PastSpan};

/// Height of a drawing in its own units.
const HEIGHT: f64 = 100.0;

/// A kind of chart: its name, its values, and a value in words.
struct ChartKind {
    name: &'static str,
    value: fn(&PastSpan, f64) -> f64,
    words: fn(f64) -> String,
    class: &'static str,
}

const RATE: ChartKind =
    ChartKind { name: "Delivered", value: |span, seconds| span.delivered as f64 / seconds, words: rate, class: "" };
const FAILED: ChartKind = ChartKind {
    name: "Failed attempts",
    value: |span, seconds| span.failed as f64 / seconds,
    words: rate,
    class: "late",
};
const BACKLOG: ChartKind = ChartKind {
    name: "Due and not delivered",
    value: |span, _| span.backlog as f64,
    words: |value| number(value as i64),
    class: "",
};
const P50: ChartKind =
    ChartKind { name: "Lateness p50", value: |span, _| span.late_p50_ms.unwrap_or(0.0), words: in_ms, class: "" };
const P99: ChartKind =
    ChartKind { name: "Lateness p99", value: |span, _| span.late_p99_ms.unwrap_or(0.0), words: in_ms, class: "" };

fn in_ms(value: f64) -> String {
    if value == 0.0 { "nothing".to_owned() } else { late(Some(value)) }
}

/// Returns the history of a queue.
pub fn of_queue(admin: &Admin, queue: &str) -> Markup {
    let link = link(admin.grafana.queue.as_deref(), "{queue}", queue);
    section(admin.history.queue(queue).as_ref(), link.as_deref(), admin.began.elapsed().as_secs())
}

/// Returns the history of a sink, over all of its queues.
pub fn of_sink(admin: &Admin, sink: &str) -> Markup {
    let link = link(admin.grafana.sink.as_deref(), "{sink}", sink);
    section(admin.history.sink(sink).as_ref(), link.as_deref(), admin.began.elapsed().as_secs())
}

/// Returns the link to Grafana for a name, if there is one.
fn link(template: Option<&str>, hole: &str, name: &str) -> Option<String> {
    template.map(|template| template.replace(hole, &encoded(name)))
}

fn section(past: Option<&Past>, link: Option<&str>, up_seconds: u64) -> Markup {
    let kinds = &[&RATE, &P50, &P99, &BACKLOG, &FAILED];
    html! {
        section aria-labelledby="past" {
            h2 #past { "What happened " span.muted { "as this daemon saw it, since its start " (duration(up_seconds * 1_000)) " ago" } }
            @match past {
                None => p.muted { "This daemon keeps the history of 2,000 queues, and has no room for this one." },
                Some(past) if past.minutes.is_empty() => p.muted { "The first minute since the start of this daemon is not over." },
                Some(past) => {
                    (charts("Last hour", &past.minutes, 60, past.age.as_secs(), kinds))
                    @if !past.quarters.is_empty() {
                        details #day { summary { "Last day" } (charts("Last day", &past.quarters, 900, past.age.as_secs(), kinds)) }
                    }
                }
            }
            @if let Some(link) = link { p { a href=(link) rel="noopener" { "More in Grafana" } } }
        }
    }
}

fn charts(name: &str, spans: &[PastSpan], seconds: u64, age: u64, kinds: &[&ChartKind]) -> Markup {
    html! { div.charts { @for kind in kinds { (chart(name, kind, spans, seconds, age)) } } }
}

fn chart(name: &str, kind: &ChartKind, spans: &[PastSpan], seconds: u64, age: u64) -> Markup {
    let values: Vec<f64> = spans.iter().map(|span| (kind.value)(span, seconds as f64)).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let ago = |at: usize| duration(((values.len() - 1 - at) as u64 * seconds + age) * 1_000);
    let caption = match values.iter().rposition(|value| *value == most).filter(|_| most > 0.0) {
        None => "nothing".to_owned(),
        Some(at) => {
            let last = (kind.words)(values.last().copied().unwrap_or(0.0));
            format!("{last} at last, most {} ago: {}", ago(at), (kind.words)(most))
        }
    };
    let label = format!("{}, {}: {caption}", kind.name, name.to_lowercase());
    // After a start the drawing is empty on the left.
    let slots = if seconds == 60 { 60 } else { 96 }.max(values.len());
    let before = slots - values.len();
    html! {
        figure.chart {
            svg viewBox={ "0 0 " (slots) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
                @for (at, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                    @let height = (value / most * HEIGHT).max(2.0).round();
                    rect class={ "bar " (kind.class) } x={ (before + at) ".1" } y=(HEIGHT - height) width="0.8" height=(height) {
                        title { (ago(at)) " ago: " ((kind.words)(*value)) }
                    }
                }
            }
            figcaption { strong { (kind.name) } " " (caption) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_the_name_as_part_of_a_url() {
        let linked = link(Some("https://g.example/d/x?var-queue={queue}&x={queue}"), "{queue}", "a.b c&d");
        assert_eq!(linked.as_deref(), Some("https://g.example/d/x?var-queue=a%2Eb%20c%26d&x=a%2Eb%20c%26d"));
        assert_eq!(link(None, "{queue}", "a"), None);
    }

    #[test]
    fn a_chart_of_the_past_says_in_words_what_it_draws() {
        let span = |delivered| PastSpan { delivered, late_p99_ms: Some(4.0), ..PastSpan::default() };
        let spans = [span(0), span(6_000), span(60)];
        let drawn = chart("Last hour", &RATE, &spans, 60, 5).into_string();
        let words = "1.0/s at last, most 1m 5s ago: 100/s";
        assert!(drawn.contains(&format!("aria-label=\"Delivered, last hour: {words}\"")), "{drawn}");
        assert!(drawn.contains(&format!("</strong> {words}</figcaption>")), "{drawn}");
        assert_eq!(drawn.matches("<rect").count(), 2, "{drawn}");
        assert!(
            drawn.contains(r#"x="58.1" y="0""#) && drawn.contains("viewBox=\"0 0 60 100\""),
            "the latest is on the right: {drawn}"
        );
        assert!(drawn.contains(r#"y="98" width="0.8" height="2""#), "the least that is seen: {drawn}");
        assert!(chart("Last day", &FAILED, &spans, 900, 5).into_string().contains("</strong> nothing"));
        assert!(chart("Last day", &P99, &spans, 900, 5).into_string().contains("4.0 ms at last"));
    }
}
