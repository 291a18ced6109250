//! Files that are read again each second, on a thread of their own: whoever asks gets what was made of them last, and never waits.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;
use delaybridge_settings::files::{self, FileError};

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The content of a file, or why it cannot be read.
pub type Content = Result<Vec<u8>, FileError>;

/// The news of a look at the files.
pub enum News<'a, T> {
    /// The files have changed, and this was made of them.
    Changed(&'a T),
    /// The files could not be used at two looks in a row, for the same reason. The former value stays in use. Reported once.
    Failed(&'a str),
}

/// A value that is made of files, and again when they change.
pub struct Reread<T>(Arc<Mutex<Current<T>>>);

struct Current<T> {
    value: Arc<T>,
    /// The last time at which the files were those that the value was made of.
    seen: Instant,
}

impl<T: Send + Sync + 'static> Reread<T> {
    /// Reads the files, and again each second until this is dropped. `make` gets their contents in their order; `tell` the news, and the
    /// age of what is in use after each look. Blocks until the files have been read once.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn new<E: fmt::Display>(
        files: Vec<PathBuf>,
        make: impl Fn(&[Content]) -> Result<T, E> + Send + 'static,
        tell: impl Fn(Option<News<'_, T>>, Duration) + Send + 'static,
    ) -> Result<Reread<T>, E> {
        let contents = read(&files);
        let value = Arc::new(make(&contents)?);
        let current = Arc::new(Mutex::new(Current { value, seen: Instant::now() }));
        let watched = Arc::downgrade(&current);
        // Without a thread the value stays, and its age says so.
        let _ = thread::Builder::new().name("files".to_owned()).spawn(move || {
            watch(&files, contents, &watched, make, tell);
        });
        Ok(Reread(current))
    }

    /// Returns the value that was made of the files last.
    pub fn get(&self) -> Arc<T> {
        self.0.lock().value.clone()
    }

    /// Returns the time since the content was last confirmed against the files.
    pub fn age(&self) -> Duration {
        self.0.lock().seen.elapsed()
    }
}

fn read(files: &[PathBuf]) -> Vec<Content> {
    files.iter().map(|file| files::read(file)).collect()
}

/// Looks at the files while there is somebody who asks for them.
fn watch<T, E: fmt::Display>(
    files: &[PathBuf],
    mut used: Vec<Content>,
    watched: &Weak<Mutex<Current<T>>>,
    make: impl Fn(&[Content]) -> Result<T, E>,
    tell: impl Fn(Option<News<'_, T>>, Duration),
) {
    // Certificate and key are written one after the other, and a file may be seen half written: only the second failure counts.
    let mut failed = None::<String>;
    let mut told = false;
    loop {
        thread::sleep(LOOK);
        if watched.strong_count() == 0 {
            return;
        }
        let now = read(files);
        let made = (now != used).then(|| make(&now));
        let Some(current) = watched.upgrade() else { return };
        let mut news = None;
        match made {
            Some(Err(error)) => {
                let reason = error.to_string();
                let again = failed.as_deref() == Some(&reason);
                told &= again;
                failed = Some(reason);
                if again && !told {
                    told = true;
                    news = failed.as_deref().map(News::Failed);
                }
            }
            Some(Ok(value)) => {
                used = now;
                let value = Arc::new(value);
                *current.lock() = Current { value: value.clone(), seen: Instant::now() };
                (failed, told) = (None, false);
                tell(Some(News::Changed(&value)), Duration::ZERO);
                continue;
            }
            None => {
                current.lock().seen = Instant::now();
                (failed, told) = (None, false);
            }
        }
        tell(news, current.lock().seen.elapsed());
    }
}
