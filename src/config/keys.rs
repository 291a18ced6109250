//! The one table of keys: what may be written where, what it means, what it is when left out.
//!
//! Reading, suggestions, the JSON Schema and the reference all follow this table, so none of them can drift. A key that
//! is named here as planned is refused with "not available in this version", never ignored.

/// The keys of one map in the YAML.
#[derive(Debug)]
pub(super) struct Table {
    /// Where the map stands, as the reference's heading.
    pub(super) path: &'static str,
    /// What the map is for.
    pub(super) help: &'static str,
    /// The keys, in the order of the reference.
    pub(super) keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// As the user would write it.
    pub(super) default: Option<&'static str>,
    pub(super) required: bool,
    pub(super) available: bool,
    pub(super) help: &'static str,
}

/// What stands behind a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// `30s`, from this many milliseconds on.
    Duration { min_ms: u64 },
    /// `1h`, more than zero, or `none`.
    DurationOrNone,
    /// `16MiB`, more than zero.
    Size,
    /// `5000/s`, more than zero, or `none`.
    Rate,
    /// A whole number in this range, or one word instead.
    Count { min: u64, max: u64, word: Option<&'static str> },
    /// A number in this range.
    Factor { min: f64, max: f64 },
    /// `true` or `false`.
    Flag,
    /// Text.
    Text,
    /// Text that is never shown.
    Secret,
    /// Path of a file that is there.
    File,
    /// `address:port`.
    Address,
    /// Text with `${...}` holes that are filled for every element.
    Template,
    /// Names with templates.
    Headers,
    /// One of these words.
    Word(&'static [Word]),
    /// At least one of these words.
    Words(&'static [Word]),
    /// Keys of their own.
    Section(&'static Table),
    /// Keys of their own, or `none`.
    SectionOrNone(&'static Table),
    /// Names that the user chooses, with the same keys behind each.
    Named(&'static Table),
    /// A list of maps, at least one.
    List(&'static Table),
    /// Not described, because there is nothing yet that reads it.
    Planned,
}

/// A word that a key takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) text: &'static str,
    pub(super) available: bool,
}

const fn now(text: &'static str) -> Word {
    Word { text, available: true }
}

const fn later(text: &'static str) -> Word {
    Word { text, available: false }
}

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, default: None, required: false, available: true, help }
}

const fn planned(name: &'static str, help: &'static str) -> Key {
    Key { name, kind: Kind::Planned, default: None, required: false, available: false, help }
}

impl Key {
    const fn default(self, text: &'static str) -> Key {
        Key { default: Some(text), ..self }
    }

    const fn required(self) -> Key {
        Key { required: true, ..self }
    }
}

const fn duration(min_ms: u64) -> Kind {
    Kind::Duration { min_ms }
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, word: None }
}

const fn count_or(word: &'static str, min: u64, max: u64) -> Kind {
    Kind::Count { min, max, word: Some(word) }
}

macro_rules! tables {
    ($(mod $module:ident at $path:literal, $help:literal { $($name:ident = $key:expr;)* })*) => {
        $(pub(super) mod $module {
            #[allow(unused_imports, reason = "not every table needs every helper")]
            use super::*;
            $(pub(in crate::config) const $name: Key = $key;)*
            pub(in crate::config) static TABLE: Table =
                Table { path: $path, help: $help, keys: &[$($name),*] };
        })*

        /// Every table, in the order of the reference.
        pub(super) static TABLES: &[&Table] = &[$(&$module::TABLE),*];
    };
}

tables! {
    mod top at "", "The whole file." {
        HTTP = key("http", Kind::SectionOrNone(&http::TABLE), "The HTTP server for metrics and probes; `none` starts no server.");
        SHUTDOWN_TIMEOUT = key("shutdown_timeout", duration(1), "How long the drain after SIGTERM may take. What is not settled by then is released. Keep it below the grace period of whoever sends the signal (Kubernetes: 30s).").default("25s");
        LIMITS = key("limits", Kind::Section(&limits::TABLE), "What all queues together may hold in memory.");
        REDIS = key("redis", Kind::Section(&redis::TABLE), "The Redis that holds the queues.").required();
        RETRY = key("retry", Kind::Named(&retry::TABLE), "Retry policies by name. `default` is there even when it is not written.");
        SINKS = key("sinks", Kind::Named(&sink::TABLE), "Places that elements go to, by name.").required();
        QUEUES = key("queues", Kind::Named(&queue::TABLE), "The queues. The name is the queue's id: the label in metrics, the argument of commands. Letters, digits, `_`, `.`, `-`, at most 64.").required();
    }
    mod http at "http", "Read-only endpoints: `/metrics`, `/livez`, `/readyz`, `/startupz`." {
        LISTEN = key("listen", Kind::Address, "Address and port.").default("0.0.0.0:9464");
        ADMIN = planned("admin", "A second listener for everything that changes state.");
    }
    mod limits at "limits", "Bounds of the whole process. Claims wait for them; what is not claimed stays in Redis." {
        IN_FLIGHT = key("in_flight", count(1, 1_000_000), "Elements in flight.").default("20000");
        IN_FLIGHT_BYTES = key("in_flight_bytes", Kind::Size, "Bytes of elements in flight. One element that is larger goes alone.").default("64MiB");
    }
    mod redis at "redis", "Where the queues are, and how to get in." {
        URL = key("url", Kind::Secret, "`redis://[user[:password]@]host[:port][/database]`, or `rediss://` for TLS. IPv6 addresses stand in brackets. What is special in a URL is percent-encoded.").required();
        USERNAME = key("username", Kind::Text, "ACL user; in place of one in the URL.");
        PASSWORD = key("password", Kind::Secret, "Password, best as `${VAR}`.");
        PASSWORD_FILE = key("password_file", Kind::File, "File whose first line is the password. It is read again at every connect, so a rotated secret is picked up.");
        TLS = key("tls", Kind::Section(&tls::TABLE), "Certificates, for `rediss://`.");
        CONNECT_TIMEOUT = key("connect_timeout", duration(1), "For TCP, TLS and login together.").default("5s");
        COMMAND_TIMEOUT = key("command_timeout", duration(1), "For one command or script.").default("5s");
        CLUSTER = planned("cluster", "Nodes of a Redis Cluster.");
        SENTINEL = planned("sentinel", "Sentinels that know the master.");
    }
    mod tls at "redis.tls", "The same keys stand under `sinks.NAME.redis.tls`." {
        CA_FILE = key("ca_file", Kind::File, "Certificates in PEM that the server's is checked against; left out, those of the system.");
        CERT_FILE = key("cert_file", Kind::File, "Client certificate in PEM; needs `key_file`.");
        KEY_FILE = key("key_file", Kind::File, "Key of the client certificate in PEM; needs `cert_file`.");
    }
    mod retry at "retry.NAME", "When and how often an element is tried again. The wait before attempt n is at most `initial_interval` times `multiplier` to the power of n-1, never above `max_interval`. Failures while the sink delivers nothing at all do not count, so an outage makes no dead letters." {
        MAX_ATTEMPTS = key("max_attempts", count(1, 1_000_000), "Counted attempts after which the element is a dead letter.").default("10");
        INITIAL_INTERVAL = key("initial_interval", duration(1), "Longest wait after the first attempt.").default("500ms");
        MAX_INTERVAL = key("max_interval", duration(1), "Longest wait at all.").default("1m");
        MULTIPLIER = key("multiplier", Kind::Factor { min: 1.0, max: 100.0 }, "Growth from one wait to the next.").default("2");
        JITTER = key("jitter", Kind::Word(&[now("full"), now("none")]), "`full` draws the wait between 0 and its bound, `none` waits the bound.").default("full");
    }
    mod sink at "sinks.NAME", "Exactly one key, which says the kind." {
        REDIS = key("redis", Kind::Section(&sink_redis::TABLE), "A Redis list or stream.");
        STDOUT = key("stdout", Kind::Section(&sink_stdout::TABLE), "One JSON object a line on standard output.");
        KAFKA = planned("kafka", "Kafka topics.");
        AMQP = planned("amqp", "AMQP 0-9-1 exchanges.");
    }
    mod sink_redis at "sinks.NAME.redis", "A Redis of its own, or the one that holds the queues when `url` is left out. The destination keys may stand here for all queues, or under `to:`, which wins." {
        URL = key("url", Kind::Secret, "As `redis.url`. Left out: the Redis that holds the queues, over its connection settings.");
        USERNAME = key("username", Kind::Text, "As `redis.username`; only with `url`.");
        PASSWORD = key("password", Kind::Secret, "As `redis.password`; only with `url`.");
        PASSWORD_FILE = key("password_file", Kind::File, "As `redis.password_file`; only with `url`.");
        TLS = key("tls", Kind::Section(&tls::TABLE), "As `redis.tls`; only with `url`.");
        CONNECT_TIMEOUT = key("connect_timeout", duration(1), "As `redis.connect_timeout`; only with `url`.").default("5s");
        COMMAND_TIMEOUT = key("command_timeout", duration(1), "As `redis.command_timeout`; only with `url`.").default("5s");
        TIMEOUT = key("timeout", duration(1), "Longest that one delivery takes. Every lease of a queue that uses the sink is longer.").default("10s");
        MAX_RATE = key("max_rate", Kind::Rate, "Deliveries over all queues.").default("none");
        LIST = key("list", Kind::Template, "Key of the list that the payload is pushed to.");
        STREAM = key("stream", Kind::Template, "Key of the stream that gets an entry with the fields `payload`, `id`, `queue`, `due_ms`, `attempt` and the headers.");
        PUSH = key("push", Kind::Word(&[now("right"), now("left")]), "End of the list: `right` is what Redisson's consumers expect.").default("right");
        MAX_LEN = key("max_len", count_or("none", 1, u64::MAX), "Entries that the stream is trimmed to, approximately.").default("none");
        EXACTLY_ONCE = key("exactly_once", Kind::Flag, "Push and settling are one script. Only for a list with a fixed key on the Redis that holds the queues, with the queue's hash tag in the key, as the only destination of the queue.").default("false");
    }
    mod sink_stdout at "sinks.NAME.stdout", "For trying out, and for pipes." {
        TIMEOUT = key("timeout", duration(1), "Longest that one delivery takes, which depends on who reads the pipe.").default("10s");
        MAX_RATE = key("max_rate", Kind::Rate, "Deliveries over all queues.").default("none");
    }
    mod queue at "queues.NAME", "One queue: where its elements come from, and where they go." {
        SOURCE = key("source", Kind::Section(&source::TABLE), "Where the elements come from.").required();
        TO = key("to", Kind::List(&to::TABLE), "Where they go. An element leaves Redis when every destination has confirmed it. Each sink stands here at most once.").required();
        CODEC = key("codec", Kind::Word(CODECS), "How payloads are read for templates and envelopes. What is delivered with envelope `raw` is never changed by it.").default("raw");
        ON_DECODE_ERROR = key("on_decode_error", Kind::Word(&[now("dead_letter"), now("forward_raw"), now("hold")]), "What happens to a payload that the codec refuses: a dead letter, delivery as it is (templates on the payload have no value then), or holding the queue.").default("dead_letter");
        LEASE = key("lease", duration(1_000), "How long a claim is ours without an extension. What a killed daemon had claimed comes back after this time. Four fifths of it must be longer than the time-out of every sink of the queue.").default("30s");
        MAX_IN_FLIGHT = key("max_in_flight", count_or("auto", 1, 1_000_000), "Elements in flight; `auto` adapts to the sinks, up to 10,000.").default("auto");
        MAX_IN_FLIGHT_BYTES = key("max_in_flight_bytes", Kind::Size, "Bytes of elements in flight. One element that is larger goes alone.").default("16MiB");
        MAX_RATE = key("max_rate", Kind::Rate, "Deliveries of this queue. Waiting counts no attempts.").default("none");
        MAX_LATENESS = key("max_lateness", Kind::DurationOrNone, "An element that is later than this is expired.").default("none");
        ON_EXPIRED = key("on_expired", Kind::Word(&[now("dead_letter"), now("deliver")]), "What happens to an expired element.").default("dead_letter");
        RETRY = key("retry", Kind::Text, "Name of a retry policy.").default("default");
        DEAD_LETTER = key("dead_letter", Kind::Section(&dead_letter::TABLE), "Where dead letters are kept.");
        LIST_CLEANUP = key("list_cleanup", Kind::Word(&[now("auto"), now("exact")]), "How claimed elements leave Redisson's list: `auto` at the ends at once and the rest in slices, at the same cost at any depth; `exact` in the claim, at a cost that grows with the depth.").default("auto");
        GHOST_MAX_AGE = key("ghost_max_age", duration(1_000), "With `auto`: how long a claimed element may still show in Redisson's list before it is swept.").default("30s");
        SWEEP_BANDWIDTH = key("sweep_bandwidth", Kind::Size, "With `auto`: bytes per second that sweeping may move, on average.").default("16MiB");
        CLAIM_AHEAD = key("claim_ahead", Kind::Word(&[now("0s")]), "Only `0s`: claiming ahead of the due time is not available in this version.").default("0s");
        MODE = key("mode", Kind::Word(&[now("deliver"), later("shadow"), later("rescue")]), "What is done with due elements.").default("deliver");
    }
    mod source at "queues.NAME.source", "Exactly one key, which says the kind." {
        REDISSON = key("redisson", Kind::Section(&redisson::TABLE), "An `RDelayedQueue` of Redisson.");
        ZSET = planned("zset", "A sorted set with the payloads as members.");
        JOB_POOL = planned("job_pool", "A sorted set of ids with the bodies in a hash.");
    }
    mod redisson at "queues.NAME.source.redisson", "An `RDelayedQueue` and the queue that it feeds." {
        NAME = key("name", Kind::Text, "Name of the queue as it is in Redis, after any `NameMapper`: the key of the list that Redisson moves due elements to.").required();
        CONSUME = key("consume", Kind::Words(&[now("delayed"), now("ready")]), "`delayed`: what falls due. `ready`: what a Redisson client has moved to the ready list already, which any client does while it is connected. Leave `ready` out only where Java consumers go on reading that list.").default("[delayed, ready]");
    }
    mod to at "queues.NAME.to[]", "One destination." {
        SINK = key("sink", Kind::Text, "Name of a sink.").required();
        LIST = key("list", Kind::Template, "Redis: key of the list.");
        STREAM = key("stream", Kind::Template, "Redis: key of the stream.");
        PUSH = key("push", Kind::Word(&[now("right"), now("left")]), "Redis list: the end that is pushed to.");
        MAX_LEN = key("max_len", count_or("none", 1, u64::MAX), "Redis stream: entries that it is trimmed to, approximately.");
        EXACTLY_ONCE = key("exactly_once", Kind::Flag, "Redis list: push and settling are one script.");
        HEADERS = key("headers", Kind::Headers, "Redis stream: further fields. Standard output: `headers` of the line. A list carries none.");
        ENVELOPE = key("envelope", Kind::Word(&[now("raw"), now("decoded"), now("json"), later("cloudevents")]), "`raw`: the payload's bytes. `decoded`: the value that the codec read, as JSON or plain text. `json`: one object with `id`, `queue`, `due_ms` (absent when not known), `attempt` and `payload` (or `payload_base64`).").default("raw");
        TOPIC = planned("topic", "Kafka topic.");
        KEY = planned("key", "Kafka record key.");
        EXCHANGE = planned("exchange", "AMQP exchange.");
        ROUTING_KEY = planned("routing_key", "AMQP routing key.");
    }
    mod dead_letter at "queues.NAME.dead_letter", "Dead letters are kept in the stream `delaybridge:dead:{NAME}` beside the queue." {
        STREAM = key("stream", Kind::Section(&dead_stream::TABLE), "Settings of the stream.");
        SINK = planned("sink", "A sink that dead letters are moved on to.");
    }
    mod dead_stream at "queues.NAME.dead_letter.stream", "How much is kept." {
        MAX_LEN = key("max_len", count_or("none", 1, u64::MAX), "Dead letters that are kept. What is trimmed is lost, so it needs `allow_loss: true`.").default("none");
        ALLOW_LOSS = key("allow_loss", Kind::Flag, "Says that losing the oldest dead letters is intended.").default("false");
    }
}

const CODECS: &[Word] = &[
    now("raw"),
    now("string"),
    now("json"),
    later("number"),
    later("jackson"),
    later("kryo5"),
    later("marshalling"),
    later("java"),
    later("cbor"),
    later("msgpack"),
    later("smile"),
    later("auto"),
];

impl Table {
    /// The key of this name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Kind {
    /// The table below the key, if there is one.
    pub(super) fn table(self) -> Option<&'static Table> {
        match self {
            Kind::Section(table) | Kind::SectionOrNone(table) | Kind::Named(table) | Kind::List(table) => Some(table),
            _ => None,
        }
    }
}

/// The candidate that somebody who wrote `written` most probably meant.
pub(super) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // `maxInFlight` and `max-in-flight` are the same word in another spelling.
    let plain =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    let written = plain(written);
    let scored =
        candidates.into_iter().map(|name| (strsim::normalized_damerau_levenshtein(&written, &plain(name)), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= 0.5).then_some(best.1)
}
