//! Whether a run is green, from the results of its tests.

use crate::events::{Outcome, Test};
use crate::results::{Attempt, Ran, full_name, load_now};

/// The number of flaky tests that a green run may have.
const MOST_FLAKY: usize = 3;

/// The verdict on a run.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The tests that failed.
    pub failed: Vec<Failure>,
    /// The tests that failed first and then passed.
    pub flaky: Vec<Flaky>,
    /// The flaky tests that were flaky in the run before as well.
    pub repeated: Vec<String>,
}

/// A test that failed, with its one or two attempts.
#[derive(Debug)]
pub struct Failure {
    pub test: String,
    pub attempts: Vec<Once>,
}

/// A test that failed, and passed when it ran alone.
#[derive(Debug)]
pub struct Flaky {
    pub test: String,
    pub first: Once,
    pub second: Once,
}

/// One attempt at a test.
#[derive(Debug, Clone)]
pub struct Once {
    pub seconds: f64,
    pub load: String,
    pub output: String,
}

impl From<&Attempt> for Once {
    fn from(Attempt { test, load }: &Attempt) -> Once {
        Once { seconds: test.seconds, load: load.clone(), output: test.output.clone() }
    }
}

impl Verdict {
    /// Judges the results of a run and of the second attempts; `was_flaky` is whether a test was flaky in the run before.
    pub fn of(results: &[Ran], again: Vec<(String, Attempt)>, was_flaky: impl Fn(&str) -> bool) -> Verdict {
        let mut verdict = Verdict::default();
        for ran in results {
            for attempt in ran.tests.iter().filter(|attempt| attempt.test.outcome == Outcome::Failed) {
                let test = full_name(&ran.job, &attempt.test.name);
                let second = again.iter().find(|(name, _)| *name == test).map(|(_, attempt)| attempt);
                verdict.add(test, attempt, second);
            }
            if let Some(why) = &ran.broken {
                let once = Once { seconds: ran.seconds, load: load_now(), output: why.clone() };
                verdict.failed.push(Failure { test: ran.job.name.clone(), attempts: vec![once] });
            }
        }
        let names = verdict.flaky.iter().map(|flaky| flaky.test.clone());
        verdict.repeated = names.filter(|test| was_flaky(test)).collect();
        verdict
    }

    fn add(&mut self, test: String, first: &Attempt, second: Option<&Attempt>) {
        match second {
            Some(second @ Attempt { test: Test { outcome: Outcome::Passed, .. }, .. }) => {
                self.flaky.push(Flaky { test, first: first.into(), second: second.into() });
            }
            _ => {
                let attempts = [Some(first), second].into_iter().flatten().map(Once::from).collect();
                self.failed.push(Failure { test, attempts });
            }
        }
    }

    /// Whether the flaky tests alone make the run red, because there are too many.
    pub fn too_many_flaky(&self) -> bool {
        self.flaky.len() > MOST_FLAKY
    }

    /// Whether the run is green.
    pub fn is_green(&self) -> bool {
        self.failed.is_empty() && !self.too_many_flaky() && self.repeated.is_empty()
    }
}
