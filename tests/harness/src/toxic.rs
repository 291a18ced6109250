//! Slow or disturbed connections, with the names of toxiproxy.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::sleep;

/// A disturbance of both directions of each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toxic {
    /// A delay of every chunk.
    Latency {
        /// The minimum, in ms.
        ms: u64,
        /// The maximum addition, in ms.
        jitter: u64,
    },
    /// A limited bandwidth.
    Bandwidth {
        /// KB per second.
        kb: u64,
    },
    /// Bytes arrive in small chunks.
    Slicer {
        /// Size of a chunk, in bytes.
        bytes: usize,
    },
    /// The connection is closed after a number of bytes.
    LimitData {
        /// Number of bytes in one direction.
        bytes: u64,
    },
}

/// Maximum number of chunks of one write that are sent separately; the rest is sent together.
const PIECES: usize = 50;

/// Writes the bytes as the toxic allows. `passed` counts the bytes in this direction while there was a toxic.
///
/// # Errors
///
/// The peer has closed the connection, or the limit is reached.
pub async fn write(to: &mut OwnedWriteHalf, bytes: &[u8], toxic: Option<Toxic>, passed: &mut u64) -> io::Result<()> {
    match toxic {
        None => {
            *passed = 0;
            return to.write_all(bytes).await;
        }
        Some(Toxic::Latency { ms, jitter }) => {
            sleep(Duration::from_millis(ms + fastrand::u64(0..=jitter))).await;
            to.write_all(bytes).await?;
        }
        Some(Toxic::Bandwidth { kb }) => {
            for piece in bytes.chunks(1_024) {
                to.write_all(piece).await?;
                sleep(Duration::from_micros(piece.len() as u64 * 1_000 / kb.max(1))).await;
            }
        }
        Some(Toxic::Slicer { bytes: size }) => {
            let size = size.max(bytes.len() / PIECES).max(1);
            for piece in bytes.chunks(size) {
                to.write_all(piece).await?;
                to.flush().await?;
                sleep(Duration::from_micros(100)).await;
            }
        }
        Some(Toxic::LimitData { bytes: limit }) => {
            let left = usize::try_from(limit.saturating_sub(*passed)).unwrap_or(usize::MAX);
            to.write_all(&bytes[..bytes.len().min(left)]).await?;
            if left < bytes.len() {
                return Err(io::Error::other("the limit of a toxic"));
            }
        }
    }
    *passed += bytes.len() as u64;
    Ok(())
}
