//! Who asks, and what that caller may do.
//!
//! Numbers are for everybody who reaches the listener and calls it by its address. What changes something, payloads, and what reads a whole
//! stream are for callers with a token: in the `Authorization` header, or in a session of the page. Without a file of tokens they are for
//! callers on this machine.

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::COOKIE;

use super::failures::Failures;
use super::sessions::Sessions;
use delaybridge_jobs_http::answer::bearer;
use delaybridge_jobs_http::file::Reread;
use delaybridge_jobs_http::named::{NamedTokens, hash};
use delaybridge_jobs_http::origin::{is_called_by_address, is_local};
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::room::MaybeNamed;
use delaybridge_model::AdminSpec;
use delaybridge_telemetry::events::admin::AdminEvents;
use delaybridge_telemetry::events::api::ApiEvents;
use delaybridge_telemetry::peer::Peer;

/// The name of a caller on this machine, where there are no tokens.
const LOCAL: &str = "local";
/// The cookie of a session.
pub const COOKIE_NAME: &str = "delaybridge-session";

/// The right that an endpoint asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it shows nothing of the queues.
    Nothing,
    /// A token, unless the listener is called by its address: a page of another name may be pointed here.
    ToLook,
    /// A token, because it reads everything that there is.
    ToSearch,
    /// A token, because it shows payloads.
    ToSee,
    /// A token, because it changes something.
    ToChange,
}

/// Whoever sent a request.
#[derive(Debug, Clone)]
pub struct AdminCaller {
    /// The name of the token, if the caller may do everything.
    pub name: Option<Arc<str>>,
    /// Whether a session of the page says so.
    pub by_session: bool,
}

impl MaybeNamed for AdminCaller {
    fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }
}

/// The tokens and what hangs on them.
pub struct AdminAccess {
    tokens: Option<Reread<NamedTokens, String>>,
    sessions: Sessions,
    failures: Failures,
}

impl AdminAccess {
    /// With the tokens of the file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(spec: &AdminSpec) -> Result<AdminAccess, String> {
        let tokens = spec.token_file.clone().map(|file| Reread::new(file, NamedTokens::read)).transpose()?;
        Ok(AdminAccess { tokens, sessions: Sessions::default(), failures: Failures::default() })
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

    /// Finds out who sent the request.
    ///
    /// # Errors
    /// A token that is not known; too many of them; a name of this machine that another one may have given it.
    pub fn caller(&self, headers: &HeaderMap, peer: Peer, events: &AdminEvents) -> Result<AdminCaller, Problem> {
        let Some(tokens) = self.tokens(&events.api) else {
            let local = is_local(headers, peer);
            return Ok(AdminCaller { name: local.then(|| LOCAL.into()), by_session: false });
        };
        if let Some(token) = bearer(headers) {
            return self
                .owner(&tokens, token, peer, events)
                .map(|name| AdminCaller { name: Some(name), by_session: false });
        }
        let name = cookie(headers).and_then(|id| self.sessions.owner(id, &tokens));
        Ok(AdminCaller { by_session: name.is_some(), name })
    }

    /// The name of the token.
    fn owner(&self, tokens: &NamedTokens, token: &str, peer: Peer, events: &AdminEvents) -> Result<Arc<str>, Problem> {
        // Whoever has a token is served: others behind the same proxy may guess.
        if let Some(name) = tokens.owner(&hash(token)) {
            return Ok(name);
        }
        let ip = peer.ip();
        if let Some(wait) = self.failures.locked(ip) {
            let detail = "authenticate: too many wrong tokens came from your address; wait";
            return Err(Problem::new(ProblemKind::TooMany, detail).retry_after(wait));
        }
        if let Some((failures, wait)) = self.failures.note(ip) {
            events.locked_out(peer, failures, wait.as_secs());
        }
        let detail = "authenticate: the token is not known; is it in `http.admin.token_file`?";
        Err(Problem::new(ProblemKind::Unauthorized, detail))
    }

    /// Begins a session of the page: the value of its cookie.
    ///
    /// # Errors
    /// As for [`caller`](Access::caller); or there are no tokens.
    pub fn log_in(&self, token: &str, peer: Peer, events: &AdminEvents) -> Result<(String, Arc<str>), Problem> {
        let Some(tokens) = self.tokens(&events.api) else {
            return Err(Problem::new(
                ProblemKind::Conflict,
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

    /// Whether a caller has what an endpoint needs.
    ///
    /// # Errors
    /// What the caller lacks.
    pub fn check(&self, need: Need, caller: &AdminCaller, headers: &HeaderMap) -> Result<(), Problem> {
        match need {
            Need::Nothing => Ok(()),
            Need::ToLook if is_called_by_address(headers) => Ok(()),
            _ if caller.name.is_some() => Ok(()),
            _ => Err(self.refusal(need)),
        }
    }

    /// The refusal of a caller without the right that the endpoint needs.
    pub fn refusal(&self, need: Need) -> Problem {
        let what = match need {
            Need::ToChange => "this changes something",
            Need::ToSearch => "this reads a whole queue",
            Need::ToLook => "a page of another site could have asked for this by a name that was pointed here",
            Need::Nothing | Need::ToSee => "this shows payloads",
        };
        if self.has_tokens() {
            let or = if need == Need::ToLook { ", or call it by its address" } else { "" };
            let detail = format!("authenticate: {what}; send `Authorization: Bearer TOKEN`{or}");
            return Problem::new(ProblemKind::Unauthorized, detail);
        }
        let whom = if need == Need::ToLook { "clients that" } else { "clients on this machine, which" };
        let detail = format!(
            "authenticate: {what}; without `http.admin.token_file` that is for {whom} call it by its address or `localhost`"
        );
        Problem::new(ProblemKind::Forbidden, detail)
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn spec() -> AdminSpec {
        AdminSpec { listen: delaybridge_settings::Listen::Tcp(([127, 0, 0, 1], 0).into()), token_file: None }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn numbers_are_for_those_who_call_by_address_or_have_a_token() {
        let spec = AdminSpec { token_file: None, ..spec() };
        let access = AdminAccess::new(&spec).unwrap();
        let caller = |name: Option<&str>| AdminCaller { name: name.map(Into::into), by_session: false };
        let check = |host: &'static str, name: Option<&str>, need: Need, good: bool| {
            let met = access.check(need, &caller(name), &headers(&[("host", host)]));
            assert_eq!(met.is_ok(), good, "{host} {name:?} {need:?}");
        };
        check("127.0.0.1:9465", None, Need::ToLook, true);
        check("evil.example:9465", None, Need::ToLook, false);
        check("ops.example", Some("ann"), Need::ToLook, true);
        check("evil.example", None, Need::Nothing, true);
        check("127.0.0.1:9465", None, Need::ToSee, false);
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let all = headers(&[("cookie", "a=b; delaybridge-session=0123; c")]);
        assert_eq!(cookie(&all), Some("0123"));
        assert_eq!(cookie(&headers(&[("cookie", "xdelaybridge-session=1")])), None);
    }
}
