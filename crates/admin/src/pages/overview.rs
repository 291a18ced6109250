//! `GET /`: every queue and every sink at one glance.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::inputs;
use super::layout::{View, encoded, page};
use super::list_place::ListPlace;
use super::show::{at_least, count, lasting, late, number, obstacles, rate, when};
use super::topics;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::v1::operation::read_query;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::operations::ListQueues;
use delaybridge_ops::overview::{Overview, QueueRow, SinkList, SinkRow, Sums};
use delaybridge_ops::plural::{count as count_of, duration};
use delaybridge_ops::queue_order::{QueueFilter, QueueOrder};
use delaybridge_telemetry::status::Look;

/// Troubles of a sink that are named on the first page.
const TROUBLES: usize = 3;

/// Returns the first page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let mut which: ListQueues = read_query(&call)?;
    if call.query.text("sort").is_none_or(str::is_empty) {
        which.sort = QueueOrder::Trouble;
    }
    let found = admin.operate(which.clone(), Asker::of(&call)).await?;
    let mut sinks = admin.sinks();
    let look = admin.status.look();
    let mut view = View::of("/", &call.caller, admin.access.has_tokens());
    view.watch(&call.query);
    view.lists = true;
    let topics = topics::section(&admin, Asker::of(&call)).await;
    sinks.sinks.sort_by_key(|sink| !sink.has_trouble());
    let body = html! {
        (state(&look, &found))
        (sums(&found, &which))
        section aria-labelledby="queues" {
            div.head {
                h2 #queues { "Queues " span.muted { (found.queues.len() + found.errors.len()) " of " (listed(&found, which.show)) } }
                form.find role="search" method="get" action="./" {
                    label for="like" { "Name" }
                    input #like type="search" name="like" value=(which.like) autocomplete="off" spellcheck="false";
                    input type="hidden" name="sort" value=(which.sort.as_str());
                    input type="hidden" name="show" value=(which.show.as_str());
                    button type="submit" { "Filter" }
                }
            }
            (filters(&found, &which))
            (queues(&found, &sinks, &which, &ListPlace::of(&which, call.query.text("limit"))))
            nav.pages aria-label="Further queues" {
                @if which.after.is_some() { a href=(address(&which)) { "First page" } }
                @if let Some(next) = &found.next { a rel="next" href={ (address(&which)) "&after=" (encoded(next)) } { "Next page" } }
            }
        }
        (topics)
        (inputs::section(&found.inputs))
        (of_sinks(&sinks))
    };
    Ok(page(StatusCode::OK, &view, "Queues", &body))
}

/// Returns the number of queues that a filter takes.
fn listed(found: &Overview, only: QueueFilter) -> String {
    let at = QueueFilter::ALL.iter().position(|filter| *filter == only).unwrap_or(0);
    number(found.fit[at] as u64)
}

fn address(which: &ListQueues) -> String {
    format!("?like={}&sort={}&show={}", encoded(&which.like), which.sort.as_str(), which.show.as_str())
}

/// Returns the filters, each with the number of its queues.
fn filters(found: &Overview, which: &ListQueues) -> Markup {
    html! {
        ul.links aria-label="Filters" {
            @for (filter, fit) in QueueFilter::ALL.into_iter().zip(found.fit) {
                li {
                    a href=(address(&ListQueues { show: filter, ..which.clone() })) aria-current=[(filter == which.show).then_some("true")] { (filter.as_str()) }
                    " " span class=(if fit > 0 && filter == QueueFilter::Trouble { "bad" } else { "muted" }) { (number(fit as u64)) }
                }
            }
        }
    }
}

/// Returns the head of a column by which the list can be sorted.
fn head(label: &str, order: QueueOrder, class: &str, which: &ListQueues) -> Markup {
    let sorted = (order == which.sort).then_some(if order == QueueOrder::Name { "ascending" } else { "descending" });
    html! {
        th class=(class) scope="col" aria-sort=[sorted] {
            a href=(address(&ListQueues { sort: order, ..which.clone() })) title={ "Sort by " (order.as_str()) } { (label) }
        }
    }
}

/// Returns the daemon in one line; what is in the way comes first.
fn state(look: &Look, found: &Overview) -> Markup {
    let down = look.sinks.values().filter(|sink| matches!(sink.state, "down" | "unknown")).count();
    let some = |count: usize, noun, state: &str| (count > 0).then(|| format!("{} {state}", count_of(count, noun)));
    let lost = look.inputs.values().filter(|input| matches!(input.state, "down" | "unknown")).count();
    let why = [
        some(look.held.len(), "queue", "on hold"),
        some(down, "sink", "down or unknown"),
        some(lost, "input", "down or unknown"),
    ];
    let why: Vec<String> = why.into_iter().flatten().collect();
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
                li.warn { strong { "Not ready" } " " (why.join(", ")) ". The reasons are below." }
            }
        }
    }
}

/// Returns the sums of the queues that are shown: to add up ten thousand would read all of them.
fn sums(found: &Overview, which: &ListQueues) -> Markup {
    let sums = found.sums();
    let tile = |label: &str, value: String, class: &str| html! { div class={ "tile " (if value == "0" { "nothing" } else { class }) } { dt { (label) } dd { (value) } } };
    let known = |text: fn(&Sums) -> String| sums.as_ref().map_or_else(|| "–".to_owned(), text);
    let dead = sums.as_ref().is_some_and(|sums| sums.dead > 0);
    let is_part = found.next.is_some() || which.after.is_some();
    html! {
        @if is_part { p.muted { "The " (count_of(found.queues.len(), "queue")) " of this page together:" } }
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

fn queues(found: &Overview, sinks: &SinkList, which: &ListQueues, place: &ListPlace) -> Markup {
    let title = "over the last minute, by this daemon";
    html! {
        div.scroll {
            table.queues {
                thead {
                    tr {
                        (head("Queue", QueueOrder::Name, "", which))
                        th.n scope="col" { "Scheduled" }
                        (head("Due", QueueOrder::Due, "n", which))
                        @for name in ["In flight", "Retry"] { th.n scope="col" { (name) } }
                        (head("Dead", QueueOrder::Dead, "n", which))
                        th.n scope="col" title={ "Median of the lateness " (title) } { "Late p50" }
                        th.n scope="col" title={ "99th percentile of the lateness " (title) } { "p99" }
                        (head("Rate", QueueOrder::Rate, "n", which))
                        (head("Next due", QueueOrder::Overdue, "", which))
                    }
                }
                tbody #list tabindex="-1" {
                    @for error in &found.errors {
                        tr.trouble {
                            th scope="row" { a href={ "queues/" (encoded(&error.queue)) (place.behind('?')) } { (error.queue) } }
                            td.why colspan="9" { span.badge.bad { "not read" } " " (error.message) }
                        }
                    }
                    @for row in &found.queues { (queue(row, sinks, place)) }
                    @if found.queues.is_empty() && found.errors.is_empty() {
                        tr { td.empty colspan="10" { (nothing(which)) } }
                    }
                }
            }
        }
        p.muted {
            "Sorted by " (which.sort.as_str()) ", as this daemon last saw each queue. Rates and lateness are those of this daemon alone; "
            a href="fleet" { "Daemons" } " has those of all. "
            @for (order, label) in [(QueueOrder::Trouble, "Trouble first"), (QueueOrder::File, "As in the configuration")] {
                @if order != which.sort { a href=(address(&ListQueues { sort: order, ..which.clone() })) { (label) } " " }
            }
        }
    }
}

/// Why a list is empty.
fn nothing(which: &ListQueues) -> &'static str {
    match (which.show, which.like.is_empty()) {
        (QueueFilter::All, _) => "There is no queue of this name.",
        (QueueFilter::Trouble, true) => "No queue is in trouble.",
        (_, true) => "There is none.",
        (_, false) => "There is none of this name.",
    }
}

fn queue(row: &QueueRow, sinks: &SinkList, place: &ListPlace) -> Markup {
    let s = &row.state;
    let here = row.here.clone().unwrap_or_default();
    let mut obstacles = obstacles(row, sinks);
    // These keep no other element from moving; the page of the queue has them with its forecast.
    obstacles.extend(row.absurd().map(|words| ("warn", "due times", words)));
    let next = s.next_due_ms.map(|ms| when(ms.max(s.now_ms), s.now_ms));
    html! {
        tr class=[(!obstacles.is_empty()).then_some("noted")] {
            th scope="row" {
                a href={ "queues/" (encoded(&s.queue)) (place.behind('?')) } { (s.queue) }
                span.to { "→ " (row.state.destinations()) }
            }
            (count("Scheduled", s.scheduled, "n"))
            (count("Due", s.due, "n"))
            @if s.in_flight_at_least { td.n data-label="In flight" { (at_least(true, s.in_flight)) } }
            @else { (count("In flight", s.in_flight, "n")) }
            (count("Retry", s.retry, "n warn"))
            td class=(if s.dead == 0 { "n zero" } else { "n bad" }) data-label="Dead" {
                @if s.dead == 0 { "0" } @else { a href={ "queues/" (encoded(&s.queue)) "/dead" } { (number(s.dead)) } }
            }
            td class=(quiet(here.lateness_p50_ms.is_none())) data-label="Late p50" { (late(here.lateness_p50_ms)) }
            td class=(quiet(here.lateness_p99_ms.is_none())) data-label="Late p99" { (late(here.lateness_p99_ms)) }
            td class=(quiet(here.delivered_per_second == 0.0 && here.failed_per_second == 0.0)) data-label="Rate" {
                (rate(here.delivered_per_second))
                @if here.failed_per_second > 0.0 { span.fail { (rate(here.failed_per_second)) " failed" } }
            }
            td class=[(s.oldest_overdue_ms.is_none() && next.is_none()).then_some("zero")] data-label="Next due" {
                @match (s.oldest_overdue_ms, next) {
                    (Some(overdue), _) => span.over { (duration(overdue)) " overdue" },
                    (None, Some(next)) => (next),
                    (None, None) => "–",
                }
            }
        }
        @for (class, word, text) in &obstacles {
            tr.note { td colspan="10" { span class={ "badge " (class) } { (word) } " " (text) } }
        }
    }
}

/// Returns the class of a cell with a number; nothing is quiet.
fn quiet(is_nothing: bool) -> &'static str {
    if is_nothing { "n zero" } else { "n" }
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
    let class = match sink.word() {
        "up" => "good",
        "down" => "bad",
        "blocked" | "partly up" => "warn",
        _ => "info",
    };
    let troubles = sink.troubles();
    html! {
        tr {
            th scope="row" { a href={ "sinks/" (encoded(&sink.sink)) } { (sink.sink) } }
            td data-label="Kind" { (sink.kind) }
            td data-label="State" {
                span class={ "badge " (class) } { (sink.word()) }
                " " span.muted { (lasting(sink.seconds)) }
            }
            (count("Queues", i64::try_from(sink.queues).unwrap_or(i64::MAX), "n"))
            td.why data-label="Last problem" {
                @for (at, trouble) in troubles.iter().take(TROUBLES).enumerate() {
                    @if at > 0 { br; }
                    (trouble)
                }
                @if let Some(more @ 1..) = troubles.len().checked_sub(TROUBLES) {
                    br;
                    a href={ "sinks/" (encoded(&sink.sink)) } { (count_of(more, "further destination")) " in trouble" }
                }
                @if troubles.is_empty() {
                    @if let Some(last) = &sink.last_problem {
                        (last)
                        @if let Some(ago) = sink.last_problem_seconds { " " span.muted { (duration(ago.saturating_mul(1_000))) " ago" } }
                    } @else {
                        span.zero { "none since the start" }
                    }
                }
            }
        }
    }
}
