//! The output of a daemon: collected line by line, searched, and judged at the end.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};
use std::thread;

/// The lines of one stream, which grow while the process runs.
#[derive(Debug, Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// Reads a pipe to its end on a thread of its own: a full pipe would stop the daemon.
    pub fn collect(pipe: impl Read + Send + 'static) -> Self {
        let lines = Lines::default();
        let kept = lines.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
                kept.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(text);
                line.clear();
            }
        });
        lines
    }

    /// Number of lines so far.
    pub fn count(&self) -> usize {
        self.with(|lines| lines.len())
    }

    /// The lines from the `first` on.
    pub fn since(&self, first: usize) -> Vec<String> {
        self.with(|lines| lines.get(first..).unwrap_or_default().to_vec())
    }

    /// All lines.
    pub fn all(&self) -> Vec<String> {
        self.since(0)
    }

    /// Whether a line contains the text.
    pub fn contain(&self, text: &str) -> bool {
        self.with(|lines| lines.iter().any(|line| line.contains(text)))
    }

    fn with<T>(&self, look: impl FnOnce(&[String]) -> T) -> T {
        look(&self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// Whether a log line reports trouble: a WARN or ERROR, in JSON or in text, or a panic. Warnings about a test's
/// configuration do not count.
pub fn is_trouble(line: &str) -> bool {
    if line.contains("\"message\":\"configuration: ") {
        return false;
    }
    if let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(line) {
        return matches!(fields.get("level").and_then(|level| level.as_str()), Some("WARN" | "ERROR"));
    }
    line.contains("panicked at") || line.split_whitespace().take(3).any(|word| matches!(word, "WARN" | "ERROR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_distinguished_from_ordinary_lines() {
        let check = |line: &str, expected: bool| assert_eq!(is_trouble(line), expected, "{line}");
        check(r#"{"level":"INFO","fields":{"message":"an ERROR was healed"}}"#, false);
        check(r#"{"timestamp":"x","level":"WARN","fields":{"message":"m"}}"#, true);
        check(r#"{"level":"ERROR"}"#, true);
        check("2026-01-01T00:00:00Z  WARN delaybridge: m", true);
        check("2026-01-01T00:00:00Z  INFO delaybridge: WARN", false);
        check("thread 'main' panicked at src/main.rs:1:1:", true);
        check("", false);
    }
}
