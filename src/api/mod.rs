//! The job queue over HTTP: our own API, and two APIs of others on the same jobs.
//!
//! ```text
//! connection -> dispatch -> access -> handler -> JobQueue
//! server.rs     route       token     v1/ ...    crates/jobs
//! ```
//!
//! A request comes in on a bounded [`server`], is matched with the one table of [`routes`], gets its caller from
//! [`access`], and is answered by a handler that has one call on the queue to make. What is wrong becomes a
//! [`problem`]. The OpenAPI document is made from the same table ([`openapi`]).
//!
//! Nothing is repeated here: whether a call may have taken effect the client has to know, and the answer says it.

pub mod access;
pub mod call;
pub mod config;
pub mod dispatch;
pub mod feed;
pub mod fields;
pub mod file;
mod gzip;
pub mod handover;
pub mod listener;
mod lmstfy;
pub mod named;
pub mod openapi;
pub mod origin;
mod ouqiang;
pub mod places;
pub mod problem;
pub mod put;
pub mod rates;
pub mod reply;
pub mod room;
mod routes;
pub mod server;
mod stream;
mod take;
pub mod tls;
mod v1;

use std::path::PathBuf;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio_util::sync::CancellationToken;

use self::access::Tokens;
use self::dispatch::{Connection, Router};
use self::file::Reread;
use self::handover::ReplyBody;
use self::rates::Rates;
use self::room::{Memory, Who};
use self::routes::Route;
use self::server::Served;
use crate::jobs::{Dispenser, JobQueue, TokenLimits};
use crate::model::{ApiSpec, Face, RequestRate};
use crate::settings::problem::ConfigErrors;
use crate::telemetry::events::api::ApiEvents;

/// What all requests share.
pub struct Api {
    queue: JobQueue,
    dispenser: Dispenser,
    access: Access,
    memory: Memory,
    max_connections: usize,
    /// Most topics that a token may add to before it makes no further ones.
    max_topics_per_token: Option<u64>,
    /// How often a token may ask, or an address where there is none.
    max_rate: Option<RequestRate>,
    /// Requests by token and address.
    requests: Rates<Who>,
    /// Requests by the hash of a token with limits of its own, and these limits: changed ones count anew.
    uses: Rates<(Arc<str>, TokenLimits, lmstfy::tokens::Use)>,
    router: Router<Route>,
    faces: Vec<Face>,
    /// Whether clients on the same machine need no token although there is a file of them.
    trusts_the_machine: bool,
    /// Tokens of lmstfy that were looked up lately.
    known: lmstfy::tokens::Known,
    events: ApiEvents,
    /// The daemon stops: nothing is popped any more, long polls end.
    stopping: CancellationToken,
}

impl Api {
    /// On this queue, until `stopping`.
    ///
    /// # Errors
    /// Everything that is wrong with the tokens file.
    pub fn new(
        spec: &ApiSpec,
        (queue, dispenser): (JobQueue, Dispenser),
        memory: Memory,
        events: ApiEvents,
        stopping: CancellationToken,
    ) -> Result<Api, ConfigErrors> {
        Ok(Api {
            queue,
            dispenser,
            access: Access::new(spec.tokens_file.clone())?,
            memory,
            max_connections: spec.max_connections,
            max_topics_per_token: spec.max_topics_per_token,
            max_rate: spec.max_rate,
            requests: Rates::default(),
            uses: Rates::default(),
            router: Router::new(routes::of(spec)),
            faces: spec.faces.clone(),
            trusts_the_machine: spec.trusts_the_machine(),
            known: Default::default(),
            events,
            stopping,
        })
    }

    /// Number of tokens, if there is a file of them.
    pub fn tokens(&self) -> Option<usize> {
        self.access.tokens(&self.events).map(|tokens| tokens.count())
    }
}

impl Served for Api {
    type Body = ReplyBody;

    async fn respond(self: Arc<Self>, connection: Connection, request: Request<Incoming>) -> Response<ReplyBody> {
        dispatch::respond(self, connection, request).await
    }

    fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    fn max_connections(&self) -> usize {
        self.max_connections
    }

    fn events(&self) -> &ApiEvents {
        &self.events
    }
}

/// The tokens file, if there is one.
struct Access(Option<Reread<Tokens, ConfigErrors>>);

impl Access {
    fn new(file: Option<PathBuf>) -> Result<Access, ConfigErrors> {
        file.map(|file| Reread::new(file, Tokens::read)).transpose().map(Access)
    }

    /// The tokens that are valid now; `None` without a file.
    fn tokens(&self, events: &ApiEvents) -> Option<Arc<Tokens>> {
        let news = |read: Result<&Tokens, &ConfigErrors>| match read {
            Ok(tokens) => events.tokens_read(tokens.count()),
            Err(errors) => events.tokens_refused(&errors.to_string()),
        };
        self.0.as_ref().map(|file| file.get(news))
    }
}

#[cfg(test)]
pub(crate) mod tests;
