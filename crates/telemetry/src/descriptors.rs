//! Connections that could not be opened because the file descriptors are used up: each attempt counts, and one line in ten
//! seconds says so, whichever part of the daemon needed one.

use std::io;
use std::time::Duration;

use delaybridge_core::clock::Instant;
use delaybridge_core::log::warn;

use super::metrics::Metrics;
use super::throttle::Throttle;

/// `EMFILE`, the limit of the process, and `ENFILE`, that of the machine.
const USED_UP: [i32; 2] = [24, 23];

/// The texts of errors about them: those of the system's library, with which client libraries in C report, and Rust's.
const TEXTS: [&str; 3] = ["oo many open files", "(os error 24)", "(os error 23)"];

/// The descriptors are those of the process, whatever the number of [`Metrics`].
static LINES: Throttle = Throttle::new(Duration::from_secs(10));

impl Metrics {
    /// Shows the count of connections that found no descriptor, from zero on.
    pub(super) fn count_descriptors(&self) {
        self.families().out_of_descriptors.with_label_values::<&str>(&[]).inc_by(0);
    }

    /// Reports a failed `accept` of a listener, if it found no descriptor.
    pub(super) fn not_accepted(&self, by: &str, error: &io::Error) {
        if error.raw_os_error().is_some_and(|code| USED_UP.contains(&code)) {
            self.no_descriptor(by, &error.to_string());
        }
    }

    /// Reports a failed attempt to connect, if it found no descriptor. Client libraries only tell it in their texts.
    pub(super) fn not_connected(&self, by: &str, problem: &str) {
        if TEXTS.iter().any(|text| problem.contains(text)) {
            self.no_descriptor(by, problem);
        }
    }

    fn no_descriptor(&self, by: &str, problem: &str) {
        self.families().out_of_descriptors.with_label_values::<&str>(&[]).inc();
        if let Some(left_out) = LINES.admit(Instant::now(), 1) {
            warn!(
                by,
                problem,
                left_out,
                "no file descriptor for a connection: raise the limit of open files (LimitNOFILE= of systemd, ulimit -n), or lower what \
                 needs them (`delaybridge check --live` adds it up)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_descriptors_count() {
        let metrics = Metrics::new();
        metrics.count_descriptors();
        let shown = || {
            let text = metrics.render().unwrap();
            text.lines()
                .find_map(|line| line.strip_prefix("delaybridge_out_of_descriptors_total ")?.parse::<u64>().ok())
        };
        assert_eq!(shown(), Some(0));
        for (code, counts) in [(24, true), (23, true), (103, false), (12, false)] {
            let error = io::Error::from_raw_os_error(code);
            let before = shown().unwrap();
            metrics.not_accepted("test", &error);
            assert_eq!(shown().unwrap() - before, u64::from(counts), "{error}");
            metrics.not_connected("test", &format!("connect to h:1: {error}"));
            assert_eq!(shown().unwrap() - before, 2 * u64::from(counts), "{error}");
        }
        let before = shown().unwrap();
        metrics.not_connected("test", "Failed to create socket: Too many open files (after 0ms in state CONNECT)");
        metrics.not_connected("test", "Connection refused (os error 111)");
        assert_eq!(shown().unwrap() - before, 1);
    }
}
