//! The source `redisson`: a delayed queue as Redisson keeps it.
//!
//! `keys` names what is in Redis, [`layout`] reads Redisson's elements, `source` is the implementation of
//! [`Source`](delaybridge_ledger::Source); then a file for each thing that only Redisson's queues need: the sweep of its list, the rescue
//! of overdue elements, the way back to Redisson's keys, the change of layouts, the discovery of queues.

pub(crate) mod config;
mod discover;
mod fsck;
mod keys;
pub mod layout;
mod layouts;
mod metric_names;
mod migrate;
mod rescue;
mod restore;
mod rights;
mod scratch_queue;
mod scripts;
mod source;
mod sweep;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use self::config::KIND;
pub use self::config::{Consume, ListCleanup, RedissonSpec};
pub use self::discover::{Found, discover, free_places, name_of, redisson_clients};
pub use self::keys::Keys;
pub(crate) use self::keys::tagged;
pub use self::metric_names::METRIC_NAMES;
pub use self::migrate::{Repack, migrate_end};
pub use self::rescue::{Overdue, rescue_end};
pub use self::restore::{AtWork, Back, Held, Kept, Moved, Restored, put_back, repacked, restore_end};
pub use self::rights::to_wake_in_cluster;
pub use self::scratch_queue::{memory_left, ping};
pub use self::scripts::{SCRIPTS, SCRIPTS_ON_TEST_CLOCK, Scripts};
pub use self::source::RedissonSource;
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::{Kind, Ledger, Members, Packed, Shape, StoreError, junk_id, members};
use delaybridge_link::{Conn, KeySpace};

/// One queue of Redisson with its ledger, as one process sees it.
pub struct Redisson {
    /// The queue's keys.
    pub keys: Keys,
    source: Arc<RedissonSource>,
    ledger: Ledger,
}

impl Redisson {
    /// Creates the queue with this mapped name. `owner` is this process's random number.
    pub fn new(name: &str, owner: [u8; 8], delayed: bool, ready: bool, cleanup: ListCleanup) -> Self {
        Self::of(RedissonSource::new(&KeySpace::default(), name, delayed, ready, cleanup), owner)
    }

    /// Creates the queue with this mapped name, all of which is consumed, in a Redis where our keys and channels have
    /// these names.
    pub fn within(space: &KeySpace, name: &str, owner: [u8; 8]) -> Self {
        Self::of(RedissonSource::new(space, name, true, true, ListCleanup::Auto), owner)
    }

    /// Creates the queue that a configuration describes.
    pub fn configured(spec: &RedissonSpec, owner: [u8; 8]) -> Self {
        Self::of(RedissonSource::of(spec), owner)
    }

    /// Creates the queue of this source.
    pub fn of(source: RedissonSource, owner: [u8; 8]) -> Self {
        let source = Arc::new(source);
        Redisson { keys: source.keys.clone(), ledger: Ledger::new(source.clone(), owner), source }
    }

    /// Puts the queue under the clock of [`TEST_CLOCK`].
    pub fn on_test_clock(self) -> Self {
        Self::of(self.source.on_test_clock(), self.ledger.owner)
    }

    /// Sets scripts that a test has changed: [`Scripts::patched`].
    #[doc(hidden)]
    pub fn with_scripts(self, scripts: &'static Scripts) -> Self {
        Self::of(self.source.with_scripts(scripts), self.ledger.owner)
    }

    /// Reads entries of L from the `first` on, whole: at least one unless the end is reached.
    ///
    /// # Errors
    ///
    /// As for [`members`].
    pub async fn listed(&self, conn: &Conn, first: usize) -> Result<Members, StoreError> {
        members(conn, &self.keys.list, Kind::List, first).await
    }

    /// Offers an element as [`RedissonSource::offer`] does.
    ///
    /// # Errors
    ///
    /// As for [`RedissonSource::offer`].
    pub async fn offer(&self, conn: &Conn, element: Bytes, delay: Duration) -> Result<i64, StoreError> {
        self.source.offer(conn, element, delay).await
    }
}

impl Deref for Redisson {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

/// Takes an element of Redisson's sorted set, or a payload of its ready list, apart.
pub fn open(origin: Origin, given: MessageId, element: &Bytes) -> (MessageId, Result<Bytes, layout::Junk>) {
    match origin {
        Origin::Ready => (given, Ok(element.clone())),
        Origin::Delayed => match layout::parse(element) {
            Ok(parsed) => (parsed.id, Ok(parsed.payload)),
            Err(junk) => (junk_id(element), Err(junk)),
        },
    }
}

/// Takes an element of a claim apart.
pub fn open_entry(element: &Element) -> (MessageId, Result<Bytes, layout::Junk>) {
    open(element.origin(), element.given_id(), &element.bytes())
}

/// Reads an element of `size` bytes from its beginning. The id of junk is a hash of all its bytes.
pub fn read(start: &Bytes, size: usize) -> Packed {
    match layout::parse_start(start, size) {
        Ok(element) => Packed {
            id: Some(element.id.into()),
            shape: Shape::Packed(element.layout.as_str()),
            size: size - element.layout.header(),
            payload: element.payload,
        },
        Err(_) => {
            let id = (start.len() == size).then(|| junk_id(start));
            Packed { id: id.map(Identity::from), shape: Shape::Junk, size, payload: start.clone() }
        }
    }
}

/// Reads these bytes as an element of Redisson; `None` if they fit no layout.
pub fn recognise(element: &Bytes) -> Option<Packed> {
    Some(read(element, element.len())).filter(|packed| packed.shape != Shape::Junk)
}
