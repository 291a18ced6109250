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
use super::keys::{Keys, TOPICS};
use super::name::{LocalId, Token, Topic};
use super::reserve::Aged;
use super::scripts::Scripts;
use super::settings::JobSettings;
use super::together::Together;
use crate::clock::RedisClock;
use crate::link::{BadReply, Conn, Fields, LinkError, Redis, Script};

/// Topics that are remembered until the next look at them.
const MOST_STIRRED: usize = 10_000;
/// How long a call waits for a connection before it answers that there is none.
const PATIENCE: Duration = Duration::from_secs(1);

type Observer = Box<dyn Fn(&Topic, &Aged) + Send + Sync>;

/// The job queue. Clones share everything. Each call is one script, or one command, and is sent at most once; its
/// documentation says what sending it again does. Dropping a call abandons its answer: it may have run.
#[derive(Clone)]
pub struct JobQueue {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    redis: Redis,
    pub(super) settings: JobSettings,
    pub(super) scripts: &'static Scripts,
    pub(super) clock: RedisClock,
    /// Topics that this process has entered in the index.
    entered: Mutex<HashSet<Topic>>,
    /// Time and random part of the last id that was made.
    last_id: Mutex<(i64, u128)>,
    /// Called with the number of jobs that came back, died or expired.
    observer: OnceLock<Observer>,
    /// Single jobs that are added at the same time.
    pub(super) adds: Arc<Together<(LocalId, Vec<Bytes>), Added>>,
    /// Jobs that are finished at the same time.
    pub(super) finishes: Arc<Together<(LocalId, Token), ()>>,
    /// Topics in which something happened since the last look at them.
    stirred: Mutex<HashSet<Topic>>,
    /// Where this process's consumers wait.
    listener: Mutex<Option<mpsc::Sender<Topic>>>,
}

impl JobQueue {
    /// The job queue of this Redis.
    pub fn new(redis: impl Into<Redis>, settings: JobSettings, scripts: &'static Scripts) -> JobQueue {
        let shared = Shared {
            redis: redis.into(),
            settings,
            scripts,
            clock: RedisClock::new(),
            entered: Mutex::default(),
            last_id: Mutex::new((0, 0)),
            observer: OnceLock::new(),
            adds: Together::new(),
            finishes: Together::new(),
            stirred: Mutex::default(),
            listener: Mutex::new(None),
        };
        JobQueue { shared: Arc::new(shared) }
    }

    /// The same queue; `observer` gets the number of jobs that came back, died or expired, after each call. The first
    /// observer stays.
    #[must_use]
    pub fn observed_by(self, observer: impl Fn(&Topic, &Aged) + Send + Sync + 'static) -> JobQueue {
        // A second one is a mistake of the program, and would only count less.
        let _ = self.shared.observer.set(Box::new(observer));
        self
    }

    pub(super) fn observed(&self, topic: &Topic, aged: &Aged) {
        if let Some(observer) = self.shared.observer.get() {
            observer(topic, aged);
        }
    }

    /// What topics allow.
    pub fn settings(&self) -> &JobSettings {
        &self.shared.settings
    }

    /// Redis's time, milliseconds since 1970, as far as this process knows it.
    pub fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    /// The connection to the server that has this key; an outage that is over within a second is not noticed.
    pub(super) async fn conn(&self, key: impl AsRef<[u8]>) -> Result<Conn, JobError> {
        let place = self.shared.redis.at(key);
        if let Some(conn) = place.current() {
            return Ok(conn);
        }
        let address = || LinkError::NotSent { address: place.address() };
        tokio::time::timeout(PATIENCE, place.ready()).await.map_err(|_elapsed| address().into())
    }

    /// Whether a server of it can be asked now.
    pub fn is_up(&self) -> bool {
        self.shared.redis.any().is_some()
    }

    /// The time after which a command gives up.
    pub(super) fn command_timeout(&self) -> Duration {
        self.shared.redis.command_timeout()
    }

    /// Runs a script on a topic's keys; the first field of its answer is Redis's time, or the second behind a word.
    pub(super) async fn run(&self, script: &Script, topic: &Topic, args: &[Bytes]) -> Result<Value, JobError> {
        let scripts = self.shared.scripts;
        if ![&scripts.tick, &scripts.get, &scripts.peek, &scripts.stats]
            .into_iter()
            .any(|look| std::ptr::eq(look, script))
        {
            self.stir(topic);
        }
        let keys = Keys::of(topic);
        let conn = self.conn(keys.topic()).await?;
        Ok(conn.script(script, keys.all(), args).await?)
    }

    /// Something happens in a topic.
    pub(super) fn stir(&self, topic: &Topic) {
        let mut stirred = self.shared.stirred.lock();
        // What finds no room is seen by the next look.
        if stirred.len() < MOST_STIRRED && !stirred.contains(topic) {
            stirred.insert(topic.clone());
        }
    }

    /// Topics in which something happened since the last call, here or as the channel of Redis said.
    pub fn stirred(&self) -> HashSet<Topic> {
        std::mem::take(&mut *self.shared.stirred.lock())
    }

    /// Takes over the time in an answer.
    pub(super) fn observe(&self, fields: &mut Fields) -> Result<i64, BadReply> {
        let now = fields.int()?;
        self.shared.clock.observe(now);
        Ok(now)
    }

    /// Topics in which this process added a job that is due. A message that finds no room is lost: the channel of Redis and
    /// the poll say the same.
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

    /// A new id: later ones of this process sort behind it.
    pub(super) fn new_id(&self) -> LocalId {
        let now = self.shared.clock.now_ms();
        let mut last = self.shared.last_id.lock();
        // Half of the range is left for ids of the same millisecond.
        *last = if now > last.0 { (now, fastrand::u128(..1 << 79)) } else { (last.0, last.1 + 1) };
        LocalId::ulid(last.0, last.1)
    }

    /// Enters a topic in the index. Before its first job: a topic that is not in the index would never be seen.
    pub(super) async fn enter(&self, topic: &Topic, again: bool) -> Result<(), JobError> {
        if !again {
            if self.has_entered(topic) {
                return Ok(());
            }
            self.check_topics(topic).await?;
        }
        let conn = self.conn(TOPICS).await?;
        let mut command = redis::cmd("ZADD");
        command.arg(TOPICS).arg(0).arg(topic.as_str());
        conn.query::<()>(&command).await?;
        let mut entered = self.shared.entered.lock();
        // A client that invents topics must not fill the memory; entering one twice costs a command.
        if entered.len() >= 10_000 {
            entered.clear();
        }
        entered.insert(topic.clone());
        Ok(())
    }

    /// Whether this process has entered the topic in the index.
    pub(super) fn has_entered(&self, topic: &Topic) -> bool {
        self.shared.entered.lock().contains(topic)
    }

    /// This process enters the topic in the index again with its next job.
    pub(super) fn left(&self, topic: &Topic) {
        self.shared.entered.lock().remove(topic);
    }
}

/// A whole number as an argument.
pub(super) fn number(n: impl Into<i128>) -> Bytes {
    Bytes::from(n.into().to_string())
}

/// A number of milliseconds as an argument.
pub(super) fn millis(duration: Duration) -> Bytes {
    number(i128::try_from(duration.as_millis()).unwrap_or(i128::MAX))
}

/// What may be left out as an argument.
pub(super) fn or_empty(value: Option<Bytes>) -> Bytes {
    value.unwrap_or_default()
}

/// A text as an argument.
pub(super) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
