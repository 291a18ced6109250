//! The job queue over HTTP: our own API, and two APIs of others on the same jobs.
//!
//! ```text
//! connection -> dispatch -> access -> handler -> JobQueue
//! server.rs     route       token     v1/ ...    src/jobs
//! ```
//!
//! A request comes in on a bounded [`server`], is matched with the one table of [`routes`], gets its caller from
//! [`access`], and is answered by a handler that has one call on the queue to make. What is wrong becomes a
//! [`problem`]. The OpenAPI document is made from the same table ([`openapi`]).
//!
//! Nothing is repeated here: whether a call may have taken effect the client has to know, and the answer says it.

pub mod access;
mod call;
pub mod config;
mod dispatch;
mod fields;
mod file;
mod gzip;
mod handover;
mod lmstfy;
pub mod openapi;
mod ouqiang;
mod problem;
mod reply;
mod routes;
pub mod server;
mod stream;
mod take;
pub mod tls;
mod v1;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use self::access::Tokens;
use self::call::Memory;
use self::config::{ApiSpec, Compat};
use self::dispatch::Router;
use self::file::Stamps;
use crate::jobs::{Dispenser, JobQueue};
use crate::settings::problem::ConfigErrors;
use crate::telemetry::events::api::ApiEvents;

/// What all requests share.
pub struct Api {
    queue: JobQueue,
    dispenser: Dispenser,
    access: Access,
    memory: Memory,
    max_connections: usize,
    router: Router,
    compat: Vec<Compat>,
    /// Tokens of lmstfy that were looked up lately.
    known: lmstfy::tokens::Known,
    /// Topics of ouqiang's jobs.
    seen: ouqiang::Seen,
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
        events: ApiEvents,
        stopping: CancellationToken,
    ) -> Result<Api, ConfigErrors> {
        Ok(Api {
            queue,
            dispenser,
            access: Access::new(spec.tokens_file.clone())?,
            memory: Memory::new(spec.max_body),
            max_connections: spec.max_connections,
            router: Router::new(routes::of(spec)),
            compat: spec.compat.clone(),
            known: Default::default(),
            seen: Default::default(),
            events,
            stopping,
        })
    }

    /// Number of tokens, if there is a file of them.
    pub fn tokens(&self) -> Option<usize> {
        self.access.tokens(&self.events).map(|tokens| tokens.count())
    }

    /// What happens is reported here.
    pub fn events(&self) -> &ApiEvents {
        &self.events
    }
}

/// The tokens file, read again when it changes.
struct Access {
    file: Option<[PathBuf; 1]>,
    current: Mutex<(Stamps, Arc<Tokens>)>,
}

impl Access {
    fn new(file: Option<PathBuf>) -> Result<Access, ConfigErrors> {
        let file = file.map(|file| [file]);
        // Looked at before it is read: a change in between is seen as one.
        let stamps = Stamps::of(file.as_ref().map_or(&[], |file| file));
        let tokens = file.as_ref().map(|[file]| Tokens::read(file)).transpose()?.unwrap_or_default();
        Ok(Access { file, current: Mutex::new((stamps, Arc::new(tokens))) })
    }

    /// The tokens that are valid now; `None` without a file. A file that cannot be used leaves those of before.
    fn tokens(&self, events: &ApiEvents) -> Option<Arc<Tokens>> {
        let files = self.file.as_ref()?;
        let mut current = self.current.lock();
        if current.0.changed(files) {
            match Tokens::read(&files[0]) {
                Ok(tokens) => {
                    events.tokens_read(tokens.count());
                    current.1 = Arc::new(tokens);
                }
                Err(errors) => events.tokens_refused(&errors.to_string()),
            }
        }
        Some(current.1.clone())
    }
}

#[cfg(test)]
mod tests;
