//! The daemon's share of the job queue: the dispenser for waiting consumers, and the clock that ages jobs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::drain::ABANDON;
use super::resting::Resting;
use super::tasks::named;
use delaybridge_core::clock::Instant;
use delaybridge_http_server::server::GOODBYE;
use delaybridge_jobs::{Aged, Dispenser, Fired, JobOperation, JobQueue, RecurringName, SCRIPTS, Tick, Topic, wake};
use delaybridge_jobs_http::ServiceEnd;
use delaybridge_link::{Redis, Subscriber, SubscriberState};
use delaybridge_model::Config;
use delaybridge_pipeline::process::Process;
use delaybridge_telemetry::jobs::{JobEvents, JobSizes};
use delaybridge_telemetry::labels::{JobAction, JobEnd};
use delaybridge_telemetry::status::{Heartbeat, Topics};

/// Interval between two rounds over all topics.
const ROUND: Duration = Duration::from_secs(1);
/// Maximum number of jobs of one kind that a script moves.
const AT_ONCE: usize = 500;
/// Maximum number of consecutive scripts on one topic that has more to do.
const IN_A_ROW: usize = 20;
/// Number of topics that are processed concurrently.
const SIDE_BY_SIDE: usize = 8;
/// Number of members in a page of the index.
const PAGE: usize = 1_000;
/// Maximum number of pages in a round; the following rounds read the rest.
const PAGES: usize = 5;
/// Time after which an index of one round is read again, if it has as many members as before.
const INDEX_EVERY: Duration = Duration::from_secs(30);

/// The job queue, for the parts that serve it to clients.
pub(super) struct Jobs {
    pub(super) queue: JobQueue,
    /// The dispenser that hands jobs to waiting consumers.
    pub(super) dispenser: Dispenser,
    pub(super) end: ServiceEnd,
    /// The subscription that wakes consumers; dropping it ends it.
    _subscriber: Subscriber,
}

/// Starts the tasks of the job queue, if it is configured.
pub(super) fn start(
    config: &Config,
    redis: &Redis,
    process: &Arc<Process>,
    tasks: &mut JoinSet<&'static str>,
    stuck: Duration,
) -> Option<Jobs> {
    let settings = config.jobs.clone()?;
    let events = process.events.jobs();
    events.configured(settings.topics.keys().map(Topic::as_str));
    let observer = {
        let events = events.clone();
        move |topic: &Topic, aged: &Aged| count(&events, topic, aged)
    };
    let counter = {
        let events = events.clone();
        move |topic: &Topic, operation, jobs| events.did(topic.as_str(), action(operation), jobs)
    };
    let firing_counter = {
        let events = events.clone();
        move |topic: &Topic, name: &RecurringName, added, skipped| {
            events.fired(topic.as_str(), name.as_str(), added, skipped)
        }
    };
    let queue = JobQueue::new(redis, settings, &SCRIPTS)
        .observed_by(observer)
        .counted_by(counter)
        .firings_counted_by(firing_counter);
    let (subscriber, heard) = Subscriber::start(redis.locator(), vec![wake(&redis.space().prefix).into()]);
    let (dispenser, dispensing) = Dispenser::new(queue.clone());
    let heartbeat = process.events.status().heartbeat("job clock", stuck);
    let end = end(config, process, tasks);
    tasks.spawn(named("job dispenser", dispensing.run(heard, end.closing.clone())));
    tasks.spawn(named("job clock", clock(queue.clone(), subscriber.state(), events, process.clone(), heartbeat)));
    Some(Jobs { queue, dispenser, end, _subscriber: subscriber })
}

/// Creates the end of the service over HTTP: `shutdown_delay` after the stop begins.
fn end(config: &Config, process: &Process, tasks: &mut JoinSet<&'static str>) -> ServiceEnd {
    let leaving = process.stopping.clone();
    let delay = config.api.iter().map(|spec| spec.shutdown_delay).max().unwrap_or_default();
    let goodbye = goodbye(config.shutdown_timeout, delay);
    if delay.is_zero() {
        return ServiceEnd { closing: leaving.clone(), leaving, goodbye };
    }
    let closing = CancellationToken::new();
    let begun = leaving.clone();
    let close = closing.clone();
    tasks.spawn(named("job API delay", async move {
        begun.cancelled().await;
        tokio::time::sleep(delay).await;
        close.cancel();
    }));
    ServiceEnd { leaving, closing, goodbye }
}

/// Computes the time for requests that are under way when listening ends. The drain waits for them before it counts
/// what is left over, so they end before its deadlines.
fn goodbye(shutdown_timeout: Duration, delay: Duration) -> Duration {
    shutdown_timeout.mul_f64(ABANDON - 0.1).saturating_sub(delay).min(GOODBYE)
}

fn action(operation: JobOperation) -> JobAction {
    match operation {
        JobOperation::Added => JobAction::Added,
        JobOperation::Taken => JobAction::Taken,
        JobOperation::Finished => JobAction::Finished,
        JobOperation::Released => JobAction::Released,
        JobOperation::Buried => JobAction::Buried,
        JobOperation::Deleted => JobAction::Deleted,
    }
}

fn count(events: &JobEvents, topic: &Topic, aged: &Aged) {
    events.ended(topic.as_str(), JobEnd::TimedOut, aged.came_back);
    events.ended(topic.as_str(), JobEnd::Died, aged.died);
    events.ended(topic.as_str(), JobEnd::Expired, aged.expired);
    events.ended(topic.as_str(), JobEnd::Trimmed, aged.trimmed);
    events.set_aside(topic.as_str(), aged.set_aside);
}

/// Ages the jobs of all topics, and reads the gauges. `subscription` is that to the announcements of changed topics.
async fn clock(
    queue: JobQueue,
    subscription: watch::Receiver<SubscriberState>,
    events: JobEvents,
    process: Arc<Process>,
    heartbeat: Heartbeat,
) {
    let mut index = Index::default();
    let mut seen = Topics::default();
    let mut resting = Resting::default();
    loop {
        // Biased: shutdown takes priority. The next daemon does a round that was abandoned.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            () = tokio::time::sleep(ROUND) => {}
        }
        heartbeat.beat();
        if !queue.is_up() {
            // Old numbers would be indistinguishable from current ones.
            events.keep(&HashSet::new());
            resting = Resting::default();
            continue;
        }
        let round = async {
            let whole = index.after.is_none();
            if whole {
                seen = Topics::default();
            }
            let stirred = queue.stirred();
            if stirred.all || stirred.topics.iter().any(|topic| !resting.knows(topic)) {
                index.read_again();
            }
            let Round { topics, unreadable, problem } = index.round(&queue).await;
            seen.unreadable += unreadable;
            seen.index = problem;
            let now = Instant::now();
            let heard = matches!(*subscription.borrow(), SubscriberState::Subscribed);
            resting.stir(&stirred, heard, now);
            let queue = &queue;
            let events = &events;
            let (due, rested): (Vec<_>, Vec<_>) = topics.iter().cloned().partition(|topic| resting.is_due(topic, now));
            seen.total += rested.len();
            seen.paused
                .extend(rested.iter().filter(|topic| resting.is_paused(topic)).map(|topic| topic.as_str().into()));
            let uncounted = resting.uncounted(&rested, now);
            // Without an answer nothing is known: the next round counts again.
            for (topic, counts) in uncounted.iter().zip(queue.counts(&uncounted).await.unwrap_or_default()) {
                resting.counted(topic, counts, now);
            }
            let mut looks = futures_util::stream::iter(due)
                .map(|topic| async move {
                    let looked = look(queue, &topic, events).await;
                    (topic, looked)
                })
                .buffer_unordered(SIDE_BY_SIDE);
            while let Some((topic, result)) = looks.next().await {
                heartbeat.beat();
                seen.total += 1;
                match result {
                    Ok(tick) => {
                        events.sizes(topic.as_str(), &sizes(&tick));
                        if resting.note(&topic, &tick, now) && !queue.settings().topics.contains_key(&topic) {
                            // Ignore the error: the next tick tries again.
                            let _ = queue.forget(&topic).await;
                        }
                    }
                    Err(problem) => {
                        events.look_failed(topic.as_str(), &problem);
                        seen.failed.push((topic.as_str().into(), problem));
                    }
                }
            }
            // A large index takes several rounds.
            let last = index.after.is_none();
            if last {
                events.index_read(seen.index.as_deref().map_or(Ok(seen.unreadable), Err));
                process.events.status().topics(std::mem::take(&mut seen));
            }
            if whole && last {
                resting.keep(&topics.iter().collect());
                events.keep(&topics.iter().map(|topic| topic.as_str().into()).collect::<HashSet<_>>());
            }
        };
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            () = round => {}
        }
    }
}

/// The position in the index of topics, which is read over several rounds.
#[derive(Default)]
struct Index {
    /// The cursor for the next round; `None` starts at the beginning.
    after: Option<Bytes>,
    /// The topics of the last round that started at the beginning. A round that cannot read the index uses them.
    first: Vec<Topic>,
    /// The last round, if it read the whole index.
    whole: Option<WholeIndex>,
}

/// A reading of the whole index in one round.
struct WholeIndex {
    at: Instant,
    size: u64,
    /// Number of those that are not topic names.
    unreadable: u64,
}

/// The topics of a round: those with settings of their own, and those of the index.
struct Round {
    topics: Vec<Topic>,
    /// Number of members of the index that are not topic names.
    unreadable: u64,
    /// The reason why the index could not be read.
    problem: Option<String>,
}

impl Index {
    /// Lets the next round read the index.
    fn read_again(&mut self) {
        self.whole = None;
    }

    /// Reads the index, or what fits in a round. An index that has as many members as a while ago is not read again: a topic that
    /// is entered changes their number, and is announced.
    async fn round(&mut self, queue: &JobQueue) -> Round {
        let now = Instant::now();
        let size = queue.index_size().await.ok();
        let last = self.whole.take().filter(|last| Some(last.size) == size && now.since(last.at) < INDEX_EVERY);
        if let Some(last) = last {
            let unreadable = last.unreadable;
            self.whole = Some(last);
            return Round { topics: self.first.clone(), unreadable, problem: None };
        }
        let configured = &queue.settings().topics;
        let whole = self.after.is_none();
        let mut topics: Vec<_> = if whole { configured.keys().cloned().collect() } else { Vec::new() };
        let mut unreadable = 0;
        let mut problem = None;
        for _ in 0..PAGES {
            match queue.topics_page(self.after.as_ref(), PAGE).await {
                Ok(page) => {
                    topics.extend(page.topics.into_iter().filter(|topic| !configured.contains_key(topic)));
                    (unreadable, self.after) = (unreadable + page.unreadable, page.next);
                }
                Err(error) => {
                    // The next round starts at the beginning. Known topics are still aged.
                    let read: HashSet<_> = topics.iter().cloned().collect();
                    topics.extend(self.first.iter().filter(|topic| !read.contains(topic)).cloned());
                    (problem, self.after) = (Some(error.to_string()), None);
                }
            }
            if self.after.is_none() {
                break;
            }
        }
        if whole && problem.is_none() {
            self.first.clone_from(&topics);
            self.whole = size.filter(|_| self.after.is_none()).map(|size| WholeIndex { at: now, size, unreadable });
        }
        Round { topics, unreadable, problem }
    }
}

async fn look(queue: &JobQueue, topic: &Topic, events: &JobEvents) -> Result<Tick, String> {
    let mut tick = queue.tick(topic, AT_ONCE).await.map_err(|error| error.to_string())?;
    for _ in 0..IN_A_ROW {
        if !tick.more {
            break;
        }
        tick = queue.tick(topic, AT_ONCE).await.map_err(|error| error.to_string())?;
    }
    if tick.next_firing.is_some_and(|firing| firing.is_zero()) {
        // The topic is looked at all the same: its firing stays due.
        if let Err(problem) = fire(queue, topic).await {
            events.look_failed(topic.as_str(), &problem);
        }
    }
    Ok(tick)
}

/// Fires the recurring jobs of a topic that are due. One that cannot be fired does not keep the others from it.
async fn fire(queue: &JobQueue, topic: &Topic) -> Result<(), String> {
    let due = queue.due_recurring(topic).await.map_err(|error| format!("read the recurring jobs: {error}"))?;
    let mut problem = match due.unreadable {
        0 => None,
        n => Some(format!("{n} due recurring jobs cannot be read; the version that wrote them can fire them")),
    };
    for firing in due.firings {
        match queue.fire(topic, &firing).await {
            Ok(Fired::Done { left: 0, .. } | Fired::Elsewhere) => {}
            Ok(Fired::Done { left, .. }) => {
                problem =
                    Some(format!("fire the recurring job {}: the topic is full; {left} firings stay due", firing.name));
            }
            Err(error) => problem = Some(format!("fire the recurring job {}: {error}; it stays due", firing.name)),
        }
    }
    problem.map_or(Ok(()), Err)
}

fn sizes(tick: &Tick) -> JobSizes {
    JobSizes {
        jobs: [tick.delay, tick.ready, tick.reserved, tick.dead],
        oldest_ready: Duration::from_millis(u64::try_from(tick.oldest_ready_ms.unwrap_or(0)).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_under_way_end_before_the_drain_counts() {
        let of = |timeout, delay| goodbye(Duration::from_secs(timeout), Duration::from_secs(delay)).as_secs_f64();
        let check =
            |timeout, delay, expected: f64| assert!((of(timeout, delay) - expected).abs() < 1e-6, "{timeout} {delay}");
        check(25, 0, 5.0);
        check(25, 5, 5.0);
        check(10, 5, 1.0);
        check(4, 2, 0.4);
    }
}
