//! The calls of the pipeline on a queue in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::element::open;
use super::queue::Queue;
use super::server::{MemoryStore, Op};
use delaybridge_core::metric::SourceTerms;
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::score::Unit;
use delaybridge_ledger::store::{Call, CountedKeys, QueueServer, Rescued, Scheduled, Store, Unannounced};
use delaybridge_ledger::{
    Ahead, Announcement, BATCH_ENTRIES, DeadLetter, Depths, Forwarder, HORIZONS_MS, Look, Order, Pauses, Stats,
    Subject, UpkeepRequest, UpkeepState, Upkept, millis,
};

/// Times that are hardly meant: before 2001, and a year ahead.
const ABSURD: (i64, i64) = (978_307_200_000, 31_536_000_000);

fn ahead(queue: &Queue, now_ms: i64) -> Ahead {
    let until = |ms: i64| queue.scheduled.until(ms).count() as i64;
    let all = queue.scheduled.len() as i64;
    let due = until(now_ms);
    let last = queue.scheduled.iter().last().map(|(due_ms, _)| *due_ms);
    let far = all - until(now_ms.saturating_add(ABSURD.1));
    Ahead {
        within: HORIZONS_MS.map(|horizon| until(now_ms.saturating_add(horizon)) - due),
        absurd: until(now_ms.min(ABSURD.0 - 1)) + far,
        last_ms: last.filter(|last| *last > now_ms),
    }
}

impl Store for MemoryStore {
    fn home(&self) -> &dyn QueueServer {
        self
    }

    fn stats(&self) -> Call<'_, Stats> {
        self.call(Some(Op::Stats), |queue, now_ms| Stats {
            now_ms,
            in_flight: queue.held().elements as i64,
            in_flight_more: queue.held().more,
            retry: queue.retry.len() as i64,
            retry_oldest_ms: queue.oldest_retry_ms(),
            dead: queue.dead.len() as i64,
            expires_ms: None,
            source: Depths {
                scheduled: queue.scheduled.len() as i64,
                due: queue.count("scheduled", now_ms),
                ready: queue.ready.len() as i64,
                head_ms: queue.scheduled.first().map(|(due_ms, _)| *due_ms),
                ahead: ahead(queue, now_ms),
                ..Depths::default()
            },
        })
    }

    fn look(&self) -> Look {
        Look {
            schedules: vec![self.key("scheduled")],
            unit: Unit::Millis,
            lists: vec![self.key("ready")],
            retry: self.key("retry"),
            leases: self.key("leases"),
        }
    }

    fn counted(&self) -> CountedKeys {
        let [schedule, retry, leases] = ["scheduled", "retry", "leases"].map(|place| self.key(place));
        CountedKeys { schedules: vec![schedule], leases, others: vec![retry, self.key("ready")], lasting: Vec::new() }
    }

    fn unannounced(&self) -> Option<Unannounced> {
        None
    }

    fn presence(&self) -> Arc<str> {
        "presence".into()
    }

    fn presence_in_database(&self) -> Arc<str> {
        "presence".into()
    }

    fn channels(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    fn announcement(&self, _channel: &str, _payload: &[u8]) -> Option<Announcement> {
        None
    }

    fn pauses<'a>(&'a self, sinks: &'a [Arc<str>]) -> Call<'a, Pauses> {
        self.call(Some(Op::Pauses), move |queue, now_ms| {
            let at = |subject: Subject<'_>| {
                queue.pauses.get(&subject.field()).filter(|pause| !pause.is_over(now_ms)).cloned()
            };
            let of_sink = |sink: &Arc<str>| Some((sink.clone(), at(Subject::Sink(sink))?));
            Pauses { now_ms, queue: at(Subject::Queue), sinks: sinks.iter().filter_map(of_sink).collect() }
        })
    }

    fn metric_names(&self) -> Option<&'static SourceTerms> {
        None
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

    fn due_between<'a>(&'a self, bounds: &'a [(i64, i64)]) -> Call<'a, Vec<u64>> {
        self.call(None, move |queue, _| {
            let until = |ms: i64| queue.scheduled.until(ms).count() as u64;
            bounds.iter().map(|(from_ms, until_ms)| until(*until_ms) - until(*from_ms)).collect()
        })
    }

    fn due_before(&self, _schedule: usize, ms: i64) -> Call<'_, usize> {
        self.call(None, move |queue, _| queue.scheduled.until(ms.saturating_sub(1)).count())
    }

    fn scheduled(&self, _schedule: usize, first: usize) -> Call<'_, Scheduled> {
        self.call(None, move |queue, now_ms| Scheduled {
            now_ms,
            elements: queue.scheduled.iter().skip(first).take(BATCH_ENTRIES).map(bare).collect(),
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

fn bare((due_ms, element): &(i64, Bytes)) -> Element {
    Element::bare(element.clone(), *due_ms)
}
