//! How far a long command is, on standard error: one line that changes where a person watches, else a line every ten seconds.
//! Ctrl-C ends the command between two steps, with exit code 130; pressed again, at once.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::interrupt::stop_on_signals;
use delaybridge_core::clock::Instant;
use delaybridge_ops::plural;
use delaybridge_ops::progress::{Progress, ProgressWatch};

/// Between two changes of the line on a terminal.
const REDRAW: Duration = Duration::from_millis(200);
/// Between two lines elsewhere.
const LINE: Duration = Duration::from_secs(10);

/// The line, and whether the command is to end.
pub(super) struct ProgressLine {
    what: &'static str,
    watched: bool,
    begun: Instant,
    shown: Option<Instant>,
    stopped: Arc<AtomicBool>,
}

impl ProgressLine {
    /// Nothing is shown yet. `what` is what is done, as `dead redrive`.
    pub(super) fn start(what: &'static str) -> ProgressLine {
        // Where signals cannot be caught, the first one ends the process.
        let stopped = stop_on_signals().unwrap_or_default();
        ProgressLine { what, watched: stderr().is_terminal(), begun: Instant::now(), shown: None, stopped }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.watched && self.shown.is_some() {
            // There is no way to report that standard error does not work.
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl ProgressWatch for ProgressLine {
    fn at(&mut self, step: Progress) {
        let since = self.shown.unwrap_or(self.begun);
        let due = if self.watched { REDRAW } else { LINE };
        if since.elapsed() < due {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line(self.what, step, self.begun.elapsed());
        let _ = if self.watched { write!(stderr(), "\r\x1b[K{line}") } else { writeln!(stderr(), "{line}") };
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// `redrive: 1200 of 100000 looked at (1 %), 300 done, 4100/s, 24s left`.
fn line(what: &str, step: Progress, since: Duration) -> String {
    let Progress { done, of, acted } = step;
    let seconds = since.as_secs_f64();
    let rate = if seconds > 0.0 { done as f64 / seconds } else { 0.0 };
    let mut line = format!("{what}: {done}");
    if let Some(of) = of.map(|of| of.max(done)) {
        line.push_str(&format!(" of {of}"));
        if let Some(percent) = (done * 100).checked_div(of) {
            line.push_str(&format!(" ({percent} %)"));
        }
    }
    if acted > 0 {
        line.push_str(&format!(", {acted} done"));
    }
    line.push_str(&format!(", {rate:.0}/s"));
    if let Some(of) = of.filter(|of| *of > done && rate > 0.0) {
        line.push_str(&format!(", {} left", plural::duration(((of - done) as f64 / rate * 1_000.0) as u64)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_and_the_time_that_is_left() {
        let step = Progress { done: 1_000, of: Some(5_000), acted: 30 };
        assert_eq!(
            line("redrive", step, Duration::from_secs(10)),
            "redrive: 1000 of 5000 (20 %), 30 done, 100/s, 40s left"
        );
        let unknown = Progress { done: 7, of: None, acted: 7 };
        assert_eq!(line("import", unknown, Duration::from_secs(1)), "import: 7, 7 done, 7/s");
        let search = Progress { done: 7, of: Some(14), acted: 0 };
        assert_eq!(line("why", search, Duration::from_secs(1)), "why: 7 of 14 (50 %), 7/s, 1s left");
        // More came meanwhile than was counted at first.
        assert_eq!(
            line("count", Progress { done: 9, of: Some(5), acted: 9 }, Duration::from_secs(3)),
            "count: 9 of 9 (100 %), 9 done, 3/s"
        );
    }
}
