//! What requests about elements name.

use super::errors::problem;
use crate::Admin;
use delaybridge_http_server::problem::Problem;
pub use delaybridge_ops::operations::SHOWN;
use delaybridge_ops::{Queue, check_id, dead};

impl Admin {
    /// Refuses a text that can be no id of the queue.
    ///
    /// # Errors
    /// It can be none.
    pub fn known_id(&self, queue: &Queue, id: &str) -> Result<(), Problem> {
        if dead::is_place(id) {
            return Ok(());
        }
        check_id(&self.session().config, queue.id(), id).map_err(|error| problem(&error))
    }
}
