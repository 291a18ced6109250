//! The ledger's keys of a queue: everything under `delaybridge:` that is the same for every kind of source.

use std::sync::Arc;

use bytes::Bytes;

/// The keys of one queue. They share its hash tag, so that everything works in Redis Cluster.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Entry -> lease deadline in ms.
    pub in_flight: Bytes,
    /// Entry -> time of the next attempt in ms.
    pub retry: Bytes,
    /// Dead letters.
    pub dead: Bytes,
    /// The forwarder of dead letters, and the end of its lease.
    pub state: Bytes,
    /// Every daemon that delivers from the queue listens here, so that others see that it is there. Nothing is sent.
    pub presence: Arc<str>,
}

impl Keys {
    /// The keys of the queue with this tag: `{NAME}`, or a name that has a hash tag of its own.
    pub fn of(tag: &str) -> Self {
        let key = |kind: &str| Bytes::from(format!("delaybridge:{kind}:{tag}"));
        Keys {
            in_flight: key("inflight"),
            retry: key("retry"),
            dead: key("dead"),
            state: key("state"),
            presence: format!("delaybridge:presence:{tag}").into(),
        }
    }

    /// Every key that is ever stored.
    pub fn stored(&self) -> [&Bytes; 4] {
        let Keys { in_flight, retry, dead, state, presence: _ } = self;
        [in_flight, retry, dead, state]
    }
}
