//! The inputs: connected, logged in, and asked for what they consume.

use std::time::Duration;

use super::{Health, LiveFinding, finding};
use delaybridge_model::InputSpec;

/// Time for the answer of a broker.
const PATIENCE: Duration = Duration::from_secs(15);

/// Looks at one input. Nothing is taken from its broker.
pub(super) async fn look(spec: &InputSpec) -> LiveFinding {
    let (what, input) = (format!("input {}", spec.name), spec.connector.input());
    let place = format!("{} {}", spec.connector.kind(), spec.connector.address());
    match tokio::time::timeout(PATIENCE, input.check()).await {
        Ok(Ok(drawbacks)) if drawbacks.is_empty() => finding(what, Health::Well, place),
        Ok(Ok(drawbacks)) => finding(what, Health::Warning, format!("{place}: {}", drawbacks.join("; "))),
        Ok(Err(failure)) => finding(what, Health::Failed, format!("{place}: {failure}")),
        Err(_) => finding(what, Health::Failed, format!("{place}: no answer within {PATIENCE:?}")),
    }
}
