//! The tokens file of a listener: read again when it changes, and no longer believed when it cannot be read for long.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::file::{Content, News, Reread};
use super::problem::{Problem, ProblemKind};
use delaybridge_settings::files;
use delaybridge_telemetry::events::api::ApiEvents;

/// The tokens in a file.
pub trait TokenList: Send + Sync + Sized + 'static {
    /// The mistakes in a file.
    type Error: fmt::Display;

    /// Reads the tokens in the content of the file.
    ///
    /// # Errors
    /// What is wrong with it.
    fn of(path: &Path, content: &Content) -> Result<Self, Self::Error>;

    /// Reads the file. Blocks.
    ///
    /// # Errors
    /// Those of [`of`](TokenList::of).
    fn read(path: &Path) -> Result<Self, Self::Error> {
        Self::of(path, &files::read(path))
    }

    /// Returns the number of tokens.
    fn count(&self) -> usize;
}

/// The tokens file, if there is one.
pub struct TokensFile<T> {
    /// The key in the configuration that names it.
    key: &'static str,
    file: Option<Reread<T>>,
    max_age: Duration,
}

impl<T: TokenList> TokensFile<T> {
    /// Reads the file, and again when it changes. Its tokens are valid for `max_age` after it could be read last. Blocks.
    ///
    /// # Errors
    /// Those of [`TokenList::of`].
    pub fn new(
        key: &'static str,
        (path, max_age): (Option<&PathBuf>, Duration),
        events: &ApiEvents,
    ) -> Result<TokensFile<T>, T::Error> {
        let open = |path: &PathBuf| {
            let path = path.clone();
            let events = events.clone();
            let tell = move |news: Option<News<'_, T>>, age| {
                match news {
                    None => {}
                    Some(News::Changed(tokens)) => events.tokens_read(tokens.count()),
                    Some(News::Failed(problem)) => events.tokens_refused(problem),
                }
                events.file_seen(key, age);
            };
            Reread::new(vec![path.clone()], move |contents| T::of(&path, &contents[0]), tell)
        };
        Ok(TokensFile { key, file: path.map(open).transpose()?, max_age })
    }

    /// Returns the tokens that are valid now; `None` without a file.
    ///
    /// # Errors
    /// They are too old: the file could not be read for long, and a token that was removed from it must end.
    pub fn tokens(&self) -> Result<Option<Arc<T>>, Problem> {
        let Some(file) = &self.file else { return Ok(None) };
        let age = file.age();
        if age <= self.max_age {
            return Ok(Some(file.get()));
        }
        let detail = format!(
            "authenticate: the file of `{}` could not be used for {} s, so that no token is known to be valid still; the log has the reason",
            self.key,
            age.as_secs()
        );
        Err(Problem::new(ProblemKind::Unavailable, detail))
    }

    /// Returns the number of tokens, if there is a file of them.
    pub fn count(&self) -> Option<usize> {
        self.file.as_ref().map(|file| file.get().count())
    }
}
