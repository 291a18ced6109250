//! From a request to its answer: find the route, learn who asks, let the handler answer, write it down.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::{Request, Response};
use tokio_util::sync::CancellationToken;

use super::access::Caller;
use super::job_call::JobCall;
use super::route::{ApiDialect, ApiRoute};
use super::state::{Api, ServiceEnd};
use super::{dialects, routes};
use delaybridge_http_server::answer::{Exchange, bearer};
use delaybridge_http_server::handover::ReplyBody;
use delaybridge_http_server::listener::ApiListener;
use delaybridge_http_server::origin::{is_from_page, is_local};
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_http_server::room::{BodyMemory, who};
use delaybridge_http_server::router::Router;
use delaybridge_http_server::server::{Connection, Served, serve};
use delaybridge_http_server::tls::Certificates;
use delaybridge_http_server::turns::Turns;
use delaybridge_jobs::{Dispenser, JobQueue};
use delaybridge_model::{ApiSpec, Face};
use delaybridge_settings::problem::ConfigErrors;
use delaybridge_telemetry::events::api::ApiEvents;

const TOKEN: HeaderName = HeaderName::from_static("x-token");

/// The job queue on a listener.
pub struct HttpApi {
    api: Arc<Api>,
    router: Router<ApiRoute>,
    faces: Vec<Face>,
}

impl HttpApi {
    /// Creates the APIs that a listener serves on this queue, until its end.
    ///
    /// # Errors
    /// Every mistake in the tokens file.
    pub fn new(
        spec: &ApiSpec,
        parts: (JobQueue, Dispenser),
        bounds: (BodyMemory, Turns),
        events: ApiEvents,
        end: ServiceEnd,
    ) -> Result<HttpApi, ConfigErrors> {
        let api = Arc::new(Api::new(spec, parts, bounds, events, end)?);
        Ok(HttpApi { api, router: Router::new(routes::of(spec)), faces: spec.faces.clone() })
    }

    /// Serves until its end, then lets what is under way come to its end. In a box: what every request runs through is
    /// compiled as this crate is, and not as the caller.
    pub fn serve(self, listener: ApiListener, certificates: Option<Arc<Certificates>>) -> BoxFuture<'static, ()> {
        serve(listener, Arc::new(self), certificates).boxed()
    }

    /// Returns the number of tokens, if there is a file of them.
    pub fn tokens(&self) -> Option<usize> {
        self.api.access.count()
    }
}

impl Served for HttpApi {
    type Body = ReplyBody;

    async fn respond(self: Arc<Self>, connection: Connection, request: Request<Incoming>) -> Response<ReplyBody> {
        respond(&self, connection, request).await
    }

    fn leaving(&self) -> &CancellationToken {
        &self.api.end.leaving
    }

    fn stopping(&self) -> &CancellationToken {
        &self.api.end.closing
    }

    fn goodbye(&self) -> Duration {
        self.api.end.goodbye
    }

    fn max_connections(&self) -> usize {
        self.api.max_connections
    }

    fn events(&self) -> &ApiEvents {
        &self.api.events
    }
}

/// Answers one request. Never fails: a problem is an answer too.
async fn respond(server: &HttpApi, connection: Connection, request: Request<Incoming>) -> Response<ReplyBody> {
    let api = &server.api;
    let (head, body) = request.into_parts();
    let exchange = Exchange::begin(&head.headers, connection);
    let mut token = None;
    let (name, dialect, result) = match server.router.find(&head.method, head.uri.path()) {
        Ok((route, path)) => {
            let result = match JobCall::new((head, body), exchange.peer(), Caller::local(), path, &api.memory) {
                Ok(call) => handle(api, route, call, &mut token).await,
                Err(problem) => Err(problem),
            };
            (route.label, route.rule.dialect, result)
        }
        Err(missing) => {
            let path = head.uri.path();
            ("none", dialects::of_path(&server.faces, path), Err(missing.problem(&head.method, path)))
        }
    };
    let refuse = |problem| dialects::reply(dialect, problem);
    exchange.end((&api.events, &api.memory), name, token.as_deref(), result, refuse).await
}

async fn handle(
    api: &Arc<Api>,
    route: &'static ApiRoute,
    mut call: JobCall,
    token: &mut Option<Arc<str>>,
) -> Result<Reply, Problem> {
    if !route.rule.open {
        call.caller = caller(api, route.rule.dialect, &call).await?;
        token.clone_from(&call.caller.name);
        if let Some(rate) = api.max_rate {
            api.requests.admit(who(call.peer, &call.caller), rate)?;
        }
    }
    if !route.rule.open {
        route.check(&mut call).await?;
    }
    route.answer(api.clone(), call).await
}

async fn caller(api: &Api, dialect: ApiDialect, call: &JobCall) -> Result<Caller, Problem> {
    let text = |name: &HeaderName| call.headers.get(name).and_then(|value| value.to_str().ok());
    let given = bearer(&call.headers).or_else(|| text(&TOKEN));
    let given = given.or_else(|| call.query.text("token").filter(|_| dialect.takes_token_in_query()));
    let given = given.filter(|token| !token.is_empty());
    match (api.access.tokens(), given) {
        (Err(too_old), Some(_)) => Err(too_old),
        (Ok(Some(tokens)), Some(token)) => match tokens.owner(token) {
            Some(caller) => Ok(caller),
            None => dialects::owner(dialect, api, token, call).await,
        },
        (Ok(Some(_)) | Err(_), None)
            if api.trusts_the_machine && is_local(&call.headers, call.peer) && !is_from_page(&call.headers) =>
        {
            Ok(Caller::local())
        }
        (Ok(Some(_)) | Err(_), None) => Err(dialects::no_token(dialect)),
        (Ok(None), _) if !is_local(&call.headers, call.peer) => Err(Problem::new(
            ProblemKind::Forbidden,
            "authenticate: without `jobs.tokens_file` only clients on the same machine are served, which call it by its address or \
             `localhost` and not through a proxy",
        )),
        // A page reaches a local port, and must neither add jobs nor take any.
        (Ok(None), _) if is_from_page(&call.headers) => Err(Problem::new(
            ProblemKind::Forbidden,
            "authenticate: the request comes from a page in a browser; set `jobs.tokens_file` and send a token",
        )),
        (Ok(None), _) => Ok(Caller::local()),
    }
}
