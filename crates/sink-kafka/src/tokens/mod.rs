//! LoginTokens for a login by `OAUTHBEARER`: `source` asks for them, `token` reads one, and here they are kept and renewed.
//!
//! librdkafka asks for a token when a producer starts and at four fifths of the token's time, on a thread that must not wait. After a
//! refusal it asks again in ten seconds, which is too late for what is due. So a thread of the sink renews the token when half of its time
//! is over, and librdkafka is answered from here.

mod source;
mod token;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::login::TokenSpec;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use source::TokenSource;
pub use token::LoginToken;
pub(crate) use token::now;

/// Wait before a provider that did not answer is asked again.
const AWAY: Duration = Duration::from_secs(1);
/// Wait before the same is asked again of a provider that refused it.
const REFUSED: Duration = Duration::from_secs(5);
/// Longest age of a token that another program keeps in a file: it may be replaced at any time.
const FILE: Duration = Duration::from_secs(10);
/// Shortest time between two tokens.
const SOON: Duration = Duration::from_millis(500);

/// The tokens of one sink. The thread that renews them ends with it.
pub struct LoginTokens {
    kept: Arc<Kept>,
    _alive: SyncSender<()>,
}

#[derive(Default)]
struct Kept {
    state: Mutex<TokenState>,
    changed: Condvar,
}

#[derive(Default)]
struct TokenState {
    token: Option<LoginToken>,
    /// The reason why the last question brought no token.
    failure: Option<Failure>,
}

impl std::fmt::Debug for LoginTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginTokens").field("failure", &self.kept.state.lock().failure).finish_non_exhaustive()
    }
}

impl LoginTokens {
    /// Asks for the first token.
    pub fn begin(spec: &TokenSpec) -> Arc<LoginTokens> {
        let (alive, ended) = sync_channel(0);
        let kept = Arc::<Kept>::default();
        let thread = Renewal { source: TokenSource::of(spec), kept: kept.clone(), ended };
        let started = std::thread::Builder::new().name("kafka-tokens".to_owned()).spawn(move || thread.run());
        if let Err(error) = started {
            let text = format!("ask for a token for Kafka: start a thread: {error}: check the limit of threads");
            kept.state.lock().failure = Some(Failure::new(Class::Transient, "token_unavailable", text));
        }
        Arc::new(LoginTokens { kept, _alive: alive })
    }

    /// Returns a token that is valid now.
    pub fn current(&self) -> Option<LoginToken> {
        self.kept.state.lock().valid()
    }

    /// Waits for the token; where there is none yet, for the answer to the question for it, at most this long. Blocks.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn wait(&self, limit: Duration) -> Result<LoginToken, Failure> {
        let until = Instant::now().after(limit);
        let mut state = self.kept.state.lock();
        loop {
            if let Some(token) = state.valid() {
                return Ok(token);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let left = until.since(Instant::now());
            if left.is_zero() {
                let text = format!("ask for a token for Kafka: no answer within {} s", limit.as_secs_f64());
                return Err(Failure::new(Class::Transient, "token_unavailable", text));
            }
            self.kept.changed.wait_for(&mut state, left);
        }
    }

    /// Returns why there is no valid token, in the words and of the class of the last question for one.
    pub fn failure(&self) -> Failure {
        let text = "log in to Kafka: the token is not valid any more, and there is no other yet";
        let failure = self.kept.state.lock().failure.clone();
        failure.unwrap_or_else(|| Failure::new(Class::Transient, "token_unavailable", text))
    }
}

impl TokenState {
    fn valid(&self) -> Option<LoginToken> {
        self.token.as_ref().filter(|token| !token.left(now()).is_zero()).cloned()
    }
}

/// The thread that renews.
struct Renewal {
    source: TokenSource,
    kept: Arc<Kept>,
    ended: Receiver<()>,
}

impl Renewal {
    fn run(self) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        loop {
            let asked = runtime.block_on(self.source.ask());
            let wait = match &asked {
                Ok(token) => renewal(token.left(now()), self.source.is_file()),
                Err(failure) if failure.class == Class::TargetPermanent => REFUSED,
                Err(_) => AWAY,
            };
            {
                let mut state = self.kept.state.lock();
                match asked {
                    Ok(token) => *state = TokenState { token: Some(token), failure: None },
                    // The token in use may be valid for long.
                    Err(failure) => state.failure = Some(failure),
                }
                self.kept.changed.notify_all();
            }
            match self.ended.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// Computes the wait before a token with this much time left is renewed.
fn renewal(left: Duration, file: bool) -> Duration {
    let half = (left / 2).max(SOON);
    if file { half.min(FILE) } else { half }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_at_half_of_its_time() {
        let s = Duration::from_secs;
        assert_eq!(renewal(s(3600), false), s(1800));
        assert_eq!(renewal(s(20), false), s(10));
        assert_eq!(renewal(Duration::ZERO, false), SOON);
        assert_eq!(renewal(s(3600), true), FILE);
    }
}
