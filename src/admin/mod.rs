//! What operators see of a running daemon, and what they may ask of it: an API under `/v1/`, and a web page.
//!
//! ```text
//! connection -> dispatch -> access -> v1/ ... or pages/ ... -> operate
//! api/server    routes      token     JSON       HTML          Redis
//! ```
//!
//! The listener, the reading of requests and the problems are those of the job queue's API ([`crate::api`]). Both the API and the
//! pages call the same functions and show the same values, so nothing is only on a page.
//!
//! Redis is asked over connections of their own: what an operator looks at does not wait in front of a claim. A look is kept for
//! a second ([`looks`]), so several people who watch cost as much as one. What changes something runs to its end even if its
//! client goes away, and is written to the log with the name of its token.

mod access;
mod changes;
mod dispatch;
mod failures;
mod forms;
mod looks;
pub mod openapi;
mod pages;
mod routes;
mod sessions;
mod v1;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::access::Access;
use self::looks::Looks;
use self::routes::{ROUTES, Route};
use crate::api::dispatch::{Connection, Router};
use crate::api::handover::ReplyBody;
use crate::api::room::Memory;
use crate::api::server::Served;
use crate::model::{AdminSpec, Config};
use crate::operate::Session;
use crate::reload::ReloadHandle;
use crate::telemetry::events::Events;
use crate::telemetry::events::admin::AdminEvents;
use crate::telemetry::events::api::ApiEvents;
use crate::telemetry::recent::{Recent, STEP};
use crate::telemetry::status::Status;
use crate::telemetry::tail::Tail;

/// What the daemon calls itself towards Redis where it asks for operators.
const CLIENT: &str = "delaybridge-admin";
/// Connections at once.
const CONNECTIONS: usize = 128;
/// Largest body of a request: forms and lists of ids.
const MAX_BODY: usize = 1 << 20;
/// Memory for large bodies together.
const ROOM: usize = 16 << 20;
/// How long changes under way may take once the daemon stops.
const GOODBYE: Duration = Duration::from_secs(2);

/// What all requests share.
pub struct Admin {
    /// Asks for reloads, and has the configuration that runs.
    reload: ReloadHandle,
    /// Connections to Redis, and the configuration that they are for.
    session: Mutex<(Arc<Config>, Arc<Session>)>,
    access: Access,
    router: Router<Route>,
    memory: Memory,
    looks: Looks,
    /// The board of the daemon.
    status: Status,
    /// What it did lately.
    recent: Recent,
    /// What becomes of single elements.
    tail: Tail,
    /// Changes under way.
    changes: TaskTracker,
    events: AdminEvents,
    stopping: CancellationToken,
}

impl Admin {
    /// For a daemon that runs what the handle says, until `stopping`.
    ///
    /// # Errors
    /// What is wrong with the file of tokens.
    pub fn new(
        spec: &AdminSpec,
        reload: ReloadHandle,
        events: &Events,
        stopping: CancellationToken,
    ) -> Result<Admin, String> {
        let config = reload.running();
        let session = Session::start((*config).clone(), CLIENT);
        Ok(Admin {
            reload,
            session: Mutex::new((config, Arc::new(session))),
            access: Access::new(spec)?,
            router: Router::new(ROUTES),
            memory: Memory::new(MAX_BODY, ROOM),
            looks: Looks::default(),
            status: events.status().clone(),
            recent: Recent::new(events.metrics().clone()),
            tail: events.tail().clone(),
            changes: TaskTracker::new(),
            events: events.admin(),
            stopping,
        })
    }

    /// Number of tokens, if there is a file of them.
    pub fn tokens(&self) -> Option<usize> {
        self.access.tokens(&self.events.api).map(|tokens| tokens.count())
    }

    /// The connections, with the configuration that runs now. Another one has the same Redis: that takes a restart.
    fn session(&self) -> Arc<Session> {
        let running = self.reload.running();
        let mut current = self.session.lock();
        if !Arc::ptr_eq(&current.0, &running) {
            let session = current.1.with((*running).clone());
            *current = (running, Arc::new(session));
            self.looks.forget();
        }
        current.1.clone()
    }

    /// Notes now and then what was delivered; at the end waits for the changes that are under way.
    pub async fn keep(self: Arc<Self>) {
        loop {
            // Order: the end goes first. A sample that is not taken is not missed.
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => break,
                () = tokio::time::sleep(STEP) => self.recent.sample(),
            }
        }
        self.changes.close();
        // What is left then ends with the process: each step of a change is whole, and the change may be repeated.
        let _ = tokio::time::timeout(GOODBYE, self.changes.wait()).await;
    }
}

impl Served for Admin {
    type Body = ReplyBody;

    async fn respond(self: Arc<Self>, connection: Connection, request: Request<Incoming>) -> Response<ReplyBody> {
        dispatch::respond(self, connection, request).await
    }

    fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    fn max_connections(&self) -> usize {
        CONNECTIONS
    }

    fn events(&self) -> &ApiEvents {
        &self.events.api
    }
}

#[cfg(test)]
mod tests;
