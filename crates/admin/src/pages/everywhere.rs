//! `GET /search`: elements by id or by a part of a value, over all queues and topics of the person, as far as that goes in some seconds.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use maud::{Markup, html};
use tokio::time::timeout;

use super::elements::table;
use super::layout::{View, encoded, page};
use super::list_place::ListPlace;
use super::search::Until;
use super::show::number;
use super::topics;
use crate::Admin;
use crate::access::AdminCaller;
use crate::v1::elements::SHOWN;
use delaybridge_core::clock::Instant;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_http_server::room::who;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::element::{self, Detail};
use delaybridge_ops::jobs::{JobDetail, JobState, Jobs, read_topic};
use delaybridge_ops::operations::ListTopics;
use delaybridge_ops::peek::PeekedElement;
use delaybridge_ops::plural::count;
use delaybridge_ops::search::{Search, search};
use delaybridge_ops::{Error, ErrorKind, Queue};

/// Time for a page: less than a request may take.
const TIME: Duration = Duration::from_secs(5);
/// Elements of a queue to look at.
const OF_A_QUEUE: u64 = 1_000;
/// Elements of all queues to look at.
const LOOKED_AT: u64 = 20_000;
/// Topics to look at.
const TOPICS: usize = 50;
/// Elements of a queue on the page.
const OF_A_QUEUE_SHOWN: usize = 5;
/// Elements on the page, after which it ends.
const MATCHES: usize = 50;
/// Jobs of a topic and a state to look at.
const JOBS: usize = 50;

/// The elements of a queue that match.
struct QueueHits {
    queue: String,
    now_ms: i64,
    elements: Vec<PeekedElement>,
    /// The place to go on at, and the number of elements before it, where some were not looked at.
    next: Option<(String, u64)>,
}

/// The result of a search over all queues.
#[derive(Default)]
struct Everywhere {
    queues: Vec<QueueHits>,
    searched: usize,
    examined: u64,
    shown: usize,
    /// The last queue that was searched, if it was not the last of all.
    next: Option<String>,
    errors: Vec<(String, String)>,
}

/// Returns the page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["q", "after"])?;
    let text = call.query.text("q").unwrap_or_default().trim();
    if text.is_empty() {
        return Err(Problem::bad("read `q` in the query: it is an id, a part of a value, or PATH=VALUE as orderId=7"));
    }
    let after = call.query.text("after").filter(|after| !after.is_empty());
    let _turn = admin.searches.take(&who(call.peer, &call.caller), 1, "search the queues").await?;
    let end = Instant::now().after(TIME);
    let session = admin.session();
    let mut names: Vec<_> = session.config.queues.iter().map(|spec| spec.id.clone()).collect();
    names.retain(|name| call.caller.may(AccessRole::Viewer, Some(name)));
    names.sort();
    let of = names.len();
    names.retain(|name| after.is_none_or(|after| &**name > after));
    let before = of - names.len();
    let found = queues(&admin, &call.caller, text, &names, end).await;
    // After the queues: a slow job queue keeps none of them from being searched.
    let jobs = if after.is_none() { jobs(&admin, &call.caller, text, end).await } else { Vec::new() };
    let mut view = View::of("/search", &call.caller, admin.access.has_tokens());
    text.clone_into(&mut view.sought);
    let all = found.queues.iter().map(|hits| hits.elements.len()).sum::<usize>() + jobs.len();
    let body = html! {
        h1 { "Search in all queues" }
        p role="status" {
            strong { (count(all, "hit")) } " in "
            (number(before + found.searched)) " of " (count(of, "queue")) " that you may see; the payloads of "
            (number(found.examined)) " elements were read, at most " (number(OF_A_QUEUE)) " of a queue."
        }
        @for (queue, message) in &found.errors { p.problem { (queue) ": " (message) } }
        @for hits in found.queues.iter().filter(|hits| !hits.elements.is_empty()) { (of_queue(hits, &view, text)) }
        @if !jobs.is_empty() {
            section aria-labelledby="jobs" {
                h2 #jobs { "Job queue" }
                @for (job, now_ms) in &jobs { (topics::one(job, *now_ms)) }
            }
        }
        (rest(&found, text))
    };
    Ok(page(StatusCode::OK, &view, "Search", &body))
}

fn of_queue(hits: &QueueHits, view: &View, text: &str) -> Markup {
    let base = format!("queues/{}/", encoded(&hits.queue));
    html! {
        section {
            h2 { a href={ "queues/" (encoded(&hits.queue)) } { (hits.queue) } }
            (table(&hits.elements, None, view, &hits.queue, hits.now_ms, &ListPlace::default(), &base))
            @if let Some(next) = &hits.next { p { (search_on(&hits.queue, text, next)) } }
        }
    }
}

/// Returns the way to what was not looked at.
fn rest(found: &Everywhere, text: &str) -> Markup {
    let cut: Vec<_> = found
        .queues
        .iter()
        .filter(|hits| hits.elements.is_empty())
        .filter_map(|hits| Some((&hits.queue, hits.next.as_ref()?)))
        .collect();
    html! {
        @if let Some(next) = &found.next {
            p { a.button rel="next" href={ "search?q=" (encoded(text)) "&after=" (encoded(next)) } { "Search the other queues" } }
        }
        @if !cut.is_empty() {
            p { "These have more elements than were looked at:" }
            ul.links { @for (queue, next) in cut { li { (search_on(queue, text, next)) } } }
        }
    }
}

fn search_on(queue: &str, text: &str, (next, seen): &(String, u64)) -> Markup {
    html! {
        a href={ "queues/" (encoded(queue)) "/search?field=" (encoded(text)) "&after=" (encoded(next)) "&seen=" (seen) } { "Search on in " (queue) }
    }
}

/// Searches the queues, one after the other.
async fn queues(admin: &Admin, caller: &AdminCaller, text: &str, names: &[Arc<str>], end: Instant) -> Everywhere {
    let mut found = Everywhere::default();
    let session = admin.session();
    for (at, name) in names.iter().enumerate() {
        if Instant::now() >= end || found.shown >= MATCHES || found.examined >= LOOKED_AT {
            found.next = at.checked_sub(1).and_then(|before| names.get(before)).map(|name| name.to_string());
            // Not even one of them: it is said as an error, or the button would lead to the same page.
            if found.next.is_none() {
                found.errors.push((name.to_string(), "not searched: there was no time".to_owned()));
            }
            break;
        }
        found.searched += 1;
        let hits = async {
            let queue = session.queue(delaybridge_ops::find(&session.config, name)?).await?;
            of_one(admin, caller, &queue, text, end, &mut found).await
        };
        match hits.await {
            Ok(hits) => {
                found.shown += hits.elements.len();
                found.queues.push(hits);
            }
            Err(error) => found.errors.push((name.to_string(), error.message)),
        }
    }
    found
}

/// The element with this id, then those with this in their payload.
async fn of_one(
    admin: &Admin,
    caller: &AdminCaller,
    queue: &Queue,
    text: &str,
    end: Instant,
    all: &mut Everywhere,
) -> Result<QueueHits, Error> {
    let reads = caller.may(AccessRole::Reader, Some(queue.id()));
    let mut hits = QueueHits { queue: queue.id().to_owned(), now_ms: 0, elements: Vec::new(), next: None };
    if admin.known_id(queue, text).is_ok() {
        let left = end.since(Instant::now());
        match timeout(left, element::find(queue, text)).await {
            Ok(Ok(found)) => {
                let [element] = found.elements;
                hits.now_ms = found.now_ms;
                hits.elements.push(line(element, reads));
            }
            Ok(Err(error)) if error.kind == ErrorKind::NotFound => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let message = format!("look for the id: not done in {} s, it is a long queue", TIME.as_secs());
                return Err(Error { kind: ErrorKind::Failed, message });
            }
        }
    }
    if reads {
        let ask = Search::of(text, OF_A_QUEUE, OF_A_QUEUE_SHOWN, None);
        let found = search(queue, &ask, &mut Until::at(end)).await?;
        all.examined += found.examined;
        hits.now_ms = found.now_ms;
        hits.next = found.next.map(|next| (next, found.examined));
        let known = hits.elements.first().and_then(|element| element.id.clone());
        for mut element in found.elements {
            element.content = element.content.shortened(SHOWN);
            if known.is_none() || element.id != known {
                hits.elements.push(element);
            }
        }
    }
    Ok(hits)
}

/// Returns an element that was found by its id, as a line of a list.
fn line(element: Detail, reads: bool) -> PeekedElement {
    PeekedElement {
        id: element.id,
        state: element.state,
        stream_id: element.stream_id,
        due_ms: element.due_ms,
        next_attempt_ms: element.next_attempt_ms,
        lease_ends_ms: element.lease_ends_ms,
        attempts: element.attempts,
        code: element.code,
        layout: element.layout,
        size: element.size,
        routes: None,
        content: if reads { element.content.shortened(SHOWN) } else { Default::default() },
    }
}

/// Returns the first jobs of the topics that the person may read: by id, or by a part of their body.
async fn jobs(admin: &Admin, caller: &AdminCaller, text: &str, end: Instant) -> Vec<(JobDetail, i64)> {
    let mut all = Vec::new();
    let Some(jobs) = admin.session().jobs() else { return all };
    if let Ok(Some((job, now_ms))) = jobs.job(text).await
        && caller.may(AccessRole::Reader, Some(&job.topic))
    {
        return vec![(job, now_ms)];
    }
    let Ok(page) = admin.topic_page(&ListTopics::first(TOPICS)).await else { return all };
    let read = page.topics.iter().filter(|topic| caller.may(AccessRole::Reader, Some(&topic.topic)));
    for topic in read {
        if Instant::now() >= end || all.len() >= MATCHES {
            break;
        }
        of_topic(&jobs, &topic.topic, text, &mut all).await;
    }
    all
}

async fn of_topic(jobs: &Jobs, topic: &str, text: &str, all: &mut Vec<(JobDetail, i64)>) {
    let Ok(topic) = read_topic(topic) else { return };
    for state in JobState::ALL {
        let Ok(found) = jobs.peek(&topic, state, JOBS).await else { continue };
        let fits = |job: &JobDetail| job.id.ends_with(text) || job.content.holds(text);
        all.extend(found.jobs.into_iter().filter(fits).take(OF_A_QUEUE_SHOWN).map(|job| (job, found.now_ms)));
    }
}
