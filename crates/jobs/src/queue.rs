//! The handle on the job queue: one Redis, all topics.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use redis::Value;
use tokio::sync::mpsc;

use super::error::JobError;
use super::job::Added;
use super::job::{Aged, JobOperation};
use super::keys::{Keys, topics};
use super::name::{LocalId, RecurringName, Token, Topic};
use super::scripts::Scripts;
use super::settings::JobSettings;
use super::together::Together;
use delaybridge_core::clock::RedisClock;
use delaybridge_link::{BadReply, Conn, DurableRedis, Fields, KeyPrefix, LinkError, Redis, Script};

/// Maximum number of changed topics that are remembered until the next look.
const MOST_STIRRED: usize = 10_000;
/// Time for which a call waits for a connection before it fails.
const PATIENCE: Duration = Duration::from_secs(1);

type Observer = Box<dyn Fn(&Topic, &Aged) + Send + Sync>;
type Counter = Box<dyn Fn(&Topic, JobOperation, u64) + Send + Sync>;
type FiringCounter = Box<dyn Fn(&Topic, &RecurringName, u64, u64) + Send + Sync>;

/// The topics with changes since the last look, made here or announced on Redis's channel.
#[derive(Debug, Default)]
pub struct Stirred {
    /// Whether there may be others: announcements may have been missed.
    pub all: bool,
    /// The topics.
    pub topics: HashSet<Topic>,
}

/// The job queue. Clones share everything. Each call is one script, or one command, and is sent at most once; its
/// documentation says what repeating it does. Dropping a call abandons its reply: it may have run.
#[derive(Clone)]
pub struct JobQueue {
    pub(super) shared: Arc<Shared>,
    /// The connections for jobs that have to be durable.
    pub(super) durable: Option<DurableRedis>,
}

pub(super) struct Shared {
    pub(super) redis: Redis,
    pub(super) settings: JobSettings,
    pub(super) scripts: &'static Scripts,
    pub(super) clock: RedisClock,
    /// Topics that this process has entered in the index.
    entered: Mutex<HashSet<Topic>>,
    /// Time and random part of the last generated id.
    last_id: Mutex<(i64, u128)>,
    /// Called with the numbers of jobs that came back, died or expired.
    observer: OnceLock<Observer>,
    /// Called with the numbers of jobs that an operation was done with.
    counter: OnceLock<Counter>,
    /// Called with the numbers of firings of a recurring job with and without a job.
    firing_counter: OnceLock<FiringCounter>,
    /// Batches of single jobs that are added at the same time.
    pub(super) adds: Arc<Together<(LocalId, Vec<Bytes>), Added>>,
    /// Batches of jobs that are finished at the same time.
    pub(super) finishes: Arc<Together<(LocalId, Token), ()>>,
    /// Topics with changes since the last look.
    stirred: Mutex<Stirred>,
    /// The channel to this process's waiting consumers.
    listener: Mutex<Option<mpsc::Sender<Topic>>>,
}

impl JobQueue {
    /// Creates the job queue of this Redis.
    pub fn new(redis: impl Into<Redis>, settings: JobSettings, scripts: &'static Scripts) -> JobQueue {
        let shared = Shared {
            redis: redis.into(),
            settings,
            scripts,
            clock: RedisClock::new(),
            entered: Mutex::default(),
            last_id: Mutex::new((0, 0)),
            observer: OnceLock::new(),
            counter: OnceLock::new(),
            firing_counter: OnceLock::new(),
            adds: Together::new(),
            finishes: Together::new(),
            stirred: Mutex::default(),
            listener: Mutex::new(None),
        };
        JobQueue { shared: Arc::new(shared), durable: None }
    }

    /// Returns the prefix of all keys and of the channel.
    pub fn prefix(&self) -> &KeyPrefix {
        &self.shared.redis.space().prefix
    }

    /// Returns the keys of a topic.
    pub fn keys(&self, topic: &Topic) -> Keys {
        Keys::of(self.prefix(), topic)
    }

    /// Returns the key of the index of topics.
    pub(super) fn index(&self) -> String {
        topics(self.prefix())
    }

    /// Sets the observer, which gets the numbers of jobs that came back, died or expired after each call. Only the
    /// first observer is kept.
    #[must_use]
    pub fn observed_by(self, observer: impl Fn(&Topic, &Aged) + Send + Sync + 'static) -> JobQueue {
        // A second observer is a programming mistake; it only misses counts.
        let _ = self.shared.observer.set(Box::new(observer));
        self
    }

    /// Sets the counter, which gets the number of jobs after each operation that was answered. Only the first counter is
    /// kept.
    #[must_use]
    pub fn counted_by(self, counter: impl Fn(&Topic, JobOperation, u64) + Send + Sync + 'static) -> JobQueue {
        // As for the observer.
        let _ = self.shared.counter.set(Box::new(counter));
        self
    }

    pub(super) fn counted(&self, topic: &Topic, operation: JobOperation, jobs: u64) {
        if let Some(counter) = self.shared.counter.get().filter(|_| jobs > 0) {
            counter(topic, operation, jobs);
        }
    }

    /// Sets the counter of firings, which gets the numbers of those of a recurring job for which a job was added, and that were
    /// skipped. Only the first counter is kept.
    #[must_use]
    pub fn firings_counted_by(
        self,
        counter: impl Fn(&Topic, &RecurringName, u64, u64) + Send + Sync + 'static,
    ) -> JobQueue {
        // As for the observer.
        let _ = self.shared.firing_counter.set(Box::new(counter));
        self
    }

    pub(super) fn fired(&self, topic: &Topic, name: &RecurringName, added: u64, skipped: u64) {
        if let Some(counter) = self.shared.firing_counter.get() {
            counter(topic, name, added, skipped);
        }
    }

    pub(super) fn observed(&self, topic: &Topic, aged: &Aged) {
        if let Some(observer) = self.shared.observer.get() {
            observer(topic, aged);
        }
    }

    /// Returns the settings of topics.
    pub fn settings(&self) -> &JobSettings {
        &self.shared.settings
    }

    /// Returns the estimated time of Redis, in ms since 1970.
    pub fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    /// Returns the connection to the server that holds this key. Waits out an outage of up to a second.
    pub(super) async fn conn(&self, key: impl AsRef<[u8]>) -> Result<Conn, JobError> {
        let place = self.shared.redis.at(key);
        if let Some(conn) = place.current() {
            return Ok(conn);
        }
        let address = || LinkError::NotSent { address: place.address() };
        tokio::time::timeout(PATIENCE, place.ready()).await.map_err(|_elapsed| address().into())
    }

    /// Returns whether any server of the Redis is connected.
    pub fn is_up(&self) -> bool {
        self.shared.redis.any().is_some()
    }

    pub(super) fn command_timeout(&self) -> Duration {
        self.shared.redis.command_timeout()
    }

    /// Runs a script on a topic's keys with the states of jobs. The first field of its reply is Redis's time, or the second one
    /// after a word.
    pub(super) async fn run(&self, script: &Script, topic: &Topic, args: &[Bytes]) -> Result<Value, JobError> {
        let keys = self.keys(topic);
        self.run_on(script, topic, keys.of_jobs(), args).await
    }

    /// Runs a script that moves waiting jobs, on the keys of these.
    pub(super) async fn run_on_waiting(
        &self,
        script: &Script,
        topic: &Topic,
        args: &[Bytes],
    ) -> Result<Value, JobError> {
        let keys = self.keys(topic);
        self.run_on(script, topic, keys.of_waiting(), args).await
    }

    pub(super) async fn run_on_all(&self, script: &Script, topic: &Topic, args: &[Bytes]) -> Result<Value, JobError> {
        let keys = self.keys(topic);
        self.run_on(script, topic, keys.all(), args).await
    }

    pub(super) async fn run_on(
        &self,
        script: &Script,
        topic: &Topic,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> Result<Value, JobError> {
        let scripts = self.shared.scripts;
        if ![&scripts.tick, &scripts.get, &scripts.peek, &scripts.stats, &scripts.recurring_list]
            .into_iter()
            .any(|look| std::ptr::eq(look, script))
        {
            self.stir(topic);
        }
        let conn = self.conn(self.keys(topic).topic()).await?;
        Ok(conn.script(script, keys, args).await?)
    }

    /// Records that a topic has changes.
    pub(super) fn stir(&self, topic: &Topic) {
        let mut stirred = self.shared.stirred.lock();
        if stirred.topics.len() >= MOST_STIRRED {
            stirred.all = true;
        } else if !stirred.topics.contains(topic) {
            stirred.topics.insert(topic.clone());
        }
    }

    pub(super) fn stir_all(&self) {
        self.shared.stirred.lock().all = true;
    }

    /// Takes the topics with changes since the last call.
    pub fn stirred(&self) -> Stirred {
        std::mem::take(&mut *self.shared.stirred.lock())
    }

    /// Reads the time in a reply, and records it.
    pub(super) fn observe(&self, fields: &mut Fields) -> Result<i64, BadReply> {
        let now = fields.int()?;
        self.shared.clock.observe(now);
        Ok(now)
    }

    /// Subscribes to topics in which this process adds due jobs. Messages beyond the capacity are lost; Redis's channel
    /// and the poll announce the same.
    pub(super) fn listen(&self) -> mpsc::Receiver<Topic> {
        let (sender, receiver) = mpsc::channel(1024);
        *self.shared.listener.lock() = Some(sender);
        receiver
    }

    /// Wakes this process's consumers of a topic.
    pub(super) fn tell(&self, topic: &Topic) {
        if let Some(listener) = &*self.shared.listener.lock() {
            let _ = listener.try_send(topic.clone());
        }
    }

    /// Generates an id; later ids of this process sort after it.
    pub(super) fn new_id(&self) -> LocalId {
        let now = self.shared.clock.now_ms();
        let mut last = self.shared.last_id.lock();
        // Half of the range is left for ids of the same millisecond.
        *last = if now > last.0 { (now, fastrand::u128(..1 << 79)) } else { (last.0, last.1 + 1) };
        LocalId::ulid(last.0, last.1)
    }

    /// Enters a topic in the index. Called before its first job, because a topic outside of the index would never be
    /// seen.
    pub(super) async fn enter(&self, topic: &Topic, again: bool) -> Result<(), JobError> {
        if !again {
            if self.has_entered(topic) {
                return Ok(());
            }
            self.check_topics(topic).await?;
        }
        let conn = self.conn(self.index()).await?;
        let mut command = redis::cmd("ZADD");
        command.arg(self.index()).arg(0).arg(topic.as_str());
        conn.query::<()>(&command).await?;
        let mut entered = self.shared.entered.lock();
        // Clients that invent topics must not fill the memory; entering a topic twice only costs a command.
        if entered.len() >= 10_000 {
            entered.clear();
        }
        entered.insert(topic.clone());
        Ok(())
    }

    pub(super) fn has_entered(&self, topic: &Topic) -> bool {
        self.shared.entered.lock().contains(topic)
    }

    /// Forgets that this process has entered the topic, so that its next job enters it again.
    pub(super) fn left(&self, topic: &Topic) {
        self.shared.entered.lock().remove(topic);
    }
}

pub(super) fn number(n: impl Into<i128>) -> Bytes {
    Bytes::from(n.into().to_string())
}

/// Formats a duration in milliseconds as an argument.
pub(super) fn millis(duration: Duration) -> Bytes {
    number(i128::try_from(duration.as_millis()).unwrap_or(i128::MAX))
}

/// Formats an optional argument; an absent one is empty.
pub(super) fn or_empty(value: Option<Bytes>) -> Bytes {
    value.unwrap_or_default()
}

pub(super) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
