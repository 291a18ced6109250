//! Tokens that were looked up lately, and the uses that are limited.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;
use delaybridge_jobs::MadeToken;

/// Time for which a token is not looked up again.
const KNOWN: Duration = Duration::from_secs(2);
/// Maximum number of tokens that are kept.
const MOST_KNOWN: usize = 1_000;

/// Tokens that were looked up lately, by namespace and hash.
#[derive(Debug, Default)]
pub struct KnownTokens(Mutex<HashMap<(String, String), (Instant, MadeToken)>>);

impl KnownTokens {
    /// Returns a token that was looked up lately.
    pub fn get(&self, key: &(String, String)) -> Option<MadeToken> {
        self.0.lock().get(key).filter(|(at, _)| at.elapsed() < KNOWN).map(|(_, token)| token.clone())
    }

    /// Keeps a token for two seconds.
    pub fn keep(&self, key: (String, String), token: MadeToken) {
        let mut tokens = self.0.lock();
        if tokens.len() >= MOST_KNOWN {
            tokens.clear();
        }
        tokens.insert(key, (Instant::now(), token));
    }

    /// Forgets a token that was changed.
    pub fn forget(&self, namespace: &str, hash: &str) {
        self.0.lock().remove(&(namespace.to_owned(), hash.to_owned()));
    }
}

/// A use of a token that may be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenUse {
    /// Taking jobs.
    Read,
    /// Adding jobs.
    Write,
}
