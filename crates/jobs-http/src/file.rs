//! Files that are read again when they have changed, looked at no more often than once a second.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The stamps of files, to notice a change.
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

/// The contents of a file, read again when it changes.
pub struct Reread<T, E> {
    file: [PathBuf; 1],
    read: fn(&Path) -> Result<T, E>,
    current: Mutex<(Stamps, Arc<T>)>,
}

impl<T, E> Reread<T, E> {
    /// Reads the file.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn new(file: PathBuf, read: fn(&Path) -> Result<T, E>) -> Result<Reread<T, E>, E> {
        let file = [file];
        // Looked at before it is read: a change in between is seen as one.
        let stamps = Stamps::of(&file);
        let now = read(&file[0])?;
        Ok(Reread { file, read, current: Mutex::new((stamps, Arc::new(now))) })
    }

    /// The current contents; `news` is called when they were read again. If the file is invalid, the previous
    /// contents stay.
    pub fn get(&self, news: impl FnOnce(Result<&T, &E>)) -> Arc<T> {
        let mut current = self.current.lock();
        if current.0.changed(&self.file) {
            let read = (self.read)(&self.file[0]);
            news(read.as_ref());
            if let Ok(now) = read {
                current.1 = Arc::new(now);
            }
        }
        current.1.clone()
    }
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}
