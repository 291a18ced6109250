//! The whole pipeline with scripted sinks: what each outcome does to an element, its neighbours, the breaker and the hold.
//!
//! The tests run on paused time over a store in memory ([`world`]). Those that test Redis itself are in [`on_redis`].

mod ahead;
mod audit;
mod changes;
mod claims;
mod conditions;
mod dead_letter_target;
mod destinations;
mod drains;
mod ends;
mod failovers;
mod fairness;
mod fan_out;
mod gauges;
mod growth;
mod leases;
mod look;
mod moods;
mod on_redis;
mod order;
mod order_many;
mod order_random;
mod order_runs;
mod order_suspects;
mod outages;
mod outcomes;
mod outlook;
mod pauses;
mod probes;
mod random;
mod replicas;
mod rest;
mod scopes;
mod shared_looks;
mod stalls;
mod tail;
pub(super) mod world;

use std::sync::Arc;
use std::time::Duration;

use redisson_codecs::Codec;

use self::world::{Bridge, World, eventually, within};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{About, Class, Failure, MessageId};
use delaybridge_model::{
    Duplicates, Envelope, MaxInFlight, MessageSpec, Mode, OnAbsurdDue, OnDecodeError, OnExpired, OnSkipped,
    OnUnroutable, QueueSpec, RetryPolicy, RouteRules, RouteSpec, Unroutable,
};
use delaybridge_sink::Outbound;
use delaybridge_sink_stdout::StdoutSpec;
use delaybridge_source::SourceConfig;
use delaybridge_source::redisson::ListCleanup;
use delaybridge_source::redisson::{Consume, RedissonSpec};
use delaybridge_testing::fake::{FakeSink, Step};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// The lease of [`spec`].
const LEASE: Duration = MINUTE;
/// The longest wait of a breaker and of a hold.
const CEILING: Duration = Duration::from_secs(30);

const SINK_UP: &str = "delaybridge_sink_up{sink=\"s\"}";
const HELD: &str = "delaybridge_queue_held{queue=\"q\"}";
const DELIVERED: &str = "delaybridge_delivered_messages_total{queue=\"q\"}";
const DUPLICATES: &str = "delaybridge_possible_duplicates_total{queue=\"q\"}";
const STALE_ACKS: &str = "delaybridge_stale_acks_total{queue=\"q\"}";

/// A sink that confirms, unless its script says something else, and answers in time unless it is stalled for long.
fn sink() -> Arc<FakeSink> {
    Arc::new(FakeSink::new(Duration::from_secs(20)))
}

fn failure(class: Class, code: &'static str) -> Failure {
    Failure::new(class, code, "deliver: scripted failure")
}

/// A queue with a lease of a minute and three quick attempts.
pub(crate) fn spec(sinks: &[(&str, Arc<FakeSink>)]) -> QueueSpec {
    let to = sinks.iter().map(|(name, _)| route(name));
    QueueSpec {
        durability: None,
        redis: delaybridge_model::ONLY.into(),
        mode: Mode::Deliver,
        id: "q".into(),
        source: Arc::new(SourceConfig::Redisson(RedissonSpec {
            name: "q".into(),
            consume: Consume { delayed: true, ready: true },
            list_cleanup: ListCleanup::Auto,
            ghost_max_age: Duration::from_secs(30),
            sweep_bandwidth: 16 << 20,
            rescue_after: Duration::from_secs(10),
            space: Default::default(),
        })),
        codec: Codec::Raw.into(),
        classes: Default::default(),
        on_decode_error: OnDecodeError::DeadLetter,
        on_opaque: OnDecodeError::ForwardRaw,
        on_absurd_due: OnAbsurdDue::Hold,
        lease: LEASE,
        claim_ahead: Duration::ZERO,
        max_in_flight: MaxInFlight::Fixed(100),
        max_in_flight_bytes: 16 << 20,
        max_rate: None,
        max_lateness: None,
        on_expired: OnExpired::Deliver,
        on_skipped: OnSkipped::DeadLetter,
        order: None,
        unroutable: Unroutable { after: Some(10 * MINUTE), action: OnUnroutable::DeadLetter },
        to: to.collect(),
        retry: RetryPolicy {
            max_attempts: 3,
            initial_interval: Duration::from_millis(10),
            max_interval: Duration::from_millis(50),
            multiplier: 2.0,
            full_jitter: false,
        }
        .into(),
        dead_letter_max_len: None,
        dead_letter_to: None,
        audit: None,
    }
}

/// Bare payloads to this sink.
pub(crate) fn route(sink: &str) -> RouteSpec {
    let message = MessageSpec { headers: Box::default(), envelope: Envelope::Raw };
    RouteSpec { sink: sink.into(), target: Arc::new(StdoutSpec), message, rules: None }
}

fn id(n: u64) -> MessageId {
    MessageId(n.to_be_bytes())
}

fn number(message: &Outbound) -> u64 {
    u64::from_be_bytes(message.id.id.0)
}

/// How often the sink got each of these ids.
fn times(sink: &FakeSink, ids: impl IntoIterator<Item = u64>) -> Vec<usize> {
    let attempts = sink.attempts();
    ids.into_iter().map(|n| attempts.iter().filter(|message| message.id.id == id(n)).count()).collect()
}

/// The ids that have arrived at the sink, in order of their numbers, each as often as it arrived.
fn arrived(sink: &FakeSink) -> Vec<u64> {
    let mut taken: Vec<u64> = sink.taken().iter().map(number).collect();
    taken.sort();
    taken
}
