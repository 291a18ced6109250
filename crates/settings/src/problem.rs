//! Problems of a configuration file, with their places and corrections.
//!
//! Independent of keys and values. The creator of a problem keeps secrets out of it.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::Serialize;

/// A place in the file; both numbers count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

/// One error, or one warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Name of the file, as it was given.
    pub file: String,
    /// The place in the file; absent when the file could not be read.
    #[serde(flatten)]
    pub position: Option<Position>,
    /// Path of the key in the YAML (`queues.orders.to[0].sink`); empty for the file as a whole.
    pub path: String,
    /// The error.
    pub message: String,
    /// The correction.
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, "\n  {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  {help}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a file, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// Errors, which keep the daemon from starting.
    pub problems: Vec<Problem>,
    /// Warnings.
    pub warnings: Vec<Problem>,
    /// The number of problems that are files which are not there, and may be there later.
    pub absent: usize,
}

impl ConfigErrors {
    /// Returns whether nothing is wrong but that files are not there, which a volume that is mounted late brings.
    pub fn may_pass(&self) -> bool {
        self.absent > 0 && self.absent == self.problems.len()
    }
}

/// Problems that are shown. What is wrong in a generated file is often wrong in each of thousands of queues.
const SHOWN: usize = 50;

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.problems.iter().take(SHOWN) {
            writeln!(f, "{problem}\n")?;
        }
        match self.problems.len() {
            1 => f.write_str("1 problem in the configuration"),
            count if count > SHOWN => write!(f, "{count} problems in the configuration; the first {SHOWN} are shown"),
            count => write!(f, "{count} problems in the configuration"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// A place in the file together with its path in the YAML, for problems.
#[derive(Clone, Debug, Default)]
pub struct Spot {
    /// The place in the file.
    pub at: Position,
    /// The path, such as `queues.orders.to[0]`.
    pub path: String,
}

impl Spot {
    /// Returns the place of a key below this one.
    pub fn key(&self, name: &str, at: Position) -> Spot {
        let path = if self.path.is_empty() { name.to_owned() } else { [&*self.path, ".", name].concat() };
        Spot { at, path }
    }

    /// Returns the place of an item of the list at this key.
    pub fn item(&self, index: usize, at: Position) -> Spot {
        Spot { at, path: format!("{}[{index}]", self.path) }
    }
}

/// Collects problems while the rest of the file is still being read.
pub struct Report {
    file: String,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
    absent: Cell<usize>,
}

impl Report {
    /// Creates a report without problems about this file.
    pub fn new(file: &str) -> Self {
        Report {
            file: file.to_owned(),
            problems: RefCell::default(),
            warnings: RefCell::default(),
            absent: Cell::new(0),
        }
    }

    fn make(&self, spot: &Spot, message: impl Into<String>, help: Option<String>) -> Problem {
        let position = Some(spot.at);
        let path = spot.path.clone();
        Problem { file: self.file.clone(), position, path, message: message.into(), help }
    }

    /// Adds an error, which keeps the daemon from starting.
    pub fn problem(&self, spot: &Spot, message: impl Into<String>, help: impl Into<String>) {
        self.problems.borrow_mut().push(self.make(spot, message, Some(help.into()).filter(|help| !help.is_empty())));
    }

    /// Adds the error that a file is not there, which may pass.
    pub fn absent(&self, spot: &Spot, message: impl Into<String>, help: impl Into<String>) {
        self.absent.set(self.absent.get().saturating_add(1));
        self.problem(spot, message, help);
    }

    /// Adds a warning.
    pub fn warning(&self, spot: &Spot, message: impl Into<String>, help: impl Into<String>) {
        self.warnings.borrow_mut().push(self.make(spot, message, Some(help.into())));
    }

    /// Adds an error of the file as a whole.
    pub fn of_file(&self, position: Option<Position>, message: impl Into<String>, help: Option<String>) {
        let file = self.file.clone();
        let path = String::new();
        self.problems.borrow_mut().push(Problem { file, position, path, message: message.into(), help });
    }

    /// Returns the value with its warnings if there is no error, else all problems.
    pub fn finish<T>(self, value: Option<T>) -> Result<(T, Vec<Problem>), ConfigErrors> {
        let mut problems = self.problems.into_inner();
        let mut warnings = self.warnings.into_inner();
        let absent = self.absent.get();
        // Stable: what points at one place keeps the order in which it was found.
        problems.sort_by_key(|problem| problem.position);
        warnings.sort_by_key(|warning| warning.position);
        match value {
            Some(value) if problems.is_empty() => Ok((value, warnings)),
            _ => Err(ConfigErrors { problems, warnings, absent }),
        }
    }
}
