//! One line on standard error that says how far it is; nothing where no person is watching.
//!
//! By hand: the usual library brings five others, for one line.

use std::io::{IsTerminal, Write, stderr};

/// Columns of the bar.
const WIDTH: usize = 30;

/// The line.
pub(super) struct Progress {
    watched: bool,
}

impl Progress {
    /// Creates a line that has not been written yet.
    pub(super) fn start() -> Self {
        Progress { watched: stderr().is_terminal() }
    }

    /// Shows how much of a step is done.
    pub(super) fn show(&self, step: &str, done: usize, of: usize) {
        if self.watched {
            // There is no way to report that standard error does not work.
            let _ = write!(stderr(), "\r\x1b[K{}", line(step, done, of));
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if self.watched {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(step: &str, done: usize, of: usize) -> String {
    let of = of.max(1);
    let full = (done.min(of) * WIDTH).div_euclid(of);
    let rest = WIDTH - full;
    format!("[{}{}] {:>3} % {step}", "#".repeat(full), ".".repeat(rest), done.min(of) * 100 / of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_and_stays_within_its_width() {
        for (done, of, hashes, percent) in [
            (0, 10, 0, "  0 %"),
            (5, 10, 15, " 50 %"),
            (10, 10, 30, "100 %"),
            (11, 10, 30, "100 %"),
            (0, 0, 0, "  0 %"),
        ] {
            let line = line("fill", done, of);
            assert_eq!((line.matches('#').count(), line.contains(percent)), (hashes, true), "{line}");
        }
    }
}
