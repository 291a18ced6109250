//! A login: credentials that are kept, and renewed before they end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::chain::CredentialChain;
use crate::spec::AwsLoginSpec;
use crate::{AwsCredentials, AwsVariables};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};

/// Time before their end at which credentials are renewed, if they live for long enough.
const EARLY: Duration = Duration::from_secs(300);
/// Age at which credentials without an end are looked for again: a file may be rotated.
const AGAIN: Duration = Duration::from_secs(60);
/// Wait before a place that did not answer is asked again.
const AWAY: Duration = Duration::from_secs(1);
/// Wait before the same is asked again of a place that refused it.
const REFUSED: Duration = Duration::from_secs(5);

/// The credentials of one login. Whoever needs some waits only where there are none.
#[derive(Debug)]
pub struct AwsLogin {
    chain: CredentialChain,
    kept: Mutex<KeptCredentials>,
    /// Held while the chain is asked: it is asked once for all that wait.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct KeptCredentials {
    credentials: Option<Arc<AwsCredentials>>,
    /// The time from which they are renewed.
    renew_at: Option<Instant>,
    /// Why the last question brought none, and until when it is not repeated.
    failure: Option<(Instant, Failure)>,
}

impl AwsLogin {
    /// Creates a login with what is found by these variables. Nothing is asked yet.
    pub fn new(spec: &AwsLoginSpec, variables: AwsVariables) -> AwsLogin {
        let chain = CredentialChain::new(spec, variables);
        AwsLogin { chain, kept: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    /// Returns credentials that are valid now.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub async fn current(&self) -> Result<Arc<AwsCredentials>, Failure> {
        let valid = match self.kept.lock().now() {
            KeptNow::Fresh(credentials) => return Ok(credentials),
            KeptNow::Failed(failure) => return Err(failure),
            KeptNow::Aged(credentials) => Some(credentials),
            KeptNow::Nothing => None,
        };
        let turn = match (&valid, self.asking.try_lock()) {
            (_, Ok(turn)) => turn,
            (Some(credentials), Err(_)) => return Ok(credentials.clone()),
            (None, Err(_)) => self.asking.lock().await,
        };
        // Another may have asked meanwhile.
        match self.kept.lock().now() {
            KeptNow::Fresh(credentials) => return Ok(credentials),
            KeptNow::Failed(failure) => return Err(failure),
            KeptNow::Aged(_) | KeptNow::Nothing => {}
        }
        let asked = self.chain.ask().await;
        let mut kept = self.kept.lock();
        drop(turn);
        match asked {
            Ok(credentials) => Ok(kept.put(credentials)),
            Err(failure) => {
                let wait = if failure.class == Class::TargetPermanent { REFUSED } else { AWAY };
                kept.failure = Some((Instant::now().after(wait), failure.clone()));
                valid.ok_or(failure)
            }
        }
    }

    /// Forgets credentials that AWS has refused, so that others are looked for.
    pub fn forget(&self, refused: &Arc<AwsCredentials>) {
        let mut kept = self.kept.lock();
        if kept.credentials.as_ref().is_some_and(|credentials| Arc::ptr_eq(credentials, refused)) {
            kept.credentials = None;
        }
    }
}

/// The state of the credentials at the moment.
enum KeptNow {
    /// Credentials that are not renewed yet, or cannot be at the moment.
    Fresh(Arc<AwsCredentials>),
    /// Valid credentials that should be renewed.
    Aged(Arc<AwsCredentials>),
    /// None, and it is too early to ask again.
    Failed(Failure),
    Nothing,
}

impl KeptCredentials {
    fn now(&self) -> KeptNow {
        let now = Instant::now();
        let valid = self.credentials.as_ref().filter(|kept| kept.left().is_none_or(|left| !left.is_zero()));
        let failure = self.failure.as_ref().filter(|(until, _)| now < *until).map(|(_, failure)| failure);
        match (valid, failure) {
            (Some(valid), Some(_)) => KeptNow::Fresh(valid.clone()),
            (Some(valid), None) if self.renew_at.is_some_and(|at| now < at) => KeptNow::Fresh(valid.clone()),
            (Some(valid), None) => KeptNow::Aged(valid.clone()),
            (None, Some(failure)) => KeptNow::Failed(failure.clone()),
            (None, None) => KeptNow::Nothing,
        }
    }

    fn put(&mut self, credentials: AwsCredentials) -> Arc<AwsCredentials> {
        let wait = renewal(credentials.left());
        let credentials = Arc::new(credentials);
        let renew_at = Some(Instant::now().after(wait));
        *self = KeptCredentials { credentials: Some(credentials.clone()), renew_at, failure: None };
        credentials
    }
}

/// Computes the wait before credentials with this much time left are renewed.
fn renewal(left: Option<Duration>) -> Duration {
    left.map_or(AGAIN, |left| (left / 2).max(left.saturating_sub(EARLY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_renewed_before_their_end() {
        let s = Duration::from_secs;
        assert_eq!(renewal(Some(s(3600))), s(3300));
        assert_eq!(renewal(Some(s(400))), s(200));
        assert_eq!(renewal(Some(s(0))), s(0));
        assert_eq!(renewal(None), AGAIN);
    }

    #[tokio::test]
    async fn a_rotated_file_is_read_after_a_refusal_and_a_broken_one_keeps_what_there_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let write = |id: &str| {
            let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = s\n");
            std::fs::write(&file, text).unwrap();
        };
        write("one");
        let spec = AwsLoginSpec {
            region: "eu-west-1".to_owned(),
            credentials_file: Some(file.clone()),
            ..AwsLoginSpec::default()
        };
        let login = AwsLogin::new(&spec, AwsVariables::default());
        let first = login.current().await.unwrap();
        assert_eq!(first.key_id(), "one");
        write("two");
        assert_eq!(login.current().await.unwrap().key_id(), "one");
        login.forget(&first);
        let second = login.current().await.unwrap();
        assert_eq!(second.key_id(), "two");
        login.forget(&first);
        assert_eq!(login.current().await.unwrap().key_id(), "two", "these were not refused");
        std::fs::write(&file, "").unwrap();
        login.kept.lock().renew_at = None;
        assert_eq!(login.current().await.unwrap().key_id(), "two", "they may be valid for long");
        login.forget(&second);
        let failure = login.current().await.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "credentials_refused"));
    }
}
