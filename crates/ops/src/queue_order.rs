//! The orders and the filters of a list of queues, as words.

use serde::{Deserialize, Serialize};

/// The order of a list of queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueOrder {
    /// Queues in trouble first, the worst of them before the others.
    Trouble,
    /// That of the configuration.
    #[default]
    #[serde(rename = "configuration")]
    File,
    /// By name.
    Name,
    /// The most due first.
    Due,
    /// The most overdue first.
    Overdue,
    /// The most dead letters first.
    Dead,
    /// The highest rate first.
    Rate,
}

impl QueueOrder {
    /// Every order.
    pub const ALL: [QueueOrder; 7] = [
        QueueOrder::Trouble,
        QueueOrder::File,
        QueueOrder::Name,
        QueueOrder::Due,
        QueueOrder::Overdue,
        QueueOrder::Dead,
        QueueOrder::Rate,
    ];

    /// Returns the word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            QueueOrder::File => "configuration",
            QueueOrder::Trouble => "trouble",
            QueueOrder::Name => "name",
            QueueOrder::Due => "due",
            QueueOrder::Overdue => "overdue",
            QueueOrder::Dead => "dead",
            QueueOrder::Rate => "rate",
        }
    }
}

/// The queues of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueFilter {
    /// All of them.
    #[default]
    All,
    /// Queues that need a person.
    Trouble,
    /// Queues that are paused, or have a paused sink.
    Paused,
    /// Queues with elements that are overdue.
    Overdue,
    /// Queues with dead letters.
    Dead,
}

impl QueueFilter {
    /// Every filter.
    pub const ALL: [QueueFilter; 5] =
        [QueueFilter::All, QueueFilter::Trouble, QueueFilter::Paused, QueueFilter::Overdue, QueueFilter::Dead];

    /// Returns the word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            QueueFilter::All => "all",
            QueueFilter::Trouble => "trouble",
            QueueFilter::Paused => "paused",
            QueueFilter::Overdue => "overdue",
            QueueFilter::Dead => "dead",
        }
    }
}
