//! From a request to its answer: find the route, learn who asks, refuse what may not be, let the handler answer, write it down.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderName, HeaderValue, REFERRER_POLICY};
use hyper::{Method, Request, Response};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::access::{AdminCaller, Need};
use super::routes::{AdminRoute, ROUTES, is_api};
use super::{Admin, pages};
use delaybridge_http_server::answer::{Exchange, allow};
use delaybridge_http_server::call::Call;
use delaybridge_http_server::handover::ReplyBody;
use delaybridge_http_server::origin::{may_look, same_origin};
use delaybridge_http_server::problem::{Problem, ProblemKind, ProblemPage};
use delaybridge_http_server::reply::Reply;
use delaybridge_http_server::room::{MaybeNamed, who};
use delaybridge_http_server::router::Router;
use delaybridge_http_server::server::{Connection, Served};
use delaybridge_telemetry::events::api::ApiEvents;

/// Connections at once.
const CONNECTIONS: usize = 128;
/// Time limit of a look. A change has none: it goes on by itself.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The content security policy: everything is loaded from here, and sent here.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";
const CONTENT_SECURITY_POLICY: HeaderName = HeaderName::from_static("content-security-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

static ROUTER: LazyLock<Router<AdminRoute>> = LazyLock::new(|| Router::new(ROUTES.iter()));

impl Served for Admin {
    type Body = ReplyBody;

    async fn respond(self: Arc<Self>, connection: Connection, request: Request<Incoming>) -> Response<ReplyBody> {
        respond(self, connection, request).await
    }

    fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    fn max_connections(&self) -> usize {
        CONNECTIONS
    }

    fn is_proxy(&self, ip: IpAddr) -> bool {
        self.access.is_proxy(ip)
    }

    fn events(&self) -> &ApiEvents {
        &self.events.api
    }
}

/// Answers one request. Never fails: a problem is an answer too.
async fn respond(admin: Arc<Admin>, connection: Connection, request: Request<Incoming>) -> Response<ReplyBody> {
    let (head, body) = request.into_parts();
    let exchange = Exchange::begin(&head.headers, connection);
    let base = admin.base_path.as_deref().unwrap_or_default();
    let path = behind(base, head.uri.path()).unwrap_or_default().to_owned();
    let mut caller = AdminCaller::default();
    let (label, result) = match ROUTER.find(&head.method, &path) {
        // The links of the page are relative to what is behind the path.
        Err(_) if path.is_empty() => {
            ("admin_none", Ok(pages::see_other(&format!("{}/", base.rsplit('/').next().unwrap_or_default()))))
        }
        Err(missing) => ("admin_none", Err(missing.problem(&head.method, &path))),
        Ok((route, parts)) => {
            let result = match Call::new((head, body), exchange.peer(), AdminCaller::default(), parts, &admin.memory) {
                Ok(call) => handle(&admin, route, call, (&exchange, &mut caller)).await,
                Err(problem) => Err(problem),
            };
            (route.label, result)
        }
    };
    let refuse = |problem| refuse(problem, &path, &admin, &caller);
    let name = caller.name().cloned();
    let mut response = exchange.end((&admin.events.api, &admin.memory), label, name.as_deref(), result, refuse).await;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // Not `no-referrer`: then a form would not say where it comes from.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    if headers.contains_key(ETAG) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    response
}

/// Returns the path behind that of the proxy, if it begins with it. `None` for the path of the proxy alone.
fn behind<'a>(base: &str, path: &'a str) -> Option<&'a str> {
    match path.strip_prefix(base) {
        Some("") => None,
        Some(rest) if rest.starts_with('/') => Some(rest),
        _ => Some(path),
    }
}

/// Returns a problem, as the API or the page shows it.
fn refuse(mut problem: Problem, path: &str, admin: &Admin, caller: &AdminCaller) -> Reply {
    problem.page = ProblemPage::Admin;
    let reply = if is_api(path) {
        Reply::from(problem.clone())
    } else {
        pages::problem::show(&problem, path, caller, admin.access.has_tokens())
    };
    allow(reply, &problem)
}

async fn handle(
    admin: &Arc<Admin>,
    route: &'static AdminRoute,
    mut call: Call<AdminCaller>,
    (exchange, caller): (&Exchange, &mut AdminCaller),
) -> Result<Reply, Problem> {
    let changes = route.method != Method::GET;
    if changes {
        same_origin(&call.headers, !is_api(route.path))?
    } else {
        may_look(&call.headers)?
    }
    call.caller = admin.access.caller(&call.headers, call.peer, &admin.events)?;
    *caller = call.caller.clone();
    // A person whom the proxy names, and who has no role here, is no operator.
    let known = caller.grant.as_ref().is_some_and(|grant| !grant.grants.is_empty());
    if !known {
        exchange.of_stranger()?;
    }
    let asker = who(call.peer, &call.caller);
    let of = ["queue", "topic"].into_iter().find(|part| route.path.contains(&format!("{{{part}}}")));
    // Where the answer leaves out the queues of others, one that is named has to be the caller's.
    let named = call.query.text("queue").filter(|queue| route.rule == Need::ToSearchOwn && !queue.is_empty());
    match named {
        Some(queue) => admin.access.check(Need::ToSearch, &call.caller, &call.headers, Some(queue))?,
        None => admin.access.check(route.rule, &call.caller, &call.headers, of.map(|part| call.part(part)))?,
    }
    if route.rule != Need::Nothing {
        route.check(&mut call).await?;
    }
    let answer = route.answer(admin.clone(), call);
    if changes {
        return answer.await;
    }
    let looks = if known { &admin.looks } else { &admin.looks_of_strangers };
    let _turn = looks.take(&asker, 1, "answer the request").await?;
    timeout(LOOK_TIMEOUT, answer).await.map_err(|_| {
        let message = "answer the request: not done within 10 s: Redis is slow, or this searches a very long queue, which the \
                       commands without --daemon do to the end";
        Problem::new(ProblemKind::Unavailable, message).retry_after(Duration::from_secs(1))
    })?
}
