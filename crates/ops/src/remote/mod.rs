//! A running daemon, asked over its admin API.

mod client;

use serde_json::Value;

pub use self::client::Daemon;
use self::client::part;
use super::error::Error;
use super::overview::{Hold, QueueRow};

impl Daemon {
    /// Reads the settings that run, without secrets.
    ///
    /// # Errors
    ///
    /// When the daemon does not answer, or wants a token.
    pub async fn config(&self) -> Result<Value, Error> {
        self.get("/v1/config").await
    }

    /// Reads one queue.
    pub(super) async fn row(&self, queue: &str) -> Result<QueueRow, Error> {
        self.get(&format!("/v1/queues/{}", part(queue))).await
    }

    /// Reads why the daemon claims nothing from a queue, if it does not.
    pub(super) async fn hold(&self, queue: &str) -> Result<Option<Hold>, Error> {
        Ok(self.row(queue).await?.here.and_then(|here| here.held))
    }
}
