//! Waiting consumers: woken at once, served in order, and none loses a job by disconnecting.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use delaybridge_jobs::{Dispenser, Due, JobError, JobQueue, NewJob, PopRequest, Reserved, SCRIPTS, Topic};
use delaybridge_link::RedisEndpoint;
use delaybridge_link::{Link, LinkOptions, Subscriber};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::random::settings;
use super::rig::{TOPIC, topic};
use harness::{Cut, Proxy, RedisServer, Stopwatch, eventually};

const WAKE: &str = "delaybridge:jobs:wake";

struct Process {
    jobs: JobQueue,
    dispenser: Dispenser,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    _subscriber: Subscriber,
}

impl Process {
    async fn start(endpoint: RedisEndpoint) -> Process {
        let endpoint = Arc::new(endpoint);
        let scripts = SCRIPTS.all().into_iter().cloned().collect();
        let link = Link::start(endpoint.clone(), LinkOptions { scripts, ..LinkOptions::default() });
        link.ready().await;
        let mut settings = settings();
        settings.defaults.max_jobs = None;
        let jobs = JobQueue::new(link, settings, &SCRIPTS);
        let (subscriber, heard) = Subscriber::start(endpoint, vec![WAKE.into()]);
        let (dispenser, task) = Dispenser::new(jobs.clone());
        let stop = CancellationToken::new();
        let task = tokio::spawn(task.run(heard, stop.clone()));
        Process { jobs, dispenser, stop, task, _subscriber: subscriber }
    }

    async fn add(&self, body: &str) {
        self.jobs.add(&topic(), vec![NewJob::new(body.to_owned())]).await.expect("add");
    }
}

fn ask(topics: &[&str], count: usize, wait: Duration) -> PopRequest {
    let topics = topics.iter().map(|name| name.parse::<Topic>().expect("a topic")).collect();
    PopRequest { topics, count, ttr: None, wait }
}

fn bodies(jobs: &[Reserved]) -> Vec<String> {
    jobs.iter().map(|job| String::from_utf8(job.body.to_vec()).expect("text")).collect()
}

const LONG: Duration = Duration::from_secs(60);

/// Waits until the process has looked for jobs: there have been more calls of scripts than that.
async fn looked(server: &RedisServer, calls: u64) {
    eventually("a look for jobs", LONG, async || match server.calls("evalsha").await {
        now if now > calls => Ok(()),
        now => Err(format!("{now} calls")),
    })
    .await;
}

/// Waits until the process hears of jobs that are added.
async fn listens(server: &RedisServer) {
    let mut redis = server.client().await;
    eventually("a subscription", LONG, async || {
        let mut ask = redis::cmd("PUBSUB");
        let counts: Vec<(String, usize)> =
            ask.arg("NUMSUB").arg(WAKE).query_async(&mut redis).await.map_err(|e| e.to_string())?;
        if counts.iter().any(|(_, listeners)| *listeners > 0) { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
}

/// Polls a future once; its result if it is ready.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn who_waits_is_woken_by_a_job_of_its_own_process_and_of_another() {
    let server = RedisServer::start().await;
    let one = Process::start(server.endpoint()).await;
    let other = Process::start(server.endpoint()).await;
    assert!(one.dispenser.take(ask(&[TOPIC], 1, Duration::ZERO)).await.expect("take").is_empty());
    for adder in [&one, &other] {
        let calls = server.calls("evalsha").await;
        let waits = one.dispenser.take(ask(&["urgent", TOPIC], 1, LONG));
        let adds = async {
            looked(&server, calls).await;
            adder.add("x").await;
            Stopwatch::start()
        };
        let (taken, added) = tokio::join!(waits, adds);
        let job = taken.expect("take").remove(0);
        // Before the poll, which is every 2 s.
        added.assert_within(Duration::from_millis(1_500), "the job's way to who waited");
        one.jobs.finish(&job.id, job.token).await.expect("finish");
    }
}

#[tokio::test]
async fn who_waits_is_woken_at_the_due_time_and_when_a_reservation_ends() {
    let server = RedisServer::start().await;
    let process = Process::start(server.endpoint()).await;
    let late = NewJob {
        due: Due::After(Duration::from_millis(400)),
        ttr: Some(Duration::from_millis(300)),
        ..NewJob::new("x")
    };
    process.jobs.add(&topic(), vec![late]).await.expect("add");
    let (start, watch) = (Instant::now(), Stopwatch::start());
    let job = process.dispenser.take(ask(&[TOPIC], 1, LONG)).await.expect("take").remove(0);
    assert!(start.elapsed() >= Duration::from_millis(380), "too early: {:?}", start.elapsed());
    watch.assert_within(Duration::from_millis(1_500), "the wait for the due time");
    let again = process.dispenser.take(ask(&[TOPIC], 1, LONG)).await.expect("take").remove(0);
    assert_eq!((again.attempt, again.id == job.id), (2, true));
    assert!(start.elapsed() >= Duration::from_millis(680), "too early: {:?}", start.elapsed());
    watch.assert_within(Duration::from_millis(1_900), "the wait for the end of the reservation");
}

#[tokio::test]
async fn the_longest_wait_is_served_first_and_the_first_topic_comes_first() {
    let server = RedisServer::start().await;
    let process = Process::start(server.endpoint()).await;
    listens(&server).await;
    let mut waits: Vec<_> = (0..5).map(|_| Box::pin(process.dispenser.take(ask(&[TOPIC], 1, LONG)))).collect();
    for wait in &mut waits {
        // The first poll asks, so that they wait in this order.
        assert!(poll_once(wait).await.is_none());
    }
    for (n, wait) in waits.into_iter().enumerate() {
        process.add(&n.to_string()).await;
        let jobs = wait.await.expect("take");
        assert_eq!(bodies(&jobs), [n.to_string()]);
        process.jobs.finish(&jobs[0].id, jobs[0].token).await.expect("finish");
    }
    process.add("common").await;
    let urgent = "urgent".parse().expect("a topic");
    process.jobs.add(&urgent, vec![NewJob::new("urgent")]).await.expect("add");
    let taken = process.dispenser.take(ask(&["urgent", TOPIC], 5, Duration::ZERO)).await.expect("take");
    assert_eq!(bodies(&taken), ["urgent"]);
    let taken = process.dispenser.take(ask(&["urgent", TOPIC], 5, Duration::ZERO)).await.expect("take");
    assert_eq!(bodies(&taken), ["common"]);
}

#[tokio::test]
async fn a_consumer_that_goes_away_loses_no_job() {
    let server = RedisServer::start().await;
    let process = Process::start(server.endpoint()).await;
    for round in 0..100_u64 {
        process.add("x").await;
        // Dropped at any point of the wait.
        let take = process.dispenser.take(ask(&[TOPIC], 1, LONG));
        let taken = tokio::time::timeout(Duration::from_micros(round * 20), take).await;
        let job = match taken {
            Ok(taken) => taken.expect("take").remove(0),
            Err(_dropped) => process.dispenser.take(ask(&[TOPIC], 1, LONG)).await.expect("take").remove(0),
        };
        assert_eq!(job.attempt, 1, "round {round}: what nobody received does not count");
        process.jobs.finish(&job.id, job.token).await.expect("finish");
    }
    process.add("x").await;
    let job = process.dispenser.take(ask(&[TOPIC], 1, LONG)).await.expect("take");
    process.dispenser.put_back(job);
    let job = process.dispenser.take(ask(&[TOPIC], 1, LONG)).await.expect("take").remove(0);
    assert_eq!(job.attempt, 1);
    process.jobs.finish(&job.id, job.token).await.expect("finish");
    let sizes = process.jobs.sizes(&topic()).await.expect("sizes");
    assert_eq!((sizes.ready, sizes.reserved, sizes.dead), (0, 0, 0));
}

#[tokio::test]
async fn a_crowd_gets_each_job_once_and_everybody_gets_one() {
    let server = RedisServer::start().await;
    let process = Process::start(server.endpoint()).await;
    let consumer = |_| {
        let dispenser = process.dispenser.clone();
        tokio::spawn(async move { bodies(&dispenser.take(ask(&[TOPIC], 1, LONG)).await.expect("take")) })
    };
    let consumers: Vec<_> = (0..300).map(consumer).collect();
    process.jobs.add(&topic(), (0..300).map(|n| NewJob::new(n.to_string())).collect()).await.expect("add");
    let mut seen = Vec::new();
    for consumer in consumers {
        seen.extend(consumer.await.expect("a consumer"));
    }
    seen.sort_by_key(|body| body.parse::<u32>().expect("a number"));
    assert_eq!(seen, (0..300).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn jobs_of_a_lost_reply_come_back_before_their_time_to_run_is_over() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let endpoint =
        RedisEndpoint { port: proxy.port(), command_timeout: Duration::from_millis(500), ..server.endpoint() };
    let process = Process::start(endpoint).await;
    let long = NewJob { ttr: Some(Duration::from_secs(3600)), ..NewJob::new("x") };
    process.jobs.add(&topic(), vec![long]).await.expect("add");
    proxy.cut(Cut::script(SCRIPTS.all()[1].sha1()));
    let lost = process.dispenser.take(ask(&[TOPIC], 1, LONG)).await;
    assert!(matches!(&lost, Err(error) if error.outcome_unknown()), "{lost:?}");
    let job = process.dispenser.take(ask(&[TOPIC], 1, LONG)).await;
    let job = match job {
        // The connection was being re-established.
        Err(_) => process.dispenser.take(ask(&[TOPIC], 1, LONG)).await.expect("take").remove(0),
        Ok(mut jobs) => jobs.remove(0),
    };
    assert_eq!(job.attempt, 1, "the lost reservation does not count");
}

#[tokio::test]
async fn the_end_of_the_process_leaves_nothing_reserved() {
    let server = RedisServer::start().await;
    let process = Process::start(server.endpoint()).await;
    let dispenser = process.dispenser.clone();
    let calls = server.calls("evalsha").await;
    let waits = tokio::spawn(async move { dispenser.take(ask(&[TOPIC], 1, LONG)).await });
    looked(&server, calls).await;
    process.stop.cancel();
    process.task.await.expect("the task ends");
    assert!(waits.await.expect("a consumer").expect("take").is_empty());
    assert!(matches!(process.dispenser.take(ask(&[TOPIC], 1, LONG)).await, Err(JobError::Busy { .. })));
    process.jobs.add(&topic(), vec![NewJob::new("x")]).await.expect("add");
    assert_eq!(process.jobs.sizes(&topic()).await.expect("sizes").ready, 1);
}
