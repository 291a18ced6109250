//! The ledger of one queue: its keys, its scripts, and the source behind it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;

use super::claims::Element;
use super::error::StoreError;
use super::keys::Keys;
use super::payload::NoPayload;
use super::scripts::Scripts;
use super::source::Source;
use delaybridge_core::message::Identity;
use delaybridge_link::Conn;

/// The ledger of one queue in one Redis, as one process sees it.
pub struct Ledger {
    /// The ledger's keys of the queue.
    pub keys: Keys,
    /// The random number of this process.
    pub owner: [u8; 8],
    pub(super) scripts: &'static Scripts,
    pub(super) source: Arc<dyn Source>,
    /// One daemon at a time delivers from the queue, in order.
    pub(super) ordered: bool,
    /// Mean size of the bodies that were met last, for a source with bodies: 0 for none.
    pub(super) body_size: AtomicUsize,
}

impl Ledger {
    /// Creates the ledger of a source's queue. `owner` is this process's random number.
    pub fn new(source: Arc<dyn Source>, owner: [u8; 8]) -> Self {
        let keys = source.ledger_keys();
        Ledger { keys, owner, scripts: source.scripts(), source, ordered: false, body_size: AtomicUsize::new(0) }
    }

    /// Sets whether one daemon at a time delivers from the queue, in order.
    pub fn in_order(self, ordered: bool) -> Self {
        Ledger { ordered, ..self }
    }

    /// Returns the foreign half of the queue.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// Reads the owner of the order, in hexadecimal digits, and the end of its lease in ms; `None` without an owner.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a key of another type.
    pub async fn order_holder(&self, conn: &Conn) -> Result<Option<(String, i64)>, StoreError> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.state[..]).arg(&["order_owner", "order_until"]);
        let (owner, until): (Option<String>, Option<String>) = conn.query(&command).await?;
        let until_ms = until.and_then(|until| until.parse().ok()).filter(|until| *until > 0);
        Ok(owner.zip(until_ms))
    }

    /// Takes an element apart: its id, and the payload or why there is none.
    pub fn open(&self, element: &Element) -> (Identity, Result<Bytes, NoPayload>) {
        let origin = element.origin();
        let given = element.given_id();
        let bytes = element.bytes();
        if element.is_damaged() {
            let (id, junk) = element.as_junk();
            return (id, Err(junk.into()));
        }
        if let (Some(body), Some(bodies)) = (&element.body, self.source.bodies()) {
            return bodies.open_body(&bytes, body);
        }
        let (id, payload) = self.source.open(origin, given, &bytes);
        (id, payload.map_err(NoPayload::Junk))
    }

    /// Returns the keys of scripts that have a half of the source: ours first.
    pub(super) fn with_source(&self) -> Vec<Bytes> {
        let mut keys = vec![self.keys.leases.clone(), self.keys.retry.clone(), self.keys.dead.clone()];
        keys.extend(self.source.keys());
        keys
    }
}
