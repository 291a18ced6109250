//! The options of commands that may ask a running daemon in place of Redis.

use std::path::PathBuf;

use clap::Args;

use super::failed::Failed;
use super::global::Global;
use super::load::load_queues;
use super::person::actor;
use delaybridge_ops::remote::Daemon;
use delaybridge_ops::{NamedDaemon, Operator, OverRedis};

/// A running daemon.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// Ask this daemon's admin API instead of Redis: http://HOST:PORT, or unix:PATH; no configuration is read
    #[arg(long = "daemon", value_name = "URL", env = "DELAYBRIDGE_DAEMON")]
    pub url: Option<String>,
    /// File with the token for it, or for the daemon that the configuration names (http.admin)
    #[arg(long, value_name = "FILE", env = "DELAYBRIDGE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
}

impl DaemonArgs {
    /// The daemon, if one was named, else the Redis of the configuration; what only reads asks the daemon that it names as well.
    pub(super) fn operator(&self, global: &Global) -> Result<Box<dyn Operator>, Failed> {
        Ok(match &self.url {
            Some(url) => Box::new(Daemon::at(url, self.token_file.as_deref())?),
            None => {
                let config = load_queues(global)?;
                let daemon = NamedDaemon::of(&config, self.token_file.as_deref())?;
                Box::new(OverRedis::new(config, actor(), daemon))
            }
        })
    }
}
