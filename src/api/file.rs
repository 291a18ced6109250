//! Whether files have changed, looked at no more often than once a second.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Instant;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// What files looked like.
#[derive(Debug)]
pub struct Stamps {
    looked: Instant,
    seen: Vec<Option<Stamp>>,
}

/// Number, length, and time of the last change, of a file that is there.
type Stamp = (u64, u64, i64, i64);

impl Stamps {
    /// The files as they are now.
    pub fn of(files: &[PathBuf]) -> Stamps {
        Stamps { looked: Instant::now(), seen: files.iter().map(stamp).collect() }
    }

    /// Whether they look otherwise than before. Notes how they look.
    pub fn changed(&mut self, files: &[PathBuf]) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        let now = Stamps::of(files);
        let changed = now.seen != self.seen;
        *self = now;
        changed
    }
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}
