//! The place of a listener: an address, or a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The prefix of a Unix socket's path in the configuration.
pub const UNIX: &str = "unix:";
/// Longest path that the kernel takes for a socket.
const LONGEST: usize = 107;

/// The place of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(PathBuf),
}

impl Listen {
    /// Parses `127.0.0.1:9465` or `unix:/run/delaybridge/admin.sock`. `None` if it is neither.
    pub fn parse(text: &str) -> Option<Listen> {
        match text.strip_prefix(UNIX) {
            Some(path) => {
                let fits =
                    path.starts_with('/') && !path.ends_with('/') && path.len() <= LONGEST && !path.contains('\0');
                fits.then(|| Listen::Unix(path.into()))
            }
            None => text.parse().ok().map(Listen::Tcp),
        }
    }

    /// Returns the address, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        }
    }

    /// Returns whether only processes of this machine reach it.
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().is_loopback())
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Listen {
        Listen::Tcp(address)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_the_whole_path_of_a_socket() {
        for text in ["127.0.0.1:9465", "[::1]:7", "unix:/run/delaybridge/admin.sock"] {
            assert_eq!(Listen::parse(text).map(|listen| listen.to_string()).as_deref(), Some(text));
        }
        let long = format!("unix:/{}", "x".repeat(LONGEST));
        for text in ["127.0.0.1", "unix:", "unix:admin.sock", "unix:/run/", "/run/admin.sock", &long] {
            assert_eq!(Listen::parse(text), None, "{text}");
        }
        assert!(Listen::parse("unix:/x").unwrap().is_local() && !Listen::parse("0.0.0.0:1").unwrap().is_local());
    }
}
