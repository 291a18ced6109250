//! The finding about one thing.

use serde::Serialize;

/// The state of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// In order.
    #[serde(rename = "ok")]
    Well,
    /// In order, with a drawback.
    Warning,
    /// Not working.
    Failed,
}

/// The finding about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveFinding {
    /// The thing.
    pub what: String,
    /// The state.
    pub state: Health,
    /// The finding, and what to do.
    pub detail: String,
}

pub(super) fn finding(what: impl Into<String>, state: Health, detail: impl Into<String>) -> LiveFinding {
    LiveFinding { what: what.into(), state, detail: detail.into() }
}
