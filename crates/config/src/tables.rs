//! The tables themselves: one line a key, in the order of the reference.

use redisson_codecs::{Codec, Coding, Compression};

use crate::sink_kinds;
use crate::validate::{class, dead_stream, queue_keys as queue};
use crate::words::{Envelopes, EventBodies, EventModes};
use delaybridge_jobs::config as job_queue;
use delaybridge_jobs_http::config as api;
use delaybridge_link::config::{durability, redis, sentinel};
use delaybridge_model::keys::{admin, limits, reload, retry};
use delaybridge_settings::keys::{Kind, Table, tables};
use delaybridge_settings::tls;
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
        QUEUES = key("queues", Kind::Named(&queue::TABLE), "The queues. The name is the queue's id: the label in metrics, and the argument of commands. Letters, digits, `_`, `.`, `-`, at most 64. Required, unless there are `jobs`.");
    }
    mod jobs at "jobs", "The job queue: jobs that clients add, take and finish over HTTP or the command line. Adding a job creates its topic; a topic with settings of its own is listed under `topics`." {
        LISTEN = api::LISTEN;
        LMSTFY = api::LMSTFY;
        COMPAT = api::COMPAT;
        TOKENS_FILE = api::TOKENS_FILE;
        TLS = api::TLS;
        MAX_BODY = api::MAX_BODY;
        MAX_CONNECTIONS = api::MAX_CONNECTIONS;
        MAX_TOPICS_PER_TOKEN = api::MAX_TOPICS_PER_TOKEN;
        MAX_RATE_PER_TOKEN = api::MAX_RATE_PER_TOKEN;
        REDIS = key("redis", Kind::Text, "Name of the Redis that holds the jobs. Required if there are several.");
    } + job_queue::KEYS
    mod http at "http", "Read-only endpoints: `/metrics`, `/livez`, `/readyz`, `/startupz`." {
        LISTEN = key("listen", Kind::Address, "Address and port.").default("0.0.0.0:9464");
        ADMIN = key("admin", Kind::Section(&admin::TABLE), "A second listener for operators: the admin API and the web page. Disabled if omitted. See [admin.md](admin.md).");
    }
    mod sinks at "sinks.NAME", "Exactly one key: the kind." {
    } + sink_kinds::KIND_KEYS
    mod source at "queues.NAME.source", "Exactly one kind." {
        REDIS = key("redis", Kind::Text, "Name of the Redis that holds the queue. Required if there are several.");
    } + source_kinds::KIND_KEYS
    mod to at "queues.NAME.to[]", "One destination." {
        SINK = key("sink", Kind::Text, "Name of a sink.").required();
        HEADERS = key("headers", Kind::Headers, "Further headers of the message: fields of the entry in a Redis stream, `headers` of the line on standard output. A Redis list carries none.");
        ENVELOPE = key("envelope", word::<Envelopes>(), "`raw`: the payload's bytes. `decoded`: the decoded value, as JSON or plain text. `json`: one object with `id`, `queue`, `due_ms` (if known), `attempt` and `payload` (or `payload_base64`). `cloudevents`: an event of CloudEvents 1.0.").default("raw");
        CLOUDEVENTS = key("cloudevents", Kind::Section(&cloud_events::TABLE), "Settings of the event, with `envelope: cloudevents`.");
    } + sink_kinds::DESTINATION_KEYS
    mod cloud_events at "queues.NAME.to[].cloudevents", "An event of CloudEvents 1.0. Its `id` is the element's, its `time` the due time." {
        MODE = key("mode", word::<EventModes>(), "`binary`: the attributes are headers `ce_*` and `content-type`, the body is the data; not for a list. `structured`: the body is one JSON object with the attributes and the data.").default("binary");
        DATA = key("data", word::<EventBodies>(), "`raw`: the payload's bytes, only with `mode: binary`. `decoded`: the decoded value, as JSON or plain text. Default: `raw`, but `decoded` with `mode: structured` and with `java_types: strip`.");
        TYPE = key("type", Kind::Template, "The attribute `type`.").default("delaybridge.element.due");
        SOURCE = key("source", Kind::Template, "The attribute `source`: a URI or a path.").default("/delaybridge/${queue}");
        SUBJECT = key("subject", Kind::Template, "The attribute `subject`. Omitted if empty.");
    }
    mod dead_letter at "queues.NAME.dead_letter", "Dead letters are kept in the stream `delaybridge:dead:{NAME}` beside the queue. With `sink` they are forwarded: each stays in the stream until that sink has confirmed it. The message is the original payload, with cause and attempts in headers. Templates may use `id`, `queue`, `due_ms` and `attempt`, but not the payload, which may be undecodable." {
        STREAM = key("stream", Kind::Section(&dead_stream::TABLE), "Settings of the stream.");
        SINK = key("sink", Kind::Text, "Name of a sink that dead letters are forwarded to. It may be a sink of the queue, with another destination. For a Redis stream, set the stream on the sink. A list carries no cause.");
    } + sink_kinds::DEAD_LETTER_KEYS
}

/// The names of codecs.
pub(crate) const CODECS: Kind = Kind::Name {
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
    all.extend([&http::TABLE, &admin::TABLE, &reload::TABLE, &limits::TABLE]);
    all.extend(spans::ALL);
    all.extend([&redis::TABLE, &sentinel::keys::TABLE, &tls::TABLE, &retry::TABLE, &class::TABLE, &sinks::TABLE]);
    all.extend(kinds(&sinks::TABLE));
    all.extend([&queue::TABLE, &durability::keys::TABLE, &source::TABLE]);
    all.extend(source_kinds::tables());
    all.push(&to::TABLE);
    all.extend(kinds(&to::TABLE));
    all.extend([&cloud_events::TABLE, &dead_letter::TABLE, &dead_stream::TABLE]);
    all
}
