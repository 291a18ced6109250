//! Every supported server version, where they differ: the texts of their errors, the scripts, and the commands that
//! managed services disable.

mod errors;
mod managed;
mod matrix;
mod waitaof;

use std::time::Duration;

use futures_util::future::join_all;

use harness::servers::{ALL, Version};

/// Time-out on a machine that runs all other tests at the same time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the same with each version, concurrently.
async fn on_each(run: impl AsyncFn(Version)) {
    join_all(ALL.into_iter().map(|version| run(version))).await;
}
