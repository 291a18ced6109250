//! The addresses of a name, and a TCP connection to the first of them that answers.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;

use crate::DialError;

/// Idle time before the first keepalive probe, and between probes: a silent peer is noticed within 20 s.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Time after which the next address is tried beside the ones before it, as RFC 8305 has it.
const NEXT: Duration = Duration::from_millis(100);

/// Looks up the addresses of a host.
pub(crate) async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
    let found = tokio::net::lookup_host((host, port)).await.map_err(|error| DialError::resolve(host, &error))?;
    let addresses = in_turns(found.collect());
    if addresses.is_empty() {
        return Err(DialError::resolve(host, &io::Error::new(io::ErrorKind::NotFound, "it has no address")));
    }
    Ok(addresses)
}

/// Orders IPv6 and IPv4 in turns, beginning with the family that the system prefers: where one of them leads nowhere,
/// the other is next.
fn in_turns(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = found.first().map(SocketAddr::is_ipv6) else { return found };
    let (mut one, mut other): (VecDeque<_>, VecDeque<_>) =
        found.into_iter().partition(|address| address.is_ipv6() == first);
    let mut turns = Vec::new();
    while !one.is_empty() || !other.is_empty() {
        turns.extend(one.pop_front());
        turns.extend(other.pop_front());
    }
    turns
}

/// Connects to the first of these addresses that answers. An error is that of the address that failed last.
pub(crate) async fn first_to_answer(
    addresses: Vec<SocketAddr>,
    user_timeout: Option<Duration>,
) -> Result<TcpStream, DialError> {
    let mut left = addresses.into_iter();
    let mut trying = FuturesUnordered::new();
    let mut last = None;
    loop {
        match left.next() {
            Some(address) => {
                trying.push(async move { (address, connect(address, user_timeout).await) });
            }
            None if trying.is_empty() => {
                let (address, error) = last.unwrap_or((None, io::ErrorKind::NotFound.into()));
                return Err(match address {
                    Some(address) => DialError::connect(address, &error),
                    None => DialError::connect("the host", &error),
                });
            }
            None => {}
        }
        let wait = if left.len() > 0 { NEXT } else { Duration::MAX };
        // An answer counts, and so does an error: the next address is not kept waiting by one that refuses.
        match tokio::time::timeout(wait, trying.next()).await {
            Ok(Some((_, Ok(stream)))) => return Ok(stream),
            Ok(Some((address, Err(error)))) => last = Some((Some(address), error)),
            Ok(None) | Err(_) => {}
        }
    }
}

async fn connect(address: SocketAddr, user_timeout: Option<Duration>) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    // Clients write whole messages.
    socket.set_nodelay(true)?;
    let options = socket2::SockRef::from(&socket);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3);
    options.set_tcp_keepalive(&keepalive)?;
    if let Some(time) = user_timeout {
        options.set_tcp_user_timeout(Some(time))?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phase;
    use tokio::net::TcpListener;

    #[test]
    fn the_families_take_turns() {
        let rows: [(&[&str], &[&str]); 3] = [
            (
                &["[::1]:1", "[::2]:1", "1.1.1.1:1", "2.2.2.2:1", "3.3.3.3:1"],
                &["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "3.3.3.3:1"],
            ),
            (&["1.1.1.1:1", "[::1]:1"], &["1.1.1.1:1", "[::1]:1"]),
            (&[], &[]),
        ];
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        for (found, expected) in rows {
            assert_eq!(in_turns(parse(found)), parse(expected));
        }
    }

    #[tokio::test]
    async fn an_address_that_is_silent_or_refuses_does_not_keep_the_next_one_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        // No one answers at an address that is reserved for documentation.
        let silent: SocketAddr = "192.0.2.1:9".parse().unwrap();
        let stream = first_to_answer(vec![closed, silent, good], None).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        let error = first_to_answer(vec![closed], None).await.unwrap_err();
        assert_eq!(error.phase(), Phase::Connect);
        assert!(error.is_unreachable() && !error.needs_a_person());
        assert!(error.to_string().starts_with(&format!("{closed}: the connection was refused")), "{error}");
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_of_the_first_phase() {
        let error = resolve("no-such-host.invalid", 1).await.unwrap_err();
        assert_eq!(error.phase(), Phase::Resolve);
        assert!(error.to_string().contains("look up the host name `no-such-host.invalid`"), "{error}");
    }
}
