//! The record of the flaky tests of a run, which the next run reads.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::verdict::{Flaky, Once, Verdict};

/// The flaky tests of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The commit that was tested, with `+` after it if files had changed since.
    commit: String,
    flaky: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    test: String,
    failed: Try,
    passed: Try,
}

#[derive(Debug, Serialize, Deserialize)]
struct Try {
    seconds: f64,
    load: String,
}

impl Record {
    /// The record of a run.
    pub fn of(verdict: &Verdict) -> Record {
        let attempt = |once: &Once| Try { seconds: once.seconds, load: once.load.clone() };
        let entry = |flaky: &Flaky| Entry {
            test: flaky.test.clone(),
            failed: attempt(&flaky.first),
            passed: attempt(&flaky.second),
        };
        Record { commit: commit(), flaky: verdict.flaky.iter().map(entry).collect() }
    }

    /// Reads the record of the last run; an empty one if there is none, or none that can be read.
    pub fn read(path: &Path) -> Record {
        fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Replaces the record of the last run.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(path, text + "\n").map_err(|error| format!("write {}: {error}", path.display()))
    }

    /// Whether the test was flaky in that run.
    pub fn names(&self, test: &str) -> bool {
        self.flaky.iter().any(|entry| entry.test == test)
    }
}

/// The commit of the checkout.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|files| !files.is_empty());
    git(&["rev-parse", "HEAD"]).unwrap_or_default() + if changed { "+" } else { "" }
}
