//! From a request to its answer: find the route, learn who asks, let the handler answer, write it down.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_ENCODING, HeaderName, HeaderValue, VARY};
use hyper::{HeaderMap, Method, Request, Response};

use super::Api;
use super::access::Caller;
use super::call::{Call, Query, decode, who};
use super::gzip;
use super::handover::{ReplyBody, Unflushed};
use super::origin::{is_from_page, is_local};
use super::problem::{Kind, Problem};
use super::reply::Reply;
use super::room::{Memory, Room};
use super::routes::{Dialect, Route};
use crate::clock::Instant;
use crate::telemetry::events::api::Answered;
use crate::telemetry::peer::Peer;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TOKEN: HeaderName = HeaderName::from_static("x-token");
/// Longest answer that is packed where it is made: that takes a few milliseconds.
const PACKED_HERE: usize = 256 << 10;

/// What all requests of one connection share.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The other end.
    pub peer: Peer,
    /// Jobs that are written to it and not yet on their way.
    pub unflushed: Unflushed,
}

/// An endpoint, as far as requests are matched with it.
pub trait Endpoint: Sync + 'static {
    /// Its method; `HEAD` goes where `GET` does.
    fn method(&self) -> &Method;

    /// Its path, with `{names}`.
    fn path(&self) -> &'static str;

    /// Whether it serves all methods.
    fn ignores_methods(&self) -> bool {
        false
    }
}

/// The routes by path.
pub struct Router<R: Endpoint> {
    paths: matchit::Router<Vec<&'static R>>,
}

impl<R: Endpoint> Router<R> {
    /// Of these routes.
    pub fn new(routes: impl IntoIterator<Item = &'static R>) -> Router<R> {
        let mut by_path: HashMap<&str, Vec<&'static R>> = HashMap::new();
        for route in routes {
            by_path.entry(route.path()).or_default().push(route);
        }
        let mut paths = matchit::Router::new();
        for (path, routes) in by_path {
            // The table is fixed, and every test that makes a router proves it.
            paths.insert(path, routes).expect("no two paths of the table contradict each other");
        }
        Router { paths }
    }

    /// The route, with the parts of the path that have names.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, method: &Method, path: &str) -> Result<(&'static R, Parts), Missing> {
        let found = self.paths.at(path).map_err(|_| Missing::Path)?;
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        let serves = |route: &&&'static R| route.method() == wanted || route.ignores_methods();
        let Some(route) = found.value.iter().find(serves) else {
            return Err(Missing::Method(
                found.value.iter().map(|route| route.method().as_str()).collect::<Vec<_>>().join(", "),
            ));
        };
        let names = ["topic", "id", "namespace", "queue", "token", "sink", "file"];
        let part = |name: &'static str| found.params.get(name).map(|value| (name, decode(value)));
        Ok((route, names.into_iter().filter_map(part).collect()))
    }
}

/// The named parts of a path.
pub type Parts = Vec<(&'static str, String)>;

/// Why there is no route.
pub enum Missing {
    /// The path is not known.
    Path,
    /// It is, with these methods.
    Method(String),
}

impl Missing {
    /// What the client hears.
    pub fn problem(self, method: &Method, path: &str) -> Problem {
        match self {
            Missing::Path if matches!(path, "/metrics" | "/livez" | "/readyz" | "/startupz") => Problem::new(
                Kind::NoSuchPath,
                format!(
                    "find the path: {path} is at the address of `http.listen`, 127.0.0.1:9464 if nothing else is written there"
                ),
            ),
            Missing::Path => Problem::new(
                Kind::NoSuchPath,
                "find the path: there is none of this name; GET /v1/openapi.json lists them",
            ),
            Missing::Method(allowed) => {
                let detail = format!("use the path: it has {allowed}, not {}", super::fields::clip(method.as_str()));
                Problem::new(Kind::Method, detail).with("allow", allowed.into())
            }
        }
    }
}

/// Answers one request. Never fails: what goes wrong is an answer too.
pub async fn respond(api: Arc<Api>, connection: Connection, request: Request<Incoming>) -> Response<ReplyBody> {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let id = request_id(&head.headers);
    let asked = head.headers.clone();
    let found = api.router.find(&head.method, head.uri.path());
    let (name, dialect) = match &found {
        Ok((route, _)) => (route.name, route.dialect),
        Err(_) => ("none", Dialect::of_path(&api.faces, head.uri.path())),
    };
    let mut token = None;
    let result = match found {
        Ok((route, path)) => match Query::parse(head.uri.query().unwrap_or_default()) {
            Ok(query) => {
                let call = Call {
                    peer: connection.peer,
                    caller: Caller::local(),
                    headers: head.headers,
                    path,
                    query,
                    body: Some(body),
                    memory: api.memory.clone(),
                    room: Room::default(),
                };
                handle(&api, route, call, &mut token).await
            }
            Err(problem) => Err(problem),
        },
        Err(missing) => Err(missing.problem(&head.method, head.uri.path())),
    };
    let problem = result.as_ref().err().map(|problem| problem.detail.clone());
    let reply = result.unwrap_or_else(|problem| dialect.reply(problem));
    let status = reply.status.as_u16();
    api.events.metrics.answered(name, status, began.elapsed());
    let answered = Answered {
        route: name,
        status,
        peer: connection.peer,
        token: token.as_deref().unwrap_or_default(),
        request: id.to_str().unwrap_or_default(),
        problem: problem.as_deref(),
    };
    api.events.answered(&answered);
    finish(reply, &asked, id, connection.unflushed, &api.memory).await
}

async fn handle(
    api: &Arc<Api>,
    route: &'static Route,
    mut call: Call,
    token: &mut Option<Arc<str>>,
) -> Result<Reply, Problem> {
    if !route.open {
        call.caller = caller(api, route.dialect, &call).await?;
        token.clone_from(&call.caller.name);
        if let Some(rate) = api.max_rate {
            api.requests.admit(who(call.peer, &call.caller), rate)?;
        }
    }
    if let Some(operation) = route.operation.as_ref().filter(|_| !route.open) {
        operation.check(&call.query)?;
    }
    // A panic in a handler is an answer, and not the end of all requests of the connection.
    match AssertUnwindSafe((route.handler)(api.clone(), call)).catch_unwind().await {
        Ok(result) => result,
        Err(_) => {
            Err(Problem::new(Kind::Unexpected, "answer the request: this program has a defect; its log has the place"))
        }
    }
}

/// The token behind `Authorization: Bearer`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Who sent the request.
async fn caller(api: &Api, dialect: Dialect, call: &Call) -> Result<Caller, Problem> {
    let text = |name: &HeaderName| call.headers.get(name).and_then(|value| value.to_str().ok());
    let given = bearer(&call.headers).or_else(|| text(&TOKEN));
    let given = given.or_else(|| call.query.text("token").filter(|_| dialect.takes_token_in_query()));
    let given = given.filter(|token| !token.is_empty());
    match (api.access.tokens(&api.events), given) {
        (Some(tokens), Some(token)) => match tokens.owner(token) {
            Some(caller) => Ok(caller),
            None => dialect.owner(api, token, call).await,
        },
        (Some(_), None)
            if api.trusts_the_machine && is_local(&call.headers, call.peer) && !is_from_page(&call.headers) =>
        {
            Ok(Caller::local())
        }
        (Some(_), None) => Err(dialect.no_token()),
        (None, _) if !is_local(&call.headers, call.peer) => Err(Problem::new(
            Kind::Forbidden,
            "authenticate: without `jobs.tokens_file` only clients on the same machine are served, which call it by its address or \
             `localhost` and not through a proxy",
        )),
        // A page reaches a local port, and must neither add jobs nor take any.
        (None, _) if is_from_page(&call.headers) => Err(Problem::new(
            Kind::Forbidden,
            "authenticate: the request comes from a page in a browser; set `jobs.tokens_file` and send a token",
        )),
        (None, _) => Ok(Caller::local()),
    }
}

/// The client's own id of the request, if it is harmless, else a new one.
pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|id| {
        let bytes = id.as_bytes();
        (1..=64).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
    });
    let new = || {
        HeaderValue::try_from(format!("{:016x}", fastrand::u64(..))).unwrap_or_else(|_| HeaderValue::from_static("0"))
    };
    given.cloned().unwrap_or_else(new)
}

/// The answer as it leaves. A large one is packed on another thread.
pub async fn finish(
    reply: Reply,
    asked: &HeaderMap,
    id: HeaderValue,
    unflushed: Unflushed,
    memory: &Memory,
) -> Response<ReplyBody> {
    let Reply { status, headers, body, reserved, feed } = reply;
    let packed = match body.len() {
        length if !gzip::is_wanted(asked, length) => None,
        ..=PACKED_HERE => gzip::pack(&body),
        _ => {
            let body = body.clone();
            // Not packed, it is right as well.
            memory.aside(move || gzip::pack(&body)).await.unwrap_or_default()
        }
    };
    let coded = packed.is_some();
    let mut response = Response::new(ReplyBody::new(packed.unwrap_or(body), reserved, unflushed).followed_by(feed));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(hyper::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(hyper::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if coded {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
    response
}

/// The header for a path with other methods.
pub fn allow(reply: Reply, problem: &Problem) -> Reply {
    match problem.fields.get("allow").and_then(|allow| allow.as_str()) {
        Some(allow) => reply.header(ALLOW, allow),
        None => reply,
    }
}
