//! Who asks, and what that caller may do.
//!
//! Numbers are for everybody who reaches the listener and calls it by its address. What changes something, payloads, and what reads a whole
//! stream are for callers whose role allows it for the queue: people whom a trusted proxy names, and owners of a token, in the `Authorization`
//! header or in a session of the page. Without a file of tokens they are for callers on this machine. [`AdminAccess::check`] decides, by the
//! table of routes.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::COOKIE;

use super::failures::Failures;
use super::proxy::{ProxyHeaders, ProxyWord};
use super::sessions::Sessions;
use delaybridge_http_server::answer::bearer;
use delaybridge_http_server::named::{NamedTokens, hash};
use delaybridge_http_server::origin::{is_called_by_address, is_local};
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::room::MaybeNamed;
use delaybridge_http_server::text::clip;
use delaybridge_http_server::tokens_file::TokensFile;
use delaybridge_model::AdminSpec;
use delaybridge_model::role::{AccessRole, Grantee};
pub use delaybridge_ops::operation::Need;
use delaybridge_telemetry::events::admin::AdminEvents;
use delaybridge_telemetry::events::api::ApiEvents;
use delaybridge_telemetry::peer::Peer;

/// The name of a caller on this machine, where there are no tokens.
const LOCAL: &str = "local";
/// The cookie of a session.
pub const COOKIE_NAME: &str = "delaybridge-session";

/// Whoever sent a request.
#[derive(Debug, Clone, Default)]
pub struct AdminCaller {
    /// The name of the token or person, and the rights, if there is one.
    pub grant: Option<Grantee>,
    /// Whether a proxy names the person.
    pub by_proxy: bool,
}

impl AdminCaller {
    /// Returns the owner of a token, or a client on this machine.
    fn of(grant: Option<Grantee>) -> AdminCaller {
        AdminCaller { grant, by_proxy: false }
    }

    /// Returns whether the caller may do this with a queue or topic; with `None` what concerns all of them.
    pub fn may(&self, role: AccessRole, of: Option<&str>) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.may(role, of))
    }
}

impl MaybeNamed for AdminCaller {
    fn name(&self) -> Option<&Arc<str>> {
        self.grant.as_ref().map(|grant| &grant.name)
    }
}

/// The tokens and what hangs on them, and the proxy.
pub struct AdminAccess {
    proxy: Option<ProxyHeaders>,
    tokens: TokensFile<NamedTokens>,
    sessions: Sessions,
    failures: Failures,
}

impl AdminAccess {
    /// With the tokens of the file, and the rules for the proxy.
    pub fn new(spec: &AdminSpec, events: &ApiEvents) -> Result<AdminAccess, String> {
        let tokens =
            TokensFile::new("http.admin.tokens_file", (spec.tokens_file.as_ref(), spec.tokens_max_age), events)?;
        let proxy = spec.proxy.as_ref().map(ProxyHeaders::new).transpose()?;
        Ok(AdminAccess { proxy, tokens, sessions: Sessions::default(), failures: Failures::default() })
    }

    /// Returns the number of tokens, if there is a file of them.
    pub fn count(&self) -> Option<usize> {
        self.tokens.count()
    }

    /// Returns whether there is a file of tokens.
    pub fn has_tokens(&self) -> bool {
        self.count().is_some()
    }

    /// Returns whether the configured proxy has this address.
    pub fn is_proxy(&self, ip: IpAddr) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.trusts(ip))
    }

    /// Finds out who sent the request.
    ///
    /// # Errors
    /// A token that is not known; too many of them; headers of a proxy from elsewhere; a name of this machine that another one may have
    /// given it.
    pub fn caller(&self, headers: &HeaderMap, peer: Peer, events: &AdminEvents) -> Result<AdminCaller, Problem> {
        let word = self.proxy.as_ref().map_or(Ok(ProxyWord::None), |proxy| proxy.word(headers, peer))?;
        // A token beside it is for something else: it may be the proxy's own.
        let is_proxy = match word {
            ProxyWord::Person(person) => return Ok(AdminCaller { grant: Some(person), by_proxy: true }),
            ProxyWord::Nobody => true,
            ProxyWord::None => false,
        };
        let tokens = match self.tokens.tokens() {
            Ok(Some(tokens)) => tokens,
            Ok(None) => {
                // Whoever comes through the proxy is not on this machine, although the proxy is.
                let local = !is_proxy && is_local(headers, peer);
                return Ok(AdminCaller::of(local.then(|| Grantee::admin(LOCAL))));
            }
            Err(too_old) if bearer(headers).or(cookie(headers)).is_some() => return Err(too_old),
            Err(_) => return Ok(AdminCaller::default()),
        };
        if let Some(token) = bearer(headers) {
            return self.owner(&tokens, token, peer, events).map(|grant| AdminCaller::of(Some(grant)));
        }
        Ok(AdminCaller::of(cookie(headers).and_then(|id| self.sessions.owner(id, &tokens))))
    }

    fn owner(&self, tokens: &NamedTokens, token: &str, peer: Peer, events: &AdminEvents) -> Result<Grantee, Problem> {
        // Whoever has a token is served: others behind the same proxy may guess.
        if let Some(grant) = tokens.owner(&hash(token)) {
            return Ok(grant);
        }
        let ip = peer.ip();
        if let Some(wait) = self.failures.locked(ip) {
            let detail = "authenticate: too many wrong tokens came from your address; wait";
            return Err(Problem::new(ProblemKind::TooMany, detail).retry_after(wait));
        }
        if let Some((failures, wait)) = self.failures.note(ip) {
            events.locked_out(peer, failures, wait.as_secs());
        }
        let detail = "authenticate: the token is not known; is it in `http.admin.tokens_file`?";
        Err(Problem::new(ProblemKind::Unauthorized, detail))
    }

    /// Begins a session of the page: the value of its cookie.
    pub fn log_in(&self, token: &str, peer: Peer, events: &AdminEvents) -> Result<String, Problem> {
        let Some(tokens) = self.tokens.tokens()? else {
            return Err(Problem::new(
                ProblemKind::Conflict,
                "log in: there is no `http.admin.tokens_file`, so no login is needed",
            ));
        };
        self.owner(&tokens, token, peer, events)?;
        self.sessions.begin(hash(token))
    }

    /// Ends the session of this request.
    pub fn log_out(&self, headers: &HeaderMap) {
        if let Some(id) = cookie(headers) {
            self.sessions.end(id);
        }
    }

    /// Whether a caller has what an endpoint needs, for the queue or topic that it is about; `None` is all of them.
    pub fn check(
        &self,
        need: Need,
        caller: &AdminCaller,
        headers: &HeaderMap,
        of: Option<&str>,
    ) -> Result<(), Problem> {
        let Some(role) = need.role() else { return Ok(()) };
        match &caller.grant {
            // Numbers are no secret to those who are let in.
            Some(grant) if matches!(need, Need::ToLook | Need::ToSearchOwn) && !grant.grants.is_empty() => Ok(()),
            Some(grant) if grant.may(role, of) => Ok(()),
            Some(grant) => Err(lacks(caller, grant, role, of)),
            None if need == Need::ToLook && is_called_by_address(headers) => Ok(()),
            None => Err(self.refusal(need)),
        }
    }

    /// Returns the refusal of a caller without the right that the endpoint needs.
    pub fn refusal(&self, need: Need) -> Problem {
        let what = match need {
            Need::ToOperate | Need::ToAdminister => "this changes something",
            Need::ToSearch | Need::ToSearchOwn => "this reads a whole queue",
            Need::ToLook => "a page of another site could have asked for this by a name that was pointed here",
            Need::Nothing | Need::ToSee => "this shows payloads",
        };
        let proxy =
            self.proxy.as_ref().map(|proxy| format!("log in at the proxy, which sends `{}`", proxy.user_header()));
        if let (Some(proxy), false) = (&proxy, self.has_tokens()) {
            return Problem::new(ProblemKind::Unauthorized, format!("authenticate: {what}; {proxy}"));
        }
        if self.has_tokens() {
            let proxy = proxy.map(|proxy| format!(", or {proxy}")).unwrap_or_default();
            let or = if need == Need::ToLook { ", or call it by its address" } else { "" };
            let detail = format!("authenticate: {what}; send `Authorization: Bearer TOKEN`{proxy}{or}");
            return Problem::new(ProblemKind::Unauthorized, detail);
        }
        let whom = if need == Need::ToLook { "clients that" } else { "clients on this machine, which" };
        let detail = format!(
            "authenticate: {what}; without `http.admin.tokens_file` that is for {whom} call it by its address or `localhost`"
        );
        Problem::new(ProblemKind::Forbidden, detail)
    }
}

/// Returns the refusal of a known caller whose role or queue patterns do not allow the request.
fn lacks(caller: &AdminCaller, grant: &Grantee, role: AccessRole, of: Option<&str>) -> Problem {
    let subject = of.map_or_else(|| "every queue".to_owned(), |of| format!("`{}`", clip(of)));
    let name = clip(&grant.name);
    let roles = grant.roles();
    let (who, cure) =
        if caller.by_proxy { ("user", "; `http.admin.proxy.roles` says who has which") } else { ("token", "") };
    let detail = format!(
        "authorize: this needs the role `{}` for {subject}; the {who} `{name}` has {roles}{cure}",
        role.as_str()
    );
    Problem::new(ProblemKind::Forbidden, detail)
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::header::HeaderName;

    use super::*;
    use delaybridge_model::role::{AccessGrant, NamePattern};
    use delaybridge_telemetry::events::Events;

    fn spec() -> AdminSpec {
        AdminSpec {
            base_path: None,
            listen: delaybridge_settings::Listen::Tcp(([127, 0, 0, 1], 0).into()),
            tokens_file: None,
            tokens_max_age: Duration::from_secs(3600),
            proxy: None,
            grafana: None,
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn grantee(role: AccessRole, queues: &str) -> Grantee {
        Grantee::new("ann", [AccessGrant { role, queues: NamePattern::read(queues).unwrap() }])
    }

    #[test]
    fn numbers_are_for_those_who_call_by_address_and_the_rest_is_by_role_and_queue() {
        let access = AdminAccess::new(&spec(), &Events::default().admin().api).unwrap();
        let grant = grantee;
        let check = |host: &'static str, grant: Option<Grantee>, need: Need, of: Option<&str>, good: bool| {
            let words = format!("{host} {grant:?} {need:?} {of:?}");
            let caller = AdminCaller::of(grant);
            assert_eq!(access.check(need, &caller, &headers(&[("host", host)]), of).is_ok(), good, "{words}");
        };
        check("127.0.0.1:9465", None, Need::ToLook, None, true);
        check("evil.example:9465", None, Need::ToLook, None, false);
        check("evil.example", None, Need::Nothing, None, true);
        check("127.0.0.1:9465", None, Need::ToSee, Some("orders"), false);
        let viewer = || Some(grant(AccessRole::Viewer, "orders*"));
        check("ops.example", viewer(), Need::ToLook, Some("mails"), true);
        check("ops.example", viewer(), Need::ToSearch, Some("orders_eu"), true);
        check("ops.example", viewer(), Need::ToSearch, Some("mails"), false);
        check("ops.example", viewer(), Need::ToSearchOwn, None, true);
        check("127.0.0.1", None, Need::ToSearchOwn, None, false);
        check("127.0.0.1", Some(Grantee::new("eve", [])), Need::ToSearchOwn, None, false);
        check("127.0.0.1", viewer(), Need::ToSee, Some("orders"), false);
        let operator = || Some(grant(AccessRole::Operator, "orders*"));
        check("127.0.0.1", operator(), Need::ToOperate, Some("orders"), true);
        check("127.0.0.1", operator(), Need::ToOperate, Some("mails"), false);
        check("127.0.0.1", operator(), Need::ToOperate, None, false);
        check("127.0.0.1", operator(), Need::ToAdminister, Some("orders"), false);
        check("127.0.0.1", Some(grant(AccessRole::Admin, "*")), Need::ToAdminister, None, true);
    }

    #[test]
    fn a_refusal_says_which_role_is_needed() {
        let grant = grantee(AccessRole::Viewer, "orders*");
        let lacks = |role, of| super::lacks(&AdminCaller::default(), &grant, role, of);
        let words = "this needs the role `admin` for every queue; the token `ann` has the role `viewer` for `orders*`";
        assert!(lacks(AccessRole::Admin, None).detail.ends_with(words));
        assert!(lacks(AccessRole::Operator, Some("mails")).detail.contains("the role `operator` for `mails`;"));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let all = headers(&[("cookie", "a=b; delaybridge-session=0123; c")]);
        assert_eq!(cookie(&all), Some("0123"));
        assert_eq!(cookie(&headers(&[("cookie", "xdelaybridge-session=1")])), None);
    }
}
