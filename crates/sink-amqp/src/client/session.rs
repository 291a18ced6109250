//! One connection to one node, and its certain end.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lapin::Connection;
use parking_lot::Mutex;

use crate::wire::Arriving;

/// Time allowed for a clean end.
const CLOSE: Duration = Duration::from_secs(1);

/// A connection that is logged in. Dropping it ends it at once.
#[derive(Debug)]
pub(crate) struct AmqpSession {
    pub(super) connection: Connection,
    socket: Socket,
    arriving: Arc<Arriving>,
    given_up: AtomicBool,
    /// Whether a number of a channel can never be used again; see `channels.rs`.
    used_up: AtomicBool,
}

/// The second handle of the socket.
#[derive(Debug, Default, Clone)]
pub(super) struct Socket(Arc<Mutex<Option<TcpStream>>>);

impl Socket {
    /// Keeps a second handle of this one.
    pub(super) fn keep(&self, stream: &impl AsFd) -> std::io::Result<()> {
        let stream = TcpStream::from(stream.as_fd().try_clone_to_owned()?);
        *self.0.lock() = Some(stream);
        Ok(())
    }

    /// Ends the connection, for all other handles as well.
    pub(super) fn shut(&self) {
        if let Some(stream) = self.0.lock().take() {
            // It fails when the other side was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for AmqpSession {
    fn drop(&mut self) {
        self.socket.shut();
    }
}

impl AmqpSession {
    pub(super) fn new(connection: Connection, socket: Socket, arriving: Arc<Arriving>) -> AmqpSession {
        let given_up = AtomicBool::new(false);
        let used_up = AtomicBool::new(false);
        AmqpSession { connection, socket, arriving, given_up, used_up }
    }

    /// Returns the messages of a consumer on this connection.
    pub(crate) fn arriving(&self) -> &Arriving {
        &self.arriving
    }

    /// Says goodbye to the broker, within a bounded time, and ends the connection.
    pub(super) async fn close(&self) {
        let _ = tokio::time::timeout(CLOSE, self.connection.close(200, "closed".into())).await;
        self.socket.shut();
    }

    /// Ends the connection without a word: its owner makes another one. What the library has not sent is never sent.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.socket.shut();
    }

    /// Returns the largest frame that the broker accepts, in bytes.
    pub(super) fn frame_max(&self) -> u32 {
        self.connection.configuration().frame_max()
    }

    /// Returns whether it may still be used.
    pub(crate) fn is_up(&self) -> bool {
        !self.given_up.load(Ordering::Acquire) && self.connection.status().connected()
    }

    /// Remembers that a channel's number can never be used again.
    pub(super) fn note_used_up(&self) {
        self.used_up.store(true, Ordering::Release);
    }

    /// Returns whether the number of a channel can never be used again.
    pub(super) fn has_used_up(&self) -> bool {
        self.used_up.load(Ordering::Acquire)
    }
}
