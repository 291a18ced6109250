//! The outcome of an import, and the file for lines and records that are no letters: written with all of their bytes, so that the
//! import can go on and nothing is lost.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::NAMED;
use crate::error::Error;

/// A file to which broken lines and records are added.
#[derive(Debug)]
pub struct BrokenFile {
    file: File,
    path: PathBuf,
}

/// A line or a record that is no letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The place: `line 4`, or `topic[0]@17`.
    pub place: String,
    /// The reason why it is none.
    pub problem: String,
}

impl BrokenFile {
    /// Opens the file, or makes it. It holds payloads, so that only its owner can read one that is made.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn open(path: &Path) -> Result<BrokenFile, Error> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(|error| Error::invalid(format!("write {}: {error}", path.display())))?;
        Ok(BrokenFile { file, path: path.to_owned() })
    }

    /// Adds a line, and syncs it to the disk: the import does not come back to it.
    fn add(&mut self, line: &[u8]) -> Result<(), Error> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let written = self.file.write_all(&[line, b"\n"].concat()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::failed(format!("write {}: {error}", self.path.display())))
    }
}

/// The outcome of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The queue.
    pub queue: String,
    /// Whether the lines were only read.
    pub dry_run: bool,
    /// Letters that are there now, or would be.
    pub imported: u64,
    /// Lines that are done, those that were passed over among them: to go on, pass over so many.
    pub lines: u64,
    /// Lines and records of this queue that are letters of it already.
    pub known: u64,
    /// Lines of letters that this queue had before, and that a redrive, a purge or its sink has taken away since. They are
    /// imported; where it was a redrive, the next one delivers their elements once more.
    pub left: u64,
    /// Records of other queues and programs.
    pub passed: u64,
    /// Lines or records that are no letters.
    pub broken: u64,
    /// The first hundred of the broken lines and records.
    pub problems: Vec<Broken>,
    /// Whether it was ended early.
    pub stopped: bool,
}

impl Imported {
    /// Counts a line or record that is no letter, and adds it to the file. A dry run only counts it.
    pub(crate) fn put_aside(&mut self, to: Option<&mut BrokenFile>, broken: Broken, line: &[u8]) -> Result<(), Error> {
        if let Some(aside) = to.filter(|_| !self.dry_run) {
            aside.add(line)?;
        }
        self.broken += 1;
        if self.problems.len() < NAMED {
            self.problems.push(broken);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn broken(n: u64) -> Broken {
        Broken { place: format!("line {n}"), problem: "not JSON at column 1".to_owned() }
    }

    #[test]
    fn the_file_gets_each_line_once_and_a_dry_run_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broken");
        let mut aside = BrokenFile::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut done = Imported::default();
        done.put_aside(Some(&mut aside), broken(1), b"one\xff\n").unwrap();
        done.put_aside(Some(&mut aside), broken(2), b"two").unwrap();
        let mut dry = Imported { dry_run: true, ..Imported::default() };
        dry.put_aside(Some(&mut aside), broken(3), b"three").unwrap();
        // A further import adds to it.
        done.put_aside(Some(&mut BrokenFile::open(&path).unwrap()), broken(4), b"four\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\xff\ntwo\nfour\n");
        assert_eq!((done.broken, dry.broken, dry.problems), (3, 1, vec![broken(3)]));
        assert!(BrokenFile::open(folder.path()).is_err());
    }

    #[test]
    fn a_hundred_are_named() {
        let mut done = Imported { dry_run: true, ..Imported::default() };
        (0..250).for_each(|n| done.put_aside(None, broken(n), b"").unwrap());
        assert_eq!((done.broken, done.problems.len()), (250, NAMED));
    }
}
