//! A replica of the server, and the states that it may have.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::queue::Queue;

/// A state of the server.
#[derive(Clone)]
pub struct Saved(pub(super) HashMap<Arc<str>, Queue>);

#[derive(Default)]
pub(super) struct Replica {
    /// The state that it has, if it receives nothing more.
    pub(super) behind: Mutex<Option<Saved>>,
    /// Whether claims wait for it.
    pub(super) awaited: AtomicBool,
    /// The states that it may have instead of the last one, the oldest first; `None` for a replica that follows at once.
    pub(super) lag: Mutex<Option<VecDeque<Saved>>>,
}
