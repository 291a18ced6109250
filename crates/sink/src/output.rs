//! Bytes that wait to be written, and how many have left.

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Answers that a server may have asked for before it reads them. None waits for more than a few.
const OWED: usize = 1_000;

/// The answers that a server has asked for, and that have not left. A server that asks on without reading would make them grow
/// without end.
#[derive(Debug, Default)]
pub struct OwedAnswers(usize);

impl OwedAnswers {
    /// Counts one more.
    ///
    /// # Errors
    /// There are more than any server waits for: the connection is to be ended, with this reason.
    pub fn owe(&mut self) -> Result<(), &'static str> {
        self.0 += 1;
        if self.0 > OWED { Err("it has asked for 1,000 answers without reading them") } else { Ok(()) }
    }

    /// Resets what is owed: everything that was asked for has left.
    pub fn paid(&mut self) {
        self.0 = 0;
    }
}

/// The output of a connection.
#[derive(Debug, Default)]
pub struct FrameOutput {
    /// The bytes that wait.
    pub bytes: BytesMut,
    /// The bytes that were handed to the socket, or to TLS.
    written: u64,
    /// The bytes that certainly left.
    left: u64,
}

impl FrameOutput {
    /// Returns the place behind the last byte.
    pub fn end(&self) -> u64 {
        self.written + self.bytes.len() as u64
    }

    /// Returns whether a byte behind this place may have left.
    pub fn may_have_left(&self, place: u64) -> bool {
        place < self.written
    }

    /// Returns whether everything before this place has left.
    pub fn has_left(&self, place: u64) -> bool {
        place <= self.left
    }

    /// Returns whether there is anything to write or to flush.
    pub fn waits(&self) -> bool {
        self.end() > self.left
    }

    /// Writes what there is, or flushes where nothing waits. Cancel safe.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
        if !self.bytes.has_remaining() {
            writer.flush().await?;
            self.left = self.written;
            return Ok(());
        }
        match writer.write_buf(&mut self.bytes).await? {
            0 => Err(std::io::ErrorKind::WriteZero.into()),
            count => {
                self.written += count as u64;
                Ok(())
            }
        }
    }
}
