//! What requests about elements name.

use super::errors::problem;
use crate::Admin;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_ops::dead::FieldIs;
pub use delaybridge_ops::operations::SHOWN;
use delaybridge_ops::{Queue, check_id, dead};

/// The text itself is not quoted: it has a value of a payload in it.
pub fn read_field(text: &str) -> Result<FieldIs, Problem> {
    text.parse().map_err(|problem| Problem::bad(format!("read `field`: {problem}")))
}

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
