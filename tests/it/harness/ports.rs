//! Free ports for servers that bind them a moment later.
//!
//! The ports are below the range of source ports for outgoing connections: in a run with hundreds of connections, a
//! port of that range would be taken between the check and the server's bind.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex};

const FIRST: u16 = 18_000;
const LAST: u16 = 32_000;

/// The ports handed out by this process: the tests run in parallel in it, and a server that restarts must find its port
/// free.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A free port of 127.0.0.1, which this process returns only once.
///
/// Another process can take it before the caller binds it; then the caller tries again with another port.
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
