//! The weight of calls that keep Redis busy for long: batches of jobs, large bodies, pages of jobs, and what is done to many jobs at once.
//!
//! A batch is one script, because all of its jobs are added or none, and Redis does nothing else meanwhile: some milliseconds for a
//! thousand jobs, and as long for megabytes. Those of a caller with many connections would wait in Redis one behind the other, and
//! every other call behind all of them. So only as much as the largest batch is under way at a time, and of each caller one waits for
//! that: a small call waits for one script, and a large one for one of each other caller.

use delaybridge_http_server::turns::Turns;
use delaybridge_jobs::{MAX_BATCH, MAX_PAGE, NewJob};

/// Bytes that keep Redis busy for as long as a job does.
const BYTES_OF_A_JOB: usize = 4 << 10;
/// Weight of a call that needs no turn.
pub const LIGHT: usize = 16;
/// Weight of a call that reads one job, which may be large.
pub const READ: usize = 100;

/// Creates the turns of the job queue: the largest batch has the weight of all of them.
pub fn turns() -> Turns {
    Turns::new(MAX_BATCH, MAX_BATCH)
}

/// Returns the weight of a call that adds these jobs; `None` for one that needs no turn. A job alone goes together with
/// others of its topic.
pub fn weight(jobs: &[NewJob]) -> Option<usize> {
    let bytes: usize = jobs.iter().map(|job| job.body.len()).sum();
    let weight = (jobs.len() + weight_of(bytes)).min(MAX_BATCH);
    (jobs.len() > 1 || weight > LIGHT).then_some(weight)
}

/// Returns the weight of this many bytes on their way to Redis.
pub fn weight_of(bytes: usize) -> usize {
    (bytes / BYTES_OF_A_JOB).min(MAX_BATCH)
}

/// Returns the weight of a call that reads a page of this many jobs: the largest one is read alone.
pub fn page(limit: usize) -> usize {
    (limit * (MAX_BATCH / MAX_PAGE)).max(READ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_jobs_have_no_weight() {
        let job = |bytes: usize| NewJob::new(vec![b'x'; bytes]);
        assert_eq!((weight(&[job(60_000)]), weight(&[job(1), job(1)])), (None, Some(2)));
        assert_eq!((weight(&[job(1 << 20)]), weight(&[job(8 << 20)])), (Some(257), Some(MAX_BATCH)));
    }
}
