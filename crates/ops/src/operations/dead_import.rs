//! The lines of an import: letters that an export has written become dead letters again.

use bytes::Bytes;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dead::import::{LetterLine, is_there, letter, put};
use crate::error::Error;
use crate::operation::{ChangeSubject, ChangeTarget, LINES, Operation, Route, Scene, route};
use crate::plural;
use crate::session::Queue;
use delaybridge_ledger::Import;

/// Bytes of lines that go into one request.
const BYTES: usize = 1 << 20;

fn first() -> u64 {
    1
}

/// Some lines of an import.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportDead {
    /// The queue's id in the configuration
    #[arg(skip)]
    #[schemars(skip)]
    pub queue: String,
    /// A number that no other import has: lines that are sent twice under it are stored once
    #[arg(skip)]
    pub run: u64,
    /// The number of the first line, in the import
    #[arg(skip)]
    #[serde(default = "first")]
    pub first: u64,
    /// Only read them
    #[arg(skip)]
    #[serde(default)]
    pub dry_run: bool,
    /// Whether a line that is no letter ends the request
    #[arg(skip)]
    #[serde(default)]
    pub stops: bool,
    /// The lines. Empty ones are passed over.
    #[arg(skip)]
    #[serde(skip)]
    pub lines: Vec<Bytes>,
}

/// The outcome of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineOutcome {
    /// An empty line.
    Empty,
    /// A letter that was stored, or would be.
    Imported,
    /// The same for a letter that this queue had before, and that is there no more.
    ImportedAgain,
    /// A letter that this queue has already.
    Known,
    /// No letter, with the reason.
    Broken(String),
}

/// The outcome of some lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ImportedLines", extend("additionalProperties" = true))]
pub struct LineReport {
    /// The queue.
    pub queue: String,
    /// The outcomes, in the order of the lines: fewer than lines if a line ended the request, or Redis failed.
    #[schemars(with = "Vec<Value>")]
    pub lines: Vec<LineOutcome>,
    /// The failure behind the last of them. The same lines may be sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Operation for ImportDead {
    type Answer = LineReport;

    const NAME: &'static str = "dead import";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/queues/{queue}/dead/import" import ToOperate,
        "Make dead letters of exported ones, one object a line" => "The outcome of each line",
        "At most 100 lines, and 1 MiB. Lines that are sent twice under the same `run` are stored once. `first` is the \
         number of the first line; `stops` ends the request at a line that is no letter.")];
    const HAS_LINES: bool = true;

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    async fn run(&self, scene: &Scene) -> Result<LineReport, Error> {
        let queue = scene.queue(&self.queue).await?;
        let mut report = LineReport { queue: self.queue.clone(), ..LineReport::default() };
        for (number, line) in (self.first..).zip(&self.lines) {
            match self.line(&queue, number, line).await {
                Ok(outcome) => {
                    let stops = self.stops && matches!(outcome, LineOutcome::Broken(_));
                    report.lines.push(outcome);
                    if stops {
                        break;
                    }
                }
                Err(error) => {
                    report.problem = Some(error.message);
                    break;
                }
            }
        }
        Ok(report)
    }

    fn change(&self) -> Option<ChangeSubject> {
        let last = self.first.saturating_add(self.lines.len() as u64).saturating_sub(1);
        let which = format!("lines {} to {last} of run {:016x}", self.first, self.run);
        (!self.dry_run).then(|| ChangeSubject { what: "import", of: ChangeTarget::Queue(self.queue.clone()), which })
    }

    fn result(report: &LineReport) -> String {
        let imported = |line: &&LineOutcome| matches!(line, LineOutcome::Imported | LineOutcome::ImportedAgain);
        let lines = plural::count(report.lines.len(), "line");
        format!("{} of {lines} imported", report.lines.iter().filter(imported).count())
    }

    fn portion(&self) -> ImportDead {
        let mut bytes = 0;
        let fits = |line: &&Bytes| {
            bytes += line.len() + 1;
            bytes <= BYTES
        };
        let most = self.lines.iter().take(LINES).take_while(fits).count().max(1);
        ImportDead { lines: self.lines.iter().take(most).cloned().collect(), ..self.clone() }
    }

    fn rest(&self, report: &LineReport) -> Option<ImportDead> {
        let done = report.lines.len();
        let lines = self.lines.get(done..).filter(|lines| !lines.is_empty() && report.problem.is_none() && done > 0)?;
        Some(ImportDead { first: self.first + done as u64, lines: lines.to_vec(), ..self.clone() })
    }

    fn lines(&mut self) -> Option<&mut Vec<Bytes>> {
        Some(&mut self.lines)
    }
}

impl ImportDead {
    async fn line(&self, queue: &Queue, line: u64, text: &Bytes) -> Result<LineOutcome, Error> {
        if text.trim_ascii().is_empty() {
            return Ok(LineOutcome::Empty);
        }
        let LetterLine { fields, was } = match letter(&queue.spec.id, text) {
            Ok(letter) => letter,
            Err(problem) => return Ok(LineOutcome::Broken(problem)),
        };
        if let Some(id) = &was
            && is_there(queue, id).await?
        {
            return Ok(LineOutcome::Known);
        }
        if !self.dry_run {
            put(queue, Import { run: self.run, line }, &fields).await?;
        }
        Ok(if was.is_some() { LineOutcome::ImportedAgain } else { LineOutcome::Imported })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_mebibyte_of_lines_and_one_in_any_case() {
        let line = |bytes: usize| Bytes::from(vec![b'x'; bytes]);
        let lines = vec![line(600_000), line(400_000), line(100_000), line(2 << 20), line(1)];
        let mut rest =
            Some(ImportDead { queue: "q".to_owned(), run: 7, first: 3, dry_run: false, stops: false, lines });
        let mut sizes = Vec::new();
        while let Some(request) = rest {
            let part = request.portion();
            sizes.push((part.first, part.lines.len()));
            let lines = vec![LineOutcome::Imported; part.lines.len()];
            rest = request.rest(&LineReport { lines, ..LineReport::default() });
        }
        assert_eq!(sizes, [(3, 2), (5, 1), (6, 1), (7, 1)]);
    }
}
