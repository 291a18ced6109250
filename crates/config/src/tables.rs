//! The keys of the file that belong to no part of it: a line or a field for each, in the order of the reference.

use std::net::SocketAddr;
use std::time::Duration;

use redisson_codecs::{Codec, Coding, Compression, JavaTypes};

use crate::input_kinds;
use crate::sink_kinds;
use crate::words::{Envelopes, EventBodies, EventModes, Fates, JavaTypeNames};
use delaybridge_core::template::Template;
use delaybridge_jobs::{JobSettings, config as job_queue};
use delaybridge_jobs_http::config as api;
use delaybridge_link::Durability;
use delaybridge_link::config::{durability, redis, sentinel};
use delaybridge_model::keys::{admin, admin_proxy, grafana, input_rules, limits, proxy_role, reload, retry};
use delaybridge_model::{
    ApiSpec, AuditFate, Duplicates, EventData, EventMode, InputRules, Mode, Modes, ONLY, OnAbsurdDue, OnDecodeError,
    OnExpired, OnOpaque, OnSkipped, OnUnroutable, Order, ProcessLimits, Reload, Servers,
};
use delaybridge_settings::keys::{Group, Key, Kind, Table};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_settings::{Settings, tls};
use delaybridge_source::config::SourceSettings;
use delaybridge_source::kinds as source_kinds;
use delaybridge_spans::config as spans;

/// The whole file.
#[derive(Settings)]
#[settings(top, at = "", hidden)]
pub(super) struct TopKeys {
    /// The HTTP server for metrics and probes; `none` starts no server.
    #[key(Kind::SectionOrNone(&http::TABLE), elsewhere)]
    pub(super) http: (),
    /// Longest drain after SIGTERM; then unsettled elements are released. Keep it below the grace period of the service
    /// manager (Kubernetes: 30s).
    #[key(duration(1), default = "25s")]
    pub(super) shutdown_timeout: Duration,
    /// Reload of the configuration. SIGHUP always triggers one.
    #[key(Kind::Section(&reload::TABLE))]
    pub(super) reload: Reload,
    /// Limits of all queues together.
    #[key(Kind::Section(&limits::TABLE))]
    pub(super) limits: ProcessLimits,
    /// Traces of elements. Disabled if omitted.
    #[key(Kind::Section(&spans::tracing::TABLE))]
    pub(super) tracing: Option<spans::TracingKeys>,
    /// The Redis of the queues, or several by name (`redis: { orders: { url: ... }, mails: { url: ... } }`); then each source
    /// names its Redis. One that does not answer delays its own queues only.
    #[key(Kind::SectionOrNamed(&redis::TABLE), required, read = servers)]
    pub(super) redis: Option<Servers>,
    /// Retry policies by name. `default` always exists.
    #[key(Kind::Named(&retry::TABLE), elsewhere)]
    pub(super) retry: (),
    /// Destination systems, by name. Required, unless every queue has `mode: rescue`.
    #[key(Kind::Named(&sinks::TABLE), elsewhere)]
    pub(super) sinks: (),
    /// The Java classes of payloads in `kryo5`. `tools/KryoClasses.java` prints this section; see
    /// [codecs.md](codecs.md#objects-in-kryo-5).
    #[key(Kind::Classes(&class::TABLE), elsewhere)]
    pub(super) classes: (),
    /// The job queue, for clients without a library. It needs neither `queues` nor `sinks`.
    #[key(Kind::Section(&jobs::TABLE), elsewhere)]
    pub(super) jobs: (),
    /// Messages of brokers that wait in the job queue until they are due, by name, which is also that of the queue that
    /// delivers them.
    #[key(Kind::Named(&inputs::TABLE), elsewhere)]
    pub(super) inputs: (),
    /// The queues by id: the label in metrics and the argument of commands, at most 64 letters, digits, `_`, `.`, `-`.
    /// Required, unless there are `jobs`.
    #[key(Kind::Named(&queue::TABLE), elsewhere)]
    pub(super) queues: (),
}

/// Read-only endpoints: `/metrics`, `/livez`, `/readyz`, `/startupz`.
#[derive(Settings)]
#[settings(http, at = "http", hidden)]
pub(super) struct HttpKeys {
    /// Address and port. `[::]` answers on IPv6 and IPv4.
    #[key(Kind::Address, default = "[::]:9464")]
    pub(super) listen: Option<SocketAddr>,
    /// The listener for operators: [admin API and web page](admin.md). Disabled if omitted.
    #[key(Kind::Section(&admin::TABLE), elsewhere)]
    pub(super) admin: (),
}

/// One key: the kind. The keys of a destination (`topic`, `list` and so on) may be set at the sink for all queues, or under
/// [`to`](#queuesnameto), which takes precedence. Except for Redis and standard output, messages have the headers
/// `delaybridge-id`, `delaybridge-queue`, `delaybridge-due-ms`, `delaybridge-attempt`, and then the route's.
#[derive(Settings)]
#[settings(sinks, at = "sinks.NAME", offered = sink_kinds::KIND_KEYS, hidden)]
pub(super) struct SinkKeys {
    #[settings(read = Section::written)]
    pub(super) written: Vec<&'static str>,
}

/// The job queue: jobs that clients add, take and finish over HTTP or the command line.
#[derive(Settings)]
#[settings(jobs, at = "jobs", hidden)]
pub(super) struct JobsKeys {
    #[settings(group = api::KEYS, read = api::read)]
    pub(super) api: Vec<ApiSpec>,
    /// Name of the Redis that holds the jobs. Required if there are several.
    #[key(Kind::Text)]
    pub(super) redis: Option<Scalar>,
    #[settings(group = job_queue::KEYS, read = job_queue::read)]
    pub(super) queue: JobSettings,
}

/// [Messages of a broker](delayed-messages.md) that wait in the job queue until they are due: one kind, and the common keys.
#[derive(Settings)]
#[settings(inputs, at = "inputs.NAME", offered = INPUT_KEYS, hidden)]
pub(super) struct InputKeys {
    /// Topic of the job queue for the messages.
    #[key(Kind::Text, required)]
    pub(super) topic: Option<Scalar>,
    /// Destination of due messages. Without an address here or a header `x-delay-to`, an AMQP message goes to the queue that
    /// its routing key names. If omitted, consumers or a queue of the configuration take the topic's jobs.
    #[key(Kind::Section(&to::TABLE), elsewhere)]
    pub(super) to: (),
    #[settings(group = input_rules::OWN)]
    pub(super) rules: InputRules,
}

/// Exactly one kind.
#[derive(Settings)]
#[settings(source, at = "queues.NAME.source", offered = source_kinds::KIND_KEYS, hidden)]
pub(super) struct SourceKeys {
    /// Name of the Redis that holds the queue. Required if there are several.
    #[key(Kind::Text)]
    redis: Option<Scalar>,
}

/// One destination.
#[derive(Settings)]
#[settings(to, at = "queues.NAME.to[]", offered = sink_kinds::DESTINATION_KEYS, hidden)]
pub(super) struct RouteKeys {
    /// Name of a sink.
    #[key(Kind::Text, required)]
    pub(super) sink: Option<Scalar>,
    /// [Condition](conditions.md) for the destination, as `payload.amount > 100`. Default: all elements.
    #[key(Kind::Text)]
    pub(super) when: Option<Scalar>,
    /// Treatment of an element that the destination may have already, because an attempt had no answer or its daemon died.
    /// `allow`: it is sent again. `look`: only if the destination does not have it, as far as that [can be
    /// seen](guarantees.md#a-look-before-sending-again). Kafka reads the topic from the first attempt on; Redis keeps a key of
    /// each push for five minutes; NATS and FIFO of AWS always do so; others refuse it.
    #[key(word::<Duplicates>(), default = "allow")]
    pub(super) duplicates: Duplicates,
    /// Further headers: fields of the entry in a Redis stream, `headers` of the line on standard output; none in a Redis
    /// list.
    #[key(Kind::Headers, read = Section::headers)]
    pub(super) headers: Vec<(String, Template, Spot)>,
    /// The headers of an [input](delayed-messages.md)'s message that the destination gets. Default: all that steer nothing
    /// and that it [can carry](headers.md). `headers` of the same name replace them.
    #[key(Kind::Section(&headers_from_message::TABLE))]
    pub(super) headers_from_message: Option<FilterKeys>,
    /// The payload's bytes; the decoded value, as JSON or plain text; a JSON object with `id`, `queue`, `due_ms` (if known),
    /// `attempt` and `payload` (or `payload_base64`); or a [CloudEvent](#cloudevents).
    #[key(word::<Envelopes>(), default = "raw")]
    pub(super) envelope: Envelopes,
    /// Settings of the event.
    #[key(Kind::Section(&cloud_events::TABLE))]
    pub(super) cloudevents: Option<EventKeys>,
}

/// Headers by name: `*` matches any text, case is ignored. Headers that steer the destination never pass.
#[derive(Settings)]
#[settings(headers_from_message, at = "queues.NAME.to[].headers_from_message", hidden)]
pub(super) struct FilterKeys {
    #[settings(read = Section::place)]
    pub(super) place: Spot,
    /// The headers that pass. Default: all.
    #[key(Kind::Texts)]
    pub(super) keep: Option<Vec<Scalar>>,
    /// The headers that do not pass, even if kept. Default: none.
    #[key(Kind::Texts)]
    pub(super) drop: Option<Vec<Scalar>>,
}

/// With `envelope: cloudevents`: see [CloudEvents](#cloudevents).
#[derive(Settings)]
#[settings(cloud_events, at = "queues.NAME.to[].cloudevents", hidden)]
pub(super) struct EventKeys {
    /// Attributes as headers, not for a list; or one JSON object with attributes and data.
    #[key(words = EventModes, default = "binary")]
    pub(super) mode: EventMode,
    /// The payload's bytes, only with `mode: binary`, or the decoded value. Default: `raw`, but `decoded` with `mode:
    /// structured`, `java_types: strip` or `json_in_text: true`.
    #[key(word::<EventBodies>(), read = event_data)]
    pub(super) data: Option<(EventData, Spot)>,
    /// The attribute `type`.
    #[key(Kind::Template, default = "delaybridge.element.due", name = "type")]
    pub(super) kind: Option<(Template, Spot)>,
    /// The attribute `source`: a URI or a path.
    #[key(Kind::Template, default = "/delaybridge/${queue}")]
    pub(super) source: Option<(Template, Spot)>,
    /// The attribute `subject`. Omitted if empty.
    #[key(Kind::Template)]
    pub(super) subject: Option<(Template, Spot)>,
}

/// A [record](audit.md) of the fate of each element, without its payload. The element leaves Redis when the sink has
/// confirmed it. Templates may use `id`, `queue`, `due_ms` and `attempt`.
#[derive(Settings)]
#[settings(audit, at = "queues.NAME.audit", offered = sink_kinds::DEAD_LETTER_KEYS, hidden)]
pub(super) struct AuditKeys {
    /// Sink of the records. Set a Redis stream on the sink.
    #[key(Kind::Text, required)]
    pub(super) sink: Option<Scalar>,
    /// The recorded fates. `delivered`: every destination has confirmed. `skipped`: no `when` holds. `expired`: later than
    /// `max_lateness`. `dead`: another dead letter. `cancelled` is refused, because no daemon sees it.
    #[key(words::<Fates>(), default = "[delivered, skipped, dead, expired]", read = Section::some_of::<Fates>)]
    pub(super) on: Vec<Option<AuditFate>>,
}

/// Dead letters are in the stream `delaybridge:dead:{NAME}` beside the queue. With `sink` each is forwarded, and stays until
/// that sink has confirmed it: the original payload, with cause and attempts in headers. Templates may use `id`, `queue`,
/// `due_ms` and `attempt`, not the payload.
#[derive(Settings)]
#[settings(dead_letter, at = "queues.NAME.dead_letter", offered = sink_kinds::DEAD_LETTER_KEYS, hidden)]
pub(super) struct DeadLetterKeys {
    /// Settings of the stream.
    #[key(Kind::Section(&dead_stream::TABLE), name = "stream", read = stream_length)]
    pub(super) max_len: Option<u64>,
    /// Sink that dead letters are forwarded to, also one of the queue with another destination. Set a Redis stream on the
    /// sink; a list carries no cause.
    #[key(Kind::Text)]
    pub(super) sink: Option<Scalar>,
}

/// Limits of the stream.
#[derive(Settings)]
#[settings(dead_stream, at = "queues.NAME.dead_letter.stream", hidden)]
struct DeadStream {
    /// Dead letters, at most; the oldest are lost, so it needs `allow_loss: true`.
    #[key(count_or("none", 1, u64::MAX), default = "none")]
    max_len: Option<u64>,
    /// Confirms that the oldest dead letters may be lost.
    #[key(Kind::Flag, default = "false")]
    allow_loss: bool,
}

/// One class, by its full name (`com.example.Order`, `com.example.Order$Line`), with one of `fields`, `constants`,
/// `like` and `abstract`.
#[derive(Settings)]
#[settings(class, at = "classes.NAME", hidden)]
pub(super) struct ClassKeys {
    /// Names and types of the fields, sorted by name as Kryo does. Types as in Java, with full names: `long`,
    /// `java.util.List<com.example.Line>`, `byte[]`.
    #[key(Kind::Scalars, read = Section::scalars)]
    pub(super) fields: Vec<(String, Scalar)>,
    /// The class is a record.
    #[key(Kind::Flag, default = "false")]
    pub(super) record: bool,
    /// The constants of an enum, in their order.
    #[key(Kind::Texts)]
    pub(super) constants: Vec<String>,
    /// For a subclass of a list, set or map: the JDK class with the same serialized form, as `java.util.ArrayList`. For
    /// `AtomicInteger` and its like: itself, as Redisson writes it from 3.46.0 on.
    #[key(Kind::Text)]
    pub(super) like: Option<String>,
    /// An interface or an abstract class.
    #[key(Kind::Flag, default = "false", name = "abstract")]
    pub(super) is_abstract: bool,
    /// The class is final. Kryo writes no class for a field of a final class.
    #[key(Kind::Flag, default = "false", name = "final")]
    pub(super) is_final: bool,
    /// For each type variable of the class and its superclasses: the variables of the same type, as `com.example.Box#T
    /// com.example.Base#E`.
    #[key(Kind::Texts)]
    pub(super) variables: Vec<String>,
    /// The id of the class in the application's Kryo.
    #[key(count(9, 2_147_483_647))]
    pub(super) id: Option<u32>,
}

/// One queue: the source of its elements and their destinations.
#[derive(Settings)]
#[settings(queue, at = "queues.NAME", hidden)]
pub(super) struct QueueKeys {
    /// The source of the elements.
    #[key(Kind::Section(&source::TABLE), required, read = source)]
    pub(super) source: (SourceSettings, Option<Scalar>),
    /// Destinations; an element leaves Redis when all have confirmed it. Of several in one sink, the first whose `when` holds
    /// gets it. Required, unless `mode: rescue`.
    #[key(Kind::List(&to::TABLE), elsewhere)]
    pub(super) to: (),
    /// [Codec](codecs.md) of the payloads, for templates and envelopes. It never changes the body with envelope `raw`.
    #[key(CODECS, default = "raw", read = codec)]
    pub(super) codec: Coding,
    /// Whether Java class names stay in the decoded value (`"@class"`, `["java.lang.Long",7]`), with all object codecs
    /// but `json`.
    #[key(words = JavaTypeNames, default = "keep")]
    pub(super) java_types: JavaTypes,
    /// Decodes the JSON in a payload that is a text, as `offer(objectMapper.writeValueAsString(x))` writes it, for
    /// templates, conditions, `order_key` and envelopes. Other texts stay.
    #[key(Kind::Flag, default = "false")]
    pub(super) json_in_text: bool,
    /// Largest decompressed payload, and largest decoded value in memory (its text, and 128 bytes for each value and
    /// name); a larger one is refused. Decoding needs this in addition to `max_in_flight_bytes`.
    #[key(Kind::Size, default = "16MiB")]
    pub(super) max_decoded_size: usize,
    /// A payload that the codec refuses is a dead letter, is delivered unchanged (templates on the payload have no
    /// value), or holds the queue. `hold_repeated`: a dead letter, and a hold from the third in a row on.
    #[key(word::<OnDecodeError>(), default = "hold_repeated")]
    pub(super) on_decode_error: OnDecodeError,
    /// An object that only its Java class can read is a dead letter, is delivered as bytes (templates on the payload
    /// have no value), or holds the queue. Default: `dead_letter` with `envelope: decoded`, else `forward_raw`.
    #[key(word::<OnOpaque>())]
    pub(super) on_opaque: Option<OnOpaque>,
    /// An element whose due time is an overflow (`Long.MAX_VALUE` ms from now: more than 2^53 ms before 1970), or a
    /// time from 2001 to 2100 in seconds that was read as milliseconds. `-inf` and 0 mean "at once". `hold`: it waits
    /// among the retries for a person. Default: `hold`; with an `order`, `dead_letter`. Times that far ahead stay.
    #[key(word::<OnAbsurdDue>())]
    pub(super) on_absurd_due: Option<OnAbsurdDue>,
    /// Duration of a claim: a killed daemon's elements come back after it. 80 % of it must exceed every sink's timeout.
    #[key(duration(1_000), default = "30s")]
    pub(super) lease: Duration,
    /// Elements in flight; `auto` adapts to the sinks, up to 10,000.
    #[key(count_or("auto", 1, 1_000_000), default = "auto")]
    pub(super) max_in_flight: Option<u32>,
    /// Bytes in flight, counted as in `limits.in_flight_bytes`. A larger element is delivered alone.
    #[key(Kind::Size, default = "16MiB")]
    pub(super) max_in_flight_bytes: u64,
    /// Elements that are delivered one after the other by due time: none, those of one key, or all. With an
    /// [order](guarantees.md), one daemon at a time delivers, and a retry delays its key or queue.
    #[key(word::<Order>(), default = "none")]
    pub(super) order: Order,
    /// The key of `order: key`, as `${payload.orderId}`. Default: the `key` of the Kafka record.
    #[key(Kind::Template, read = Section::template)]
    pub(super) order_key: Option<Template>,
    /// Deliveries of this queue. Waiting is no attempt.
    #[key(Kind::Rate, default = "none")]
    pub(super) max_rate: Option<f64>,
    /// Lateness after which an element is expired.
    #[key(Kind::DurationOrNone, default = "none")]
    pub(super) max_lateness: Option<Duration>,
    /// An expired element is a dead letter or delivered.
    #[key(word::<OnExpired>(), default = "dead_letter")]
    pub(super) on_expired: OnExpired,
    /// An element for which no `when` holds is a dead letter or removed, and counted.
    #[key(word::<OnSkipped>(), default = "dead_letter")]
    pub(super) on_skipped: OnSkipped,
    /// Time for which elements wait for a destination from the payload that refuses them (a missing topic, exchange,
    /// queue or right), before they are dead letters. For one that has worked before they wait without a limit.
    #[key(Kind::DurationOrNever, default = "10m")]
    pub(super) unroutable_after: Option<Duration>,
    /// After `unroutable_after`: dead letters, or they wait without a limit.
    #[key(word::<OnUnroutable>(), default = "dead_letter")]
    pub(super) on_unroutable: OnUnroutable,
    /// Name of a retry policy.
    #[key(Kind::Text, default = "default", read = Section::text)]
    pub(super) retry: Option<Scalar>,
    /// Storage and forwarding of dead letters.
    #[key(Kind::Section(&dead_letter::TABLE), elsewhere)]
    pub(super) dead_letter: (),
    /// The audit trail. Default: none.
    #[key(Kind::Section(&audit::TABLE), elsewhere)]
    pub(super) audit: (),
    /// Time before the due time at which an element is claimed, at most half of the lease; it is delivered at its due
    /// time. It keeps connected Redisson clients from moving the element to a ready list that others read. Java
    /// programs neither see nor cancel a claimed element.
    #[key(duration(0), default = "0s")]
    pub(super) claim_ahead: Duration,
    /// Replicas or disks that must have a claim before delivery, or a message's job before its acknowledgement.
    /// Default: none.
    #[key(Kind::Section(&durability::keys::TABLE), read = durability_of)]
    pub(super) durability: Option<Durability>,
    /// `deliver`: due elements are claimed and delivered. `shadow`: nothing is claimed or written; the messages that
    /// would be sent are logged and counted. `rescue`: elements overdue by more than `rescue_after` of the source are
    /// moved to the ready list for Java consumers; no sink is needed.
    #[key(words = Modes, default = "deliver")]
    pub(super) mode: Mode,
}

/// The keys of a queue that an input has too, for its own queue.
pub(super) const QUEUE_OPTIONS: &[Key] = &[
    queue::CODEC,
    queue::LEASE,
    queue::MAX_IN_FLIGHT,
    queue::MAX_IN_FLIGHT_BYTES,
    queue::ORDER,
    queue::ORDER_KEY,
    queue::DURABILITY,
    queue::MAX_RATE,
    queue::UNROUTABLE_AFTER,
    queue::ON_UNROUTABLE,
    queue::RETRY,
    queue::DEAD_LETTER,
];

/// The keys of inputs beside those of all: of their kinds, and of their queues.
static INPUT_KEYS: &[Group] =
    &[input_kinds::KIND_KEYS[0], input_kinds::KIND_KEYS[1], Group { of: Some("the queue"), keys: QUEUE_OPTIONS }];

/// Returns the source, and the name of the Redis that it is in.
fn source(queue: &Section<'_>, key: &Key) -> (SourceSettings, Option<Scalar>) {
    let section = queue.section(key);
    if queue.has(key) && section.empty {
        queue.cx.report.problem(
            &section.spot,
            "the source has no kind",
            "write `redisson: { name: NAME }`, or `zset: { key: KEY, score: ms }`",
        );
    }
    (source_kinds::read(&section), SourceKeys::of(&section).redis)
}

/// Returns every Redis, in the order of the file.
fn servers(top: &Section<'_>, key: &Key) -> Option<Servers> {
    Servers::of(delaybridge_link::config::all(top, key, ONLY))
}

/// Returns the data of an event, and the place where that is written.
fn event_data(section: &Section<'_>, key: &Key) -> Option<(EventData, Spot)> {
    Some((section.one_of::<EventBodies>(key)?, section.spot(key)))
}

/// Returns the length that the stream is trimmed to.
fn stream_length(section: &Section<'_>, key: &Key) -> Option<u64> {
    if section.is_text(key) {
        let message = "`stream` is the stream that the queue keeps, and has keys of its own";
        let help = "set the stream for forwarded dead letters on the sink, as `redis: { stream: KEY }`";
        section.cx.report.problem(&section.spot(key), message, help);
        return None;
    }
    let stream = section.section(key);
    let DeadStream { max_len, allow_loss } = DeadStream::of(&stream);
    if max_len.is_some() && !allow_loss {
        let help = "add `allow_loss: true` if the oldest may go, or leave `max_len` out";
        let message = "`max_len` trims dead letters, which loses elements";
        section.cx.report.problem(&stream.spot(&dead_stream::MAX_LEN), message, help);
    }
    max_len
}

/// Reads the codec, without the keys beside it.
fn codec(section: &Section<'_>, key: &Key) -> Coding {
    let named = section.name(key).and_then(|name| name.value.parse().ok());
    // In place of one that is not known, whose problem is reported: a codec that nothing else is wrong with.
    let unknown = if section.has(key) { Codec::Jackson } else { Codec::Raw };
    named.unwrap_or_else(|| unknown.into())
}

fn durability_of(section: &Section<'_>, key: &Key) -> Option<Durability> {
    section.opt_section(key).map(|section| durability::read(&section))
}

/// The names of codecs.
const CODECS: Kind = Kind::Name {
    by_another_name: of_redisson,
    all: || Coding::names().collect(),
    main: || Codec::ALL.iter().map(|codec| codec.as_str()).collect(),
    summary: || {
        let codecs: Vec<_> = Codec::ALL.iter().map(|codec| format!("`{codec}`")).collect();
        let compressions: Vec<_> = Compression::ALL.iter().map(|compression| format!("`{compression}+`")).collect();
        format!("{}; {} in front of all but `auto`", codecs.join(", "), compressions.join(", "))
    },
};

/// Returns the codec that reads what this class of Redisson writes, whatever its package.
fn of_redisson(class: &str) -> Option<&'static str> {
    const CLASSES: &[(&str, &str)] = &[
        ("ByteArrayCodec", "raw"),
        ("StringCodec", "string"),
        ("IntegerCodec", "number"),
        ("LongCodec", "number"),
        ("DoubleCodec", "number"),
        ("JsonJacksonCodec", "jackson"),
        ("TypedJsonJacksonCodec", "json"),
        ("JacksonCodec", "json"),
        ("CborJacksonCodec", "cbor"),
        ("MsgPackJacksonCodec", "msgpack"),
        ("SmileJacksonCodec", "smile"),
        ("Kryo5Codec", "kryo5"),
        ("MarshallingCodec", "marshalling"),
        ("SerializationCodec", "java"),
        ("LZ4Codec", "lz4+kryo5"),
        ("LZ4CodecV2", "lz4+kryo5"),
        ("SnappyCodec", "snappy+kryo5"),
        ("SnappyCodecV2", "snappy+kryo5"),
        ("ZStdCodec", "zstd+kryo5"),
    ];
    let class = class.rsplit('.').next()?;
    CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(class)).map(|(_, codec)| *codec)
}

/// Returns every table of the file, in the order of the reference.
pub(super) fn all() -> Vec<&'static Table> {
    let kinds = |under: &'static Table| {
        let tables = sink_kinds::KINDS.iter().flat_map(|kind| kind.tables).copied();
        tables.filter(|table| table.path.starts_with(under.path))
    };
    let mut all = vec![&top::TABLE, &jobs::TABLE];
    all.extend(job_queue::TABLES.iter().chain(api::TABLES));
    all.extend([
        &http::TABLE,
        &admin::TABLE,
        &admin_proxy::TABLE,
        &proxy_role::TABLE,
        &grafana::TABLE,
        &reload::TABLE,
        &limits::TABLE,
    ]);
    all.extend(spans::ALL);
    all.extend([&redis::TABLE, &sentinel::keys::TABLE, &tls::TABLE, &retry::TABLE, &class::TABLE, &sinks::TABLE]);
    all.extend(kinds(&sinks::TABLE));
    all.extend([&inputs::TABLE]);
    all.extend(input_kinds::KINDS.iter().flat_map(|kind| kind.tables).copied());
    all.extend([&queue::TABLE, &durability::keys::TABLE, &source::TABLE]);
    all.extend(source_kinds::tables());
    all.push(&to::TABLE);
    all.extend(kinds(&to::TABLE));
    all.extend([
        &headers_from_message::TABLE,
        &cloud_events::TABLE,
        &dead_letter::TABLE,
        &dead_stream::TABLE,
        &audit::TABLE,
    ]);
    all
}
