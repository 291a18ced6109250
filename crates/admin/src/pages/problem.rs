//! A problem, as a page.

use hyper::header::RETRY_AFTER;
use maud::html;

use super::layout::{View, encoded, page};
use super::login;
use crate::access::AdminCaller;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;

/// The page of a problem; where a token is missing, the form that asks for one.
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
        p { a href=(view.up) { "All queues" } }
    };
    let reply = page(problem.kind.status(), &view, problem.kind.title(), &body);
    match problem.retry_after {
        Some(after) => reply.header(RETRY_AFTER, after.as_secs().max(1).to_string()),
        None => reply,
    }
}
