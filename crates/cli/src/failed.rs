//! How a command fails: its exit code and its message.

use std::io;

use delaybridge_ops::ErrorKind;

/// A command that did not do what it was asked: the exit code and the message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    /// The exit code.
    pub code: u8,
    /// The attempt, the failure, and what to do.
    pub message: String,
}

impl Failed {
    /// Exit code 1: it failed while running.
    pub(super) fn runtime(message: impl Into<String>) -> Self {
        Failed { code: 1, message: message.into() }
    }

    /// Exit code 2: the arguments or the configuration are wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Failed { code: 2, message: message.into() }
    }
}

impl From<delaybridge_ops::Error> for Failed {
    fn from(error: delaybridge_ops::Error) -> Self {
        let code = if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unknown) { 2 } else { 1 };
        Failed { code, message: error.message }
    }
}

impl From<io::Error> for Failed {
    /// Returns an error of the output; a pipe that was closed early (`head`) is no failure.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failed { code: 0, message: String::new() },
            _ => Failed::runtime(format!("write the result: {error}")),
        }
    }
}
