//! The options of a link.

use std::sync::Arc;
use std::time::Duration;

use super::script::Script;
use delaybridge_dial::ReadBudget;

/// The options of a link.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// The name that `CLIENT LIST` shows.
    pub client_name: String,
    /// Scripts that are loaded at every connect, so that a pipeline of `EVALSHA`s finds them.
    pub scripts: Vec<Script>,
    /// Interval between two heartbeats of an idle connection.
    pub heartbeat: Duration,
    /// Time after a large element at which an idle connection is replaced: the client library keeps buffers as large as they were.
    pub keeps_buffers: Duration,
    /// Whether no reply has elements in it, as those of a server that only confirms: larger ones end the connection.
    pub small_replies: bool,
    /// The budget of all connections that are made with these options, while replies are small.
    pub reads: Arc<ReadBudget>,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions {
            client_name: "delaybridge".to_owned(),
            scripts: Vec::new(),
            heartbeat: Duration::from_secs(1),
            keeps_buffers: Duration::from_secs(10),
            small_replies: false,
            reads: ReadBudget::new(ReadBudget::ANSWERS),
        }
    }
}
