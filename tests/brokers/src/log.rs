//! The output of a server, in a file. It shows the end of the start, and the cause of a failed test.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::{During, Result};

/// The file, which grows over restarts.
#[derive(Debug)]
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn new(path: PathBuf) -> Self {
        Log(path)
    }

    /// Redirects both outputs of the command to the end of the file.
    pub(crate) fn takes_output_of(&self, command: &mut Command) -> Result<()> {
        let what = format!("open {}", self.0.display());
        let file = OpenOptions::new().create(true).append(true).open(&self.0).during(&what)?;
        command.stderr(Stdio::from(file.try_clone().during(&what)?)).stdout(Stdio::from(file));
        Ok(())
    }

    /// The offset of the next line.
    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The output after the offset `from`.
    pub(crate) fn since(&self, from: usize) -> String {
        // The output may end in the middle of a character.
        String::from_utf8_lossy(self.bytes().get(from..).unwrap_or_default()).into_owned()
    }

    pub(crate) fn tail(&self, lines: usize) -> String {
        let text = self.since(0);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.0).unwrap_or_default()
    }
}
