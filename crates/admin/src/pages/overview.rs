//! `GET /`: every queue and every sink at one glance.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::layout::{View, encoded, page};
use super::show::{at_least, count, late, number, obstacles, rate, when};
use super::topics;
use crate::Admin;
use crate::access::AdminCaller;
use crate::v1::queues::which;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::overview::{Overview, QueueRow, SinkList, SinkRow, Sums};
use delaybridge_ops::plural::{count as count_of, duration};
use delaybridge_telemetry::status::Look;

/// The first page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["after", "limit", "like", "still"])?;
    let which = which(&call)?;
    let found = admin.overview(which.clone()).await?;
    let (sinks, look) = (admin.sinks(), admin.status.look());
    let mut view = View::of("/", call.caller.name.as_deref(), admin.access.has_tokens());
    view.live = call.query.text("still").is_none();
    let of = admin.session().config.queues.len();
    let topics = topics::section(&admin).await;
    let body = html! {
        (state(&look, &found))
        (sums(&found))
        section aria-labelledby="queues" {
            div.head {
                h2 #queues { "Queues " span.muted { (found.queues.len() + found.errors.len()) " of " (of) } }
                form.find role="search" method="get" action="./" {
                    label for="like" { "Name" }
                    input #like type="search" name="like" value=(which.like) autocomplete="off" spellcheck="false";
                    button type="submit" { "Filter" }
                }
            }
            (queues(&found, &sinks))
            nav.pages aria-label="Further queues" {
                @if which.after.is_some() { a href={ "?like=" (encoded(&which.like)) } { "First page" } }
                @if let Some(next) = &found.next {
                    a rel="next" href={ "?after=" (encoded(next)) "&like=" (encoded(&which.like)) } { "Next page" }
                }
            }
        }
        (topics)
        (of_sinks(&sinks))
    };
    Ok(page(StatusCode::OK, &view, "Queues", &body))
}

/// The daemon in one line; what is in the way comes first.
fn state(look: &Look, found: &Overview) -> Markup {
    let held = count_of(look.held.len(), "queue");
    let down = look.sinks.values().filter(|sink| matches!(sink.state, "down" | "unknown")).count();
    let down = count_of(down, "sink");
    html! {
        h1.sr { "Overview" }
        ul.notes {
            @if look.stopping { li.bad { strong { "Stopping" } " Nothing new is claimed." } }
            @else if !look.started { li.warn { strong { "Starting" } " Nothing was claimed yet." } }
            @for (name, away) in &look.redis {
                @if let Some((reason, seconds)) = away {
                    li.bad { strong { "Redis " (name) } " is away for " (duration(seconds * 1_000)) ": " (reason) }
                }
            }
            @for clock in &found.clocks { li.warn { strong { "Clock" } " This machine's is " (clock.line()) "." } }
            @if look.ready { li.good { strong { "Ready" } " Everything that is due can be delivered." } }
            @else if look.started && !look.stopping {
                li.warn { strong { "Not ready" } " " (held) " on hold, " (down) " down or unknown. The reasons are below." }
            }
        }
    }
}

/// The sums of the page.
fn sums(found: &Overview) -> Markup {
    let sums = found.sums();
    let tile = |label: &str, value: String, class: &str| html! { div class={ "tile " (class) } { dt { (label) } dd { (value) } } };
    let known = |text: fn(&Sums) -> String| sums.as_ref().map_or_else(|| "–".to_owned(), text);
    let dead = sums.as_ref().is_some_and(|sums| sums.dead > 0);
    html! {
        dl.tiles {
            (tile("Scheduled", known(|sums| at_least(sums.at_least, sums.scheduled)), ""))
            (tile("Due", known(|sums| at_least(sums.at_least, sums.due)), ""))
            (tile("In flight", known(|sums| at_least(sums.in_flight_at_least, sums.in_flight)), ""))
            (tile("Retry", known(|sums| at_least(sums.at_least, sums.retry)), ""))
            (tile("Dead", known(|sums| at_least(sums.at_least, sums.dead)), if dead { "bad" } else { "" }))
            (tile("Oldest overdue", known(|sums| sums.oldest_overdue_ms.map_or("–".to_owned(), duration)), ""))
            (tile("Delivered", known(|sums| rate(sums.delivered_per_second)), ""))
        }
    }
}

fn queues(found: &Overview, sinks: &SinkList) -> Markup {
    html! {
        div.scroll {
            table.queues {
                thead {
                    tr {
                        th scope="col" { "Queue" }
                        @for name in ["Scheduled", "Due", "In flight", "Retry", "Dead"] { th.n scope="col" { (name) } }
                        th.n scope="col" title="Median of the lateness over the last minute" { "Late p50" }
                        th.n scope="col" title="99th percentile of the lateness over the last minute" { "p99" }
                        th.n scope="col" title="Delivered by this daemon over the last minute" { "Rate" }
                        th scope="col" { "Next due" }
                    }
                }
                tbody {
                    @for row in &found.queues { (queue(row, sinks)) }
                    @for error in &found.errors {
                        tr.trouble {
                            th scope="row" { a href={ "queues/" (encoded(&error.queue)) } { (error.queue) } }
                            td.why colspan="9" { span.badge.bad { "not read" } " " (error.message) }
                        }
                    }
                    @if found.queues.is_empty() && found.errors.is_empty() {
                        tr { td.empty colspan="10" { "There is no queue of this name." } }
                    }
                }
            }
        }
    }
}

fn queue(row: &QueueRow, sinks: &SinkList) -> Markup {
    let s = &row.state;
    let here = row.here.clone().unwrap_or_default();
    let obstacles = obstacles(row, sinks);
    let next = s.next_due_ms.map(|ms| when(ms.max(s.now_ms), s.now_ms));
    html! {
        tr class=[(!obstacles.is_empty()).then_some("noted")] {
            th scope="row" {
                a href={ "queues/" (encoded(&s.queue)) } { (s.queue) }
                span.to { "→ " (row.state.sinks.join(", ")) }
            }
            (count("Scheduled", s.scheduled, "n"))
            (count("Due", s.due, "n"))
            @if s.in_flight_at_least { td.n data-label="In flight" { (at_least(true, s.in_flight)) } }
            @else { (count("In flight", s.in_flight, "n")) }
            (count("Retry", s.retry, "n warn"))
            td class=(if s.dead == 0 { "n zero" } else { "n bad" }) data-label="Dead" {
                @if s.dead == 0 { "0" } @else { a href={ "queues/" (encoded(&s.queue)) "/dead" } { (number(s.dead)) } }
            }
            td.n data-label="Late p50" { (late(here.lateness_p50_ms)) }
            td.n data-label="Late p99" { (late(here.lateness_p99_ms)) }
            td.n data-label="Rate" {
                (rate(here.delivered_per_second))
                @if here.failed_per_second > 0.0 { span.fail { (rate(here.failed_per_second)) " failed" } }
            }
            td data-label="Next due" {
                @match (s.oldest_overdue_ms, next) {
                    (Some(overdue), _) => span.over { (duration(overdue)) " overdue" },
                    (None, Some(next)) => (next),
                    (None, None) => span.zero { "–" },
                }
            }
        }
        @for (class, word, text) in &obstacles {
            tr.note { td colspan="10" { span class={ "badge " (class) } { (word) } " " (text) } }
        }
    }
}

fn of_sinks(sinks: &SinkList) -> Markup {
    html! {
        section aria-labelledby="sinks" {
            h2 #sinks { "Sinks " span.muted { "as this daemon sees them" } }
            @if sinks.sinks.is_empty() { p.muted { "The configuration has none." } }
            @else {
                div.scroll {
                    table.sinks {
                        thead {
                            tr {
                                th scope="col" { "Sink" } th scope="col" { "Kind" } th scope="col" { "State" }
                                th.n scope="col" { "Queues" } th scope="col" { "Last problem" }
                            }
                        }
                        tbody { @for sink in &sinks.sinks { (one_sink(sink)) } }
                    }
                }
            }
        }
    }
}

fn one_sink(sink: &SinkRow) -> Markup {
    let class = match sink.state.as_str() {
        "up" => "good",
        "down" => "bad",
        "blocked" => "warn",
        _ => "info",
    };
    html! {
        tr {
            th scope="row" { (sink.sink) }
            td data-label="Kind" { (sink.kind) }
            td data-label="State" {
                span class={ "badge " (class) } { (sink.state) }
                " " span.muted { "for " (duration(sink.seconds.saturating_mul(1_000))) }
            }
            (count("Queues", i64::try_from(sink.queues).unwrap_or(i64::MAX), "n"))
            td.why data-label="Last problem" {
                @match (&sink.reason, &sink.last_problem) {
                    (Some(reason), _) => (reason),
                    (None, Some(last)) => {
                        (last)
                        @if let Some(ago) = sink.last_problem_seconds { " " span.muted { (duration(ago.saturating_mul(1_000))) " ago" } }
                    }
                    (None, None) => span.zero { "none since the start" },
                }
                @for found in &sink.destinations {
                    br;
                    (found.destination) ": " (found.reason) " "
                    span.muted { (found.count) " in trouble for " (duration(found.seconds.saturating_mul(1_000))) }
                }
            }
        }
    }
}
