//! One server as the daemon uses it: its supervised connection, and whether its memory is nearly used up.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Conn, Link};

/// One server. It is shared by everything that is kept there.
#[derive(Debug)]
pub struct Node {
    /// The supervised connection.
    pub link: Link,
    nearly_full: AtomicBool,
}

impl Node {
    /// The server that this link leads to.
    pub fn new(link: Link) -> Node {
        Node { link, nearly_full: false.into() }
    }

    /// The connection, if there is one now.
    pub fn current(&self) -> Option<Conn> {
        self.link.current()
    }

    /// Whether more than 90 % of its memory was in use at the last look.
    pub fn is_nearly_full(&self) -> bool {
        self.nearly_full.load(Ordering::Relaxed)
    }

    /// Notes what a look at its memory has shown.
    pub fn set_nearly_full(&self, full: bool) {
        self.nearly_full.store(full, Ordering::Relaxed);
    }
}
