//! The error of a server: a text for the reader of the test's output.

use std::fmt;
use std::io;

/// The text, with the end of the server's log where that helps.
///
/// `Debug` prints the same as `Display`, because `unwrap` shows it, and an escaped log cannot be read.
pub struct Error(String);

/// The result of the methods of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Error(text.into())
    }

    /// Adds the action during which the error happened.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        Error(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Adds the action to an error of the operating system, which never names the file.
pub(crate) trait During<T> {
    fn during(self, what: impl fmt::Display) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| Error(format!("{what}: {e}")))
    }
}
