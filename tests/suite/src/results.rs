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

/// The load of the machine: the average number of runnable processes over the last minute, as Linux counts it; `-` where it cannot be read.
pub fn load_now() -> String {
    std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| first_word(&text)).unwrap_or_else(|| "-".to_owned())
}

fn first_word(text: &str) -> Option<String> {
    text.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_last_minute() {
        assert_eq!(first_word("2.50 1.75 0.75 3/321 4711\n").as_deref(), Some("2.50"));
        assert_eq!(first_word(""), None);
    }
}
