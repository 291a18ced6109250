//! The result, statement by statement.

use std::fmt::Write;

use serde::Serialize;

use crate::statements::{STATEMENTS, Statement};

/// The result for one statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Verdict {
    /// The statement held in every check.
    Pass,
    /// The statement did not hold.
    Fail {
        /// The observation, and the expectation.
        seen: String,
    },
    /// The producer does not have what it is about.
    NotOffered,
    /// The statement was not checked.
    NotChecked {
        /// Why.
        why: String,
    },
}

impl Default for Verdict {
    fn default() -> Verdict {
        Verdict::NotChecked { why: "no check came as far".to_owned() }
    }
}

/// One statement and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The number in the specification.
    pub statement: &'static str,
    /// The statement, in short.
    pub says: &'static str,
    /// The result.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The name that the producer gives itself.
    pub producer: String,
    /// The layout that it says it writes.
    pub layout: String,
    /// The seed of this run's random values.
    pub seed: u64,
    /// Whether no statement failed.
    pub conforms: bool,
    /// All statements, in the order of the specification.
    pub statements: Vec<Line>,
}

impl Report {
    /// Returns the report for a person.
    pub fn text(&self) -> String {
        let mut text = format!("{} (layout: {}, seed {})\n", self.producer, self.layout, self.seed);
        let mut counts = [0_usize; 4];
        for line in &self.statements {
            let (place, word) = match line.verdict {
                Verdict::Pass => (0, "pass"),
                Verdict::Fail { .. } => (1, "FAIL"),
                Verdict::NotOffered => (2, "not offered"),
                Verdict::NotChecked { .. } => (3, "not checked"),
            };
            counts[place] += 1;
            let _ = writeln!(text, "{:<5}{word:<13}{}", line.statement, line.says);
            match &line.verdict {
                Verdict::Fail { seen: why } | Verdict::NotChecked { why } => {
                    let _ = writeln!(text, "{:18}{why}", "");
                }
                Verdict::Pass | Verdict::NotOffered => {}
            }
        }
        let [pass, fail, not_offered, not_checked] = counts;
        let word = if self.conforms { "conforms" } else { "does NOT conform" };
        let _ = writeln!(
            text,
            "{word}: {pass} passed, {fail} failed, {not_offered} not offered, {not_checked} not checked"
        );
        text
    }
}

/// The statements alone, without a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// All, in the order of the specification.
    pub statements: &'static [Statement],
}

/// The statements alone.
pub const LISTING: Listing = Listing { statements: STATEMENTS };

impl Listing {
    /// Returns the statements for a person.
    pub fn text(&self) -> String {
        self.statements.iter().fold(String::new(), |mut text, statement| {
            let _ = writeln!(text, "{:<5}{}", statement.number, statement.says);
            text
        })
    }
}
