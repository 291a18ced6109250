//! What slows or spoils a connection, in the words of toxiproxy.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::sleep;

/// Applies to both directions of each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toxic {
    /// Every piece is held up for so many ms, and up to `jitter` more.
    Latency {
        /// At least.
        ms: u64,
        /// And up to so many more.
        jitter: u64,
    },
    /// So many KB pass in a second.
    Bandwidth {
        /// KB a second.
        kb: u64,
    },
    /// Bytes come in small pieces.
    Slicer {
        /// Bytes of a piece.
        bytes: usize,
    },
    /// The connection is closed after so many bytes.
    LimitData {
        /// Bytes of one direction.
        bytes: u64,
    },
}

/// Pieces of one write that are really sent one by one; the rest goes together.
const PIECES: usize = 50;

/// Writes what the toxic lets through. `passed` counts what has passed in this direction while there was one.
///
/// # Errors
///
/// The peer is gone, or the limit is reached.
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
