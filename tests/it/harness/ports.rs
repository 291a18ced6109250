//! Free ports for servers that bind them a moment later.
//!
//! They lie below the range from which the kernel takes the source ports of outgoing connections: a port from that range
//! can be gone between our look and the server's bind, and in a run with hundreds of connections it is.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex};

const FIRST: u16 = 18_000;
const LAST: u16 = 32_000;

/// Given out by this process: the tests run in parallel in it, and a server that is down for a restart must find its
/// port free again.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A free port of 127.0.0.1 that this process returns only once.
///
/// Another process can still take it before the caller binds it; the caller then tries again with a new port.
pub fn free_port() -> u16 {
    for _ in 0..10_000 {
        let port = fastrand::u16(FIRST..LAST);
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            continue;
        }
        if TAKEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(port) {
            return port;
        }
    }
    panic!("find a free port between {FIRST} and {LAST}: none in 10,000 tries");
}
