//! What all questions for credentials share: the time that they get, and the classes of their failures.

use std::path::Path;
use std::time::Duration;

use delaybridge_core::message::{Class, Failure};

/// Time for one question.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// The text of a small file beside the process.
pub(crate) fn read_file(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path);
    text.map_err(|error| format!("read {}: {error}: check that it exists and may be read", path.display()))
}

/// The failure of a question whose cause a person has to fix.
pub(crate) fn refused(text: &str) -> Failure {
    Failure::new(Class::TargetPermanent, "credentials_refused", text)
}

/// The failure of a question that another attempt may answer.
pub(crate) fn unavailable(text: &str) -> Failure {
    Failure::new(Class::Transient, "credentials_unavailable", text)
}
