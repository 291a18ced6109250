//! Free ports for servers that bind them a moment later.
//!
//! The ports are below the range of source ports for outgoing connections, and outside the range of the integration
//! tests' harness: a server that restarts must find its port free.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex, PoisonError};

const FIRST: u16 = 10_000;
const LAST: u16 = 18_000;

/// The ports handed out by this process.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A free port of 127.0.0.1, which this process returns only once.
///
/// Another process can take it before the caller binds it; then the caller tries again with another port.
pub(crate) fn free_port() -> u16 {
    for _ in 0..10_000 {
        // A new RandomState is the source of randomness in std.
        let random = RandomState::new().build_hasher().finish() % u64::from(LAST - FIRST);
        let port = FIRST + u16::try_from(random).expect("less than the range is wide");
        if TcpListener::bind(("127.0.0.1", port)).is_ok()
            && TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port)
        {
            return port;
        }
    }
    panic!("find a free port between {FIRST} and {LAST}: none in 10,000 tries");
}
