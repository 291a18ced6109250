//! The listeners of a daemon, which each need an address of their own.

use std::net::IpAddr;

use delaybridge_settings::Listen;
use delaybridge_settings::problem::{Report, Spot};

/// Reports two listeners of which only one could listen. Each has the place of its section, its key and its address.
pub(super) fn check(report: &Report, listeners: &[(Spot, &str, Listen)]) {
    for (at, (spot, key, listen)) in listeners.iter().enumerate() {
        if let Some((_, other, _)) = listeners[..at].iter().find(|(.., other)| clash(listen, other)) {
            let message = format!("`{key}` and `{other}` are the same address, {listen}");
            report.problem(spot, message, "give each listener a port of its own");
        }
    }
}

/// Returns whether the second of two listeners would find its address in use. Port 0 is another one each time.
fn clash(one: &Listen, other: &Listen) -> bool {
    match (one, other) {
        (Listen::Tcp(one), Listen::Tcp(other)) => {
            one.port() == other.port() && one.port() != 0 && meets(one.ip(), other.ip())
        }
        (Listen::Unix(one), Listen::Unix(other)) => one == other,
        _ => false,
    }
}

/// Returns whether one of two addresses takes connections that are for the other.
fn meets(one: IpAddr, other: IpAddr) -> bool {
    one == other
        || one.is_unspecified() && (one.is_ipv6() || other.is_ipv4())
        || other.is_unspecified() && (other.is_ipv6() || one.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_meets_those_on_one_of_them() {
        let check = |one: &str, other: &str, expected| {
            let [one, other] = [one, other].map(|text| Listen::parse(text).unwrap());
            assert_eq!((clash(&one, &other), clash(&other, &one)), (expected, expected), "{one} {other}");
        };
        check("127.0.0.1:9464", "127.0.0.1:9464", true);
        check("0.0.0.0:9464", "127.0.0.1:9464", true);
        check("[::]:9464", "127.0.0.1:9464", true);
        check("unix:/run/a", "unix:/run/a", true);
        check("127.0.0.1:9464", "127.0.0.2:9464", false);
        check("127.0.0.1:9464", "127.0.0.1:9465", false);
        check("0.0.0.0:9464", "[::1]:9464", false);
        check("0.0.0.0:0", "127.0.0.1:0", false);
        check("unix:/run/a", "unix:/run/b", false);
    }
}
