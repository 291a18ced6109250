//! One server: its supervised connection, and whether its memory is nearly full.

use std::sync::atomic::{AtomicBool, Ordering};

use super::conn::Conn;
use super::link::Link;

/// One server, shared by everything that is kept there.
#[derive(Debug)]
pub struct Node {
    /// The supervised connection.
    pub link: Link,
    nearly_full: AtomicBool,
}

impl Node {
    /// Wraps the link of a server.
    pub fn new(link: Link) -> Node {
        Node { link, nearly_full: false.into() }
    }

    /// Returns the connection, if there is one now.
    pub fn current(&self) -> Option<Conn> {
        self.link.current()
    }

    /// Returns whether more than 90 % of its memory was in use at the last look.
    pub fn is_nearly_full(&self) -> bool {
        self.nearly_full.load(Ordering::Relaxed)
    }

    /// Records the result of a look at its memory.
    pub fn set_nearly_full(&self, full: bool) {
        self.nearly_full.store(full, Ordering::Relaxed);
    }
}
