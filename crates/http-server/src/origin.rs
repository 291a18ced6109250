//! Where a request comes from: what its connection and its headers say of that. One implementation for all listeners.
//!
//! A page in a browser on this machine reaches local ports too. It cannot hide what it is: the browser says where the page is from
//! (`Origin`, `Sec-Fetch-Site`), and by which name the page has called us (`Host`). The owner of a name can point it at this machine,
//! so that a page of that name is of the same origin: only names that nobody else can have are this machine's.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Request};

use super::problem::{Problem, ProblemKind};
use delaybridge_telemetry::peer::Peer;

/// Headers of a request that a proxy has passed on: it is not from this machine, although its connection is. Those that begin with
/// [`PROXIED_PREFIX`] are others.
const PROXIED: [&str; 3] = ["forwarded", "via", "x-real-ip"];
/// `X-Forwarded-For`, `-Host`, `-Proto`, `-Server` and others: some proxies add one of them alone.
const PROXIED_PREFIX: &str = "x-forwarded-";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Returns the value of a header. No browser sends one twice, or with bytes that are no text: what is sent so reads as
/// empty, which no rule accepts.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    Some(if all.next().is_none() { first.to_str().unwrap_or_default() } else { "" })
}

/// Puts the host of an absolute URI in the place of `Host`, which it overrides.
pub fn heed_authority<B>(request: &mut Request<B>) {
    let authority = request.uri().authority().map(|authority| HeaderValue::from_str(authority.as_str()));
    if let Some(Ok(host)) = authority {
        request.headers_mut().insert(HOST, host);
    }
}

/// Returns whether the request comes from this machine, and from no page that only calls itself so.
pub fn is_local(headers: &HeaderMap, peer: Peer) -> bool {
    let proxied =
        headers.keys().any(|name| PROXIED.contains(&name.as_str()) || name.as_str().starts_with(PROXIED_PREFIX));
    peer.ip().is_loopback() && !proxied && is_called_by_address(headers)
}

/// Returns whether the client called us by an address or as `localhost`, which no page of another machine can be named.
pub fn is_called_by_address(headers: &HeaderMap) -> bool {
    let Some(host) = text(headers, &HOST) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Returns whether a page in a browser has sent the request. What a person types into a browser is from no page.
pub fn is_from_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || text(headers, &FETCH_SITE).is_some_and(|site| site != "none")
}

/// Refuses what a page of another origin asks for. What no browser sent has neither header: a program, which another page
/// cannot make send anything. A form always comes from a browser, and says where from.
///
/// # Errors
/// It comes from elsewhere, or from a form that does not say.
pub fn same_origin(headers: &HeaderMap, form: bool) -> Result<(), Problem> {
    let refused =
        |why: &str| Err(Problem::new(ProblemKind::Forbidden, format!("check the origin of the request: {why}")));
    let site = text(headers, &FETCH_SITE);
    if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return refused("it comes from a page of another site");
    }
    match (text(headers, &ORIGIN), text(headers, &HOST)) {
        (Some(origin), Some(host)) => {
            let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
            if !host.is_empty() && authority.eq_ignore_ascii_case(host) {
                Ok(())
            } else {
                refused("it comes from another page; a proxy has to pass on the header `Host`")
            }
        }
        (Some(_), None) => refused("it has no `Host`"),
        (None, _) if form && site != Some("same-origin") => refused("the form does not say where it was"),
        (None, _) => Ok(()),
    }
}

/// Checks a request that only looks: a person may follow a link of another page to here. That page sees nothing of it.
///
/// # Errors
/// It comes from a page of another origin, which does not lead here.
pub fn may_look(headers: &HeaderMap) -> Result<(), Problem> {
    match text(headers, &FETCH_MODE) {
        Some("navigate") => Ok(()),
        _ => same_origin(headers, false),
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
        for name in PROXIED {
            assert!(
                !is_local(&headers(&[("host", "localhost"), (name, "10.0.0.7")]), address("127.0.0.1:5000")),
                "{name}"
            );
        }
        assert!(!is_local(&HeaderMap::new(), address("127.0.0.1:5000")));
    }

    #[test]
    fn a_page_cannot_hide_that_it_is_one() {
        let check = |pairs: &[(&'static str, &str)], page: bool| {
            assert_eq!(is_from_page(&headers(pairs)), page, "{pairs:?}");
        };
        check(&[("host", "localhost")], false);
        check(&[("origin", "http://localhost")], true);
        // An image, a link, a script; what was typed; what a page of a rebound name asks of itself.
        check(&[("sec-fetch-site", "cross-site")], true);
        check(&[("sec-fetch-site", "none")], false);
        check(&[("sec-fetch-site", "same-origin")], true);
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
    fn a_link_leads_here_and_an_image_does_not() {
        let check = |pairs: &[(&'static str, &str)], good: bool| {
            assert_eq!(may_look(&headers(pairs)).is_ok(), good, "{pairs:?}");
        };
        check(&[("host", "h")], true);
        check(&[("host", "h"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true);
        check(&[("host", "h"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], false);
        check(&[("host", "h"), ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")], true);
        check(&[("host", "h"), ("origin", "http://evil.example")], false);
    }
}
