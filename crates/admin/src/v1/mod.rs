//! The handlers of the API: one file for each kind of thing.

pub mod errors;
pub mod events;
pub mod history;
pub mod meta;
pub mod operation;

use std::sync::Arc;

use super::Admin;
use super::access::AdminCaller;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_ops::{Queue, find};

impl Admin {
    /// Returns the queue that the path names, with a connection to its server.
    pub async fn queue(self: &Arc<Self>, call: &Call<AdminCaller>) -> Result<Queue, Problem> {
        let session = self.session();
        let spec = find(&session.config, call.part("queue")).map_err(|error| errors::problem(&error))?;
        session.queue(spec).await.map_err(|error| errors::problem(&error))
    }
}
