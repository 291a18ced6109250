//! Every server version that is supported, in the places where they differ: the words of their errors, the scripts, and
//! what managed services switch off.

mod errors;
mod managed;
mod matrix;
mod waitaof;

use std::time::Duration;

use futures_util::future::join_all;

use crate::harness::servers::{ALL, Version};

/// Long enough for a machine that runs all other tests at the same time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the same with each version, all at once.
async fn on_each(run: impl AsyncFn(Version)) {
    join_all(ALL.into_iter().map(|version| run(version))).await;
}
