//! `GET /queues/{queue}/dead`: dead letters, by filter, page by page; and one of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::chosen::tick;
use super::element::line as attempt_line;
use super::layout::{View, crumbs, encoded, page};
use super::show::{number, payload, said, when};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::v1::errors::problem;
use delaybridge_core::message::Class;
use delaybridge_http_server::call::{Call, Query};
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::Queue;
use delaybridge_ops::dead::{FILTER_NAMES, Filter, Letter, Summary};
use delaybridge_ops::element::KILLED;
use delaybridge_ops::operation::{Operation, RequestFields, whole};
use delaybridge_ops::operations::{CountDead, Counted, ListDead, SHOWN, ShowDead, Total};
use delaybridge_ops::progress::Until;
use delaybridge_telemetry::labels::DeadReason;

/// Letters of a page.
const PAGE: u64 = 50;
/// Time to count letters by what they died of.
const TIME: Duration = Duration::from_millis(500);
/// Causes that are shown.
const CAUSES: usize = 20;

/// Returns the list.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&[&FILTER_NAMES[..], &["after", "done"]].concat())?;
    let filter = asked(&admin, &call)?;
    let queue = admin.queue(&call).await?;
    let may_count = call.caller.may(AccessRole::Viewer, Some(queue.id()));
    let causes = if may_count { Some(causes(&admin, &Asker::of(&call), queue.id()).await?) } else { None };
    let causes = causes.as_deref().filter(|counted| counted.matched > 0);
    let id = queue.id();
    let after = call.query.text("after").filter(|after| !after.is_empty()).map(str::to_owned);
    let wanted = ListDead { queue: id.to_owned(), limit: PAGE, after, filter };
    let found = admin.operate(wanted, Asker::of(&call)).await?;
    let view = View::of(&format!("/queues/{}/dead", encoded(id)), &call.caller, admin.access.has_tokens());
    let same = query_of(&call.query);
    let all = number(found.total);
    let reads = view.may(AccessRole::Reader, id) || view.name.is_none();
    let operates = view.may(AccessRole::Operator, id);
    let body = html! {
        (crumbs(&[("Queues", view.up.clone()), (id, format!("../{}", encoded(id)))], "dead letters"))
        h1 { (id) ": dead letters" }
        @if let Some(done) = call.query.text("done") { ul.notes { li.good role="status" { (said(done)) } } }
        // To find what fits, all letters are read.
        @if may_count { (filters(&call.query, &queue, causes)) }
        @if let Some(causes) = causes { (by_cause(causes, &call.query)) }
        div.head {
            p.muted { "The latest first. There are " (all) " in all." }
            @if view.may(AccessRole::Reader, id) && !found.dead_letters.is_empty() {
                div.deeds {
                    a.button href={ "dead/export?" (same) } { "Export what fits" }
                    @if operates { a.button href={ "dead/redrive/ask?" (same) } { "Redrive what fits …" } }
                    @if view.may(AccessRole::Admin, id) { a.button.danger href={ "dead/purge/ask?" (same) } { "Remove what fits for good …" } }
                }
            }
        }
        @if found.dead_letters.is_empty() {
            p.empty {
                "There are none that fit."
                @if !found.unknown_sinks.is_empty() {
                    " Neither the configuration nor a letter has the sink " (found.unknown_sinks.join(" or ")) "."
                }
            }
        }
        @else {
            form.chosen method="get" action="dead/redrive/ask" {
                @if operates {
                    input type="hidden" name="chosen" value="1";
                    (filter_fields(&call.query))
                    div.deeds.choose {
                        button type="submit" { "Redrive the chosen …" }
                        @if view.may(AccessRole::Admin, id) {
                            button.danger type="submit" formaction="dead/purge/ask" { "Remove the chosen for good …" }
                        }
                    }
                }
                div.scroll {
                    table.cards {
                        thead {
                            tr {
                                th scope="col" { "Element" } th scope="col" { "Died" } th scope="col" { "Reason" } th scope="col" { "Sink" }
                                th.n scope="col" { "Attempts" } th.n scope="col" { "Bytes" }
                            }
                        }
                        tbody { @for letter in &found.dead_letters { (line(letter, found.now_ms, reads, operates)) } }
                    }
                }
            }
        }
        nav.pages aria-label="Further dead letters" {
            @if let Some(next) = &found.next { a rel="next" href={ "?after=" (encoded(next)) "&" (same) } { "Next page" } }
        }
    };
    Ok(page(StatusCode::OK, &view, &format!("{id}: dead letters"), &body))
}

/// Returns the filter of a query, if the caller has the right that it needs.
pub fn asked(admin: &Admin, call: &Call<AdminCaller>) -> Result<Filter, Problem> {
    let filter = filter_of(&call.query)?;
    if let Some(need) = filter.need() {
        admin.access.check(need, &call.caller, &call.headers, Some(call.part("queue")))?;
    }
    Ok(filter)
}

/// Returns the filter of a query or a form. Several values of one part are separated by commas.
pub fn filter_of(query: &Query) -> Result<Filter, Problem> {
    let mut fields = RequestFields::default();
    for name in FILTER_NAMES {
        fields.add_text(name, query.text(name).unwrap_or_default().trim());
    }
    fields.read().map_err(|error| problem(&error))
}

/// Returns the filter of a query, to be put behind another path.
pub fn query_of(query: &Query) -> String {
    let pairs =
        FILTER_NAMES.iter().filter_map(|name| Some((name, query.text(name).filter(|text| !text.trim().is_empty())?)));
    pairs.map(|(name, text)| format!("{name}={}", encoded(text))).collect::<Vec<_>>().join("&")
}

/// Returns the filter of a query, as hidden fields of a form.
pub fn filter_fields(query: &Query) -> Markup {
    html! {
        @for name in FILTER_NAMES {
            @if let Some(value) = query.text(name).filter(|value| !value.is_empty()) { input type="hidden" name=(name) value=(value); }
        }
    }
}

/// The letters by cause, as far as they can be counted in the time of a page. All who look within a few seconds share them.
async fn causes(admin: &Arc<Admin>, asker: &Asker, queue: &str) -> Result<Arc<Counted>, Problem> {
    let scene = &admin.scene(asker);
    let read = async |_: &String| {
        let all = CountDead { queue: queue.to_owned(), ..CountDead::default() };
        let counted =
            whole(&all, &mut Until::after(TIME), |part: CountDead| async move { part.run(scene).await }).await;
        counted.map_err(|error| problem(&error))
    };
    admin.cache.page(|cache| &cache.causes, queue.to_owned(), read).await
}

/// Returns the causes, each with the way to its letters.
fn by_cause(causes: &Counted, query: &Query) -> Markup {
    let chosen = |total: &Total| {
        [("reason", &total.reason), ("code", &total.code), ("sink", &total.sink)]
            .iter()
            .all(|(name, value)| query.text(name).unwrap_or_default() == **value)
    };
    html! {
        ul.links aria-label="By cause" {
            @if causes.stopped { li.muted { "Of the oldest " (number(count(causes.examined))) ":" } }
            @for total in causes.totals.iter().take(CAUSES) {
                @let cause = html! { (total.reason) " " (total.code) " " (total.sink) };
                li {
                    @if leads_to_itself(causes, total) {
                        a href={ "dead?reason=" (encoded(&total.reason)) "&code=" (encoded(&total.code)) "&sink=" (encoded(&total.sink)) }
                            aria-current=[chosen(total).then_some("true")] { (cause) }
                    } @else { (cause) }
                    " " span.muted { (number(count(total.count))) }
                }
            }
        }
    }
}

/// Returns whether the way to the letters of a cause leads to no others: an empty value of a filter means any. What is
/// redriven there is then what was counted here.
fn leads_to_itself(causes: &Counted, total: &Total) -> bool {
    let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
    let found = |other: &&Total| {
        fits(&total.reason, &other.reason) && fits(&total.code, &other.code) && fits(&total.sink, &other.sink)
    };
    total.reason != "others" && causes.totals.iter().filter(found).count() == 1
}

fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the filters: a choice where the values are known.
fn filters(query: &Query, queue: &Queue, causes: Option<&Counted>) -> Markup {
    let hints = ["", "", "timeout", "", "2h", "1d", "", "orderId=7"];
    let narrowed = FILTER_NAMES.iter().any(|name| query.text(name).is_some_and(|value| !value.is_empty()));
    html! {
        // Closed on a phone until it is opened, because its eight fields would stand above the first letter.
        details.narrow open[narrowed] {
            summary { "Filter" }
            form.filters method="get" action="dead" role="search" {
                @for (name, hint) in FILTER_NAMES.iter().zip(hints) {
                    @let (value, known) = (query.text(name).unwrap_or_default(), known(name, queue, causes));
                    label {
                        span { (name.replace('_', " ")) }
                        @if known.is_empty() {
                            input name=(name) value=(value) placeholder=(hint) size="12" autocomplete="off" spellcheck="false";
                        } @else {
                            select name=(name) {
                                option value="" { "any" }
                                @for word in &known { option value=(word) selected[word == value] { (word) } }
                                // Several, or one of another version.
                                @if !value.is_empty() && !known.iter().any(|word| word == value) { option value=(value) selected { (value) } }
                            }
                        }
                    }
                }
                button type="submit" { "Filter" }
            }
        }
    }
}

/// Returns the values that a filter can have, where they are known.
fn known(name: &str, queue: &Queue, causes: Option<&Counted>) -> Vec<String> {
    match name {
        "code" => {
            let codes = causes.iter().flat_map(|causes| &causes.totals).map(|total| total.code.clone());
            codes.filter(|code| !code.is_empty()).collect::<BTreeSet<_>>().into_iter().collect()
        }
        "reason" => DeadReason::ALL.map(DeadReason::as_str).into_iter().chain([KILLED]).map(str::to_owned).collect(),
        "class" => Class::ALL.map(|class| class.as_str().to_owned()).into(),
        "sink" => queue.spec.to.iter().map(|to| to.sink.to_string()).collect(),
        _ => Vec::new(),
    }
}

fn line(letter: &Summary, now_ms: i64, reads: bool, operates: bool) -> Markup {
    html! {
        tr {
            th scope="row" {
                @if operates { (tick(&letter.stream_id)) }
                @if reads { a.mono href={ "dead/" (encoded(&letter.stream_id)) } { (letter.id) } } @else { span.mono { (letter.id) } }
            }
            td data-label="Died" { @if let Some(died) = letter.died_ms { (when(died, now_ms)) } }
            td.why data-label="Reason" {
                span.badge.bad { (letter.reason) } " "
                @if !letter.code.is_empty() { code { (letter.code) } " " }
                (letter.message)
            }
            td data-label="Sink" { (letter.sink) @if !letter.destination.is_empty() { span.to { (letter.destination) } } }
            td.n data-label="Attempts" { (letter.attempts.unwrap_or(0)) }
            td.n data-label="Bytes" { (number(letter.size)) }
        }
    }
}

/// Returns one letter with everything that it keeps.
pub async fn one(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["whole"])?;
    let id = call.part("queue");
    let found = admin.operate(ShowDead::one(id, call.part("id")), Asker::of(&call)).await?;
    let Some(letter) = found.dead_letters.first() else {
        return Err(Problem::new(
            delaybridge_http_server::problem::ProblemKind::NotFound,
            "find the dead letter: it is not there any more",
        ));
    };
    let path = format!("/queues/{}/dead/{}", encoded(id), encoded(&letter.stream_id));
    let view = View::of(&path, &call.caller, admin.access.has_tokens());
    let most = if call.query.text("whole").is_some() { usize::MAX } else { SHOWN };
    let body = html! {
        (crumbs(
            &[
                ("Queues", view.up.clone()),
                (id, format!("../../{}", encoded(id))),
                ("dead letters", "../dead".to_owned()),
            ],
            &letter.stream_id,
        ))
        h1 { "Dead letter " (letter.stream_id) }
        p { a href={ "../elements/" (encoded(&letter.stream_id)) } { "Run it again, or remove it" } }
        h2 { "Payload" }
        (payload(&letter.content, most, Some("?whole=1")))
        (fields(letter))
    };
    Ok(page(StatusCode::OK, &view, &letter.stream_id, &body))
}

/// Returns the fields of a letter, the attempts as a list of their own.
fn fields(letter: &Letter) -> Markup {
    let attempts = letter.fields.get("attempts_seen").and_then(Value::as_array);
    let shown =
        letter.fields.iter().filter(|(name, _)| !matches!(name.as_str(), "attempts_seen" | "element_base64" | "body"));
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    html! {
        @if let Some(attempts) = attempts.filter(|attempts| !attempts.is_empty()) {
            h2 { "Attempts" }
            ol.attempts { @for attempt in attempts { li { (attempt_line(attempt)) } } }
        }
        h2 { "Fields" }
        div.scroll {
            table.settings {
                tbody {
                    @for (name, value) in shown {
                        tr { th scope="row" { code { (name) } } td.why { (plain(value)) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the causes of these reasons, codes and sinks; which of them have links.
    fn linked(causes: &[[&str; 3]]) -> Vec<bool> {
        let total = |[reason, code, sink]: &[&str; 3]| Total {
            reason: (*reason).to_owned(),
            code: (*code).to_owned(),
            sink: (*sink).to_owned(),
            ..Total::default()
        };
        let totals: Vec<_> = causes.iter().map(total).collect();
        let counted = Counted { totals: totals.clone(), ..Counted::default() };
        totals.iter().map(|total| leads_to_itself(&counted, total)).collect()
    }

    #[test]
    fn only_a_cause_whose_link_finds_no_other_letters_has_one() {
        let bare = ["killed", "", ""];
        let timeout = ["killed", "timeout", "out"];
        let full = ["failed", "OOM", "out"];
        assert_eq!(linked(&[bare, full]), [true, true]);
        assert_eq!(linked(&[bare, timeout, full]), [false, true, true], "an empty code means any");
        assert_eq!(linked(&[["others", "", ""], full]), [false, true], "no letter has this reason");
    }
}
