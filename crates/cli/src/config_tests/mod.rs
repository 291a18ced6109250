//! Tests of a configuration: the daemon's decisions about elements, found out without any server.
//!
//! A file of cases ([`file`]) names elements and what is expected of them ([`case`]). Each element ([`element`]) takes the way that the daemon
//! takes with one that it claimed: the source opens it, the codec decodes it, the templates are filled, the judge gives its verdict
//! ([`decide`]). Those are the daemon's own functions. What differs from the expectation is the result ([`compare`]).

mod case;
mod compare;
mod decide;
mod element;
mod file;
mod keys;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use self::case::{Case, Expected, ExpectedBody, ExpectedMessage, ExpectedVerdict, Failing};
pub use self::compare::Mismatch;
pub use self::element::Given;
pub use self::file::{Suite, read};

/// The result of one case.
#[derive(Debug, Clone, Serialize)]
pub struct CaseResult {
    /// The file.
    pub file: String,
    /// The line on which the case begins.
    pub line: u64,
    /// The case.
    pub name: String,
    /// The queue.
    pub queue: String,
    /// Whether everything is as expected.
    pub ok: bool,
    /// Everything that is not as expected.
    pub differences: Vec<Mismatch>,
}

impl Suite {
    /// Decides every case, in the order of the file.
    pub fn run(&self) -> Vec<CaseResult> {
        let outcome = |case: &Case| {
            let differences = compare::compare(case, &decide::decide(case));
            let file = self.file.clone();
            let name = case.name.clone();
            let queue = case.queue.id.to_string();
            CaseResult { file, line: case.line, name, queue, ok: differences.is_empty(), differences }
        };
        self.cases.iter().map(outcome).collect()
    }
}
