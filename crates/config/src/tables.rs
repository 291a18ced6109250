//! The keys of the file that belong to no part of it: a line or a field for each, in the order of the reference.

use std::time::Duration;

use redisson_codecs::{Codec, Coding, Compression, JavaTypes};

use crate::input_kinds;
use crate::sink_kinds;
use crate::words::{Envelopes, EventBodies, EventModes, Fates, JavaTypeNames};
use delaybridge_core::template::Template;
use delaybridge_jobs::config as job_queue;
use delaybridge_jobs_http::config as api;
use delaybridge_link::Durability;
use delaybridge_link::config::{durability, redis, sentinel};
use delaybridge_model::keys::{admin, admin_proxy, grafana, input_rules, limits, proxy_role, reload, retry};
use delaybridge_model::{
    Duplicates, Mode, Modes, OnAbsurdDue, OnDecodeError, OnExpired, OnOpaque, OnSkipped, OnUnroutable, Order,
};
use delaybridge_settings::keys::{Group, Key, Kind, Table, key, tables};
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_settings::{Settings, tls};
use delaybridge_source::config::SourceSettings;
use delaybridge_source::kinds as source_kinds;
use delaybridge_spans::config as spans;

tables! {
    mod top at "", "The whole file." {
        HTTP = key("http", Kind::SectionOrNone(&http::TABLE), "The HTTP server for metrics and probes; `none` starts no server.");
        SHUTDOWN_TIMEOUT = key("shutdown_timeout", duration(1), "Longest duration of the drain after SIGTERM. Unsettled elements are released then. Keep it below the grace period of the service manager (Kubernetes: 30s).").default("25s");
        RELOAD = key("reload", Kind::Section(&reload::TABLE), "Reload of a changed configuration. SIGHUP always triggers one.");
        LIMITS = key("limits", Kind::Section(&limits::TABLE), "Limits of all queues together in memory.");
        TRACING = key("tracing", Kind::Section(&spans::tracing::TABLE), "Traces of elements. Disabled if omitted.");
        REDIS = key("redis", Kind::SectionOrNamed(&redis::TABLE), "The Redis that holds the queues, or several by name, as in `redis: { orders: { url: ... }, mails: { url: ... } }`. With several, each source names its Redis. A Redis that does not answer delays its own queues only.").required();
        RETRY = key("retry", Kind::Named(&retry::TABLE), "Retry policies by name. `default` always exists.");
        SINKS = key("sinks", Kind::Named(&sinks::TABLE), "Destination systems, by name. Required, unless every queue has `mode: rescue`.");
        CLASSES = key("classes", Kind::Classes(&class::TABLE), "The Java classes of payloads in `kryo5`, which does not write their fields' names and types. `tools/KryoClasses.java` prints this section; see [codecs.md](codecs.md#objects-in-kryo-5).");
        JOBS = key("jobs", Kind::Section(&jobs::TABLE), "The job queue, for clients without a library. It needs neither `queues` nor `sinks`.");
        INPUTS = key("inputs", Kind::Named(&inputs::TABLE), "Messages of brokers that wait in the job queue until they are due, by name. The queue that delivers them has the name of its input.");
        QUEUES = key("queues", Kind::Named(&queue::TABLE), "The queues. The name is the queue's id: the label in metrics, and the argument of commands. Letters, digits, `_`, `.`, `-`, at most 64. Required, unless there are `jobs`.");
    }
    mod jobs at "jobs", "The job queue: jobs that clients add, take and finish over HTTP or the command line. Adding a job creates its topic; a topic with settings of its own is listed under `topics`." {
        LISTEN = api::LISTEN;
        LMSTFY = api::LMSTFY;
        COMPAT = api::COMPAT;
        TOKENS_FILE = api::TOKENS_FILE;
        TOKENS_MAX_AGE = api::TOKENS_MAX_AGE;
        TLS = api::TLS;
        MAX_BODY = api::MAX_BODY;
        MAX_CONNECTIONS = api::MAX_CONNECTIONS;
        MAX_TOPICS_PER_TOKEN = api::MAX_TOPICS_PER_TOKEN;
        MAX_RATE_PER_TOKEN = api::MAX_RATE_PER_TOKEN;
        SHUTDOWN_DELAY = api::SHUTDOWN_DELAY;
        REDIS = key("redis", Kind::Text, "Name of the Redis that holds the jobs. Required if there are several.");
    } + job_queue::KEYS
    mod inputs at "inputs.NAME", "Messages of a broker that wait in the job queue until they are due: exactly one kind, and what is common to all kinds. See [delayed-messages.md](delayed-messages.md)." {
        TOPIC = key("topic", Kind::Text, "Topic of the job queue for the messages.").required();
        TO = key("to", Kind::Section(&to::TABLE), "Destination of due messages. Without an address here, and without the header `x-delay-to`, a message of AMQP goes to the queue that its routing key names. If omitted, consumers or a queue of the configuration take the jobs of the topic.");
        ON_BAD_DELAY = input_rules::ON_BAD_DELAY;
        MAX_DELAY = input_rules::MAX_DELAY;
    } + INPUT_KEYS
    mod http at "http", "Read-only endpoints: `/metrics`, `/livez`, `/readyz`, `/startupz`." {
        LISTEN = key("listen", Kind::Address, "Address and port. `[::]` answers on IPv6 and IPv4, and on IPv4 alone where the kernel has no IPv6.").default("[::]:9464");
        ADMIN = key("admin", Kind::Section(&admin::TABLE), "A second listener for operators: the admin API and the web page. Disabled if omitted. See [admin.md](admin.md).");
    }
    mod sinks at "sinks.NAME", "Exactly one key: the kind." {
    } + sink_kinds::KIND_KEYS
    mod source at "queues.NAME.source", "Exactly one kind." {
        REDIS = key("redis", Kind::Text, "Name of the Redis that holds the queue. Required if there are several.");
    } + source_kinds::KIND_KEYS
    mod to at "queues.NAME.to[]", "One destination." {
        SINK = key("sink", Kind::Text, "Name of a sink.").required();
        WHEN = key("when", Kind::Text, "The elements that the destination is meant for: a [condition](conditions.md) on their fields, as in `payload.amount > 100`. Default: all.");
        DUPLICATES = key("duplicates", word::<Duplicates>(), "Handling of an element that the destination may have already, because an attempt had no answer or its daemon died. `allow`: it is sent again. `look`: it is sent again only if the destination does not have it, as far as that [can be seen](guarantees.md#a-look-before-sending-again). Kafka: the topic is read from the first attempt on. Redis: each push leaves a key for five minutes. NATS, FIFO queues and topics of AWS: the server always does so. Refused for all others.").default("allow");
        HEADERS = key("headers", Kind::Headers, "Further headers of the message: fields of the entry in a Redis stream, `headers` of the line on standard output. A Redis list carries none.");
        HEADERS_FROM_MESSAGE = key("headers_from_message", Kind::Section(&headers_from_message::TABLE), "The headers of a message of an [input](delayed-messages.md) that the destination gets. Default: all that steer nothing and that the destination [can carry](headers.md). A header of the same name under `headers` replaces them.");
        ENVELOPE = key("envelope", word::<Envelopes>(), "`raw`: the payload's bytes. `decoded`: the decoded value, as JSON or plain text. `json`: one object with `id`, `queue`, `due_ms` (if known), `attempt` and `payload` (or `payload_base64`). `cloudevents`: an event of CloudEvents 1.0.").default("raw");
        CLOUDEVENTS = key("cloudevents", Kind::Section(&cloud_events::TABLE), "Settings of the event, with `envelope: cloudevents`.");
    } + sink_kinds::DESTINATION_KEYS
    mod headers_from_message at "queues.NAME.to[].headers_from_message", "The headers of a message of an input that the destination gets, by name: `*` matches any text, and upper and lower case are the same. Headers that steer the destination never pass." {
        KEEP = key("keep", Kind::Texts, "The headers that pass. Default: all.");
        DROP = key("drop", Kind::Texts, "The headers that do not pass, also of those under `keep`. Default: none.");
    }
    mod cloud_events at "queues.NAME.to[].cloudevents", "An event of CloudEvents 1.0. Its `id` is the element's, its `time` the due time." {
        MODE = key("mode", word::<EventModes>(), "`binary`: the attributes are headers `ce_*` and `content-type`, the body is the data; not for a list. `structured`: the body is one JSON object with the attributes and the data.").default("binary");
        DATA = key("data", word::<EventBodies>(), "`raw`: the payload's bytes, only with `mode: binary`. `decoded`: the decoded value, as JSON or plain text. Default: `raw`, but `decoded` with `mode: structured`, with `java_types: strip` and with `json_in_text: true`.");
        TYPE = key("type", Kind::Template, "The attribute `type`.").default("delaybridge.element.due");
        SOURCE = key("source", Kind::Template, "The attribute `source`: a URI or a path.").default("/delaybridge/${queue}");
        SUBJECT = key("subject", Kind::Template, "The attribute `subject`. Omitted if empty.");
    }
    mod audit at "queues.NAME.audit", "The audit trail: a [record](audit.md) of the fate of each element, without its payload. An element leaves Redis when the sink has confirmed its record. Templates may use `id`, `queue`, `due_ms` and `attempt`." {
        SINK = key("sink", Kind::Text, "Name of the sink that takes the records. For a Redis stream, set the stream on the sink.").required();
        ON = key("on", words::<Fates>(), "The fates that are recorded. `delivered`: every sink that is meant for the element has confirmed it. `skipped`: no destination is meant for it. `expired`: it is later than `max_lateness`. `dead`: it is a dead letter for another reason. `cancelled` is refused: elements are cancelled in Redis, where no daemon sees it.").default("[delivered, skipped, dead, expired]");
    } + sink_kinds::DEAD_LETTER_KEYS
    mod dead_letter at "queues.NAME.dead_letter", "Dead letters are kept in the stream `delaybridge:dead:{NAME}` beside the queue. With `sink` they are forwarded: each stays in the stream until that sink has confirmed it. The message is the original payload, with cause and attempts in headers. Templates may use `id`, `queue`, `due_ms` and `attempt`, but not the payload, which may be undecodable." {
        STREAM = key("stream", Kind::Section(&dead_stream::TABLE), "Settings of the stream.");
        SINK = key("sink", Kind::Text, "Name of a sink that dead letters are forwarded to. It may be a sink of the queue, with another destination. For a Redis stream, set the stream on the sink. A list carries no cause.");
    } + sink_kinds::DEAD_LETTER_KEYS
}

/// One class, by its full name (`com.example.Order`, `com.example.Order$Line`), with one of `fields`, `constants`,
/// `like` and `abstract`.
#[derive(Settings)]
#[settings(class, at = "classes.NAME")]
pub(super) struct ClassKeys {
    /// Names and types of the fields in the order of Kryo, which sorts them by name. Types are written as in Java, with
    /// full names: `long`, `java.util.List<com.example.Line>`, `byte[]`.
    #[key(Kind::Scalars, read = Section::scalars, hidden)]
    pub(super) fields: Vec<(String, Scalar)>,
    /// The class is a record.
    #[key(Kind::Flag, default = "false")]
    pub(super) record: bool,
    /// The constants of an enum, in the order of their declaration.
    #[key(Kind::Texts)]
    pub(super) constants: Vec<String>,
    /// For a subclass of a list, set or map: the JDK class with the same serialized form, such as
    /// `java.util.ArrayList`. For `AtomicInteger` and its like itself: as Redisson writes it from 3.46.0 on.
    #[key(Kind::Text)]
    pub(super) like: Option<String>,
    /// An interface or an abstract class.
    #[key(Kind::Flag, default = "false", name = "abstract")]
    pub(super) is_abstract: bool,
    /// The class is final. Kryo writes no class for a field of a final class.
    #[key(Kind::Flag, default = "false", name = "final")]
    pub(super) is_final: bool,
    /// For each type variable of the class and its superclasses: the variables that stand for the same type, separated
    /// by spaces, as in `com.example.Box#T com.example.Base#E`.
    #[key(Kind::Texts)]
    pub(super) variables: Vec<String>,
    /// The id with which the application registers the class in Kryo.
    #[key(count(9, 2_147_483_647))]
    pub(super) id: Option<u32>,
}

/// One queue: the source of its elements and their destinations.
#[derive(Settings)]
#[settings(queue, at = "queues.NAME")]
pub(super) struct QueueKeys {
    /// The source of the elements.
    #[key(Kind::Section(&source::TABLE), required, read = source, hidden)]
    pub(super) source: (SourceSettings, Option<Scalar>),
    /// Codec of the payloads, for templates and envelopes. [codecs.md](codecs.md) has the names of Redisson's codecs.
    /// It never changes the body with envelope `raw`.
    #[settings(keys(TO))]
    #[key(CODECS, default = "raw", read = codec, hidden)]
    pub(super) codec: Coding,
    /// With all object codecs except `json`: whether Java class names stay in the decoded value (`"@class"` in objects,
    /// `["java.lang.Long",7]`) or are removed.
    #[key(words = JavaTypeNames, default = "keep")]
    pub(super) java_types: JavaTypes,
    /// Looks into a payload that is a text with JSON in it, as `offer(objectMapper.writeValueAsString(x))` writes it with any
    /// codec: templates, conditions, `order_key` and envelopes have the object or list. Any other text stays a text.
    #[key(Kind::Flag, default = "false")]
    pub(super) json_in_text: bool,
    /// Largest size of a decompressed payload, and of a decoded value in memory: its text, and 128 bytes for each value
    /// and name in it. The codec refuses a larger payload. Decoding an element needs this memory in addition to
    /// `max_in_flight_bytes`.
    #[key(Kind::Size, default = "16MiB")]
    pub(super) max_decoded_size: usize,
    /// Handling of a payload that the codec refuses: a dead letter, unchanged delivery (templates on the payload have
    /// no value then), or a hold of the queue. `hold_repeated`: a dead letter, and a hold from the third in a row on, because then
    /// the codec is the wrong one.
    #[key(word::<OnDecodeError>(), default = "hold_repeated")]
    pub(super) on_decode_error: OnDecodeError,
    /// Handling of an object that only its Java class can read: a dead letter, delivery of its bytes (templates on the
    /// payload have no value then), or a hold of the queue. Default: `dead_letter` if a destination has `envelope:
    /// decoded`, else `forward_raw`.
    #[key(word::<OnOpaque>())]
    pub(super) on_opaque: Option<OnOpaque>,
    /// Handling of an element whose due time is the result of an overflow, as that of `Long.MAX_VALUE` ms from now: more than
    /// 2^53 ms before 1970, but not `-inf`, which means "at once". `hold`: it waits among the retries until a person changes
    /// its time, delivers or removes it. Default: `hold`, and `dead_letter` with an `order`. Times that far ahead stay where
    /// they are.
    #[key(word::<OnAbsurdDue>())]
    pub(super) on_absurd_due: Option<OnAbsurdDue>,
    /// Duration of a claim without an extension. A killed daemon's elements come back after this time. 80 % of `lease`
    /// must exceed every sink's timeout.
    #[key(duration(1_000), default = "30s")]
    pub(super) lease: Duration,
    /// Elements in flight; `auto` adapts to the sinks, up to 10,000.
    #[key(count_or("auto", 1, 1_000_000), default = "auto")]
    pub(super) max_in_flight: Option<u32>,
    /// Bytes of elements in flight, counted as under `limits.in_flight_bytes`. A larger element is delivered alone.
    #[key(Kind::Size, default = "16MiB")]
    pub(super) max_in_flight_bytes: u64,
    /// Elements that are delivered one after the other in the order of their due times: none, those with the same key,
    /// or all elements of the queue. With an order, one daemon at a time delivers, and a retry delays its key or its
    /// queue. See [guarantees.md](guarantees.md) for the limits.
    #[key(word::<Order>(), default = "none")]
    pub(super) order: Order,
    /// With `order: key`: the key, such as `${payload.orderId}`. Default: the `key` of the Kafka record.
    #[key(Kind::Template, read = Section::template, hidden)]
    pub(super) order_key: Option<Template>,
    /// Rate of deliveries of this queue. Waiting is not an attempt.
    #[key(Kind::Rate, default = "none")]
    pub(super) max_rate: Option<f64>,
    /// Lateness after which an element is expired.
    #[key(Kind::DurationOrNone, default = "none")]
    pub(super) max_lateness: Option<Duration>,
    /// Handling of an expired element.
    #[key(word::<OnExpired>(), default = "dead_letter")]
    pub(super) on_expired: OnExpired,
    /// Handling of an element that no destination is meant for, because no `when` holds: a dead letter, or removal. Both
    /// are counted.
    #[key(word::<OnSkipped>(), default = "dead_letter")]
    pub(super) on_skipped: OnSkipped,
    /// Time for which a destination that comes from the payload may refuse elements (a missing topic, exchange, queue
    /// or right) before they become dead letters. Until then, they wait. For a destination that has worked before, they
    /// wait without a limit. `0s`: dead letters at once.
    #[key(Kind::DurationOrNever, default = "10m")]
    pub(super) unroutable_after: Option<Duration>,
    /// Handling of these elements after `unroutable_after`. `hold`: they wait without a limit.
    #[key(word::<OnUnroutable>(), default = "dead_letter")]
    pub(super) on_unroutable: OnUnroutable,
    /// Name of a retry policy.
    #[key(Kind::Text, default = "default", read = Section::text, hidden)]
    pub(super) retry: Option<Scalar>,
    /// Time before the due time at which an element is claimed, at most half of the lease. The element is delivered at
    /// its due time and counts as in flight until then. Useful if Redisson clients are connected and other consumers
    /// read the ready list: the clients do not transfer an element that is claimed ahead. After the claim, Java
    /// programs can neither see nor cancel it.
    #[settings(keys(DEAD_LETTER, AUDIT))]
    #[key(duration(0), default = "0s")]
    pub(super) claim_ahead: Duration,
    /// Replicas or disks that must have a claim before its elements are delivered, and the job of a message before its input
    /// acknowledges it. Default: none.
    #[key(Kind::Section(&durability::keys::TABLE), read = durability_of, hidden)]
    pub(super) durability: Option<Durability>,
    /// Use of due elements. `deliver`: they are claimed and delivered. `shadow`: nothing is claimed, and nothing is
    /// written to Redis or a sink; the messages that would have been sent are logged and counted. `rescue`: elements
    /// that are overdue by more than the source's `rescue_after` are moved to the ready list, as a Redisson client
    /// would, for remaining Java consumers; no sink is needed.
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
    DEAD_LETTER,
];

/// The keys of inputs beside those of all: of their kinds, and of their queues.
static INPUT_KEYS: &[Group] =
    &[input_kinds::KIND_KEYS[0], input_kinds::KIND_KEYS[1], Group { of: Some("the queue"), keys: QUEUE_OPTIONS }];

pub(super) const TO: Key = key(
    "to",
    Kind::List(&to::TABLE),
    "Destinations. An element leaves Redis when all of them have confirmed it. Of several destinations in one sink, the first whose `when` holds gets the element. Required, unless `mode: rescue`.",
);
pub(super) const DEAD_LETTER: Key =
    key("dead_letter", Kind::Section(&dead_letter::TABLE), "Storage and forwarding of dead letters.");
pub(super) const AUDIT: Key = key("audit", Kind::Section(&audit::TABLE), "The audit trail. Default: none.");

/// Limits of the stream.
#[derive(Settings)]
#[settings(dead_stream, at = "queues.NAME.dead_letter.stream")]
pub(super) struct DeadStream {
    /// Largest number of dead letters. Trimmed dead letters are lost, so it needs `allow_loss: true`.
    #[key(count_or("none", 1, u64::MAX), default = "none")]
    pub(super) max_len: Option<u64>,
    /// Confirms that the oldest dead letters may be lost.
    #[key(Kind::Flag, default = "false")]
    pub(super) allow_loss: bool,
}

/// The source, and the name of the Redis that it is in.
fn source(queue: &Section<'_>, key: &Key) -> (SourceSettings, Option<Scalar>) {
    let section = queue.section(key);
    if queue.has(key) && section.empty {
        queue.cx.report.problem(
            &section.spot,
            "the source has no kind",
            "write `redisson: { name: NAME }`, or `zset: { key: KEY, score: ms }`",
        );
    }
    (source_kinds::read(&section), section.text(&source::REDIS))
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

/// The codec that reads what this class of Redisson writes, whatever its package.
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

/// Every table of the file, in the order of the reference.
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
