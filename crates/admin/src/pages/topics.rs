//! `GET /topics`: the topics of the job queue, and one of them with its jobs.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::inputs;
use super::layout::{View, crumbs, encoded, page, see_other};
use super::queue::settings;
use super::show::{count, number, payload, when};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::forms::form;
use crate::v1::operation::read_query;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::jobs::{JobDetail, JobState, TopicState};
use delaybridge_ops::operation::Remote;
use delaybridge_ops::operations::{
    JOBS, ListTopics, PauseTopic, PeekJobs, ResumeTopic, SHOWN, ShowTopic, TopicDetail, TopicPage,
};
use delaybridge_ops::plural::duration;

/// Topics on the overview.
const SOME: usize = 10;

/// Returns every topic.
pub async fn list(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let request: ListTopics = read_query(&call)?;
    let mut view = View::of("/topics", &call.caller, admin.access.has_tokens());
    let found = match admin.operate(request.clone(), Asker::of(&call)).await {
        Err(problem) if problem.kind == ProblemKind::NotFound => None,
        found => Some(found?),
    };
    view.watch(&call.query);
    view.live &= found.is_some();
    let body = html! {
        h1 { "Topics" }
        @match &found {
            None => p.muted { "There is no job queue here: the configuration has no " code { "jobs" } "." },
            Some(found) => {
                (table(found))
                nav.pages aria-label="Further topics" {
                    @if request.after.is_some() { a href="topics" { "First page" } }
                    @if let Some(next) = &found.next { a rel="next" href={ "?after=" (encoded(next)) } { "Next page" } }
                }
            }
        }
    };
    Ok(page(StatusCode::OK, &view, "Topics", &body))
}

/// Returns the first topics, for the overview; nothing without a job queue.
pub async fn section(admin: &Arc<Admin>, asker: Asker) -> Markup {
    if admin.session().config.jobs.is_none() {
        return html! {};
    }
    let found = admin.operate(ListTopics::first(SOME), asker).await;
    html! {
        section aria-labelledby="topics" {
            h2 #topics { "Topics " span.muted { "of the job queue" } }
            @match &found {
                Err(error) => p.bad { (error.detail) },
                Ok(found) => {
                    (table(found))
                    @if found.next.is_some() { p { a href="topics" { "All topics" } } }
                }
            }
        }
    }
}

fn table(found: &TopicPage) -> Markup {
    html! {
        div.scroll {
            table.queues {
                thead {
                    tr {
                        th scope="col" { "Topic" }
                        @for name in ["Delay", "Ready", "Reserved", "Dead"] { th.n scope="col" { (name) } }
                        th scope="col" { "Next due" }
                    }
                }
                tbody {
                    @for topic in &found.topics { (row(topic, found.now_ms)) }
                    @if found.topics.is_empty() {
                        tr { td.empty colspan="6" { "There is no topic. The first job makes one." } }
                    }
                }
            }
        }
    }
}

fn row(topic: &TopicState, now_ms: i64) -> Markup {
    let sizes = &topic.sizes;
    html! {
        tr class=[sizes.paused.then_some("noted")] {
            th scope="row" { a href={ "topics/" (encoded(&topic.topic)) } { (topic.topic) } }
            (cell("Delay", sizes.delay, "n"))
            (cell("Ready", sizes.ready, "n"))
            (cell("Reserved", sizes.reserved, "n"))
            (cell("Dead", sizes.dead, "n bad"))
            td data-label="Next due" { (first(topic, now_ms)) }
        }
        @if sizes.paused {
            tr.note { td colspan="6" { span.badge.warn { "paused" } " Nothing is handed out." } }
        }
    }
}

fn cell(label: &str, n: u64, class: &str) -> Markup {
    count(label, i64::try_from(n).unwrap_or(i64::MAX), class)
}

/// The time until the first job is due, or since it is.
fn first(topic: &TopicState, now_ms: i64) -> Markup {
    html! {
        @match (topic.sizes.oldest_ready_ms, topic.sizes.next_due_ms) {
            (Some(ready), _) => span.over { "ready for " (duration(ready.unsigned_abs())) },
            (None, Some(next)) => (when(next, now_ms)),
            (None, None) => span.zero { "–" },
        }
    }
}

/// Returns one topic.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let request: ShowTopic = read_query(&call)?;
    let found = admin.operate(request, Asker::of(&call)).await?;
    let name = &found.state.topic;
    let mut view = View::of(&format!("/topics/{}", encoded(name)), &call.caller, admin.access.has_tokens());
    view.watch(&call.query);
    let limits = serde_json::to_value(&found.limits.limits).unwrap_or_default();
    let body = html! {
        (crumbs(&[("Topics", format!("{}topics", view.up))], name))
        h1 { (name) }
        (numbers(&found))
        (inputs::of_topic(&admin.inputs(&admin.status.look()), name))
        (pauses(&view, &found))
        section aria-labelledby="jobs" {
            h2 #jobs { "Jobs" }
            ul.links {
                @for state in JobState::ALL.into_iter().map(JobState::as_str).filter(|state| sized(&found, state).is_some()) {
                    li {
                        a href={ (encoded(name)) "/jobs?state=" (state) } { (state) } " "
                        span.muted { (number(sized(&found, state).unwrap_or_default())) }
                    }
                }
            }
            @if view.tokens && view.name.is_none() { p.muted { "Jobs are shown after a login." } }
        }
        @if !found.recurring.is_empty() { (recurring(&found)) }
        section aria-labelledby="limits" {
            h2 #limits { "Limits" }
            div.scroll { table.settings { tbody { (settings("", &limits)) } } }
        }
    };
    Ok(page(StatusCode::OK, &view, name, &body))
}

/// Returns the number of jobs in a state; none where they are not counted.
fn sized(found: &TopicDetail, state: &str) -> Option<u64> {
    let sizes = &found.state.sizes;
    match state {
        "delay" => Some(sizes.delay),
        "ready" => Some(sizes.ready),
        "reserved" => Some(sizes.reserved),
        "dead" => Some(sizes.dead),
        _ => None,
    }
}

fn numbers(found: &TopicDetail) -> Markup {
    let sizes = &found.state.sizes;
    let tile = |label: &str, value: Markup, class: &str| html! { div class={ "tile " (class) } { dt { (label) } dd { (value) } } };
    let of = |n: u64| html! { (number(n)) };
    html! {
        dl.tiles {
            (tile("Delay", of(sizes.delay), ""))
            (tile("Ready", of(sizes.ready), ""))
            (tile("Reserved", of(sizes.reserved), ""))
            (tile("Dead", of(sizes.dead), if sizes.dead > 0 { "bad" } else { "" }))
            (tile("Next due", first(&found.state, found.now_ms), ""))
        }
    }
}

fn recurring(found: &TopicDetail) -> Markup {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "of another version".to_owned());
    html! {
        section aria-labelledby="recurring" {
            h2 #recurring { "Recurring jobs" }
            div.scroll {
                table.queues {
                    thead { tr { @for name in ["Name", "Cron", "Time zone", "Missed", "Next"] { th scope="col" { (name) } } } }
                    tbody {
                        @for one in &found.recurring {
                            tr {
                                th scope="row" { (one.name) }
                                td data-label="Cron" { code { (text(&one.cron)) } }
                                td data-label="Time zone" { (text(&one.zone)) }
                                td data-label="Missed" { (text(&one.missed)) }
                                td data-label="Next" {
                                    @match one.next_ms {
                                        Some(next) => (when(next, found.now_ms)),
                                        None => span.badge.warn { "paused" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn pauses(view: &View, found: &TopicDetail) -> Markup {
    let topic = encoded(&found.state.topic);
    let paused = found.state.sizes.paused;
    html! {
        @if paused { ul.notes { li.warn { strong { "Paused" } " Nothing is handed out, by any daemon. Jobs may be added." } } }
        @if view.may(AccessRole::Operator, &found.state.topic) {
            form.act method="post" action={ (topic) (if paused { "/resume" } else { "/pause" }) } {
                button type="submit" { (if paused { "Resume" } else { "Pause" }) }
            }
        }
    }
}

/// Returns the first jobs of a topic in a state.
pub async fn jobs(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let request: PeekJobs = read_query(&call)?;
    let found = admin.operate(request.clone(), Asker::of(&call)).await?;
    let PeekJobs { topic, state, .. } = &request;
    let mut view = View::of(&format!("/topics/{}/jobs", encoded(topic)), &call.caller, admin.access.has_tokens());
    view.watch(&call.query);
    let body = html! {
        (crumbs(&[("Topics", format!("{}topics", view.up)), (topic, format!("../{}", encoded(topic)))], state))
        h1 { (topic) ": " (state) }
        p.muted { "At most " (JOBS) ", the first in time." }
        @if found.jobs.is_empty() { p.empty { "There are none." } }
        @for job in &found.jobs { (one(job, found.now_ms)) }
    };
    Ok(page(StatusCode::OK, &view, &format!("{topic}: {state}"), &body))
}

pub fn one(job: &JobDetail, now_ms: i64) -> Markup {
    html! {
        article.element {
            header {
                strong.mono { (job.id) }
                @if let Some(due) = job.due_ms { span { "due " (when(due, now_ms)) } }
                @if let Some(end) = job.deadline_ms { span { "time to run ends " (when(end, now_ms)) } }
                @if let Some(died) = job.died_ms { span { "died " (when(died, now_ms)) } }
                @if job.priority > 0 { span { "priority " (job.priority) } }
                @if job.attempts > 0 { span { (job.attempts) " attempts" } }
                @if !job.reason.is_empty() { span.badge.bad { (job.reason) } }
                span.muted { (job.content_type) " " (number(job.size)) " bytes" }
            }
            (payload(&job.content, SHOWN, None))
        }
    }
}

/// Pauses it, and shows it again.
pub async fn pause(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    set::<PauseTopic>(&admin, call).await
}

/// Resumes it, and shows it again.
pub async fn resume(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    set::<ResumeTopic>(&admin, call).await
}

async fn set<O: Remote>(admin: &Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    form(&mut call).await?.only(&[])?;
    let request: O = read_query(&call)?;
    admin.operate(request, Asker::of(&call)).await?;
    Ok(see_other(&format!("../{}", encoded(call.part("topic")))))
}
