//! What all questions for credentials share: the time that they get, and the classes of their failures.

use std::path::Path;
use std::time::Duration;

use delaybridge_core::message::{Class, Failure};
use delaybridge_settings::files;

/// Time for one question.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// Reads the text of a small file beside the process.
pub(crate) async fn read_file(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref().to_owned();
    // On a blocking thread: it may be on a slow file system.
    let read = tokio::task::spawn_blocking(move || text_of(&path)).await;
    read.unwrap_or_else(|error| Err(format!("read a file: {error}")))
}

fn text_of(path: &Path) -> Result<String, String> {
    let content = files::read(path).map_err(|error| format!("read {}: {error}", path.display()))?;
    String::from_utf8(content).map_err(|_| format!("read {}: it is not UTF-8 text", path.display()))
}

/// Builds the failure of a question whose cause a person has to fix.
pub(crate) fn refused(text: &str) -> Failure {
    Failure::new(Class::TargetPermanent, "credentials_refused", text)
}

/// Builds the failure of a question that another attempt may answer.
pub(crate) fn unavailable(text: &str) -> Failure {
    Failure::new(Class::Transient, "credentials_unavailable", text)
}
