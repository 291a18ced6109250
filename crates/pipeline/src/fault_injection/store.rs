//! A store that lies.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::lie::Lie;
use delaybridge_core::carried::Carried;
use delaybridge_core::message::Identity;
use delaybridge_core::metric::SourceTerms;
use delaybridge_ledger::claims::{
    Answer, Buried, ClaimName, ClaimReply, ClaimRequest, Confirmed, Contents, Element, Extended, SettleCommand,
    SettleOp, Settled, TakeOverReply, TakeOverRequest, Whole,
};
use delaybridge_ledger::store::{
    Call, Claims, CountedKeys, InFlight, QueueServer, Rescued, Scheduled, Store, Unannounced,
};
use delaybridge_ledger::{
    Announcement, DeadLetter, Forwarder, Look, NoPayload, Order, Pauses, Stats, StoreError, UpkeepRequest, Upkept,
};

/// A store that changes what it is asked to do, or what has come of it.
pub(super) struct LyingStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) lie: Lie,
    pub(super) stopping: CancellationToken,
}

impl LyingStore {
    /// Returns the name that a claim has in Redis.
    fn name(&self, name: ClaimName) -> ClaimName {
        let number = if self.lie == Lie::ClaimWithoutFence { 1 } else { name.number };
        ClaimName { number, ..name }
    }

    fn names(&self, names: &[ClaimName]) -> Vec<ClaimName> {
        names.iter().map(|name| self.name(*name)).collect()
    }

    fn lease(&self, lease: Duration) -> Duration {
        if self.lie == Lie::EndlessLease { lease * 1_000 } else { lease }
    }

    /// Converts the answer to a claim: one that is unknown is called not sent.
    fn answer<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match answer {
            Err(StoreError::Unknown { address, .. }) if self.lie == Lie::ResentScript => {
                Err(StoreError::NotSent { address })
            }
            answer => answer,
        }
    }
}

/// Calls that are handed on as they are.
macro_rules! forward {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $answer:ty;)*) => {
        // Some answers borrow from the store, others do not.
        $(#[allow(clippy::needless_lifetimes, clippy::extra_unused_lifetimes)]
        fn $name<'a>(&'a self $(, $argument: $type)*) -> $answer {
            self.store.$name($($argument),*)
        })*
    };
}

impl Claims for LyingStore {
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Call<'a, ClaimReply> {
        let ahead = if self.lie == Lie::Early { Duration::from_millis(50) } else { request.ahead };
        let name = self.name(request.name);
        let lease = self.lease(request.lease);
        async move { self.answer(self.store.claim(&ClaimRequest { name, lease, ahead, ..request.clone() }).await) }
            .boxed()
    }

    fn take_over<'a>(&'a self, request: &'a TakeOverRequest) -> Call<'a, TakeOverReply> {
        let new = self.name(request.new);
        let lease = self.lease(request.lease);
        async move { self.answer(self.store.take_over(&TakeOverRequest { new, lease, ..request.clone() }).await) }
            .boxed()
    }

    fn extend<'a>(&'a self, lease: Duration, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, Extended> {
        async move { self.store.extend(lease, not_after_ms, &self.names(names)).await }.boxed()
    }

    fn contents(&self, name: ClaimName) -> Call<'_, Contents> {
        self.store.contents(self.name(name))
    }

    fn recover(
        &self,
        name: ClaimName,
        lease: Duration,
        not_after_ms: i64,
        may_repeat: bool,
    ) -> Call<'_, Option<Contents>> {
        self.store.recover(self.name(name), lease, not_after_ms, may_repeat)
    }

    fn confirm<'a>(&'a self, claims: &'a [Whole]) -> Call<'a, Vec<Confirmed>> {
        let claims: Vec<_> = claims.iter().map(|claim| Whole { name: self.name(claim.name), ..*claim }).collect();
        async move {
            let mut confirmed = self.store.confirm(&claims).await?;
            if self.lie == Lie::SkippedCounter {
                confirmed.fill(Confirmed::Gone);
            }
            Ok(confirmed)
        }
        .boxed()
    }

    fn settle<'a>(
        &'a self,
        batch: &'a [SettleCommand],
        push_to: Option<&'a Bytes>,
        dead_max_len: Option<u64>,
    ) -> Call<'a, Settled> {
        async move {
            let mut written = Vec::with_capacity(batch.len());
            for verdict in batch {
                let step = match (self.lie, &verdict.step) {
                    (Lie::AckOnDrop, SettleOp::Release { .. }) | (Lie::SwallowedRetry, SettleOp::Retry { .. }) => {
                        SettleOp::Confirm
                    }
                    (_, step) => step.clone(),
                };
                written.push(SettleCommand { claim: self.name(verdict.claim), step, ..verdict.clone() });
            }
            let is_said = |verdict: &SettleCommand| match self.lie {
                Lie::ForgottenAtShutdown => {
                    !self.stopping.is_cancelled()
                        || matches!(verdict.step, SettleOp::Confirm | SettleOp::Progress { .. })
                }
                _ => true,
            };
            let said: Vec<bool> = written.iter().map(is_said).collect();
            let mut all = said.iter();
            written.retain(|_| all.next().is_some_and(|said| *said));
            let settled = self.store.settle(&written, push_to, dead_max_len).await?;
            let mut answers = settled.answers.iter();
            let answer = |said: bool| match (said, self.lie) {
                (true, Lie::SkippedCounter) => answers.next().map_or(Answer::NotMine, |_| Answer::NotMine),
                (true, _) => answers.next().copied().unwrap_or(Answer::NotMine),
                (false, _) => Answer::Done,
            };
            let answers = said.into_iter().map(answer).collect();
            Ok(Settled { answers, ..settled })
        }
        .boxed()
    }

    fn bury<'a>(&'a self, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, Buried> {
        async move { self.store.bury(not_after_ms, &self.names(names)).await }.boxed()
    }

    fn owner(&self) -> [u8; 8] {
        if self.lie == Lie::ClaimWithoutFence { [0; 8] } else { self.store.owner() }
    }

    forward! {
        fn expired(&self, now_ms: i64, most: usize) -> Call<'a, (Vec<ClaimName>, u64)>;
        fn leave_order(&self, until_ms: i64) -> Call<'a, bool>;
        fn in_flight(&self) -> Call<'a, InFlight>;
        fn open_element(&self, element: &Element) -> (Identity, Result<Bytes, NoPayload>);
        fn has_met_bodies(&self) -> bool;
        fn tries(&self, element: &Element) -> Option<u32>;
        fn topic(&self, element: &Element) -> Option<Arc<str>>;
        fn carried(&self, element: &Element) -> Option<Arc<Carried>>;
    }
}

impl Store for LyingStore {
    forward! {
        fn home(&self) -> &'a dyn QueueServer;
        fn stats(&self) -> Call<'a, Stats>;
        fn look(&self) -> Look;
        fn counted(&self) -> CountedKeys;
        fn unannounced(&self) -> Option<Unannounced>;
        fn note_others(&self, seen: Option<Duration>, holds: Duration) -> Call<'a, ()>;
        fn presence(&self) -> Arc<str>;
        fn presence_in_database(&self) -> Arc<str>;
        fn channels(&self) -> Vec<Arc<str>>;
        fn announcement(&self, channel: &str, payload: &[u8]) -> Option<Announcement>;
        fn pauses(&self, sinks: &'a [Arc<str>]) -> Call<'a, Pauses>;
        fn metric_names(&self) -> Option<&'static SourceTerms>;
        fn upkeep(&self, request: &'a UpkeepRequest) -> Call<'a, Upkept>;
        fn schedules(&self) -> usize;
        fn due_before(&self, schedule: usize, ms: i64) -> Call<'a, usize>;
        fn due_between(&self, bounds: &'a [(i64, i64)]) -> Call<'a, Vec<u64>>;
        fn scheduled(&self, schedule: usize, first: usize) -> Call<'a, Scheduled>;
        fn read_bodies(&self, elements: &'a mut [Element]) -> Call<'a, ()>;
        fn rescue(&self, after: Duration, elements: &'a [Bytes]) -> Call<'a, Rescued>;
        fn forwarded(&self, lease: Duration, confirmed: &'a [String]) -> Call<'a, Forwarder>;
        fn dead_count(&self) -> Call<'a, usize>;
        fn dead_range(&self, order: Order, from: &'a str, until: &'a str, count: usize) -> Call<'a, Vec<DeadLetter>>;
    }
}
