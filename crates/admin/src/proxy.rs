//! The headers of an authenticating proxy: who is behind a request, where the proxy is believed.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::HeaderName;

use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_model::proxy::ProxySpec;
use delaybridge_model::role::Grantee;
use delaybridge_ops::content::escaped;
use delaybridge_telemetry::peer::Peer;

/// Longest name of a person, in bytes.
const LONGEST: usize = 256;

/// The word of the proxy about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum ProxyWord {
    /// The request is from no proxy.
    None,
    /// The proxy has let through someone whom it does not name.
    Nobody,
    /// The proxy names this person.
    Person(Grantee),
}

/// The headers to read, and the rules.
pub struct ProxyHeaders {
    user: HeaderName,
    groups: HeaderName,
    spec: ProxySpec,
}

impl ProxyHeaders {
    /// For the section of the configuration.
    pub fn new(spec: &ProxySpec) -> Result<ProxyHeaders, String> {
        let name = |text: &str| {
            HeaderName::try_from(text).map_err(|_| format!("read `http.admin.proxy`: `{text}` is no name of a header"))
        };
        Ok(ProxyHeaders { user: name(&spec.user_header)?, groups: name(&spec.groups_header)?, spec: spec.clone() })
    }

    /// Returns the header that names the person.
    pub fn user_header(&self) -> &str {
        &self.spec.user_header
    }

    /// Returns whether it has this address.
    pub fn trusts(&self, ip: IpAddr) -> bool {
        self.spec.trusts(ip)
    }

    /// Reads what the proxy says.
    pub fn word(&self, headers: &HeaderMap, peer: Peer) -> Result<ProxyWord, Problem> {
        let refused = |detail: String| Err(Problem::new(ProblemKind::Forbidden, format!("authenticate: {detail}")));
        if !self.spec.trusts(peer.ip()) {
            let from = [&self.user, &self.groups].into_iter().find(|name| headers.contains_key(*name));
            return match from {
                None => Ok(ProxyWord::None),
                Some(name) => refused(format!(
                    "the header `{name}` came from {}, which is not among `http.admin.proxy.addresses`; send it through the proxy, or \
                     add the proxy's address there",
                    peer.ip()
                )),
            };
        }
        let (user, groups) = match (only(headers, &self.user), only(headers, &self.groups)) {
            (Ok(user), Ok(groups)) => (user, groups),
            // One of them may be the client's own, to which the proxy has added the other.
            (Err(name), _) | (_, Err(name)) => {
                return refused(format!(
                    "the header `{name}` is there twice or is no text; the proxy must replace what a client sends"
                ));
            }
        };
        if user.is_empty() {
            return Ok(ProxyWord::Nobody);
        }
        // On pages, in logs and at terminals it is what the proxy wrote, and no other name.
        if user.len() > LONGEST || escaped(user) != user {
            return refused(format!("the header `{}` has no name of at most {LONGEST} bytes", self.user));
        }
        let groups: Vec<&str> = groups.split(',').map(str::trim).filter(|group| !group.is_empty()).collect();
        Ok(ProxyWord::Person(Grantee::new(user, self.spec.grants(user, &groups))))
    }
}

/// Returns the only value of a header, trimmed; empty if there is none. The name of one that has several, or no text.
fn only<'a>(headers: &'a HeaderMap, name: &'a HeaderName) -> Result<&'a str, &'a HeaderName> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(""),
        (Some(value), None) => std::str::from_utf8(value.as_bytes()).map(str::trim).map_err(|_| name),
        (Some(_), Some(_)) => Err(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_model::proxy::RoleRule;
    use delaybridge_model::role::{AccessRole, NamePattern};

    fn proxy() -> ProxyHeaders {
        let rule = |group: &str, role| RoleRule {
            user: None,
            group: Some(group.to_owned()),
            role,
            queues: NamePattern::all(),
        };
        ProxyHeaders::new(&ProxySpec {
            addresses: vec!["10.0.0.0/24".parse().unwrap()],
            user_header: "X-Forwarded-User".to_owned(),
            groups_header: "X-Forwarded-Groups".to_owned(),
            roles: vec![rule("sre", AccessRole::Admin), rule("shop", AccessRole::Reader)],
        })
        .unwrap()
    }

    fn word(peer: &str, pairs: &[(&'static str, &str)]) -> Result<ProxyWord, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        proxy().word(&headers, Peer::Tcp(peer.parse().unwrap())).map_err(|problem| problem.detail)
    }

    #[test]
    fn a_person_is_named_by_the_proxy_alone() {
        let check = |peer: &str, pairs: &[(&'static str, &str)], expected: &str| {
            let found = match word(peer, pairs) {
                Ok(ProxyWord::Person(person)) => format!("{}: {}", person.name, person.roles()),
                Ok(other) => format!("{other:?}"),
                Err(problem) => problem,
            };
            assert!(found.contains(expected), "{peer} {pairs:?}: {found}");
        };
        let inside = "10.0.0.7:5000";
        let outside = "10.0.1.7:5000";
        let ann = ("x-forwarded-user", "ann@example.com");
        check(inside, &[ann], "ann@example.com: no role");
        check(inside, &[ann, ("x-forwarded-groups", "x, shop ,")], "ann@example.com: the role `reader` for `*`");
        check("[::ffff:10.0.0.7]:5000", &[ann, ("x-forwarded-groups", "sre")], "the role `admin`");
        check(inside, &[("x-forwarded-user", "jörg")], "jörg: no role");
        check(inside, &[], "Nobody");
        check(inside, &[("x-forwarded-groups", "sre")], "Nobody");
        check(inside, &[("x-forwarded-user", " ")], "Nobody");
        check(outside, &[], "None");
        check(outside, &[ann], "`x-forwarded-user` came from 10.0.1.7, which is not among");
        check(outside, &[("x-forwarded-groups", "sre")], "`x-forwarded-groups` came from 10.0.1.7");
        // A client's own header, to which the proxy has added another.
        check(inside, &[("x-forwarded-user", "root"), ann], "`x-forwarded-user` is there twice");
        check(
            inside,
            &[ann, ("x-forwarded-groups", "sre"), ("x-forwarded-groups", "x")],
            "`x-forwarded-groups` is there twice",
        );
        check(inside, &[("x-forwarded-user", &"x".repeat(257))], "no name of at most 256 bytes");
        check(inside, &[("x-forwarded-user", "nna\u{202e}")], "no name of at most 256 bytes");
    }

    #[test]
    fn a_name_is_text() {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-user", hyper::header::HeaderValue::from_bytes(b"\xff").unwrap());
        let problem = proxy().word(&headers, Peer::Tcp("10.0.0.7:1".parse().unwrap())).unwrap_err();
        assert!(problem.detail.contains("is no text"), "{}", problem.detail);
    }
}
