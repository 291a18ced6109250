//! The inputs: connected, logged in, and asked for what they consume.

use std::time::Duration;

use super::finding::{Health, LiveFinding, finding};
use delaybridge_model::InputSpec;

/// Time for the answer of a broker.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks at one input. Nothing is taken from its broker.
pub(super) async fn look(spec: &InputSpec) -> LiveFinding {
    let what = format!("input {}", spec.name);
    let input = spec.connector.input();
    let place = format!("{} {}", spec.connector.kind(), spec.connector.address());
    match tokio::time::timeout(PATIENCE, input.check()).await {
        Ok(Ok(check)) => {
            let state = if check.drawbacks.is_empty() { Health::Well } else { Health::Warning };
            let found = format!("{place}; found {}", check.found.join(", "));
            finding(what, state, [vec![found], check.drawbacks].concat().join("; "))
        }
        Ok(Err(failure)) => finding(what, Health::Failed, format!("{place}: {failure}")),
        Err(_) => finding(what, Health::Failed, format!("{place}: no answer within {PATIENCE:?}")),
    }
}
