//! The results of jobs and of their tests.

use crate::events::Test;
use crate::job::Job;

/// The results of a job.
#[derive(Debug)]
pub struct Ran {
    pub job: Job,
    pub tests: Vec<Attempt>,
    /// Why the program ended before it had run all of its tests.
    pub broken: Option<String>,
    pub seconds: f64,
}

/// A test that has ended, with the load of the machine at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub test: Test,
    pub load: String,
}

/// The name of a test in reports: its program and its path.
pub fn full_name(job: &Job, test: &str) -> String {
    format!("{} {test}", job.name)
}
