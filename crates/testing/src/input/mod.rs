//! The contract of [`Input`], as tests that every kind passes; the trait describes it.
//!
//! A kind has an [`InputRig`]: a queue or topic that a test can fill, read, break and repair. The jobs are in a real Redis.
//! `input_contract_tests!` makes one test of each clause.

mod fake;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::fake::FakeInputRig;
use delaybridge_core::carried::Carried;
use delaybridge_input::{Input, InputEvents, IntakeRules, JobIntake, OnBadDelay};
use delaybridge_jobs::{Due, JobInfo, JobQueue, JobSettings, JobState, MAX_PAGE, NewJob, SCRIPTS, Topic};
use delaybridge_link::test_server::TestServer;
use delaybridge_link::{Link, LinkOptions};
use delaybridge_telemetry::events::Events;
use delaybridge_telemetry::events::inputs::InputCounts;

/// The time that a test waits for anything before it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at what a test waits for.
const LOOK: Duration = Duration::from_millis(50);
/// Long enough that nothing falls due within a test.
const HOUR: (&str, &str) = ("x-delay", "3600000");

/// The name of the input, of its queue and of its topic.
const INPUT: &str = "late";

/// An input with a place that a test can fill, read, break and repair. It has its dead letters.
pub trait InputRig {
    /// The input. Each call makes another one for the same place.
    fn input(&self) -> Arc<dyn Input>;
    /// Publishes a message with this identity, and waits until the place has it.
    async fn publish(&mut self, id: &str, headers: &[(&str, &str)], body: &str);
    /// The number of messages that are still to be taken. Asked while no input runs, but by clauses for places that know it
    /// then too.
    async fn left(&mut self) -> usize;
    /// The number of refused messages so far.
    async fn refused(&mut self) -> usize;
    /// The broker goes away; what was published stays.
    async fn outage(&mut self);
    /// Ends the outage.
    async fn recover(&mut self);
}

/// A Redis with the job queue, and an intake into it.
pub struct World {
    server: TestServer,
    jobs: JobQueue,
    intake: Arc<JobIntake>,
    events: Events,
    /// The identities of the messages that the input has taken, whatever became of them.
    taken: Arc<Mutex<BTreeSet<String>>>,
}

/// A running input.
pub struct RunningInput {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn topic() -> Topic {
    INPUT.parse().expect("a topic")
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}

impl World {
    /// Starts a Redis, without a job.
    pub fn new() -> World {
        let server = TestServer::start();
        let link = Link::start(Arc::new(server.endpoint()), LinkOptions::default());
        let jobs = JobQueue::new(link, JobSettings::default(), &SCRIPTS);
        let events = Events::default();
        let taken = Arc::<Mutex<BTreeSet<_>>>::default();
        let noted = taken.clone();
        let rules = IntakeRules {
            topic: topic(),
            max_delay: Duration::from_secs(86_400),
            on_bad_delay: OnBadDelay::Reject,
            queue: INPUT.into(),
            // Asked of each message before Redis is.
            address: Box::new(move |arrival| {
                noted.lock().extend(arrival.id.clone());
                Ok(())
            }),
        };
        let intake = Arc::new(JobIntake::new(rules, jobs.clone(), events.input(&INPUT.into())));
        World { server, jobs, intake, events, taken }
    }

    fn run(&self, rig: &impl InputRig) -> RunningInput {
        self.begin(rig.input())
    }

    /// Starts an input.
    pub fn begin(&self, input: Arc<dyn Input>) -> RunningInput {
        let intake = self.intake.clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        RunningInput { stop, task: tokio::spawn(async move { input.run(&intake, stopped).await }) }
    }

    /// The job queue.
    pub fn jobs(&self) -> &JobQueue {
        &self.jobs
    }

    /// The topic of the jobs.
    pub fn topic(&self) -> Topic {
        topic()
    }

    /// The counts of the input.
    pub fn counts(&self) -> InputCounts {
        self.events.metrics().input(INPUT)
    }

    /// The jobs that wait for their time: their ids, and the messages that they are.
    pub async fn messages(&self) -> Vec<(String, Carried, Bytes)> {
        let jobs = self.jobs.peek(&topic(), JobState::Delay, 0, MAX_PAGE).await.expect("the jobs").jobs;
        let message = |job: JobInfo| {
            let (carried, body) = Carried::open(&job.body).expect("a message");
            (job.id.local.to_string(), carried, body)
        };
        jobs.into_iter().map(message).collect()
    }

    /// Adds the only job that waits to another job queue, with this id and nothing else. Returns whether it was added.
    pub async fn copy(&self, id: &str, to: &World) -> bool {
        let job = self.jobs.peek(&topic(), JobState::Delay, 0, 2).await.expect("the jobs").jobs.remove(0);
        let id = Some(id.parse().expect("an id"));
        let due = Due::After(Duration::from_secs(3_600));
        let copy = NewJob { id, due, content_type: job.content_type, ..NewJob::new(job.body) };
        to.jobs.add(&topic(), vec![copy]).await.expect("add a job")[0].created
    }

    /// Cancels the only job that waits.
    pub async fn cancel(&self) {
        let job = self.jobs.peek(&topic(), JobState::Delay, 0, 2).await.expect("the jobs").jobs.remove(0);
        self.jobs.delete(&job.id).await.expect("delete the job");
    }

    /// Takes the job of a message with this body as a consumer does, and finishes it.
    pub async fn finished(&self, body: &str) {
        let finish = async || {
            let popped = self.jobs.pop_now(&topic(), 1, None).await.map(|popped| popped.jobs).unwrap_or_default();
            let Some(job) = popped.first() else { return false };
            let (_, found) = Carried::open(&job.body).expect("a message");
            assert_eq!(found, body);
            self.jobs.finish(&job.id, job.token).await.expect("finish the job");
            true
        };
        until("the message is no job", finish).await;
    }

    /// Waits until the input takes messages.
    pub async fn up(&self) {
        until("the input takes no messages", async || self.is_up()).await;
    }

    /// Whether the input says that it takes messages.
    pub fn is_up(&self) -> bool {
        let up = format!("delaybridge_input_up{{input=\"{INPUT}\"}} 1");
        self.events.metrics().render().is_ok_and(|text| text.contains(&up))
    }

    /// The records of a partition of Kafka that wait, as the input shows them.
    pub fn waiting(&self, topic: &str, partition: i32) -> Option<u64> {
        let text = self.events.metrics().render().ok()?;
        let labels = [format!("topic=\"{topic}\""), format!("partition=\"{partition}\"")];
        let mut lines = text.lines().filter(|line| line.starts_with("delaybridge_input_partition_lag_messages{"));
        let line = lines.find(|line| labels.iter().all(|label| line.contains(label)))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Waits until the input says that it takes no messages.
    pub async fn down(&self) {
        until("the input says that it takes messages", async || !self.is_up()).await;
    }

    /// Waits for this many scheduled jobs.
    pub async fn scheduled(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let there = self.jobs.sizes(&topic()).await.map(|sizes| sizes.delay);
            if there.as_ref().is_ok_and(|there| *there >= count) {
                assert_eq!(there.ok(), Some(count), "more jobs than messages");
                return;
            }
            assert!(Instant::now() < deadline, "{there:?} of {count} jobs");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the input has taken the message with this identity.
    async fn taken(&self, id: &str) {
        until(&format!("{id} is not taken"), async || self.taken.lock().contains(id)).await;
    }

    /// Waits until the input reports this many scheduled messages.
    async fn told(&self, count: u64) {
        let told = async || self.events.metrics().input(INPUT).scheduled == count;
        until(&format!("the input does not report {count} scheduled messages"), told).await;
    }
}

/// Waits until something is true; fails with this text if it does not become so.
pub async fn until(otherwise: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true().await {
        assert!(Instant::now() < deadline, "{otherwise}");
        tokio::time::sleep(LOOK).await;
    }
}

impl RunningInput {
    /// Stops the input, which settles what is decided.
    pub async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("the input ends").expect("it does not panic");
    }
}

/// Returns the events of an input that is not shown.
pub fn events() -> InputEvents {
    Events::default().input(&INPUT.into())
}

pub async fn a_message_is_settled_when_redis_has_its_job(mut rig: impl InputRig) {
    let world = World::new();
    let running = world.run(&rig);
    for n in 0..10 {
        rig.publish(&format!("m-{n}"), &[HOUR], "body").await;
    }
    world.scheduled(10).await;
    running.end().await;
    assert_eq!((rig.left().await, rig.refused().await), (0, 0));
}

pub async fn a_message_that_arrives_twice_is_scheduled_once(mut rig: impl InputRig) {
    let world = World::new();
    rig.publish("m-1", &[HOUR], "body").await;
    rig.publish("m-1", &[HOUR], "body").await;
    rig.publish("m-2", &[HOUR], "body").await;
    let running = world.run(&rig);
    world.scheduled(2).await;
    running.end().await;
    assert_eq!((rig.left().await, rig.refused().await), (0, 0));
}

/// A publisher that uses an identity again means another message.
pub async fn another_message_with_a_known_identity_is_scheduled_too(mut rig: impl InputRig) {
    let world = World::new();
    let running = world.run(&rig);
    rig.publish("waits", &[HOUR], "one").await;
    rig.publish("waits", &[HOUR], "two").await;
    world.scheduled(2).await;
    rig.publish("ends", &[], "one").await;
    world.finished("one").await;
    rig.publish("ends", &[HOUR], "two").await;
    world.scheduled(3).await;
    // All of them once more.
    for (id, body) in [("waits", "one"), ("waits", "two"), ("ends", "one"), ("ends", "two")] {
        rig.publish(id, &[HOUR], body).await;
    }
    until("four messages are no duplicates", async || world.counts().duplicates == 4).await;
    running.end().await;
    world.scheduled(3).await;
    assert_eq!((rig.left().await, rig.refused().await), (0, 0));
}

pub async fn messages_stay_while_redis_is_away(mut rig: impl InputRig) {
    let mut world = World::new();
    let running = world.run(&rig);
    // An input may take nothing until it has seen Redis.
    rig.publish("m-0", &[("x-delay", "-1")], "bad").await;
    until("the refused message is not among the dead letters", async || rig.refused().await == 1).await;
    world.server.kill();
    for n in 1..4 {
        rig.publish(&format!("m-{n}"), &[HOUR], "body").await;
    }
    // The others may be behind it.
    world.taken("m-1").await;
    // Long enough to settle what may not be settled.
    tokio::time::sleep(Duration::from_millis(500)).await;
    running.end().await;
    assert_eq!((rig.left().await, rig.refused().await), (3, 1));
    // One that begins while Redis is away.
    let running = world.run(&rig);
    tokio::time::sleep(Duration::from_millis(500)).await;
    running.end().await;
    assert_eq!((rig.left().await, rig.refused().await), (3, 1));
    world.server.restart();
    let running = world.run(&rig);
    world.scheduled(3).await;
    running.end().await;
    assert_eq!(rig.left().await, 0);
}

pub async fn a_refused_message_is_given_away_and_its_neighbours_go_on(mut rig: impl InputRig) {
    let world = World::new();
    rig.publish("m-1", &[HOUR], "good").await;
    rig.publish("m-2", &[("x-delay", "-1")], "bad").await;
    rig.publish("m-3", &[HOUR], "good").await;
    let running = world.run(&rig);
    world.scheduled(2).await;
    until("the refused message is not among the dead letters", async || rig.refused().await == 1).await;
    // While it runs: a broker on a busy machine may answer the commit of the stop too late.
    until("not every message is settled", async || rig.left().await == 0).await;
    running.end().await;
    assert_eq!(rig.left().await, 0);
}

/// Large messages go to Redis in several calls.
pub async fn each_message_of_a_large_batch_has_its_own_end(mut rig: impl InputRig) {
    let world = World::new();
    let large = "x".repeat(600 << 10);
    for n in 0..4 {
        rig.publish(&format!("m-{n}"), &[HOUR], &large).await;
    }
    rig.publish("bad", &[("x-delay", "soon")], &large).await;
    rig.publish("last", &[HOUR], "small").await;
    let running = world.run(&rig);
    world.scheduled(5).await;
    until("the refused message is not among the dead letters", async || rig.refused().await == 1).await;
    // Others that are refused.
    tokio::time::sleep(Duration::from_millis(300)).await;
    running.end().await;
    assert_eq!((rig.left().await, rig.refused().await), (0, 1));
}

pub async fn an_input_goes_on_after_an_outage(mut rig: impl InputRig) {
    let world = World::new();
    let running = world.run(&rig);
    rig.publish("m-1", &[HOUR], "before").await;
    world.scheduled(1).await;
    rig.outage().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    rig.recover().await;
    rig.publish("m-2", &[HOUR], "after").await;
    world.scheduled(2).await;
    running.end().await;
    assert_eq!(rig.left().await, 0);
}

/// For a place that keeps who has read what, and does not give out again what was read: nothing else would settle the message.
pub async fn what_is_decided_during_an_outage_is_settled_by_the_stop_after_it(mut rig: impl InputRig) {
    let mut world = World::new();
    rig.publish("m-1", &[HOUR], "first").await;
    let running = world.run(&rig);
    // If Redis died before that, the input would schedule the first message again, and the count below would be met without the
    // second.
    until("the first message is not settled", async || rig.left().await == 0).await;
    world.server.kill();
    rig.publish("m-2", &[HOUR], "second").await;
    world.taken("m-2").await;
    rig.outage().await;
    // It starts empty.
    world.server.restart();
    world.told(2).await;
    rig.recover().await;
    running.end().await;
    assert_eq!(rig.left().await, 0);
}

pub async fn nothing_is_taken_after_the_stop(mut rig: impl InputRig) {
    let world = World::new();
    let running = world.run(&rig);
    rig.publish("m-1", &[HOUR], "before").await;
    world.scheduled(1).await;
    running.end().await;
    rig.publish("m-2", &[HOUR], "after").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rig.left().await, 1);
    world.scheduled(1).await;
}

/// One test for each clause of the contract.
#[macro_export]
macro_rules! input_contract_tests {
    ($rig:expr) => {
        $crate::input_contract_tests! { $rig,
            a_message_is_settled_when_redis_has_its_job,
            a_message_that_arrives_twice_is_scheduled_once,
            another_message_with_a_known_identity_is_scheduled_too,
            messages_stay_while_redis_is_away,
            a_refused_message_is_given_away_and_its_neighbours_go_on,
            each_message_of_a_large_batch_has_its_own_end,
            an_input_goes_on_after_an_outage,
            nothing_is_taken_after_the_stop,
        }
    };
    ($rig:expr, $($clause:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $clause() {
                $crate::input::$clause($rig).await;
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    input_contract_tests!(FakeInputRig::default());
}
