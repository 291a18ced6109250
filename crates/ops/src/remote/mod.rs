//! A running daemon, asked over its admin API.

mod client;

pub use self::client::Daemon;
use self::client::part;
use super::error::Error;
use super::overview::{Hold, QueueRow};

impl Daemon {
    pub(super) async fn row(&self, queue: &str) -> Result<QueueRow, Error> {
        self.get(&format!("/v1/queues/{}", part(queue))).await
    }

    /// Reads why the daemon claims nothing from a queue, if it does not.
    pub(super) async fn hold(&self, queue: &str) -> Result<Option<Hold>, Error> {
        Ok(self.row(queue).await?.here.and_then(|here| here.held))
    }
}
