//! Sessions of the page: a random cookie in place of the token. Kept in memory, so they end with the daemon; and with their token,
//! once it is no longer in the file.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;
use delaybridge_http_server::named::{Hash, NamedTokens, hash};
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_model::role::Grantee;

/// The length of a session.
pub const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Most sessions; the oldest goes for a new one.
const MOST: usize = 256;

/// The sessions, by the hashes of their cookies: looked up by what cannot be guessed byte by byte.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<Hash, PageSession>>);

#[derive(Debug, Clone, Copy)]
struct PageSession {
    began: Instant,
    token: Hash,
}

impl Sessions {
    /// Begins one with this token; the cookie's value.
    pub fn begin(&self, token: Hash) -> Result<String, Problem> {
        let mut id = [0; 24];
        getrandom::fill(&mut id)
            .map_err(|error| Problem::new(ProblemKind::Unexpected, format!("draw a random number: {error}")))?;
        let id = hex::encode(id);
        let now = Instant::now();
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| now.since(session.began) < LASTS);
        while sessions.len() >= MOST {
            let oldest = sessions.iter().max_by_key(|(_, session)| now.since(session.began)).map(|(id, _)| *id);
            let Some(oldest) = oldest else { break };
            sessions.remove(&oldest);
        }
        sessions.insert(hash(&id), PageSession { began: now, token });
        Ok(id)
    }

    /// Returns the owner of the token behind a cookie, if both are still good.
    pub fn owner(&self, id: &str, tokens: &NamedTokens) -> Option<Grantee> {
        let session = self.0.lock().get(&hash(id)).copied()?;
        tokens.owner(&session.token).filter(|_| session.began.elapsed() < LASTS)
    }

    /// Ends one.
    pub fn end(&self, id: &str) {
        self.0.lock().remove(&hash(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_http_server::tokens_file::TokenList as _;

    #[test]
    fn a_session_ends_with_its_token() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "ann 0123456789abcdef admin\n").unwrap();
        let tokens = NamedTokens::read(file.path()).unwrap();
        std::fs::write(file.path(), "ann fedcba9876543210 admin\n").unwrap();
        let others = NamedTokens::read(file.path()).unwrap();
        let sessions = Sessions::default();
        let id = sessions.begin(hash("0123456789abcdef")).unwrap();
        assert_eq!(sessions.owner(&id, &tokens), Some(Grantee::admin("ann")));
        assert_eq!(sessions.owner(&id, &others), None);
        assert_eq!(sessions.owner("0123", &tokens), None);
        sessions.end(&id);
        assert_eq!(sessions.owner(&id, &tokens), None);
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let sessions = Sessions::default();
        for _ in 0..MOST + 10 {
            sessions.begin(hash("0123456789abcdef")).unwrap();
        }
        assert_eq!(sessions.0.lock().len(), MOST);
    }
}
