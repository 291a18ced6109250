//! The client of a connection, as the log names it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A client at this address.
    Tcp(SocketAddr),
    /// A process of this machine, over a Unix socket.
    Unix,
}

impl Peer {
    /// The IP address; the loopback address for a Unix socket.
    pub fn ip(self) -> IpAddr {
        match self {
            Peer::Tcp(address) => address.ip().to_canonical(),
            Peer::Unix => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Peer {
        Peer::Tcp(address)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(f),
            Peer::Unix => f.write_str("unix"),
        }
    }
}
