//! A measurement that is running: its options, its queue, and the elements that it offers and claims.

use std::time::Duration;

use bytes::Bytes;

use super::claimer::{Batch, Claimer, Ended};
use delaybridge_core::message::MessageId;
use delaybridge_link::Conn;
use delaybridge_source::redisson::Redisson;
use delaybridge_source::redisson::layout::{Layout, pack};

/// Elements of one command while the queue is filled: small enough that other clients come in between.
pub(super) const PIECE: usize = 500;
/// If this process is killed, what it left is gone after so long.
pub(super) const AT_LATEST: Duration = Duration::from_secs(3_600);

/// The options of a measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// The queue's name in Redis; nothing may be there, and everything there is removed afterwards.
    pub name: String,
    /// Pending elements during the measurement.
    pub depth: u32,
    /// Elements to claim and settle.
    pub drain: u32,
    /// Bytes of each payload.
    pub payload_bytes: u32,
    /// Elements per second in the lateness run.
    pub rate: u32,
    /// Duration of the lateness run, in seconds.
    pub seconds: u32,
}

/// Is called before each step, which takes milliseconds, with the name of the part, how much of it is done, and of how
/// much; returns false to end the measurement.
pub type Watch<'a> = &'a dyn Fn(&'static str, usize, usize) -> bool;

/// The state that all parts of the measurement share.
pub(super) struct Trial<'a> {
    pub(super) options: &'a Options,
    pub(super) conn: Conn,
    pub(super) queue: Redisson,
    pub(super) watch: Watch<'a>,
}

impl Trial<'_> {
    pub(super) fn step(&self, part: &'static str, done: usize, of: usize) -> Result<(), Ended> {
        if (self.watch)(part, done, of) { Ok(()) } else { Err(Ended::Stopped) }
    }

    /// Returns an element as Redisson packs it, with a random payload.
    pub(super) fn element(&self, due_ms: i64) -> (Bytes, i64) {
        let mut payload = vec![0; self.options.payload_bytes as usize];
        fastrand::Rng::new().fill(&mut payload);
        (pack(Layout::New, MessageId(fastrand::u64(..).to_le_bytes()), &payload).into(), due_ms)
    }

    /// Claims; the keys that the first claim makes expire like the others.
    pub(super) async fn claim(&self, claimer: &mut Claimer, most: usize) -> Result<Batch, Ended> {
        let reply = claimer.claim(&self.conn, &self.queue, most).await?;
        if claimer.was_first() {
            self.queue.vanish_after(&self.conn, AT_LATEST).await?;
        }
        Ok(reply)
    }
}
