//! What the pipeline does with a queue in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{MemoryStore, Op, open};
use crate::message::{MessageId, Origin};
use crate::metric::SourceTerms;
use crate::source::ledger::{
    BATCH_ENTRIES, ClaimReply, ClaimRequest, DeadLetter, Entry, Forwarder, Hints, Move, Order, RecoverRequest,
    Recovered, Settled, Stats,
};
use crate::source::store::{Call, Rescued, Scheduled, Store};
use crate::source::{Announcement, Depths, Junk, Read, UpkeepRequest, UpkeepState, Upkept, millis};

impl Store for MemoryStore {
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Call<'a, ClaimReply> {
        self.call(Some(Op::Claim), |queue, now_ms| queue.claim(self.owner, request, now_ms))
    }

    fn recover<'a>(&'a self, request: &'a RecoverRequest) -> Call<'a, Recovered> {
        self.call(Some(Op::Recover), |queue, now_ms| queue.recover(self.owner, request, now_ms))
    }

    fn settle<'a>(
        &'a self,
        batch: &'a [(Bytes, Move)],
        push_to: Option<&'a Bytes>,
        dead_max_len: Option<u64>,
    ) -> Call<'a, Settled> {
        self.call(Some(Op::Settle), move |queue, now_ms| queue.settle_all(batch, push_to, dead_max_len, now_ms))
    }

    fn extend<'a>(&'a self, lease: Duration, members: &'a [Bytes]) -> Call<'a, Vec<bool>> {
        self.call(Some(Op::Extend), move |queue, now_ms| {
            let until = now_ms.saturating_add(millis(lease));
            let extend = |member: &Bytes| {
                let there = queue.in_flight.score(member).is_some();
                if there {
                    queue.in_flight.add(until, member.clone());
                }
                there
            };
            members.iter().map(extend).collect()
        })
    }

    fn stats<'a>(&'a self, _hints: &'a mut Hints) -> Call<'a, Stats> {
        self.call(None, |queue, now_ms| Stats {
            now_ms,
            in_flight: queue.in_flight.len() as i64,
            retry: queue.retry.len() as i64,
            dead: queue.dead.len() as i64,
            source: Depths {
                scheduled: queue.scheduled.len() as i64,
                due: queue.count("scheduled", now_ms),
                ready: queue.ready.len() as i64,
                head_ms: queue.scheduled.first().map(|(due_ms, _)| *due_ms),
                ..Depths::default()
            },
        })
    }

    fn poll(&self, now_ms: i64, ahead: Duration) -> Vec<Read> {
        let until = |place: &str, until_ms| Read::DueBefore { key: self.key(place), until_ms };
        vec![
            until("scheduled", now_ms.saturating_add(millis(ahead))),
            Read::Length { key: self.key("ready") },
            until("retry", now_ms),
            until("in_flight", now_ms),
        ]
    }

    fn unannounced(&self) -> Option<(Read, Arc<str>)> {
        None
    }

    fn channels(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    fn announcement(&self, _channel: &str, _payload: &[u8]) -> Option<Announcement> {
        None
    }

    fn terms(&self) -> Option<&'static SourceTerms> {
        None
    }

    fn open(&self, entry: &Entry) -> (MessageId, Result<Bytes, Junk>) {
        match entry.header.origin {
            Origin::Ready => (entry.header.given_id(), Ok(entry.element.clone())),
            Origin::Delayed => open(&entry.element),
        }
    }

    fn open_scheduled(&self, element: &Bytes) -> (MessageId, Result<Bytes, Junk>) {
        open(element)
    }

    fn upkeep<'a>(&'a self, _request: &'a UpkeepRequest) -> Call<'a, Upkept> {
        self.call(None, |_, now_ms| Upkept {
            state: UpkeepState::Idle,
            now_ms,
            step: 0,
            left: 0,
            removed: 0,
            orphans: 0,
        })
    }

    fn due_before(&self, ms: i64) -> Call<'_, usize> {
        self.call(None, move |queue, _| queue.scheduled.until(ms.saturating_sub(1)).count())
    }

    fn scheduled(&self, first: usize) -> Call<'_, Scheduled> {
        self.call(None, move |queue, now_ms| Scheduled {
            now_ms,
            elements: queue.scheduled.iter().skip(first).take(BATCH_ENTRIES).cloned().collect(),
        })
    }

    fn rescue<'a>(&'a self, after: Duration, elements: &'a [Bytes]) -> Call<'a, Rescued> {
        self.call(None, move |queue, now_ms| {
            let limit = now_ms.saturating_sub(millis(after));
            let mut rescued = Rescued::default();
            for element in elements {
                let Ok(payload) = open(element).1 else {
                    rescued.junk += 1;
                    continue;
                };
                if queue.scheduled.score(element).is_some_and(|due_ms| due_ms <= limit) {
                    queue.scheduled.remove(element);
                    queue.ready.push_back(payload);
                    rescued.moved += 1;
                }
            }
            rescued
        })
    }

    fn forwarded<'a>(&'a self, lease: Duration, confirmed: &'a [String]) -> Call<'a, Forwarder> {
        self.call(None, move |queue, now_ms| queue.forwarded(self.owner, millis(lease), confirmed, now_ms))
    }

    fn dead_count(&self) -> Call<'_, usize> {
        self.call(None, |queue, _| queue.dead.len())
    }

    fn dead_range<'a>(
        &'a self,
        order: Order,
        from: &'a str,
        until: &'a str,
        count: usize,
    ) -> Call<'a, Vec<DeadLetter>> {
        self.call(None, move |queue, _| queue.dead_range(order, from, until, count))
    }
}
