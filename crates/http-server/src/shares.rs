//! Callers, and their parts of what all share: a semaphore for each caller that uses any.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use delaybridge_telemetry::peer::Peer;

/// The part of a room that is one caller's share.
pub const SHARES: usize = 4;

/// The owner of a share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Who {
    /// A token, by its name.
    Token(Arc<str>),
    /// An address, where there is no token.
    Address(IpAddr),
}

/// A caller who may have a name.
pub trait MaybeNamed {
    /// Returns the name of the token.
    fn name(&self) -> Option<&Arc<str>>;
}

/// Returns the owner of the share that the bodies of this caller take.
pub fn who(peer: Peer, caller: &impl MaybeNamed) -> Who {
    caller.name().map_or_else(|| Who::Address(peer.ip()), |name| Who::Token(name.clone()))
}

/// The share of each caller, of the same size.
#[derive(Debug)]
pub struct CallerShares {
    each: usize,
    used: Mutex<HashMap<Who, Weak<Semaphore>>>,
}

impl CallerShares {
    /// Creates shares of this many permits each.
    pub fn new(each: usize) -> CallerShares {
        CallerShares { each, used: Mutex::default() }
    }

    /// Returns the permits of each.
    pub fn each(&self) -> usize {
        self.each
    }

    /// Returns the share of a caller, which is forgotten when nobody has it any more.
    pub fn of(&self, who: &Who) -> Arc<Semaphore> {
        let mut used = self.used.lock();
        if let Some(share) = used.get(who).and_then(Weak::upgrade) {
            return share;
        }
        used.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.each));
        used.insert(who.clone(), Arc::downgrade(&share));
        share
    }

    /// Returns the number of shares that are known, and whether any is in use.
    #[cfg(test)]
    pub fn known(&self) -> (usize, bool) {
        let used = self.used.lock();
        (used.len(), used.values().any(|share| share.strong_count() > 0))
    }
}
