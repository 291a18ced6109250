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
    /// Returns the IP address; the loopback address for a Unix socket.
    pub fn ip(self) -> IpAddr {
        match self {
            Peer::Tcp(address) => address.ip().to_canonical(),
            Peer::Unix => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

impl From<SocketAddr> for Peer {
    /// Converts the address of a client. Over IPv4 at a listener for both versions it begins with `::ffff:`; it is
    /// shown, and found in lists, as plain IPv4.
    fn from(address: SocketAddr) -> Peer {
        Peer::Tcp(SocketAddr::new(address.ip().to_canonical(), address.port()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_over_ipv4_is_called_by_its_own_address() {
        let check = |address: &str, shown: &str, ip: &str| {
            let peer = Peer::from(address.parse::<SocketAddr>().unwrap());
            assert_eq!((peer.to_string().as_str(), peer.ip()), (shown, ip.parse().unwrap()));
        };
        check("[::ffff:10.0.0.7]:5000", "10.0.0.7:5000", "10.0.0.7");
        check("10.0.0.7:5000", "10.0.0.7:5000", "10.0.0.7");
        check("[2001:db8::7]:5000", "[2001:db8::7]:5000", "2001:db8::7");
    }
}
