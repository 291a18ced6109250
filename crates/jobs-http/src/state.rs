//! The state that all requests of a listener share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::access::Tokens;
use super::file::{News, Reread};
use super::lmstfy::known::{KnownTokens, TokenUse};
use super::problem::{Problem, ProblemKind};
use super::rates::Rates;
use super::room::{BodyMemory, Who};
use super::turns::Turns;
use delaybridge_jobs::{Dispenser, JobQueue, TokenLimits};
use delaybridge_model::ApiSpec;
use delaybridge_model::RequestRate;
use delaybridge_settings::problem::ConfigErrors;
use delaybridge_telemetry::events::api::ApiEvents;

/// The state that all requests share.
pub struct Api {
    pub(super) queue: JobQueue,
    pub(super) dispenser: Dispenser,
    pub(super) access: TokensFile,
    pub(super) memory: BodyMemory,
    /// Turns of heavy calls, of all listeners.
    pub(super) turns: Turns,
    pub(super) max_connections: usize,
    /// Maximum number of topics that a token may add to before it makes no further ones.
    pub(super) max_topics_per_token: Option<u64>,
    /// Maximum rate of requests of a token, or of an address where there is none.
    pub(super) max_rate: Option<RequestRate>,
    /// Requests by token and address.
    pub(super) requests: Rates<Who>,
    /// Requests by the hash of a token with limits of its own, and these limits: changed ones count anew.
    pub(super) uses: Rates<(Arc<str>, TokenLimits, TokenUse)>,
    /// Whether clients on the same machine need no token although there is a file of them.
    pub(super) trusts_the_machine: bool,
    /// Tokens of lmstfy that were looked up lately.
    pub(super) known: KnownTokens,
    pub(super) events: ApiEvents,
    pub(super) end: ServiceEnd,
}

/// The two steps in which a listener ends.
#[derive(Debug, Clone)]
pub struct ServiceEnd {
    /// Cancelled at SIGTERM: from then on every answer closes its connection.
    pub leaving: CancellationToken,
    /// Cancelled when the listener closes: nothing is popped any more, long polls end.
    pub closing: CancellationToken,
    /// Time that requests under way have to end then.
    pub goodbye: Duration,
}

impl Api {
    /// Creates the state of a listener on this queue, until its end.
    ///
    /// # Errors
    /// Every mistake in the tokens file.
    pub(super) fn new(
        spec: &ApiSpec,
        (queue, dispenser): (JobQueue, Dispenser),
        (memory, turns): (BodyMemory, Turns),
        events: ApiEvents,
        end: ServiceEnd,
    ) -> Result<Api, ConfigErrors> {
        Ok(Api {
            queue,
            dispenser,
            access: TokensFile::new(spec, &events)?,
            memory,
            turns,
            max_connections: spec.max_connections,
            max_topics_per_token: spec.max_topics_per_token,
            max_rate: spec.max_rate,
            requests: Rates::default(),
            uses: Rates::default(),
            trusts_the_machine: spec.trusts_the_machine(),
            known: KnownTokens::default(),
            events,
            end,
        })
    }
}

/// The tokens file, if there is one.
pub(super) struct TokensFile {
    file: Option<Reread<Tokens>>,
    max_age: Duration,
}

impl TokensFile {
    fn new(spec: &ApiSpec, events: &ApiEvents) -> Result<TokensFile, ConfigErrors> {
        let open = |path: &PathBuf| {
            let path = path.clone();
            let events = events.clone();
            let tell = move |news: Option<News<'_, Tokens>>, age| {
                match news {
                    None => {}
                    Some(News::Changed(tokens)) => events.tokens_read(tokens.count()),
                    Some(News::Failed(problem)) => events.tokens_refused(problem),
                }
                events.file_seen("jobs.tokens_file", age);
            };
            Reread::new(vec![path.clone()], move |contents| Tokens::of(&path, &contents[0]), tell)
        };
        let file = spec.tokens_file.as_ref().map(open).transpose()?;
        Ok(TokensFile { file, max_age: spec.tokens_max_age })
    }

    /// Returns the tokens that are valid now; `None` without a file.
    ///
    /// # Errors
    /// They are too old: the file could not be read for long, and a token that was removed from it must end.
    pub(super) fn tokens(&self) -> Result<Option<Arc<Tokens>>, Problem> {
        let Some(file) = &self.file else { return Ok(None) };
        let age = file.age();
        if age > self.max_age { Err(too_old("jobs.tokens_file", age)) } else { Ok(Some(file.get())) }
    }

    /// Returns the number of tokens, if there is a file of them.
    pub(super) fn count(&self) -> Option<usize> {
        self.file.as_ref().map(|file| file.get().count())
    }
}

/// Returns the refusal of every token because the file under this key could not be used for so long.
pub fn too_old(key: &str, age: Duration) -> Problem {
    let detail = format!(
        "authenticate: the file of `{key}` could not be used for {} s, so that no token is known to be valid still; the log has the reason",
        age.as_secs()
    );
    Problem::new(ProblemKind::Unavailable, detail)
}
