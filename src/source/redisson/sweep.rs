//! The rotation of L that takes ghosts out of it, step by step.

use std::time::Duration;

use bytes::Bytes;

use super::reply::{BadReply, Fields};
use super::{BATCH_BYTES, BATCH_ENTRIES, Redisson, SourceError, millis, text};
use crate::link::Conn;

/// What a step of the sweep is to do.
#[derive(Debug, Clone, Copy)]
pub struct SweepRequest {
    /// Slice to do, or `None` to begin a turn.
    pub slice: Option<i64>,
    /// Age of the oldest ghost that starts a turn.
    pub ghost_max_age: Duration,
    /// Bytes per second on average.
    pub bandwidth: u64,
    /// When a turn begins.
    pub start: Start,
    /// Size of the largest element met lately.
    pub largest: usize,
}

/// When a turn of the sweep begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// When there are many ghosts or an old one, and the budget allows it.
    Due,
    /// As soon as there is one ghost: Redis is nearly full.
    Urgent,
    /// In any case: the orphans are to be counted.
    Census,
}

/// What a step of the sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepState {
    /// No turn is due.
    Idle,
    /// Another daemon sweeps this queue.
    Busy,
    /// That slice had been done.
    Stale,
    /// A turn is under way.
    Begun,
    /// A slice was done.
    Slice,
    /// The turn is complete.
    Done,
}

/// Answer to a step of the sweep.
#[derive(Debug, Clone, Copy)]
pub struct Swept {
    /// What was done.
    pub state: SweepState,
    /// Redis time in ms.
    pub now_ms: i64,
    /// Number of the slice to ask for next.
    pub slice: i64,
    /// Entries left in this turn.
    pub left: i64,
    /// Ghosts removed by this step.
    pub removed: i64,
    /// Entries met in this turn that nobody recorded and that are in no zset.
    pub orphans: i64,
}

/// How long a daemon that sweeps is waited for before another one goes on.
const SWEEP_LEASE: Duration = Duration::from_secs(10);

impl Redisson {
    /// One step of the rotation that takes ghosts out of L.
    ///
    /// # Errors
    ///
    /// After any error the same step may be sent again.
    pub async fn sweep(&self, conn: &Conn, request: &SweepRequest) -> Result<Swept, SourceError> {
        let k = &self.keys;
        let keys = [&k.delayed, &k.list, &k.ghosts, &k.ghosts_turn, &k.state].map(Bytes::clone);
        let args = [
            Bytes::copy_from_slice(&self.owner),
            request.slice.map_or(Bytes::from_static(b"begin"), text),
            text(BATCH_ENTRIES),
            text(BATCH_BYTES),
            text(request.largest),
            text(millis(request.ghost_max_age)),
            text(request.bandwidth),
            text(millis(SWEEP_LEASE)),
            Bytes::from_static(match request.start {
                Start::Due => b"0",
                Start::Urgent => b"1",
                Start::Census => b"2",
            }),
        ];
        let reply = conn.script(&self.scripts.sweep, &keys, &args).await?;
        let mut fields = Fields::of("sweep", reply)?;
        let state = match fields.text()?.as_str() {
            "idle" => SweepState::Idle,
            "busy" => SweepState::Busy,
            "stale" => SweepState::Stale,
            "begun" => SweepState::Begun,
            "slice" => SweepState::Slice,
            "done" => SweepState::Done,
            _ => return Err(BadReply { script: "sweep", expected: "a known state" }.into()),
        };
        Ok(Swept {
            state,
            now_ms: fields.int()?,
            slice: fields.int()?,
            left: fields.int()?,
            removed: fields.int()?,
            orphans: fields.int()?,
        })
    }
}
