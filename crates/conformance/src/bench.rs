//! A run: the producer under test, the queues that were made up for it, and what has been found out.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use redis::{RedisError, cmd};
use serde_json::{Map, Value, json};

use crate::child::{Answer, Broken, Producer};
use crate::element::{self, Element, Layout};
use crate::options::Options;
use crate::report::Verdict;
use crate::server::{Queue, Scheduled, Seen, Server};
use crate::statements::Number;

/// A check: it drives the producer through one situation.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The name of the check, for a failure of all of it.
    pub name: &'static str,
    /// The statements that it looks at.
    pub about: &'static [Number],
    /// Drives it.
    pub run: fn(&mut Bench) -> Result<(), Stop>,
}

/// Why a check ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The command broke the protocol.
    Broken(Broken),
    /// Redis did not answer the kit.
    Redis(String),
    /// The producer refused what it should have done, or answered it with another shape.
    Unexpected(String),
    /// The producer does not have what the check is about.
    NotOffered,
    /// The server does not let the kit look.
    NotChecked(String),
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Stop {
        Stop::Broken(broken)
    }
}

impl From<RedisError> for Stop {
    fn from(error: RedisError) -> Stop {
        Stop::Redis(format!("ask Redis what is in it: {error}"))
    }
}

/// The options with which a queue is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    /// Codec `json` instead of `string`.
    pub json: bool,
    /// Redis's clock instead of the producer's.
    pub redis_clock: bool,
    /// The error of the producer's clock.
    pub clock_offset_ms: i64,
}

/// The producer's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The name and version.
    pub name: String,
    /// The features.
    pub features: BTreeSet<String>,
    /// The layout that it writes.
    pub layout: Layout,
}

/// A run.
#[derive(Debug)]
pub struct Bench {
    /// The kit's own view of Redis.
    pub server: Server,
    /// Random values, by the seed.
    pub rng: Rng,
    /// The seed of the random values.
    pub seed: u64,
    /// Bytes of the largest payload.
    pub large: usize,
    /// In the name of every queue of this run.
    pub token: String,
    command: Vec<OsString>,
    url: String,
    limit: Duration,
    producer: Option<Producer>,
    said: Option<Said>,
    verdicts: BTreeMap<Number, Verdict>,
    made: Vec<Queue>,
}

impl Bench {
    /// Connects, and makes up a token that no key has.
    pub fn new(options: &Options) -> Result<Bench, RedisError> {
        let seed = options.seed.unwrap_or_else(|| Rng::new().u64(..1 << 32));
        Ok(Bench {
            server: Server::connect(&options.redis_url)?,
            rng: Rng::with_seed(seed),
            seed,
            large: options.large,
            // Not of the seed: two runs with one seed must not meet.
            token: format!("conformance-{:016x}", Rng::new().u64(..)),
            command: options.command.clone(),
            url: options.redis_url.clone(),
            limit: options.limit,
            producer: None,
            said: None,
            verdicts: BTreeMap::new(),
            made: Vec::new(),
        })
    }

    /// Starts another process of the same command, with the queue opened.
    pub fn another(&mut self, queue: &Queue, opening: Opening) -> Result<Producer, Stop> {
        let mut producer = Producer::start(&self.command, self.limit)?;
        open(&mut producer, &self.url, queue, opening, &json!({}))?;
        Ok(producer)
    }

    /// Creates a queue with an unused name: `shape` with the run's token instead of `%`.
    pub fn queue(&mut self, shape: &str) -> Result<Queue, Stop> {
        let number = self.made.len() + 1;
        let queue = Queue::named(&shape.replace('%', &format!("{}-{number}", self.token)));
        let standing: i64 = self.server.query(cmd("EXISTS").arg(&[&queue.timeout, &queue.list, &queue.name]))?;
        if standing > 0 {
            let name = &queue.name;
            return Err(Stop::Redis(format!("queue {name:?} is there already; the kit touches only what it made")));
        }
        self.made.push(queue.clone());
        Ok(queue)
    }

    /// Lists the keys of this run that are neither of the two structures of a queue nor the mark of an ID.
    pub fn strange_keys(&mut self) -> Result<Vec<String>, Stop> {
        let keys = self.server.keys_with(&self.token)?;
        let is_id =
            |rest: &[u8]| rest.len() == 16 && rest.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let belongs = |key: &[u8]| {
            self.made.iter().any(|queue| {
                key == queue.timeout.as_bytes()
                    || key == queue.list.as_bytes()
                    || key.strip_prefix(queue.mark.as_bytes()).is_some_and(is_id)
            })
        };
        let strange = keys.iter().filter(|key| !belongs(key));
        Ok(strange.map(|key| String::from_utf8_lossy(key).into_owned()).collect())
    }

    /// Opens a queue in the producer under test, which is started if it is not there.
    pub fn open(&mut self, queue: &Queue, opening: Opening) -> Result<(), Stop> {
        self.open_with(queue, opening, &json!({}))
    }

    /// Opens a queue as [`open`](Bench::open) does, with more fields.
    pub fn open_with(&mut self, queue: &Queue, opening: Opening, more: &Value) -> Result<(), Stop> {
        if self.producer.is_none() {
            self.producer = Some(Producer::start(&self.command, self.limit)?);
        }
        let url = self.url.clone();
        let said = open(self.producer()?, &url, queue, opening, more)?;
        self.said = Some(said);
        Ok(())
    }

    /// Sets another server for producers that are started from now on.
    pub fn move_to(&mut self, url: &str) {
        self.producer = None;
        url.clone_into(&mut self.url);
    }

    fn producer(&mut self) -> Result<&mut Producer, Stop> {
        self.producer.as_mut().ok_or_else(|| Stop::Unexpected("no queue is open".to_owned()))
    }

    /// Ends the producer under test; the next queue is opened in a new process.
    pub fn end(&mut self) -> Result<(), Broken> {
        self.producer.take().map_or(Ok(()), Producer::end)
    }

    /// Kills the producer under test, after it broke the protocol.
    pub fn drop_producer(&mut self) {
        self.producer = None;
    }

    /// Returns the producer's description of itself when it was last opened.
    pub fn said(&self) -> Option<&Said> {
        self.said.as_ref()
    }

    /// Ends the check unless the producer offers this.
    pub fn needs(&self, feature: &str) -> Result<(), Stop> {
        let offers = self.said.as_ref().is_some_and(|said| said.features.contains(feature));
        if offers { Ok(()) } else { Err(Stop::NotOffered) }
    }

    /// Runs an operation that has to succeed.
    pub fn ask(&mut self, operation: Value) -> Result<Map<String, Value>, Stop> {
        done(self.producer()?, operation)
    }

    /// Runs an operation that may be refused.
    pub fn try_ask(&mut self, operation: Value) -> Result<Answer, Stop> {
        Ok(self.producer()?.ask(operation)?)
    }

    /// Offers a value; the handle, if the producer gives one.
    pub fn offer(&mut self, operation: Value) -> Result<Option<String>, Stop> {
        offer(self.producer()?, operation)
    }

    /// Offers a value with a handle, or ends the check: what follows needs one.
    pub fn offer_with_handle(&mut self, operation: Value) -> Result<String, Stop> {
        self.offer(operation)?.ok_or(Stop::NotOffered)
    }

    /// Reads the contents of the queue.
    pub fn look(&mut self, queue: &Queue) -> Result<Seen, Stop> {
        Ok(self.server.look(queue)?)
    }

    /// Reads an element, in the layout that the producer says it writes.
    pub fn read<'a>(&self, element: &'a [u8]) -> Result<Element<'a>, String> {
        element::read(self.said.as_ref().map_or(Layout::Current, |said| said.layout), element)
    }

    /// Returns the payload of an element; its bytes if it cannot be read, which another statement is about.
    pub fn payload(&self, element: &[u8]) -> Vec<u8> {
        self.read(element).map_or_else(|_| element.to_vec(), |read| read.payload.to_vec())
    }

    /// Returns the scheduled element with this payload, the first of them.
    pub fn find<'a>(&self, seen: &'a Seen, payload: &str) -> Option<&'a Scheduled> {
        seen.scheduled.iter().find(|one| self.payload(&one.element) == payload.as_bytes())
    }

    /// Records whether a statement held; once it did not, that stays.
    pub fn require(&mut self, number: Number, held: bool, seen: impl FnOnce() -> String) {
        let verdict = self.verdicts.entry(number).or_default();
        match verdict {
            Verdict::Fail { .. } => {}
            _ if held => *verdict = Verdict::Pass,
            _ => *verdict = Verdict::Fail { seen: seen() },
        }
    }

    /// Records why statements were not looked at, where nothing else is known.
    pub fn otherwise(&mut self, numbers: &[Number], verdict: &Verdict) {
        for number in numbers {
            let known = self.verdicts.entry(number).or_default();
            if matches!(known, Verdict::NotChecked { .. }) {
                known.clone_from(verdict);
            }
        }
    }

    /// Records a check that ended in the middle: the statements about which nothing is known fail, or the first if all
    /// is known.
    pub fn blame(&mut self, numbers: &[Number], verdict: &Verdict) {
        let open = |bench: &Bench, number: &Number| matches!(bench.verdict(number), Verdict::NotChecked { .. });
        let unknown: Vec<Number> = numbers.iter().copied().filter(|number| open(self, number)).collect();
        if !unknown.is_empty() {
            self.otherwise(&unknown, verdict);
        } else if let Some(first) = numbers.first()
            && self.verdict(first) == Verdict::Pass
        {
            self.verdicts.insert(first, verdict.clone());
        }
    }

    /// Returns the verdict on a statement.
    pub fn verdict(&self, number: Number) -> Verdict {
        self.verdicts.get(number).cloned().unwrap_or_default()
    }

    /// Removes all keys of this run.
    pub fn clean_up(&mut self) -> Result<(), RedisError> {
        for key in self.server.keys_with(&self.token)? {
            let () = self.server.query(cmd("DEL").arg(key))?;
        }
        Ok(())
    }
}

/// Returns the kit's own time, in ms.
pub fn now_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "it is compared with what a producer made of its own clock")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn open(producer: &mut Producer, url: &str, queue: &Queue, opening: Opening, more: &Value) -> Result<Said, Stop> {
    let mut operation = json!({
        "op": "open", "protocol": 1, "redis": url, "queue": queue.name,
        "codec": if opening.json { "json" } else { "string" },
        "clock": if opening.redis_clock { "redis" } else { "producer" },
        "clock_offset_ms": opening.clock_offset_ms,
    });
    if let (Some(operation), Some(more)) = (operation.as_object_mut(), more.as_object()) {
        operation.extend(more.clone());
    }
    let answer = done(producer, operation)?;
    let text = |field: &str| answer.get(field).and_then(Value::as_str);
    let layout = match text("layout") {
        Some("current") => Layout::Current,
        Some("old") => Layout::Old,
        other => return Err(Stop::Unexpected(format!("`open` answered layout {other:?}, not \"current\" or \"old\""))),
    };
    let features = answer.get("features").and_then(Value::as_array).into_iter().flatten();
    let features = features.filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(Said { name: text("name").unwrap_or("a producer without a name").to_owned(), features, layout })
}

/// Runs an operation that has to succeed.
pub fn done(producer: &mut Producer, operation: Value) -> Result<Map<String, Value>, Stop> {
    let op = operation["op"].as_str().unwrap_or_default().to_owned();
    match producer.ask(operation)? {
        Answer::Done(answer) => Ok(answer),
        Answer::Refused(error) => Err(Stop::Unexpected(format!("`{op}` was refused: {error}"))),
        Answer::NotOffered => Err(Stop::NotOffered),
    }
}

/// Offers a value; the handle, if the producer gives one.
pub fn offer(producer: &mut Producer, mut operation: Value) -> Result<Option<String>, Stop> {
    operation["op"] = "offer".into();
    match done(producer, operation)?.get("offer") {
        Some(Value::String(handle)) => Ok(Some(handle.clone())),
        Some(Value::Null) | None => Ok(None),
        Some(other) => Err(Stop::Unexpected(format!("`offer` answered with the offer {other}, not a string or null"))),
    }
}
