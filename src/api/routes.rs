//! The one table of endpoints: requests are matched with it, metrics are named by it, the OpenAPI document is made of it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::Method;

use super::Api;
use super::access::Caller;
use super::call::Call;
use super::dispatch::{Endpoint, allow};
use super::problem::{Kind, Problem};
use super::reply::Reply;
use super::{lmstfy, ouqiang, v1};
use crate::model::{ApiSpec, Face};

/// What a handler answers.
pub type Answer = BoxFuture<'static, Result<Reply, Problem>>;

/// One endpoint.
pub struct Route {
    /// Its method; `HEAD` goes where `GET` does.
    pub method: Method,
    /// Its path, with `{names}`.
    pub path: &'static str,
    /// Its name: the label in metrics, the operation in the OpenAPI document.
    pub name: &'static str,
    /// Whose API it belongs to.
    pub dialect: Dialect,
    /// Whether it needs no token.
    pub open: bool,
    /// What answers.
    pub handler: fn(Arc<Api>, Call) -> Answer,
}

impl Endpoint for Route {
    fn method(&self) -> &Method {
        &self.method
    }

    fn path(&self) -> &'static str {
        self.path
    }

    fn ignores_methods(&self) -> bool {
        self.dialect.ignores_methods()
    }
}

/// Whose API an endpoint belongs to: that decides the shape of problems, and where a token may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Our own.
    Own,
    /// That of lmstfy.
    Lmstfy,
    /// That of ouqiang/delay-queue.
    Ouqiang,
}

impl Dialect {
    /// Of a path that no route has, where these APIs are served.
    pub fn of_path(faces: &[Face], path: &str) -> Dialect {
        let lmstfy = path.starts_with("/api/") || path.starts_with("/token/") || path == "/info";
        let serves = faces.contains(&Face::Lmstfy) || faces.contains(&Face::LmstfyAdmin);
        if serves && (lmstfy || !faces.contains(&Face::Own)) { Dialect::Lmstfy } else { Dialect::Own }
    }

    /// A problem, as clients of this API expect it.
    pub fn reply(self, problem: Problem) -> Reply {
        match self {
            Dialect::Own => allow(Reply::from(problem.clone()), &problem),
            Dialect::Lmstfy => lmstfy::reply(&problem),
            Dialect::Ouqiang => ouqiang::reply(&problem),
        }
    }

    /// Whether a token may be in the query.
    pub fn takes_token_in_query(self) -> bool {
        match self {
            // There `token` is the proof of a reservation.
            Dialect::Own => false,
            Dialect::Lmstfy | Dialect::Ouqiang => true,
        }
    }

    /// Whether an endpoint serves all methods.
    pub fn ignores_methods(self) -> bool {
        self == Dialect::Ouqiang
    }

    /// What a client hears that sent no token.
    pub fn no_token(self) -> Problem {
        let detail = match self {
            Dialect::Own | Dialect::Ouqiang => "authenticate: there is no token; send `Authorization: Bearer TOKEN`",
            Dialect::Lmstfy => "token not found",
        };
        Problem::new(Kind::Unauthorized, detail)
    }

    /// The owner of a token that is not in the file.
    ///
    /// # Errors
    /// There is none.
    pub async fn owner(self, api: &Api, token: &str, call: &Call) -> Result<Caller, Problem> {
        match self {
            Dialect::Own | Dialect::Ouqiang => Err(Problem::new(
                Kind::Unauthorized,
                "authenticate: the token is not known; is its SHA-256 in `jobs.tokens_file`?",
            )),
            Dialect::Lmstfy => lmstfy::tokens::owner(api, token, call).await,
        }
    }
}

macro_rules! routes {
    ($dialect:expr; $($method:ident $path:literal $name:ident $($open:ident)? => $handler:path;)*) => {
        &[$(Route {
            method: Method::$method,
            path: $path,
            name: stringify!($name),
            dialect: $dialect,
            open: routes!(@open $($open)?),
            handler: |api, call| Box::pin($handler(api, call)),
        },)*]
    };
    (@open open) => { true };
    (@open) => { false };
}
pub(super) use routes;

/// Our own API.
pub static OWN: &[Route] = routes! { Dialect::Own;
    GET "/v1/openapi.json" openapi open => v1::meta::openapi;
    GET "/v1/openapi-3.0.json" openapi_3_0 open => v1::meta::openapi_3_0;
    POST "/v1/topics/{topic}/jobs" add => v1::add::one;
    POST "/v1/topics/{topic}/jobs/batch" add_batch => v1::add::batch;
    GET "/v1/topics/{topic}/jobs" peek => v1::topics::peek;
    POST "/v1/topics/{topic}/pop" pop => v1::pop::pop;
    PUT "/v1/jobs/{id}/finish" finish => v1::settle::finish;
    PUT "/v1/jobs/{id}/release" release => v1::settle::release;
    PUT "/v1/jobs/{id}/touch" touch => v1::settle::touch;
    PUT "/v1/jobs/{id}/bury" bury => v1::settle::bury;
    GET "/v1/jobs/{id}" get => v1::jobs::get;
    DELETE "/v1/jobs/{id}" delete => v1::jobs::delete;
    GET "/v1/topics" topics => v1::topics::list;
    GET "/v1/topics/{topic}" topic => v1::topics::get;
    PUT "/v1/topics/{topic}/pause" pause => v1::topics::pause;
    PUT "/v1/topics/{topic}/resume" resume => v1::topics::resume;
    GET "/v1/topics/{topic}/limits" limits => v1::limits::get;
    PUT "/v1/topics/{topic}/limits" set_limits => v1::limits::set;
    GET "/v1/topics/{topic}/dead" dead => v1::dead::list;
    POST "/v1/topics/{topic}/dead/redrive" redrive => v1::dead::redrive;
    POST "/v1/topics/{topic}/dead/purge" purge => v1::dead::purge;
};

/// The same jobs, by topic and id apart: what a path has that a client makes of both.
pub static BY_TOPIC: &[Route] = routes! { Dialect::Own;
    PUT "/v1/jobs/{topic}/{id}/finish" finish => v1::settle::finish;
    PUT "/v1/jobs/{topic}/{id}/release" release => v1::settle::release;
    PUT "/v1/jobs/{topic}/{id}/touch" touch => v1::settle::touch;
    PUT "/v1/jobs/{topic}/{id}/bury" bury => v1::settle::bury;
    GET "/v1/jobs/{topic}/{id}" get => v1::jobs::get;
    DELETE "/v1/jobs/{topic}/{id}" delete => v1::jobs::delete;
};

/// The endpoints of a listener.
pub fn of(spec: &ApiSpec) -> impl Iterator<Item = &'static Route> + use<> {
    let tables = spec.faces.iter().flat_map(|face| match face {
        Face::Own => vec![OWN, BY_TOPIC],
        Face::Lmstfy => vec![lmstfy::ROUTES],
        Face::LmstfyAdmin => vec![lmstfy::ADMIN],
        Face::Ouqiang => vec![ouqiang::ROUTES],
    });
    tables.collect::<Vec<_>>().into_iter().flatten()
}
