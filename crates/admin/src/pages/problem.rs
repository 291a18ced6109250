//! A problem, as a page.

use hyper::header::RETRY_AFTER;
use maud::html;

use super::layout::{View, encoded, page};
use super::login;
use crate::access::AdminCaller;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;

/// Returns the page of a problem; where a token is missing, the form that asks for one.
pub fn show(problem: &Problem, path: &str, caller: &AdminCaller, tokens: bool) -> Reply {
    let view = View::of(path, caller, tokens);
    let body = html! {
        h1 { (problem.kind.title()) }
        p.problem role="alert" { (problem.detail) }
        @if problem.kind == ProblemKind::Unauthorized && tokens {
            @match path {
                // A wrong token: the form again, and not a way to it.
                "/login" => (login::form_for("")),
                _ => p { a.button href={ (view.up) "login?to=" (encoded(&view.here)) } { "Log in" } }
            }
        }
        ul.links {
            @if let Some(back) = above(path) { li { a href={ (view.up) (back) } { "Back" } } }
            li { a href=(view.up) { "All queues" } }
        }
    };
    let reply = page(problem.kind.status(), &view, problem.kind.title(), &body);
    match problem.retry_after {
        Some(after) => reply.header(RETRY_AFTER, after.as_secs().max(1).to_string()),
        None => reply,
    }
}

/// Returns the page of the queue, sink or topic that a path below it is about.
fn above(path: &str) -> Option<String> {
    let mut parts = path.trim_start_matches('/').split('/');
    let kind = parts.next()?;
    let name = parts.next()?;
    let below = parts.next()?;
    let known = ["queues", "sinks", "topics"].contains(&kind) && !name.is_empty() && !below.is_empty();
    known.then(|| format!("{kind}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_below_a_queue_leads_back_to_it() {
        for (path, back) in [
            ("/queues/a%20b/pause", Some("queues/a%20b")),
            ("/queues/a/elements/x/act", Some("queues/a")),
            ("/sinks/s/pause", Some("sinks/s")),
            ("/queues/a", None),
            ("/queues//x", None),
            ("/v1/queues/a/x", None),
            ("/", None),
        ] {
            assert_eq!(above(path).as_deref(), back, "{path}");
        }
    }
}
