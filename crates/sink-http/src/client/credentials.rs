//! Token and signing secrets, read from their files again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::sync::Mutex;

use super::super::{HttpSpec, secrets};
use super::signature::Signer;
use delaybridge_core::clock::Instant;
use delaybridge_settings::files;

/// Longest age of what was read. The files are small; a rotated secret is used within a second.
const FRESH: Duration = Duration::from_secs(1);

/// Proof of the sender's identity.
#[derive(Debug)]
pub(super) struct Credentials {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) signer: Option<Signer>,
}

/// The files, and what was read from them last.
#[derive(Debug)]
pub(super) struct CredentialFiles {
    token: Option<PathBuf>,
    secrets: Option<PathBuf>,
    /// Held while the files are read, so that they are read once for all that wait.
    read: Mutex<Option<(Instant, Arc<Credentials>)>>,
}

impl CredentialFiles {
    pub(super) fn new(spec: &HttpSpec) -> CredentialFiles {
        CredentialFiles {
            token: spec.bearer_token_file.clone(),
            secrets: spec.signature.as_ref().map(|signature| signature.secret_file.clone()),
            read: Mutex::default(),
        }
    }

    /// Reads the files, or returns what was in them within the last second. An error names the file, and never has its
    /// content.
    pub(super) async fn current(&self) -> Result<Arc<Credentials>, String> {
        let mut read = self.read.lock().await;
        if let Some((at, credentials)) = &*read {
            let unchanging = self.token.is_none() && self.secrets.is_none();
            if unchanging || at.elapsed() < FRESH {
                return Ok(credentials.clone());
            }
        }
        let token = self.token.clone();
        let secrets = self.secrets.clone();
        // A mounted secret may be on a slow file system.
        let reading = tokio::task::spawn_blocking(move || load(token.as_deref(), secrets.as_deref()));
        let credentials = Arc::new(reading.await.map_err(|_| "read the secrets: interrupted".to_owned())??);
        *read = Some((Instant::now(), credentials.clone()));
        Ok(credentials)
    }
}

fn load(token: Option<&Path>, secrets: Option<&Path>) -> Result<Credentials, String> {
    let authorization = token.map(|path| {
        let text = text("bearer_token_file", path)?;
        authorization(&text).map_err(|why| format!("read bearer_token_file {}: {why}", path.display()))
    });
    let signer = secrets.map(|path| {
        let text = text("secret_file", path)?;
        Signer::parse(&text).map_err(|why| format!("read secret_file {}: {why}", path.display()))
    });
    Ok(Credentials { authorization: authorization.transpose()?, signer: signer.transpose()? })
}

fn text(key: &str, path: &Path) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("read {key} {}: {why}", path.display());
    let content = files::read(path).map_err(|error| failed(&error))?;
    String::from_utf8(content).map_err(|_| failed(&"it is not UTF-8 text"))
}

/// Builds the header that carries the token in the first line of a file.
fn authorization(text: &str) -> Result<HeaderValue, &'static str> {
    let token = secrets::token(text)?;
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| "its first line has characters that no token has")?;
    value.set_sensitive(true);
    Ok(value)
}
