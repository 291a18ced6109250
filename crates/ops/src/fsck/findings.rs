//! What a check finds: the faults of one kind, and some of the things that have it.

use serde::Serialize;

use super::fault_text::Explanation;

/// Things of one kind that are named.
pub(super) const NAMED: usize = 20;

/// The faults of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct FaultCount {
    /// The kind in words.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The number of occurrences.
    pub count: usize,
    /// There were more at the first look than are examined in one run: run it again after the repair.
    pub more: usize,
    /// The number that were repaired.
    pub repaired: usize,
    /// Some of them.
    pub things: Vec<Thing>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, Serialize)]
pub struct Thing {
    /// The name.
    pub name: String,
    /// Why a repair leaves it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<&'static str>,
    /// Whether it was repaired.
    pub repaired: bool,
}
