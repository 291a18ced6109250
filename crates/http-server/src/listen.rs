//! TCP sockets that listen.

use std::io::{ErrorKind, Result};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Number of connections that the kernel queues until they are accepted. The standard library has 128: a flood of clients fills
/// them at once, and a refused probe is retried after a second, which is all the time that Kubernetes grants.
pub(super) const BACKLOG: i32 = 1024;

/// Listens at this address. `[::]` is for IPv4 as well, whatever the default of the system is, and for IPv4 alone where the kernel
/// has no IPv6.
///
/// # Errors
///
/// Returns an error if the address is in use, is not of this machine, or is not permitted.
pub fn listen(address: SocketAddr) -> Result<TcpListener> {
    with_fallback(address, bind)
}

fn with_fallback<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> Result<T>) -> Result<T> {
    let bound = bind(address);
    let absent = |error: &std::io::Error| !matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied);
    if address.ip() == Ipv6Addr::UNSPECIFIED && bound.as_ref().is_err_and(absent) {
        return bind((Ipv4Addr::UNSPECIFIED, address.port()).into()).or(bound);
    }
    bound
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    // A restart must not wait for the connections of the previous process.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::net::TcpStream;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn all_addresses_are_those_of_both_versions() {
        let listener = listen((Ipv6Addr::UNSPECIFIED, 0).into()).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
    }

    #[test]
    fn without_ipv6_all_addresses_are_those_of_ipv4() {
        // EAFNOSUPPORT, of a kernel with `ipv6.disable=1`.
        let unsupported = 97;
        let asked = Mutex::new(Vec::new());
        let check = |address: &str, code: i32, expected: &[&str]| {
            asked.lock().unwrap().clear();
            let bound = with_fallback(address.parse().unwrap(), |address| {
                asked.lock().unwrap().push(address.to_string());
                if address.is_ipv6() { Err(Error::from_raw_os_error(code)) } else { Ok(()) }
            });
            assert_eq!(*asked.lock().unwrap(), expected, "{address} {code}");
            assert_eq!(bound.is_ok(), expected.len() == 2, "{address} {code}");
        };
        check("[::]:9464", unsupported, &["[::]:9464", "0.0.0.0:9464"]);
        check("[::1]:9464", unsupported, &["[::1]:9464"]);
        // EADDRINUSE and EACCES: another process has the port, or it may not be used.
        check("[::]:9464", 98, &["[::]:9464"]);
        check("[::]:80", 13, &["[::]:80"]);
        let neither = with_fallback("[::]:1".parse().unwrap(), |address| {
            Err::<(), _>(Error::from_raw_os_error(if address.is_ipv6() { unsupported } else { 98 }))
        });
        assert_eq!(
            neither.unwrap_err().raw_os_error(),
            Some(unsupported),
            "the reason of the address that was asked for"
        );
    }
}
