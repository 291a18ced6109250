//! The level in front of each log line for the journal of systemd, which takes a line without one for `info`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing_subscriber::fmt::MakeWriter;

/// Returns whether standard error is the journal: systemd says in `JOURNAL_STREAM` which device and inode it has given
/// to the journal (systemd.exec(5)). A program that passes its environment on with another standard error is none of
/// its.
pub(super) fn is_stderr() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let stderr = io::stderr().as_fd().try_clone_to_owned().and_then(|stderr| File::from(stderr).metadata());
    stderr.is_ok_and(|stderr| is(&stream, stderr.dev(), stderr.ino()))
}

fn is(stream: &str, device: u64, inode: u64) -> bool {
    stream.split_once(':').is_some_and(|(of, number)| of.parse() == Ok(device) && number.parse() == Ok(inode))
}

/// Standard error, with the priority of syslog in front of each line, as sd-daemon(3) has it.
pub(super) struct Journal;

impl MakeWriter<'_> for Journal {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { priority: priority(tracing::Level::INFO) }
    }

    fn make_writer_for(&self, of: &tracing::Metadata<'_>) -> Line {
        Line { priority: priority(*of.level()) }
    }
}

pub(super) struct Line {
    priority: &'static str,
}

impl Write for Line {
    // The whole line comes at once, and leaves at once: lines of several threads do not mix.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(&[self.priority.as_bytes(), line].concat())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Returns the priority of syslog (RFC 5424, 6.2.1) that `journalctl -p` compares.
pub(super) fn priority(level: tracing::Level) -> &'static str {
    match level {
        tracing::Level::ERROR => "<3>",
        tracing::Level::WARN => "<4>",
        tracing::Level::INFO => "<6>",
        _ => "<7>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_device_and_inode_that_systemd_names_are_the_journal() {
        let check = |stream, expected| assert_eq!(is(stream, 9, 4_711), expected, "{stream}");
        check("9:4711", true);
        check("9:4712", false);
        check("8:4711", false);
        for odd in ["", "9", "9:", ":4711", "9:4711:1", "9:-1"] {
            check(odd, false);
        }
    }
}
