//! Who asks, and what that caller may do.
//!
//! Numbers are for everybody who reaches the listener. What changes something, and payloads, are for callers with a token: in the
//! `Authorization` header, or in a session of the page. Without a file of tokens they are for callers on this machine.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{COOKIE, HOST, HeaderName, ORIGIN};

use super::failures::Failures;
use super::sessions::Sessions;
use crate::api::dispatch::bearer;
use crate::api::file::Reread;
use crate::api::named::{NamedTokens, hash};
use crate::api::problem::{Kind, Problem};
use crate::config::AdminSpec;
use crate::telemetry::events::admin::AdminEvents;
use crate::telemetry::events::api::ApiEvents;
use crate::telemetry::peer::Peer;

/// The name of a caller on this machine, where there are no tokens.
const LOCAL: &str = "local";
/// The cookie of a session.
pub const COOKIE_NAME: &str = "delaybridge-session";
/// Headers of a request that a proxy has passed on: it is not from this machine, although its connection is.
const PROXIED: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What an endpoint asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// A token, because it shows payloads.
    ToSee,
    /// A token, because it changes something.
    ToChange,
}

/// Whoever sent a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name of the token, if the caller may do everything.
    pub name: Option<Arc<str>>,
    /// Whether a session of the page says so.
    pub by_session: bool,
}

/// The tokens and what hangs on them.
pub struct Access {
    tokens: Option<Reread<NamedTokens, String>>,
    sessions: Sessions,
    failures: Failures,
}

impl Access {
    /// With the tokens of the file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(spec: &AdminSpec) -> Result<Access, String> {
        let tokens = spec.token_file.clone().map(|file| Reread::new(file, NamedTokens::read)).transpose()?;
        Ok(Access { tokens, sessions: Sessions::default(), failures: Failures::default() })
    }

    /// The tokens that are valid now; `None` without a file.
    pub fn tokens(&self, events: &ApiEvents) -> Option<Arc<NamedTokens>> {
        let news = |read: Result<&NamedTokens, &String>| match read {
            Ok(tokens) => events.tokens_read(tokens.count()),
            Err(problem) => events.tokens_refused(problem),
        };
        self.tokens.as_ref().map(|file| file.get(news))
    }

    /// Whether there is a file of tokens.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Who sent the request.
    ///
    /// # Errors
    /// A token that is not known; too many of them; a name of this machine that another one may have given it.
    pub fn caller(&self, headers: &HeaderMap, peer: Peer, events: &AdminEvents) -> Result<Caller, Problem> {
        let Some(tokens) = self.tokens(&events.api) else {
            let local = is_local(headers, peer);
            return Ok(Caller { name: local.then(|| LOCAL.into()), by_session: false });
        };
        if let Some(token) = bearer(headers) {
            return self.owner(&tokens, token, peer, events).map(|name| Caller { name: Some(name), by_session: false });
        }
        let name = cookie(headers).and_then(|id| self.sessions.owner(id, &tokens));
        Ok(Caller { by_session: name.is_some(), name })
    }

    /// The name of the token.
    fn owner(&self, tokens: &NamedTokens, token: &str, peer: Peer, events: &AdminEvents) -> Result<Arc<str>, Problem> {
        let ip = peer.ip();
        if let Some(wait) = self.failures.locked(ip) {
            let detail = "authenticate: too many wrong tokens came from your address; wait";
            return Err(Problem::new(Kind::TooMany, detail).retry_after(wait));
        }
        if let Some(name) = tokens.owner(&hash(token)) {
            return Ok(name);
        }
        if let Some((failures, wait)) = self.failures.note(ip) {
            events.locked_out(peer, failures, wait.as_secs());
        }
        let detail = "authenticate: the token is not known; is it in `http.admin.token_file`?";
        Err(Problem::new(Kind::Unauthorized, detail))
    }

    /// Begins a session of the page: the value of its cookie.
    ///
    /// # Errors
    /// As for [`caller`](Access::caller); or there are no tokens.
    pub fn log_in(&self, token: &str, peer: Peer, events: &AdminEvents) -> Result<(String, Arc<str>), Problem> {
        let Some(tokens) = self.tokens(&events.api) else {
            return Err(Problem::new(
                Kind::Conflict,
                "log in: there is no `http.admin.token_file`, so no login is needed",
            ));
        };
        let name = self.owner(&tokens, token, peer, events)?;
        Ok((self.sessions.begin(hash(token))?, name))
    }

    /// Ends the session of this request.
    pub fn log_out(&self, headers: &HeaderMap) {
        if let Some(id) = cookie(headers) {
            self.sessions.end(id);
        }
    }

    /// What a caller hears that has not what the endpoint needs.
    pub fn refusal(&self, need: Need) -> Problem {
        let what = match need {
            Need::ToChange => "this changes something",
            Need::Nothing | Need::ToSee => "this shows payloads",
        };
        if self.has_tokens() {
            let detail = format!("authenticate: {what}; send `Authorization: Bearer TOKEN`");
            return Problem::new(Kind::Unauthorized, detail);
        }
        let detail = format!(
            "authenticate: {what}; without `http.admin.token_file` that is for clients on this machine, which call it by its \
             address or `localhost`"
        );
        Problem::new(Kind::Forbidden, detail)
    }
}

/// Whether the request comes from this machine, and from no page that only calls itself so.
fn is_local(headers: &HeaderMap, peer: Peer) -> bool {
    let proxied = PROXIED.iter().any(|name| headers.contains_key(*name));
    peer.ip().is_loopback() && !proxied && host(headers).is_some_and(names_this_machine)
}

/// A name of the Internet can be pointed at this machine by its owner, whose page would then be of the same origin.
fn names_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST)?.to_str().ok()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// Refuses a change that a page of another origin asks for. What no browser sent has neither header: a program, which another page
/// cannot make send anything. A form always comes from a browser, and says where from.
///
/// # Errors
/// It comes from elsewhere, or from a form that does not say.
pub fn same_origin(headers: &HeaderMap, form: bool) -> Result<(), Problem> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let refused = |why: &str| Err(Problem::new(Kind::Forbidden, format!("check the origin of the request: {why}")));
    if let Some(site) = text(&FETCH_SITE)
        && !matches!(site, "same-origin" | "none")
    {
        return refused("it comes from a page of another site");
    }
    match (text(&ORIGIN), host(headers)) {
        (Some(origin), Some(host)) => {
            let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
            match authority.eq_ignore_ascii_case(host) {
                true => Ok(()),
                false => refused("it comes from another page; a proxy has to pass on the header `Host`"),
            }
        }
        (Some(_), None) => refused("it has no `Host`"),
        (None, _) if form && text(&FETCH_SITE) != Some("same-origin") => refused("the form does not say where it was"),
        (None, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn address(text: &str) -> Peer {
        Peer::Tcp(text.parse().unwrap())
    }

    #[test]
    fn over_a_unix_socket_every_caller_is_of_this_machine_unless_a_proxy_is_between() {
        assert!(is_local(&headers(&[("host", "localhost")]), Peer::Unix));
        assert!(!is_local(&headers(&[("host", "ops.example")]), Peer::Unix));
        assert!(!is_local(&headers(&[("host", "localhost"), ("forwarded", "for=10.0.0.7")]), Peer::Unix));
    }

    #[test]
    fn only_names_that_no_other_machine_can_have_are_this_machine() {
        let check = |host: &str, peer: &str, local: bool| {
            assert_eq!(is_local(&headers(&[("host", host)]), address(peer)), local, "{host} {peer}");
        };
        check("127.0.0.1:9465", "127.0.0.1:5000", true);
        check("localhost:9465", "127.0.0.1:5000", true);
        check("[::1]:9465", "[::1]:5000", true);
        check("[::1]", "[::ffff:127.0.0.1]:5000", true);
        check("evil.example:9465", "127.0.0.1:5000", false);
        check("127.0.0.1:9465", "10.0.0.7:5000", false);
        let proxied = headers(&[("host", "localhost"), ("x-forwarded-for", "10.0.0.7")]);
        assert!(!is_local(&proxied, address("127.0.0.1:5000")));
        assert!(!is_local(&HeaderMap::new(), address("127.0.0.1:5000")));
    }

    #[test]
    fn a_page_of_another_origin_changes_nothing() {
        let check = |pairs: &[(&'static str, &str)], form: bool, good: bool| {
            assert_eq!(same_origin(&headers(pairs), form).is_ok(), good, "{pairs:?} {form}");
        };
        check(&[("host", "h:9465")], false, true);
        check(&[("host", "h:9465")], true, false);
        check(&[("host", "h:9465"), ("origin", "http://h:9465")], true, true);
        check(&[("host", "h:9465"), ("origin", "https://h:9465")], true, true);
        check(&[("host", "h:9465"), ("origin", "http://h:80")], false, false);
        check(&[("host", "h:9465"), ("origin", "http://evil.example")], true, false);
        check(&[("host", "h:9465"), ("origin", "null")], true, false);
        check(&[("host", "h"), ("origin", "http://h"), ("sec-fetch-site", "cross-site")], true, false);
        check(&[("host", "h"), ("sec-fetch-site", "same-site")], false, false);
        check(&[("host", "h"), ("sec-fetch-site", "same-origin")], true, true);
        check(&[("origin", "http://h")], true, false);
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let all = headers(&[("cookie", "a=b; delaybridge-session=0123; c")]);
        assert_eq!(cookie(&all), Some("0123"));
        assert_eq!(cookie(&headers(&[("cookie", "xdelaybridge-session=1")])), None);
    }
}
