//! The record of a change: who changed what, beside the queues that it concerns.

use std::fmt;
use std::sync::Arc;

use crate::note::OperatorNote;
use crate::session::Session;
use delaybridge_model::{Config, QueueSpec};

/// Most queues of a sink beside which its pause is kept.
const QUEUES: usize = 100;

/// The object of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeTarget {
    /// A queue.
    Queue(String),
    /// A sink, for all queues that deliver to it.
    Sink(String),
    /// A topic of the job queue.
    Topic(String),
    /// The configuration of the daemon.
    Configuration,
}

impl ChangeTarget {
    /// Returns the name in the configuration.
    pub fn name(&self) -> &str {
        match self {
            ChangeTarget::Queue(name) | ChangeTarget::Sink(name) | ChangeTarget::Topic(name) => name,
            ChangeTarget::Configuration => "",
        }
    }

    /// Returns the queues of the configuration that it concerns.
    pub(crate) fn queues<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = &'a Arc<QueueSpec>> {
        config.queues.iter().filter(move |spec| match self {
            ChangeTarget::Queue(id) => *spec.id == **id,
            ChangeTarget::Sink(name) => spec.routes().any(|route| *route.sink == **name),
            ChangeTarget::Topic(_) | ChangeTarget::Configuration => false,
        })
    }
}

impl fmt::Display for ChangeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeTarget::Queue(name) => write!(f, "queue `{name}`"),
            ChangeTarget::Sink(name) => write!(f, "sink `{name}`"),
            ChangeTarget::Topic(name) => write!(f, "topic `{name}`"),
            ChangeTarget::Configuration => f.write_str("the configuration"),
        }
    }
}

/// The subject of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSubject {
    /// The name of the operation.
    pub what: &'static str,
    /// The queue or sink.
    pub of: ChangeTarget,
    /// The part that is changed: an id, a filter. No payload.
    pub which: String,
}

impl ChangeSubject {
    /// Something as a whole.
    pub fn whole(what: &'static str, of: ChangeTarget) -> ChangeSubject {
        let which = match &of {
            ChangeTarget::Queue(_) => "queue".to_owned(),
            ChangeTarget::Sink(name) => format!("sink {name}"),
            ChangeTarget::Topic(_) => "topic".to_owned(),
            ChangeTarget::Configuration => "configuration".to_owned(),
        };
        ChangeSubject { what, of, which }
    }

    /// Keeps the change beside the queues that it concerns; `from` is the address of a daemon's client. Best effort: the change is done.
    pub async fn keep(&self, session: &Session, by: &str, from: &str, outcome: Result<&str, &str>) {
        let note = OperatorNote::of(self.what, &self.which, by, outcome);
        for spec in self.of.queues(&session.config).take(QUEUES) {
            if let Ok(queue) = session.queue(spec.clone()).await {
                queue.keep_change(&note, from).await;
            }
        }
    }

    /// Keeps a change that was made over Redis, and tells the daemons, which log it. Best effort.
    pub(super) async fn keep_and_tell(&self, session: &Session, by: &str, outcome: Result<&str, &str>) {
        let note = OperatorNote::of(self.what, &self.which, by, outcome);
        for spec in self.of.queues(&session.config) {
            if let Ok(queue) = session.queue(spec.clone()).await {
                queue.keep_change(&note, "").await;
                queue.publish(&note).await;
            }
        }
    }
}
