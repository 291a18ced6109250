//! The state that all requests of a listener share.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::access::Tokens;
use super::lmstfy::known::{KnownTokens, TokenUse};
use delaybridge_http_server::rates::Rates;
use delaybridge_http_server::room::{BodyMemory, Who};
use delaybridge_http_server::tokens_file::TokensFile;
use delaybridge_http_server::turns::Turns;
use delaybridge_jobs::{Dispenser, JobQueue, TokenLimits};
use delaybridge_model::ApiSpec;
use delaybridge_model::RequestRate;
use delaybridge_settings::problem::ConfigErrors;
use delaybridge_telemetry::events::api::ApiEvents;

/// The state that all requests share.
pub struct Api {
    pub(super) queue: JobQueue,
    pub(super) dispenser: Dispenser,
    pub(super) access: TokensFile<Tokens>,
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
    /// Creates the state of a listener on this queue, until its end. An error has every mistake in the tokens file.
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
            access: TokensFile::new("jobs.tokens_file", (spec.tokens_file.as_ref(), spec.tokens_max_age), &events)?,
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
