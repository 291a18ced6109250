//! The queue in memory as the contract sees it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::zset::Zset;
use super::{MemoryServer, MemoryStore, Saved, element};
use crate::store::{A, LIST, Parts, Places, Rig};
use delaybridge_core::clock::{Followed, follow_tokio};
use delaybridge_core::message::MessageId;
use delaybridge_ledger::store::{RedisReads, Store};

/// A queue in memory, on paused time.
pub struct MemoryRig {
    pub(super) server: MemoryServer,
    queue: MemoryStore,
    saved: Option<Saved>,
    _clock: Followed,
}

#[allow(clippy::new_without_default, reason = "it changes the clock of the runtime, which a default should not")]
impl MemoryRig {
    /// Pauses the time of the running runtime.
    pub fn new() -> Self {
        tokio::time::pause();
        let clock = follow_tokio();
        let server = MemoryServer::new();
        MemoryRig { queue: server.store("q", [0; 8]), saved: None, server, _clock: clock }
    }
}

impl Rig for MemoryRig {
    fn store(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.server.store("q", [owner; 8]))
    }

    fn store_in_order(&self, owner: u8) -> Arc<dyn Store> {
        self.server.in_order("q");
        self.store(owner)
    }

    fn rescuer(&self) -> Arc<dyn Store> {
        self.store(A)
    }

    fn server(&self) -> Arc<dyn RedisReads> {
        Arc::new(self.server.clone())
    }

    fn element(&self, id: MessageId, payload: &[u8]) -> Bytes {
        element(id, payload)
    }

    fn now_ms(&self) -> i64 {
        self.server.now_ms()
    }

    async fn advance(&mut self, by: Duration) {
        tokio::time::advance(by).await;
    }

    async fn offer(&mut self, element: &Bytes, due_ms: i64) {
        self.queue.with(|queue| queue.scheduled.add(due_ms, element.clone()));
    }

    async fn make_ready(&mut self, payload: &Bytes) {
        self.queue.make_ready(payload.clone());
    }

    async fn save(&mut self) {
        self.saved = Some(self.server.save());
    }

    async fn fall_back(&mut self) {
        let saved = self.saved.clone().unwrap_or_else(|| self.server.save());
        self.server.fail_over(saved);
    }

    async fn spoil_list(&mut self) {
        self.queue.spoil_list(&LIST);
    }

    async fn add_lease(&mut self, name: &str, end_ms: i64) {
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.queue.with(|queue| queue.leases.add(end_ms, name));
    }

    async fn forget_leases(&mut self) {
        self.queue.with(|queue| queue.leases = Zset::default());
    }

    async fn add_waiting(&mut self, member: &Bytes, at_ms: i64) {
        self.queue.with(|queue| queue.retry.add(at_ms, member.clone()));
    }

    async fn places(&mut self) -> Places {
        let pushed = self.queue.list(&LIST);
        let all = |members: &Zset| members.iter().cloned().collect::<Vec<_>>();
        let text = |(end_ms, name): &(i64, Bytes)| (*end_ms, String::from_utf8_lossy(name).into_owned());
        self.queue.with(|queue| {
            let held = queue.claims.iter();
            Places {
                scheduled: all(&queue.scheduled),
                ready: queue.ready.iter().cloned().collect(),
                leases: queue.leases.iter().map(text).collect(),
                claims: held
                    .map(|(name, keys)| (*name, Parts { bare: all(&keys.bare), entries: all(&keys.entries) }))
                    .collect(),
                waiting: all(&queue.retry),
                dead: queue.dead.clone(),
                pushed,
            }
        })
    }
}
