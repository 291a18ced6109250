//! The place of a server.

use std::fmt;
use std::path::PathBuf;

use delaybridge_settings::url::host_with_port;

/// The place where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A host and a TCP port.
    Tcp {
        /// Host name or IP address; an IPv6 address without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Returns the address of a TCP port.
    pub fn tcp(host: impl Into<String>, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    /// Returns the name that the server's certificate is compared with.
    pub(crate) fn host(&self) -> &str {
        match self {
            Address::Tcp { host, .. } => host,
            Address::Unix(_) => "localhost",
        }
    }
}

/// `host:port`, with brackets around IPv6 addresses, or `unix:PATH`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } => f.write_str(&host_with_port(host, *port)),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
