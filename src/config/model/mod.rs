//! The validated configuration: what the daemon runs on.
//!
//! Built only by [`super::load`]; every value here has been checked, every default filled in, every template compiled.

mod preview;
mod servers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redisson_codecs::{Classes, Codec, Coding, DecodeError, DecodeProblem, Payload};

pub use self::preview::Misfit;
pub use self::servers::{ONLY, Servers};
pub use crate::api::config::ApiSpec;
pub use crate::jobs::JobSettings;
use crate::link::rights::{self, Grant};
pub use crate::link::{Durability, RedisEndpoint, RedisTarget};
use crate::route::{ElementInfo, Message, MessageSpec};
pub use crate::settings::{Listen, Secret, TlsFiles};
use crate::sink::{Destination, SinkSpec, Target};
use crate::source::ledger::{Ledger, Use};
use crate::source::{Activity, SourceSpec};
pub use crate::spans::OtlpSpec;
use crate::template::{FillError, Template};

/// Everything that one daemon does.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address of `/metrics` and the probes; `None` when the user wrote `http: none`.
    pub http_listen: Option<SocketAddr>,
    /// The operators' listener.
    pub admin: Option<AdminSpec>,
    /// How long the ordered drain may take after SIGTERM.
    pub shutdown_timeout: Duration,
    /// Whether a change of the file is a wish for a reload.
    pub watch_file: bool,
    /// Limits of the whole process.
    pub limits: Limits,
    /// The collector of traces, if elements are traced.
    pub tracing: Option<OtlpSpec>,
    /// Every Redis that holds queues or jobs.
    pub redis: Servers,
    /// Sinks that at least one queue uses, in the order of the file.
    pub sinks: Vec<Arc<SinkSpec>>,
    /// The application's classes.
    pub classes: Classes,
    /// The job queue, if there is one.
    pub jobs: Option<JobSettings>,
    /// The Redis with the job queue.
    pub jobs_redis: Arc<str>,
    /// The job queue's HTTP API.
    pub api: Vec<ApiSpec>,
    /// Queues, in the order of the file.
    pub queues: Vec<Arc<QueueSpec>>,
}

impl Config {
    /// The queues that this Redis holds.
    pub fn queues_on(&self, redis: &str) -> Vec<Arc<QueueSpec>> {
        self.queues.iter().filter(|spec| &*spec.redis == redis).cloned().collect()
    }

    /// The Redis that a sink without a server of its own uses: that of its queues.
    pub fn redis_of_sink(&self, sink: &str) -> &str {
        let mut using = self
            .queues
            .iter()
            .filter(|spec| spec.to.iter().chain(spec.dead_letter_to.as_deref()).any(|route| &*route.sink == sink));
        using.next().map_or(ONLY, |spec| &spec.redis)
    }

    /// The Redis with the job queue.
    pub fn redis_of_jobs(&self) -> &RedisTarget {
        self.redis.named(&self.jobs_redis)
    }
}

/// How the operators' API and page are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSpec {
    /// Where it listens.
    pub listen: Listen,
    /// The tokens' file.
    pub token_file: Option<PathBuf>,
}

/// What all queues together may hold in memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Elements in flight.
    pub in_flight: u32,
    /// Bytes of elements in flight.
    pub in_flight_bytes: u64,
}

/// One queue: where its elements come from and where they go.
#[derive(Debug, Clone)]
pub struct QueueSpec {
    /// The key under `queues:`: the metric label.
    pub id: Arc<str>,
    /// The name of the Redis that holds it.
    pub redis: Arc<str>,
    /// Where its elements come from.
    pub source: SourceSpec,
    /// How payloads are decoded for templates and envelopes.
    pub codec: Coding,
    /// The application's classes, for the codecs that need them.
    pub classes: Classes,
    /// What happens to a payload that the codec refuses.
    pub on_decode_error: OnDecodeError,
    /// What happens to an object that only its Java class can read.
    pub on_opaque: OnDecodeError,
    /// How long a claim is ours without an extension.
    pub lease: Duration,
    /// How long before its due time an element is claimed.
    pub claim_ahead: Duration,
    /// Elements in flight.
    pub max_in_flight: MaxInFlight,
    /// Bytes of elements in flight.
    pub max_in_flight_bytes: u64,
    /// Elements per second; `None` is unlimited.
    pub max_rate: Option<f64>,
    /// Elements later than this are expired.
    pub max_lateness: Option<Duration>,
    /// What happens to an expired element.
    pub on_expired: OnExpired,
    /// When elements are given up whose payload chose a destination that does not work.
    pub unroutable: Unroutable,
    /// What a claim must have reached before its elements are delivered; `None` for nothing.
    pub durability: Option<Box<Durability>>,
    /// What is delivered in the order of the due times, by one daemon at a time; `None` for nothing.
    pub order: Option<Box<Ordered>>,
    /// What is done with due elements.
    pub mode: Mode,
    /// Destinations, each with a sink of its own: at least one, unless the mode is rescue.
    pub to: Vec<RouteSpec>,
    /// When and how often a failed element is tried again.
    pub retry: Arc<RetryPolicy>,
    /// Exact length that the dead-letter stream is trimmed to; only with `allow_loss: true`.
    pub dead_letter_max_len: Option<u64>,
    /// Where dead letters are forwarded to; they stay in the stream until that sink has confirmed them.
    pub dead_letter_to: Option<Box<RouteSpec>>,
}

impl QueueSpec {
    /// What the codec of the queue makes of a payload.
    ///
    /// # Errors
    /// When the codec refuses it.
    pub fn decode(&self, payload: &Bytes) -> Result<Payload, DecodeError> {
        redisson_codecs::decode_with(self.codec, &self.classes, payload)
    }

    /// The same, if the value takes at most so much memory while it is read; `None` if it may take more.
    pub fn decode_within(&self, payload: &Bytes, most: usize) -> Option<Result<Payload, DecodeError>> {
        let full = self.codec;
        if full.max_decoded_size <= most {
            return Some(self.decode(payload));
        }
        // With another bound it may recognise something else.
        if full.codec == Codec::Auto {
            return None;
        }
        let small = Coding { max_decoded_size: most, ..full };
        let decoded = redisson_codecs::decode_with(small, &self.classes, payload);
        let too_large = matches!(&decoded, Err(error) if matches!(error.problem, DecodeProblem::TooLarge));
        (!too_large).then_some(decoded)
    }

    /// The last part of a lease, in which nothing begins: no element is given to a sink, and no sink begins to send
    /// one. A fifth of the lease, so that it grows with the pauses that a long lease is meant for.
    ///
    /// The configuration is refused unless the time-out of every sink is shorter than the rest: an element that is sent
    /// at once after its claim has its answer before the margin begins, even if its lease cannot be extended.
    pub fn lease_margin(&self) -> Duration {
        self.lease / 5
    }

    /// What happens to a payload that the codec refuses with this error.
    pub fn on_refusal(&self, error: &DecodeError) -> OnDecodeError {
        if error.is_opaque() { self.on_opaque } else { self.on_decode_error }
    }

    /// What a daemon needs to be allowed for this queue, whose ledger this is.
    pub fn rights(&self, ledger: &Ledger) -> Vec<Grant> {
        let activity = match self.mode {
            Mode::Shadow => Activity::Look,
            Mode::Rescue { .. } => Activity::Rescue,
            Mode::Deliver => Activity::Deliver,
        };
        let push = self.to.iter().find_map(|route| {
            let (list, side) = route.target.redis_write()?.push_with_verdict()?;
            Some((list.clone(), side))
        });
        let trims_dead = self.dead_letter_max_len.is_some();
        let (forwards, in_order) = (self.dead_letter_to.is_some(), self.order.is_some());
        let mut grants = ledger.rights(activity, &Use { trims_dead, forwards, in_order, push });
        grants.extend(self.durability.as_deref().map(rights::to_wait));
        grants
    }
}

/// What keeps the order of the due times.
#[derive(Debug, Clone)]
pub enum Ordered {
    /// All elements of the queue.
    Queue,
    /// Those with the same key: what this template makes, else the key of the Kafka record.
    Key(Option<Box<Template>>),
}

impl Ordered {
    /// The word in the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Ordered::Queue => "queue",
            Ordered::Key(_) => "key",
        }
    }
}

/// What is done with due elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are claimed and delivered.
    Deliver,
    /// They are looked at; nothing is written anywhere.
    Shadow,
    /// They are moved to the ready list when they are overdue by this much.
    Rescue {
        /// How long they may be overdue.
        after: Duration,
    },
}

impl Mode {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Deliver => "deliver",
            Mode::Shadow => "shadow",
            Mode::Rescue { .. } => "rescue",
        }
    }
}

/// What happens to a payload that the codec refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDecodeError {
    /// Dead letter, with the bytes.
    DeadLetter,
    /// Delivered as it is; templates on the payload have no value.
    ForwardRaw,
    /// The queue is on hold until the configuration or the element is changed.
    Hold,
}

/// Bound on elements in flight of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxInFlight {
    /// Adapts to the sink, up to 10,000.
    Auto,
    /// Fixed.
    Fixed(u32),
}

/// What happens to an element later than `max_lateness`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExpired {
    /// Dead letter, reason `expired`.
    DeadLetter,
    /// Delivered all the same, and counted.
    Deliver,
}

/// When elements are given up whose payload chose a destination that does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unroutable {
    /// How long it may not work; `None` is without a limit.
    pub after: Option<Duration>,
    /// What happens then.
    pub action: OnUnroutable,
}

/// What happens to an element with a destination that does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnroutable {
    /// Dead letter, reason `unroutable`.
    DeadLetter,
    /// It waits.
    Hold,
}

impl Unroutable {
    /// After which time an element becomes a dead letter; `None` if it never does.
    pub fn gives_up(self) -> Option<Duration> {
        self.after.filter(|_| self.action == OnUnroutable::DeadLetter)
    }
}

/// One destination of a queue.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// The sink's name.
    pub sink: Arc<str>,
    /// Where in the sink, with the templates compiled.
    pub target: Arc<dyn Target>,
    /// Body and headers.
    pub message: MessageSpec,
}

/// An element with nothing left to decide for one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Where the sink puts it.
    pub destination: Destination,
    /// Body and headers.
    pub message: Message,
}

impl RouteSpec {
    /// Fills the templates, and wraps the payload.
    ///
    /// # Errors
    /// When a template has nothing to put in, or when what comes out is empty or cannot be a destination.
    pub fn fill(&self, element: &ElementInfo<'_>, payload: &Payload) -> Result<Routed, FillError> {
        let destination = self.destination(element, payload)?;
        Ok(Routed { destination, message: self.message.message(element, payload)? })
    }

    /// Fills the templates of the destination alone.
    ///
    /// # Errors
    /// When a template has nothing to put in, or when what comes out is empty or cannot be a destination.
    pub fn destination(&self, element: &ElementInfo<'_>, payload: &Payload) -> Result<Destination, FillError> {
        self.target.fill(&self.message.filler(element, payload))
    }
}

/// A named retry policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Counted attempts after which the element is dead.
    pub max_attempts: u32,
    /// Upper bound of the first wait.
    pub initial_interval: Duration,
    /// Upper bound of any wait.
    pub max_interval: Duration,
    /// Growth of the upper bound from one attempt to the next, at least 1.
    pub multiplier: f64,
    /// Whether waits are drawn from `0..=bound` (full) or are the bound itself (none).
    pub full_jitter: bool,
}
