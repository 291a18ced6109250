//! Rows of a list that a person has ticked: run now or cancelled, after a question with their number.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::layout::{View, crumbs, encoded, page, see_other};
use super::list_place::{LIST, ListPlace};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::forms::form;
use delaybridge_http_server::call::{Call, Query};
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::element::ActOutcome;
use delaybridge_ops::operation::Operation;
use delaybridge_ops::operations::{Cancel, RunNow};
use delaybridge_ops::plural;

/// The field of a chosen row.
pub const ID: &str = "id";
/// The parameters of a question about chosen elements.
const FIELDS: [&str; 4] = [ID, "state", "sure", LIST];

/// Returns the chosen ids: at least one, and no more than a request has parameters.
///
/// # Errors
/// There is none: nothing was ticked, which must not mean everything.
pub fn ids(query: &Query) -> Result<Vec<String>, Problem> {
    let ids: Vec<_> = query.pairs().filter(|(name, _)| *name == ID).map(|(_, id)| id.to_owned()).collect();
    if ids.is_empty() {
        return Err(Problem::bad("read the form: no row was chosen; tick some, then press the button"));
    }
    Ok(ids)
}

/// Returns the ids as hidden fields.
pub fn hidden(ids: &[String]) -> Markup {
    html! { @for id in ids { input type="hidden" name=(ID) value=(id); } }
}

/// Returns the box in front of a row.
pub fn tick(id: &str) -> Markup {
    html! { input type="checkbox" name=(ID) value=(id) aria-label={ "Choose " (id) }; " " }
}

/// Returns the buttons above a list of elements that may be run now or cancelled; nothing for who may do neither.
/// `base` leads to the page of the queue.
pub fn buttons(view: &View, queue: &str, base: &str) -> Markup {
    html! {
        @if view.may(AccessRole::Operator, queue) {
            div.deeds.choose {
                button type="submit" formaction={ (base) "run-now" } { "Run the chosen now …" }
                @if view.may(AccessRole::Admin, queue) { button.danger type="submit" formaction={ (base) "cancel" } { "Remove the chosen for good …" } }
            }
        }
    }
}

/// Asks whether they should be run now.
pub async fn ask_run_now(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    ask(&admin, &call, false)
}

/// Asks whether they should be removed.
pub async fn ask_cancel(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    ask(&admin, &call, true)
}

fn ask(admin: &Admin, call: &Call<AdminCaller>, cancels: bool) -> Result<Reply, Problem> {
    call.query.only(&FIELDS)?;
    let queue = call.part("queue");
    let ids = ids(&call.query)?;
    let place = ListPlace::carried(&call.query);
    let word = if cancels { "cancel" } else { "run-now" };
    let view = View::of(&format!("/queues/{}/{word}", encoded(queue)), &call.caller, admin.access.has_tokens());
    let count = plural::count(ids.len(), "element");
    let back = back(&call.query, &place);
    let body = html! {
        (crumbs(
            &[
                ("Queues", place.address(&view.up)),
                (queue, format!("../{}{}", encoded(queue), place.behind('?'))),
                ("elements", back.clone()),
            ],
            word,
        ))
        h1 { @if cancels { "Remove for good?" } @else { "Run now?" } }
        p { strong { (count) } " of " (queue) ":" }
        ul.links { @for id in &ids { li { a.mono href={ "elements/" (encoded(id)) } { (id) } } } }
        form.act method="post" action=(word) {
            (hidden(&ids))
            @if let Some(state) = call.query.text("state") { input type="hidden" name="state" value=(state); }
            (place.field())
            @if cancels {
                p.problem { label { input type="checkbox" name="sure" value="1" required; " They are never delivered, and their payloads are lost." } }
                button.danger.full type="submit" { "Remove " (count) " for good" }
            } @else {
                p { "They are due now, and delivered as any other element. What is in flight by then is left to its daemon." }
                button type="submit" { "Run " (count) " now" }
            }
            " " a href=(back) { "Leave them" }
        }
    };
    Ok(page(StatusCode::OK, &view, word, &body))
}

/// Returns the way back to the list.
fn back(query: &Query, place: &ListPlace) -> String {
    format!("elements?state={}{}", encoded(query.text("state").unwrap_or("scheduled")), place.behind('&'))
}

/// Runs them now, and shows what is left.
pub async fn run_now(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let fields = form(&mut call).await?;
    each(&admin, &call, &fields, "due now", |queue, id| RunNow { queue, id, due: None }).await
}

/// Removes them for good, and shows what is left.
pub async fn cancel(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let fields = form(&mut call).await?;
    if fields.text("sure").is_none() {
        return Err(Problem::bad("read the form: they are removed for good; confirm that"));
    }
    each(&admin, &call, &fields, "removed", |queue, id| Cancel { queue, id, due: None }).await
}

/// Carries out a request for each of the chosen rows, and shows what is left.
async fn each<O: Operation<Answer = ActOutcome>>(
    admin: &Arc<Admin>,
    call: &Call<AdminCaller>,
    fields: &Query,
    word: &str,
    request: impl Fn(String, String) -> O,
) -> Result<Reply, Problem> {
    fields.only(&FIELDS)?;
    let mut done = Outcomes::default();
    for id in ids(fields)? {
        let request = request(call.part("queue").to_owned(), id.clone());
        done.add(&id, admin.operate(request, Asker::of(call)).await);
    }
    Ok(done.shown(word, fields))
}

#[derive(Default)]
struct Outcomes {
    done: usize,
    /// The rows that stay unchanged; `why` is the reason of the first.
    left: Vec<String>,
    why: Option<String>,
}

impl Outcomes {
    fn add(&mut self, id: &str, outcome: Result<ActOutcome, Problem>) {
        match outcome {
            Ok(_) => self.done += 1,
            Err(problem) => {
                self.left.push(id.to_owned());
                self.why.get_or_insert(problem.detail);
            }
        }
    }

    /// Sends the browser back to the list, with this in words.
    fn shown(self, word: &str, fields: &Query) -> Reply {
        let mut words = format!("{} {word}", plural::count(self.done, "element"));
        if let Some(why) = self.why {
            words.push_str(&format!("; {} left as they were: {why}", self.left.len()));
        }
        see_other(&format!("{}&done={}", back(fields, &ListPlace::carried(fields)), encoded(&words)))
    }
}
