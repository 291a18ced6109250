//! The rotation of L that takes ghosts out of it, step by step.
//!
//! `LREM` walks L from one end, which makes Redisson's own transfer slow at depth. So a claim removes an element from L
//! only where that is cheap: at the ends, or a few within 5 % of Redis's time while L is short. All others become ghosts,
//! recorded by identity: the first 9 bytes, which are the random id and the byte before or behind it. A sweep rotates L slice
//! by slice, removes recorded ghosts and keeps everything else. `list_cleanup: exact` uses `LREM` instead.

use std::time::Duration;

use bytes::Bytes;

use super::{Redisson, RedissonSource};
use delaybridge_ledger::{
    BATCH_BYTES, BATCH_ENTRIES, Start, StoreError, UpkeepRequest, UpkeepState, Upkept, millis, text,
};
use delaybridge_link::{BadReply, Conn, Fields};

/// The time to wait for a sweeping daemon before another one continues.
const SWEEP_LEASE: Duration = Duration::from_secs(10);

impl RedissonSource {
    /// Runs one step of the rotation that takes ghosts out of L.
    ///
    /// # Errors
    ///
    /// After any error the same step may be sent again.
    pub async fn sweep(&self, conn: &Conn, owner: [u8; 8], request: &UpkeepRequest) -> Result<Upkept, StoreError> {
        let k = &self.keys;
        let keys = [&k.delayed, &k.list, &k.ghosts, &k.ghosts_turn, &k.sweep].map(Bytes::clone);
        let args = [
            Bytes::copy_from_slice(&owner),
            request.step.map_or(Bytes::from_static(b"begin"), text),
            text(BATCH_ENTRIES),
            text(BATCH_BYTES),
            text(request.largest),
            text(millis(request.max_age)),
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
            "idle" => UpkeepState::Idle,
            "busy" => UpkeepState::Busy,
            "stale" => UpkeepState::Stale,
            "begun" => UpkeepState::Begun,
            "slice" => UpkeepState::Step,
            "done" => UpkeepState::Done,
            _ => return Err(BadReply { script: "sweep", expected: "a known state" }.into()),
        };
        Ok(Upkept {
            state,
            now_ms: fields.int()?,
            step: fields.int()?,
            left: fields.int()?,
            removed: fields.int()?,
            orphans: fields.int()?,
        })
    }
}

impl Redisson {
    /// Runs one step of the rotation that takes ghosts out of L.
    ///
    /// # Errors
    ///
    /// After any error the same step may be sent again.
    pub async fn sweep(&self, conn: &Conn, request: &UpkeepRequest) -> Result<Upkept, StoreError> {
        self.source.sweep(conn, self.owner, request).await
    }
}
