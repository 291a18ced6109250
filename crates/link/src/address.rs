//! The address of a server, as a cluster or a sentinel names it.

use std::fmt;
use std::sync::Arc;

use super::endpoint::RedisEndpoint;
use delaybridge_settings::url::host_with_port;

/// A host and a port, as a cluster or a sentinel names them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// Host name or IP address.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// Creates an address.
    pub fn new(host: impl Into<Arc<str>>, port: u16) -> Address {
        Address { host: host.into(), port }
    }

    /// Returns whether it is the address of this server.
    pub(crate) fn is_of(&self, server: &RedisEndpoint) -> bool {
        *self.host == *server.host && self.port == server.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&host_with_port(&self.host, self.port))
    }
}
