//! What all pages have in common: head, navigation, foot.

use hyper::header::HeaderValue;
use hyper::{StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use crate::access::AdminCaller;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_jobs_http::room::MaybeNamed;
use delaybridge_model::role::{AccessRole, Grantee};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// Seconds between two looks of a page that watches.
const EVERY: u32 = 5;

/// The person who looks at a page, and the place of the page.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The path to the first page: `./`, or `../` as often as needed.
    pub up: String,
    /// The name of the token or person, if there is one.
    pub name: Option<String>,
    /// The rights.
    grant: Option<Grantee>,
    /// Whether a proxy names the person, who logs out there.
    by_proxy: bool,
    /// Whether there is a file of tokens: then a name can log in and out.
    pub tokens: bool,
    /// Whether the page looks again by itself.
    pub live: bool,
    /// Whether a person writes on the page: then it looks again only by its script, which leaves alone what is being written.
    pub writes: bool,
    /// Whether it follows the events.
    pub follows: bool,
    /// The path of this page from the first one, for the way back after a login.
    pub here: String,
}

impl View {
    /// For the request of a caller to this path.
    pub fn of(path: &str, caller: &AdminCaller, tokens: bool) -> View {
        let depth = path.trim_start_matches('/').matches('/').count();
        let up = if depth == 0 { "./".to_owned() } else { "../".repeat(depth) };
        let here = path.trim_start_matches('/').to_owned();
        let name = caller.name().map(|name| (**name).to_owned());
        let (grant, by_proxy) = (caller.grant.clone(), caller.by_proxy);
        View { up, name, grant, by_proxy, tokens, live: false, writes: false, follows: false, here }
    }

    /// Whether the person may do this with a queue or topic.
    pub fn may(&self, role: AccessRole, of: &str) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.may(role, Some(of)))
    }
}

/// A whole page.
pub fn page(status: StatusCode, view: &View, title: &str, body: &Markup) -> Reply {
    let up = view.up.as_str();
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · delaybridge" }
                link rel="icon" href={ (up) "assets/icon.svg" } type="image/svg+xml";
                link rel="stylesheet" href={ (up) "assets/style.css" };
                @if view.live || view.follows {
                    // Without a script the browser loads the page again.
                    @if !view.writes { noscript { meta http-equiv="refresh" content=(EVERY); } }
                    script src={ (up) "assets/" (if view.live { "live.js" } else { "events.js" }) } defer {}
                }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href=(up) { "delaybridge" }
                    nav aria-label="Pages" {
                        a href=(up) { "Queues" }
                        a href={ (up) "#sinks" } { "Sinks" }
                        a href={ (up) "topics" } { "Topics" }
                        a href={ (up) "events" } { "Events" }
                        a href={ (up) "fleet" } { "Daemons" }
                        a href={ (up) "audit" } { "Audit" }
                        a href={ (up) "config" } { "Configuration" }
                        a href={ (up) "v1/openapi.json" } { "API" }
                    }
                    div.who {
                        @let roles = view.grant.as_ref().map(Grantee::roles);
                        @match &view.name {
                            Some(name) if view.by_proxy => span title=[roles] { (name) },
                            Some(name) if view.tokens => {
                                form method="post" action={ (up) "logout" } {
                                    span title=[roles] { (name) }
                                    button.quiet type="submit" { "Log out" }
                                }
                            }
                            None if view.tokens => a href={ (up) "login?to=" (encoded(&view.here)) } { "Log in" },
                            Some(_) => span.muted title="There is no token file: clients on this machine may do everything" { "local" },
                            None => span.muted { "read only" },
                        }
                    }
                }
                main #main tabindex="-1" data-every=[view.live.then_some(EVERY)] { (body) }
                footer {
                    @if view.live && view.writes {
                        span data-state="" { "This page looks again every " (EVERY) " seconds, with JavaScript. " }
                        a href="?still=1" { "Keep it still" }
                    } @else if view.live {
                        span data-state="" { "This page looks again every " (EVERY) " seconds. " }
                        a href="?still=1" { "Keep it still" }
                    }
                    @if view.follows {
                        span data-state="" { "New events are added as they happen. " }
                        a href="?still=1" { "Keep it still" }
                    }
                    span.version { "delaybridge " (env!("CARGO_PKG_VERSION")) }
                }
            }
        }
    };
    Reply::bytes(status, HTML, html.into_string())
}

/// A text as part of a URL.
pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Sends the browser on, after a form did what it should.
pub fn see_other(to: &str) -> Reply {
    Reply::empty(StatusCode::SEE_OTHER).header(header::LOCATION, to)
}
