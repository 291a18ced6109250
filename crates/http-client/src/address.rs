//! TCP connections to a name with several addresses.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

/// A connection to the first of these addresses that takes one.
///
/// # Errors
///
/// The error of the last address.
pub async fn first_to_answer(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
