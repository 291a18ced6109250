//! A line of a table of endpoints.

use super::Api;
use super::access::Caller;
use delaybridge_http_server::route::Route;

/// One endpoint.
pub type ApiRoute = Route<Api, Caller, ApiRule>;

/// The rule about who may call an endpoint, and how.
pub struct ApiRule {
    /// Whose API it belongs to.
    pub dialect: ApiDialect,
    /// Whether it needs no token.
    pub open: bool,
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
    pub const fn ignores_methods(self) -> bool {
        matches!(self, ApiDialect::Ouqiang)
    }
}

macro_rules! routes {
    ($dialect:expr; $($method:ident $path:literal $name:ident $($open:ident)? => $handler:path $(, $operation:expr)?;)*) => {
        &[$(ApiRoute {
            method: Method::$method,
            any_method: $dialect.ignores_methods(),
            path: $path,
            name: stringify!($name),
            label: stringify!($name),
            rule: ApiRule { dialect: $dialect, open: routes!(@open $($open)?) },
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
