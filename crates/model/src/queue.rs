//! One queue: the source of its elements, their destinations, and the rules between them.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redisson_codecs::{Classes, Codec, Coding, DecodeError, DecodeProblem};

use super::audit::AuditSpec;
use super::failures::{OnAbsurdDue, OnDecodeError, OnExpired, OnSkipped, RetryPolicy, Unroutable};
use super::payload::Payload;
use super::route::RouteSpec;
use delaybridge_core::template::{Fields, Template};
use delaybridge_ledger::{Activity, Ledger, Use};
use delaybridge_link::Durability;
use delaybridge_link::rights::{self, Grant};
use delaybridge_settings::words::words;
use delaybridge_source::SourceConfig;

/// One queue: the source of its elements, and their destinations. An idle queue is little else, so what few queues have is boxed.
#[derive(Debug, Clone)]
pub struct QueueSpec {
    /// The key under `queues:`: the metric label.
    pub id: Arc<str>,
    /// The name of the Redis that holds it.
    pub redis: Arc<str>,
    /// The source of its elements.
    pub source: Arc<SourceConfig>,
    /// The codec of payloads, for templates and envelopes.
    pub codec: Coding,
    /// The application's classes, for the codecs that need them.
    pub classes: Classes,
    /// Handling of a payload that the codec refuses.
    pub on_decode_error: OnDecodeError,
    /// Handling of an object that only its Java class can read.
    pub on_opaque: OnDecodeError,
    /// Handling of an element with an absurd due time.
    pub on_absurd_due: OnAbsurdDue,
    /// Duration of a claim without an extension.
    pub lease: Duration,
    /// Time before the due time at which an element is claimed.
    pub claim_ahead: Duration,
    /// Elements in flight.
    pub max_in_flight: MaxInFlight,
    /// Bytes of elements in flight.
    pub max_in_flight_bytes: u64,
    /// Elements per second; `None` is unlimited.
    pub max_rate: Option<Box<f64>>,
    /// Lateness after which an element is expired.
    pub max_lateness: Option<Duration>,
    /// Handling of an expired element.
    pub on_expired: OnExpired,
    /// Handling of an element that no destination is meant for.
    pub on_skipped: OnSkipped,
    /// Handling of elements whose payload chose a destination that does not work.
    pub unroutable: Unroutable,
    /// Replicas or disks that must have a claim before its elements are delivered; `None` for none.
    pub durability: Option<Box<Durability>>,
    /// The elements that are delivered in the order of their due times, by one daemon at a time; `None` for none.
    pub order: Option<Box<Ordered>>,
    /// The use of due elements.
    pub mode: Mode,
    /// Destinations, each with a sink of its own: at least one, unless the mode is rescue.
    pub to: Box<[RouteSpec]>,
    /// Times and number of an element's attempts.
    pub retry: Arc<RetryPolicy>,
    /// Exact length that the dead-letter stream is trimmed to; only with `allow_loss: true`.
    pub dead_letter_max_len: Option<NonZeroU64>,
    /// The destination of forwarded dead letters; they stay in the stream until that sink has confirmed them.
    pub dead_letter_to: Option<Box<RouteSpec>>,
    /// The trail of records of its elements.
    pub audit: Option<Box<AuditSpec>>,
}

/// Bound on elements in flight of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxInFlight {
    /// A bound that adapts to the sink, up to 10,000.
    Auto,
    /// A fixed bound.
    Fixed(u32),
}

/// The use of due elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Claim and deliver.
    Deliver,
    /// Only look; nothing is written anywhere.
    Shadow,
    /// Move overdue elements to the ready list.
    Rescue {
        /// The time for which an element may be overdue.
        after: Duration,
    },
}

words! {
    /// The words of the modes. A rescue has the time of its source.
    pub list Modes of Mode {
        Mode::Deliver.as_str() => Mode::Deliver,
        Mode::Shadow.as_str() => Mode::Shadow,
        Mode::Rescue { after: Duration::ZERO }.as_str() => Mode::Rescue { after: Duration::ZERO },
    }
}

impl Mode {
    /// Returns the word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Deliver => "deliver",
            Mode::Shadow => "shadow",
            Mode::Rescue { .. } => "rescue",
        }
    }
}

words! {
    /// The elements that are delivered one after the other.
    pub enum Order {
        /// None.
        None = "none",
        /// Elements with the same key.
        Key = "key",
        /// All elements of the queue.
        Queue = "queue",
    }
}

/// The elements that are delivered in the order of their due times.
#[derive(Debug, Clone)]
pub enum Ordered {
    /// All elements of the queue.
    Queue,
    /// Elements with the same key: the text of this template, else the key of the Kafka record.
    Key(Option<Box<Template>>),
}

impl Ordered {
    /// Returns the word in the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Ordered::Queue => Order::Queue.as_str(),
            Ordered::Key(_) => Order::Key.as_str(),
        }
    }
}

impl QueueSpec {
    /// Returns every destination, including those of dead letters and of records.
    pub fn routes(&self) -> impl Iterator<Item = &RouteSpec> {
        let audit = self.audit.as_deref().map(|audit| &audit.route);
        self.to.iter().chain(self.dead_letter_to.as_deref()).chain(audit)
    }

    /// Decodes a payload with the codec of the queue.
    ///
    /// # Errors
    /// When the codec refuses it.
    pub fn decode(&self, payload: &Bytes) -> Result<Payload, DecodeError> {
        redisson_codecs::decode_with(self.codec, &self.classes, payload).map(Payload)
    }

    /// Decodes a payload in at most `most` bytes of memory; `None` if it may take more.
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
        (!too_large).then(|| decoded.map(Payload))
    }

    /// Returns the text, number or boolean at this path of the decoded payload, as a template would have it.
    pub fn field_of(&self, payload: &Bytes, path: &[String]) -> Option<String> {
        let decoded = self.decode(payload).ok()?;
        decoded.field(path).map(|text| text.into_owned())
    }

    /// Returns the last part of a lease, in which nothing begins: no element is given to a sink, and no sink begins to
    /// send one. A fifth of the lease, so that it grows with the pauses that a long lease is meant for.
    ///
    /// The configuration is refused unless the time-out of every sink is shorter than the rest: an element that is sent
    /// at once after its claim has its answer before the margin begins, even if its lease cannot be extended.
    pub fn lease_margin(&self) -> Duration {
        self.lease / 5
    }

    /// Returns the handling of a payload that the codec refuses with this error.
    pub fn on_refusal(&self, error: &DecodeError) -> OnDecodeError {
        if error.is_opaque() { self.on_opaque } else { self.on_decode_error }
    }

    /// Returns the rights that a daemon needs for this queue, whose ledger this is.
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
        let forwards = self.dead_letter_to.is_some();
        let in_order = self.order.is_some();
        let mut grants = ledger.rights(activity, &Use { trims_dead, forwards, in_order, push });
        grants.extend(self.durability.as_deref().map(rights::to_wait));
        grants
    }
}
