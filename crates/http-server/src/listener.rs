//! A bound socket, and the connections that come in on it.

use std::fs::{File, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::listen::{BACKLOG, listen};
use delaybridge_settings::Listen;

/// The mode of a Unix socket: the user of the daemon, and root, may connect.
const OWNER_ONLY: u32 = 0o600;

/// A bound socket: connections wait in the kernel until they are accepted.
#[derive(Debug)]
pub struct ApiListener {
    socket: BoundSocket,
    /// The address; the port is the real one if 0 was asked for.
    pub address: Listen,
}

#[derive(Debug)]
enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(SocketName, std::os::unix::net::UnixListener),
}

/// The file of a Unix socket; removed with this, so before the socket is closed.
#[derive(Debug)]
struct SocketName(PathBuf);

impl Drop for SocketName {
    fn drop(&mut self) {
        // Left behind, it is removed by the next daemon that listens there.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl ApiListener {
    /// Binds the address.
    ///
    /// # Errors
    /// It is taken, not ours, or not allowed.
    pub fn bind(address: &Listen) -> Result<ApiListener> {
        match address {
            Listen::Tcp(address) => tcp(*address),
            Listen::Unix(path) => {
                // The name is ours only once it is bound.
                let socket = unix(path)?;
                Ok(ApiListener {
                    socket: BoundSocket::Unix(SocketName(path.clone()), socket),
                    address: address.clone(),
                })
            }
        }
    }

    /// Prepares the socket to accept clients.
    pub(super) fn into_async(self) -> Result<Accepting> {
        Ok(match self.socket {
            BoundSocket::Tcp(socket) => Accepting { _name: None, socket: Async::Tcp(TcpListener::from_std(socket)?) },
            BoundSocket::Unix(name, socket) => {
                Accepting { _name: Some(name), socket: Async::Unix(UnixListener::from_std(socket)?) }
            }
        })
    }
}

fn tcp(address: SocketAddr) -> Result<ApiListener> {
    let socket = listen(address)?;
    Ok(ApiListener { address: socket.local_addr()?.into(), socket: BoundSocket::Tcp(socket) })
}

fn unix(path: &Path) -> Result<std::os::unix::net::UnixListener> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Before it has a name: the file has these rights from its first moment on.
    let file = File::from(OwnedFd::from(socket));
    file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    let socket = Socket::from(OwnedFd::from(file));
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(OwnedFd::from(socket).into())
}

/// Removes a socket that a daemon left behind that was killed. What is no socket, or is listened to, stays.
fn remove_stale(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(Error::new(ErrorKind::AlreadyExists, "there is a file of this name that is no socket"))
        }
        Ok(_) => match StdUnixStream::connect(path) {
            Ok(_) => Err(Error::new(ErrorKind::AddrInUse, "another process listens there")),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
            Err(error) => Err(error),
        },
    }
}

pub(super) struct Accepting {
    /// Removed before the socket is closed.
    _name: Option<SocketName>,
    socket: Async,
}

enum Async {
    Tcp(TcpListener),
    Unix(UnixListener),
}

pub(super) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Accepted {
    /// Returns the address of the client, over TCP.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        match self {
            Accepted::Tcp(_, peer) => Some(peer.ip().to_canonical()),
            Accepted::Unix(_) => None,
        }
    }
}

impl Accepting {
    /// Waits for the next connection. Cancel-safe: it is taken only when this returns it.
    pub(super) async fn accept(&self) -> Result<Accepted> {
        match &self.socket {
            Async::Tcp(listener) => listener.accept().await.map(|(stream, peer)| Accepted::Tcp(stream, peer)),
            Async::Unix(listener) => listener.accept().await.map(|(stream, _)| Accepted::Unix(stream)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_owner_and_gone_in_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let listen = Listen::Unix(path.clone());
        let listener = ApiListener::bind(&listen).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, OWNER_ONLY);
        let taken = ApiListener::bind(&listen).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse, "{taken}");
        let accepting = listener.into_async().unwrap();
        let (accepted, connected) = tokio::join!(accepting.accept(), UnixStream::connect(&path));
        assert!(matches!(accepted.unwrap(), Accepted::Unix(_)) && connected.is_ok());
        drop(accepting);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_daemon_left_is_replaced_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        // The socket is closed, and its file stays.
        let _ = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(path.exists());
        let _ = ApiListener::bind(&Listen::Unix(path.clone())).unwrap();
        std::fs::write(&path, "mine").unwrap();
        let refused = ApiListener::bind(&Listen::Unix(path.clone())).unwrap_err();
        assert!(refused.to_string().contains("no socket"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        let nowhere = directory.path().join("gone/admin.sock");
        assert_eq!(ApiListener::bind(&Listen::Unix(nowhere)).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
