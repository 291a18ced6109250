//! What all pages have in common: head, navigation, foot.

use hyper::header::HeaderValue;
use hyper::{StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use crate::access::AdminCaller;
use delaybridge_http_server::call::Query;
use delaybridge_http_server::reply::Reply;
use delaybridge_http_server::room::MaybeNamed;
use delaybridge_model::role::{AccessRole, Grantee};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// Seconds between two looks of a page that watches.
const EVERY: u32 = 5;
/// The parameter of a page that does not look again.
const STILL: &str = "still";
/// The parameter of a page that is loaded again without a script too.
const RELOAD: &str = "reload";

/// The person who looks at a page, and the place of the page.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The path to the first page: `./`, or `../` as often as needed.
    pub up: String,
    /// The name of the token or person, if there is one.
    pub name: Option<String>,
    grant: Option<Grantee>,
    /// Whether a proxy names the person, who logs out there.
    by_proxy: bool,
    /// Whether there is a file of tokens: then a name can log in and out.
    pub tokens: bool,
    /// Whether the page looks again by itself.
    pub live: bool,
    /// Whether it is also loaded again without a script, because the person asked for it: a reload takes away what is being
    /// written, and sends the keyboard back to the begin of the page.
    reloads: bool,
    /// Whether it has a list of queues, behind filters that a keyboard need not go through.
    pub lists: bool,
    /// The pairs of its address, for a link to the same page.
    pairs: Vec<(String, String)>,
    /// Whether it follows the events.
    pub follows: bool,
    /// The text of the search over all queues.
    pub sought: String,
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
        let grant = caller.grant.clone();
        let by_proxy = caller.by_proxy;
        View { up, name, grant, by_proxy, tokens, here, ..View::default() }
    }

    /// Whether a page may look again by itself, by its address: with a script unless it says `still`, without one only if it
    /// says `reload`.
    pub fn watch(&mut self, query: &Query) {
        self.live = query.text(STILL).is_none();
        self.reloads = self.live && query.text(RELOAD).is_some();
        self.keep(query);
    }

    /// Keeps the address of the page for its links.
    pub fn keep(&mut self, query: &Query) {
        let other = |name: &str| ![STILL, RELOAD].contains(&name);
        self.pairs = query.pairs().filter(|(name, _)| other(name)).map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    }

    /// Returns the address of this page with one parameter more, or as it looks by itself.
    fn same(&self, more: Option<&str>) -> String {
        let pairs = self.pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let all: Vec<_> = pairs.chain(more.map(|name| format!("{name}=1"))).collect();
        format!("?{}", all.join("&"))
    }

    /// Returns whether the person may do this with what concerns every queue.
    pub fn may_all(&self, role: AccessRole) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.may(role, None))
    }

    /// Returns whether the person may do this with a queue or topic.
    pub fn may(&self, role: AccessRole, of: &str) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.may(role, Some(of)))
    }
}

/// Returns a whole page.
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
                script src={ (up) "assets/local.js" } defer {}
                @if view.live || view.follows {
                    // Without a script the browser loads the page again, if it was asked to.
                    @if view.follows || view.reloads { noscript { meta http-equiv="refresh" content=(EVERY); } }
                    script src={ (up) "assets/" (if view.live { "live.js" } else { "events.js" }) } defer {}
                }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                @if view.lists { a.skip href="#list" { "Skip to the list" } }
                header.top {
                    a.brand href=(up) { "delaybridge" }
                    nav aria-label="Pages" {
                        a href=(up) { "Queues" }
                        a href={ (up) "#sinks" } { "Sinks" }
                        a href={ (up) "topics" } { "Topics" }
                        a href={ (up) "ahead" } { "Due" }
                        a href={ (up) "events" } { "Events" }
                        a href={ (up) "fleet" } { "Daemons" }
                        a href={ (up) "audit" } { "Changes" }
                        a href={ (up) "config" } { "Configuration" }
                        a href={ (up) "v1/openapi.json" } { "API" }
                    }
                    @if view.grant.is_some() {
                        form.seek method="get" action={ (up) "search" } role="search" aria-label="All queues" {
                            input name="q" type="search" value=(view.sought) required maxlength="500" size="18" placeholder="Search all queues"
                                aria-label="Id, or a part of a value" autocomplete="off" spellcheck="false";
                            button.quiet type="submit" { "Search" }
                        }
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
                    @if view.live && view.reloads {
                        span data-state="" { "This page looks again every " (EVERY) " seconds. " }
                        a href=(view.same(None)) { "Do not reload it" }
                    } @else if view.live {
                        span data-state="" { "This page looks again every " (EVERY) " seconds, with JavaScript. " }
                        a href=(view.same(Some(STILL))) { "Keep it still" }
                        noscript { a href=(view.same(Some(RELOAD))) { "Reload it every " (EVERY) " seconds" } }
                    }
                    @if view.follows {
                        span data-state="" { "New events are added as they happen. " }
                        a href=(view.same(Some(STILL))) { "Keep it still" }
                    }
                    span.version { "delaybridge " (env!("CARGO_PKG_VERSION")) }
                }
            }
        }
    };
    Reply::bytes(status, HTML, html.into_string())
}

/// Returns the way to a page: the pages above it, each with its address, then its own name.
pub fn crumbs(above: &[(&str, String)], here: &str) -> Markup {
    html! {
        nav.crumbs aria-label="Where you are" {
            @for (name, address) in above { a href=(address) { (name) } " / " }
            span aria-current="page" { (here) }
        }
    }
}

/// Returns a text as part of a URL.
pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Sends the browser on, after a form did what it should.
pub fn see_other(to: &str) -> Reply {
    Reply::empty(StatusCode::SEE_OTHER).header(header::LOCATION, to)
}
