//! Queues at rest: what wakes them, what keeps them at work, and that rest costs nothing: no lateness, no count, no state.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::{AbortHandle, JoinSet};

use super::*;
use crate::claim::{claimers, gauges, notes, safety_poll};
use crate::deliver::sink_handle::SinkHandle;
use crate::leases::keeper;
use crate::limits::budget::Budget;
use crate::process::Process;
use crate::registry::{QueueParts, QueueRegistry};
use crate::tests::world::metric;
use delaybridge_core::clock::{Followed, follow_tokio};
use delaybridge_ledger::claims::ClaimReply;
use delaybridge_ledger::store::Claims as _;
use delaybridge_model::Ordered;
use delaybridge_telemetry::events::Events;
use delaybridge_telemetry::labels::Wakeup;
use delaybridge_testing::memory::{Fault, MemoryServer, Op, element};
use delaybridge_testing::store::request;

const ATTEMPTS: &str = "delaybridge_delivery_attempts_total{class=\"ok\",queue=\"q0\",sink=\"s\"}";
const OF_FIRST: &str = "delaybridge_delivered_messages_total{queue=\"q0\"}";

/// A process with many queues, of which those at rest are not built.
pub(super) struct Many {
    pub(super) server: MemoryServer,
    pub(super) registry: Arc<QueueRegistry>,
    pub(super) events: Events,
    /// The task that starts claimers.
    pub(super) claimers: AbortHandle,
    tasks: JoinSet<()>,
    _clock: Followed,
}

impl Many {
    /// So many queues, named `q0` and so on, each changed as wanted.
    pub(super) fn start(queues: usize, sink: &Arc<FakeSink>, change: impl Fn(&mut QueueSpec)) -> Many {
        Many::start_at(MemoryServer::new(), [1; 8], queues, sink, change)
    }

    /// The same at a server that others may be at.
    pub(super) fn start_at(
        server: MemoryServer,
        owner: [u8; 8],
        queues: usize,
        sink: &Arc<FakeSink>,
        change: impl Fn(&mut QueueSpec),
    ) -> Many {
        let clock = follow_tokio();
        let events = Events::default();
        let process = Process::new(owner, Budget::new(1000, 1 << 26), events.clone());
        let name: Arc<str> = "s".into();
        let handle = SinkHandle::new(name.clone(), sink.clone(), None, events.sink(&name), process.gates.clone());
        let specs: Vec<_> = (0..queues)
            .map(|n| {
                let mut spec = QueueSpec { id: format!("q{n}").into(), ..spec(&[("s", sink.clone())]) };
                change(&mut spec);
                Arc::new(spec)
            })
            .collect();
        let stores = server.clone();
        let parts = QueueParts {
            store: Box::new(move |spec, owner| Arc::new(stores.store(&spec.id, owner))),
            sinks: HashMap::from([(name, Arc::new(handle))]),
        };
        let registry = Arc::new(QueueRegistry::new(Arc::new(process), Arc::new(server.clone()), &specs, parts));
        let mut tasks = JoinSet::new();
        let beat = |task: &str| events.status().heartbeat(task, MINUTE);
        let claimers = tasks.spawn(claimers::run(registry.clone(), MINUTE));
        tasks.spawn(keeper::run(registry.clone(), beat("lease keeper")));
        tasks.spawn(safety_poll::run(registry.clone(), beat("safety poll")));
        tasks.spawn(gauges::run(registry.clone()));
        tasks.spawn(notes::run(registry.clone()));
        registry.look_at_all(Wakeup::Due);
        Many { server, registry, events, claimers, tasks, _clock: clock }
    }

    /// One queue, as it is.
    pub(super) async fn one_at_rest(sink: &Arc<FakeSink>) -> Many {
        let many = Many::start(1, sink, |_| ());
        many.until_rest().await;
        many
    }

    /// Offers an element that nobody announces.
    pub(super) fn offer_in(&self, queue: usize, delay: Duration, n: u64) {
        let store = self.server.store(&format!("q{queue}"), [0; 8]);
        store.offer(element(id(n), b"payload"), delay);
    }

    pub(super) fn at_work(&self) -> usize {
        self.registry.at_work().len()
    }

    pub(super) async fn until_rest(&self) {
        eventually("all queues to be at rest", || self.server.calls(Op::Claim) > 0 && self.at_work() == 0).await;
    }

    pub(super) fn metric(&self, series: &str) -> f64 {
        metric(&self.events, series)
    }

    pub(super) async fn stop(mut self) {
        self.registry.process().stopping.cancel();
        self.registry.process().give_up.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

#[tokio::test(start_paused = true)]
async fn an_element_that_nobody_announced_comes_in_time_from_a_queue_at_rest() {
    for delay in [5 * SECOND, MINUTE, HOUR] {
        let sink = sink();
        let many = Many::one_at_rest(&sink).await;
        let claims = many.server.calls(Op::Claim);
        many.offer_in(0, delay, 1);
        tokio::time::sleep(delay.saturating_sub(2 * SECOND)).await;
        assert_eq!((many.at_work(), many.server.calls(Op::Claim)), (0, claims), "{delay:?}: it was woken long before");
        let late = lateness_now(&sink, &many).await;
        assert!((0..=10).contains(&late), "{delay:?}: {late} ms late");
        assert!(many.server.calls(Op::Claim) <= claims + 3, "{delay:?}");
        many.stop().await;
    }
}

/// How late the next element is when it comes, looked at each millisecond.
async fn lateness_now(sink: &FakeSink, many: &Many) -> i64 {
    let before = sink.taken().len();
    for _ in 0..120_000 {
        if let Some(message) = sink.taken().get(before) {
            return many.server.now_ms() - message.due_ms.expect("a due time");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("no element");
}

#[tokio::test(start_paused = true)]
async fn an_announcement_wakes_a_queue_for_what_falls_due_before_the_next_poll() {
    let sink = sink();
    let many = Many::one_at_rest(&sink).await;
    for (n, delay_ms) in [(1, 0), (2, 40), (3, 700)] {
        many.until_rest().await;
        many.offer_in(0, Duration::from_millis(delay_ms), n);
        many.registry.announce(0, many.server.now_ms() + delay_ms as i64);
        let late = lateness_now(&sink, &many).await;
        assert!((0..=10).contains(&late), "{delay_ms} ms: {late} ms late");
    }
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_thousands_of_queues_only_those_with_work_are_built_and_none_is_late() {
    let sink = sink();
    let many = Many::start(3_000, &sink, |_| ());
    eventually("all to be looked at", || many.server.calls(Op::Claim) >= 3_000).await;
    many.until_rest().await;
    assert_eq!(many.server.calls(Op::Claim), 3_000, "each was looked at once");
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!((many.at_work(), many.server.calls(Op::Claim)), (0, 3_000), "polls are reads");
    for n in 0..50 {
        many.offer_in(n * 60, 20 * SECOND + Duration::from_millis(n as u64 * 97), n as u64);
    }
    let mut worst = 0;
    for _ in 0..50 {
        worst = worst.max(lateness_now(&sink, &many).await);
    }
    assert!(worst <= 10, "{worst} ms late");
    assert!(many.at_work() <= 50);
    many.until_rest().await;
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_overdue_in_the_last_of_thousands_of_queues_does_not_wait_for_the_looks_at_the_others() {
    let sink = sink();
    let many = Many::start(3_000, &sink, |_| ());
    many.offer_in(2_900, Duration::ZERO, 1);
    let late = lateness_now(&sink, &many).await;
    assert!(late <= 10, "{late} ms after the start");
    eventually("all to be looked at", || many.server.calls(Op::Claim) >= 3_000).await;
    many.until_rest().await;
    many.server.set_up(false);
    many.offer_in(2_900, Duration::ZERO, 2);
    many.registry.look_at_all(Wakeup::Reconnect);
    tokio::time::sleep(SECOND).await;
    many.server.set_up(true);
    let late = lateness_now(&sink, &many).await;
    assert!(late <= 1_000 + 20, "{late} ms, of which the server was away for 1,000");
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_rests_some_seconds_after_its_last_element_and_its_counters_go_on() {
    let sink = sink();
    let many = Many::one_at_rest(&sink).await;
    for n in 1..=3_u64 {
        many.offer_in(0, 2 * SECOND, n);
        eventually("it to be delivered", || many.metric(OF_FIRST) == n as f64).await;
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(many.at_work(), 1, "another one may come");
        many.until_rest().await;
        assert_eq!(many.metric(OF_FIRST), n as f64);
        assert_eq!(many.metric(ATTEMPTS), n as f64);
        assert_eq!(many.registry.counts().settled, n);
    }
    // Its gauges are read on.
    many.offer_in(0, HOUR, 4);
    let scheduled = "delaybridge_queue_messages{queue=\"q0\",state=\"scheduled\"}";
    eventually("the gauge", || many.metric(scheduled) == 1.0).await;
    assert_eq!(many.at_work(), 0);
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_reconnect_every_queue_is_looked_at() {
    let sink = sink();
    let many = Many::start(300, &sink, |_| ());
    eventually("all to be looked at", || many.server.calls(Op::Claim) >= 300).await;
    many.until_rest().await;
    many.server.set_up(false);
    tokio::time::sleep(MINUTE).await;
    // Its announcement was lost, and it is overdue when the server is back.
    many.offer_in(7, Duration::ZERO, 7);
    many.registry.look_at_all(Wakeup::Reconnect);
    tokio::time::sleep(SECOND).await;
    assert_eq!(many.at_work(), 0, "nothing is built while there is no server");
    many.server.set_up(true);
    eventually("it to be delivered", || arrived(&sink) == [7]).await;
    eventually("all to be looked at", || many.server.calls(Op::Claim) >= 600).await;
    many.until_rest().await;
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_without_an_answer_is_no_proof_that_nothing_was_due() {
    let sink = sink();
    let many = Many::one_at_rest(&sink).await;
    many.offer_in(0, SECOND, 1);
    many.server.fail(Op::Look, vec![Fault::RequestLost; 6]);
    eventually("it to be delivered", || arrived(&sink) == [1]).await;
    let overdue = many.metric("delaybridge_offered_overdue_seconds_count{queue=\"q0\"}");
    assert_eq!(overdue, 0.0, "it was offered before it was due, and it is late because of the polls");
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_on_hold_and_one_with_retries_stay_at_work() {
    let sink = sink();
    let many = Many::start(1, &sink, |spec| Arc::make_mut(&mut spec.retry).initial_interval = MINUTE);
    sink.otherwise(|_| Step::Fail(failure(Class::Transient, "T")));
    many.offer_in(0, Duration::ZERO, 1);
    eventually("an attempt", || sink.attempts().len() == 1).await;
    tokio::time::sleep(40 * SECOND).await;
    assert_eq!(many.at_work(), 1, "what it knows of the attempt goes into the dead letter");
    sink.otherwise(|_| Step::Confirm);
    many.until_rest().await;
    assert_eq!(arrived(&sink), [1]);

    // Redis refuses: the queue is on hold, and its claimer asks again.
    many.server.fail(Op::Claim, vec![Fault::Refused("WRONGTYPE"); 4]);
    many.offer_in(0, Duration::ZERO, 2);
    let held = "delaybridge_queue_held{queue=\"q0\"}";
    eventually("the hold", || many.metric(held) == 1.0).await;
    assert_eq!(many.at_work(), 1);
    within(HOUR, "its end", || many.metric(held) == 0.0).await;
    eventually("it to be delivered", || arrived(&sink) == [1, 2]).await;
    many.until_rest().await;
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_at_rest_leaves_its_order_to_the_next_process() {
    let sink = sink();
    let many = Many::start(1, &sink, |spec| spec.order = Some(Box::new(Ordered::Queue)));
    many.server.in_order("q0");
    many.until_rest().await;
    let other = many.server.store("q0", [2; 8]);
    many.stop().await;
    let reply = other.claim(&request(2, 1)).await.expect("the server answers");
    assert!(matches!(reply, ClaimReply::Claimed(_)), "{reply:?}: the next process has to wait");
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_over_a_rest() {
    let sink = sink();
    // One element in ten minutes: a bucket that is not full says so.
    let many = Many::start(1, &sink, |spec| spec.max_rate = Some(Box::new(1.0 / 600.0)));
    for n in 1..=2 {
        many.offer_in(0, Duration::ZERO, n);
    }
    eventually("the first", || arrived(&sink).len() == 1).await;
    tokio::time::sleep(9 * MINUTE).await;
    assert_eq!((arrived(&sink).len(), many.at_work()), (1, 1));
    within(2 * MINUTE, "the second", || arrived(&sink).len() == 2).await;
    within(HOUR, "rest", || many.at_work() == 0).await;
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_keeps_its_queue_at_work() {
    let sink = Arc::new(FakeSink::new(HOUR));
    let many = Many::start(1, &sink, |spec| spec.lease = 2 * HOUR);
    sink.otherwise(|_| Step::Hang);
    many.offer_in(0, Duration::ZERO, 1);
    eventually("an attempt", || sink.attempts().len() == 1).await;
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(many.at_work(), 1);
    drop(many);
}
