//! The one reader of the small files that a configuration names: passwords, tokens, certificates, keys.
//!
//! A file may hang (a network mount whose server is away) or grow (a link to `/dev/zero`), at each later reading as well as at the first.
//! So each is read on a thread of its own, which nobody waits for longer than [`PATIENCE`], not even the end of the process. While a
//! reading hangs there is no second one of the same path: whoever asks waits for the first one.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Largest file with a secret or certificates. A bundle of all public authorities has a quarter of it.
const LARGEST: usize = 1 << 20;
/// Largest configuration: a hundred thousand queues.
pub const LARGEST_CONFIGURATION: u64 = 16 << 20;
/// Time for a file to be read in.
const PATIENCE: Duration = Duration::from_secs(5);
/// Memory of the thread that reads.
const STACK: usize = 64 << 10;

/// The reason why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The system's error, or the fault of the file, with the remedy where one is known.
    text: String,
    /// Whether it is not there.
    pub absent: bool,
}

impl FileError {
    fn new(text: impl Into<String>) -> FileError {
        FileError { text: text.into(), absent: false }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for FileError {}

/// A reading that is under way.
#[derive(Default)]
struct Reading {
    end: Mutex<Option<Result<Vec<u8>, FileError>>>,
    ended: Condvar,
}

static UNDER_WAY: Mutex<BTreeMap<PathBuf, Arc<Reading>>> = Mutex::new(BTreeMap::new());

/// Reads a regular file of at most 1 MiB. Blocks, for five seconds at most: never call it on a thread of a runtime.
///
/// # Errors
///
/// Why it cannot be read; never what is in it.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let content = read_by(path, PATIENCE, content)?;
    if content.len() > LARGEST {
        return Err(FileError::new("it is larger than 1 MiB"));
    }
    Ok(content)
}

/// Returns a hash of what is in a regular file, a configuration among them, to see whether it changes; `None` if it
/// cannot be read. Blocks as [`read`] does.
pub fn hash(path: &Path) -> Option<u64> {
    read_by(path, PATIENCE, content).ok().map(|content| content_hash(&content))
}

/// Returns a hash of contents, to see whether they change.
pub fn content_hash(content: &[u8]) -> u64 {
    let mut hash = DefaultHasher::new();
    content.hash(&mut hash);
    hash.finish()
}

/// Reads it with `read`, within `patience`.
fn read_by(
    path: &Path,
    patience: Duration,
    read: fn(&Path) -> Result<Vec<u8>, FileError>,
) -> Result<Vec<u8>, FileError> {
    let reading = begin(path, read)?;
    let end = reading.end.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = reading.ended.wait_timeout_while(end, patience, |end| end.is_none());
    let (end, _) = waited.unwrap_or_else(PoisonError::into_inner);
    end.clone().unwrap_or_else(|| {
        let text = format!("not read within {} s: is the server of its file system away?", patience.as_secs());
        Err(FileError::new(text))
    })
}

/// Finds the reading of this file that is under way, or begins a new one.
fn begin(path: &Path, read: fn(&Path) -> Result<Vec<u8>, FileError>) -> Result<Arc<Reading>, FileError> {
    let mut under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reading) = under_way.get(path) {
        return Ok(reading.clone());
    }
    let reading = Arc::new(Reading::default());
    let done = reading.clone();
    let of = path.to_owned();
    let work = move || {
        let end = read(&of);
        // First, so that whoever asks from now on reads again.
        UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).remove(&of);
        *done.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        done.ended.notify_all();
    };
    let started = std::thread::Builder::new().name("file".to_owned()).stack_size(STACK).spawn(work);
    started.map_err(|error| FileError::new(format!("no thread to read it on: {error}")))?;
    under_way.insert(path.to_owned(), reading.clone());
    Ok(reading)
}

fn content(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |error: std::io::Error| FileError {
        absent: error.kind() == std::io::ErrorKind::NotFound,
        ..FileError::new(format!("{error}: check that it exists and may be read"))
    };
    // Looked at before it is opened: to open a pipe waits for its writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(FileError::new("not a regular file"));
    }
    let mut content = Vec::new();
    let limit = LARGEST_CONFIGURATION;
    File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut content)).map_err(failed)?;
    if content.len() as u64 > limit {
        return Err(FileError::new("it is larger than 16 MiB"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("delaybridge-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn only_a_regular_file_of_a_bounded_size_is_read() {
        let folder = folder("kinds");
        let path = |name: &str| folder.join(name);
        fs::write(path("good"), "secret\n").unwrap();
        assert_eq!(read(&path("good")).unwrap(), b"secret\n");
        fs::write(path("limit"), vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(read(&path("limit")).unwrap().len(), 1 << 20);
        // As a mount of Kubernetes has it.
        symlink(path("good"), path("link")).unwrap();
        assert_eq!(read(&path("link")).unwrap(), b"secret\n");
        fs::write(path("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
        symlink("/dev/zero", path("endless")).unwrap();
        assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        let check = |name: &str, words: &str, absent: bool| {
            let error = read(&path(name)).unwrap_err();
            assert!(error.to_string().contains(words) && error.absent == absent, "{name}: {error}");
        };
        check("large", "larger than 1 MiB", false);
        assert_ne!(hash(&path("large")), hash(&path("limit")));
        assert_eq!(hash(&path("pipe")), None);
        check("endless", "not a regular file", false);
        check("pipe", "not a regular file", false);
        check("", "not a regular file", false);
        check("gone", "check that it exists", true);
        fs::remove_dir_all(folder).unwrap();
    }

    static READINGS: AtomicUsize = AtomicUsize::new(0);

    /// Hangs until there is a file of this name.
    fn hanging(path: &Path) -> Result<Vec<u8>, FileError> {
        READINGS.fetch_add(1, Ordering::SeqCst);
        loop {
            if let Ok(content) = fs::read(path) {
                return Ok(content);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_file_that_hangs_is_given_up_and_read_by_one_thread_alone() {
        let folder = folder("hangs");
        let path = folder.join("late");
        for _ in 0..5 {
            let error = read_by(&path, Duration::from_millis(10), hanging).unwrap_err();
            assert!(error.to_string().contains("not read within"), "{error}");
        }
        while READINGS.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(READINGS.load(Ordering::SeqCst), 1, "the first one is still under way");
        // Another path does not wait for it.
        fs::write(folder.join("other"), "here").unwrap();
        assert_eq!(read(&folder.join("other")).unwrap(), b"here");
        fs::write(folder.join("new"), "there").unwrap();
        fs::rename(folder.join("new"), &path).unwrap();
        assert_eq!(read_by(&path, Duration::from_secs(60), hanging).unwrap(), b"there");
        // What has been read is not kept for the next one.
        fs::write(folder.join("new"), "changed").unwrap();
        fs::rename(folder.join("new"), &path).unwrap();
        assert_eq!(read(&path).unwrap(), b"changed");
        fs::remove_dir_all(folder).unwrap();
    }
}
