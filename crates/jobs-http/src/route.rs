//! A line of a table of endpoints.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::Method;

use super::Api;
use super::job_call::JobCall;
use delaybridge_http_server::openapi::operation::Operation;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_http_server::router::Endpoint;

/// The answer of a handler.
pub type Answer = BoxFuture<'static, Result<Reply, Problem>>;

/// One endpoint.
pub struct ApiRoute {
    /// The method; `HEAD` goes where `GET` does.
    pub method: Method,
    /// The path, with `{names}`.
    pub path: &'static str,
    /// The name: the label in metrics, the operation in the OpenAPI document.
    pub name: &'static str,
    /// Whose API it belongs to.
    pub dialect: ApiDialect,
    /// Whether it needs no token.
    pub open: bool,
    /// The description, of an endpoint of our own API.
    pub operation: Option<Operation>,
    /// The function that answers.
    pub handler: fn(Arc<Api>, JobCall) -> Answer,
}

impl Endpoint for ApiRoute {
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
pub enum ApiDialect {
    /// Our own.
    Own,
    /// That of lmstfy.
    Lmstfy,
    /// That of ouqiang/delay-queue.
    Ouqiang,
}

impl ApiDialect {
    /// Returns whether a token may be in the query.
    pub fn takes_token_in_query(self) -> bool {
        match self {
            // There `token` is the proof of a reservation.
            ApiDialect::Own => false,
            ApiDialect::Lmstfy | ApiDialect::Ouqiang => true,
        }
    }

    /// Returns whether an endpoint serves all methods.
    pub fn ignores_methods(self) -> bool {
        self == ApiDialect::Ouqiang
    }
}

macro_rules! routes {
    ($dialect:expr; $($method:ident $path:literal $name:ident $($open:ident)? => $handler:path $(, $operation:expr)?;)*) => {
        &[$(ApiRoute {
            method: Method::$method,
            path: $path,
            name: stringify!($name),
            dialect: $dialect,
            open: routes!(@open $($open)?),
            operation: routes!(@operation $($operation)?),
            handler: |api, call| Box::pin($handler(api, call)),
        },)*]
    };
    (@open open) => { true };
    (@open) => { false };
    (@operation $operation:expr) => { Some($operation) };
    (@operation) => { None };
}
pub(super) use routes;
