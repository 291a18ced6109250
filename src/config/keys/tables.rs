//! The tables themselves: one line a key, in the order of the reference.

use super::*;

macro_rules! tables {
    ($(mod $module:ident at $path:literal, $help:literal { $($name:ident = $key:expr;)* })*) => {
        $(pub(in crate::config) mod $module {
            #[allow(unused_imports, reason = "not every table needs every helper")]
            use super::*;
            $(pub(in crate::config) const $name: Key = $key;)*
            pub(in crate::config) static TABLE: Table =
                Table { path: $path, help: $help, keys: &[$($name),*] };
        })*

        /// Every table, in the order of the reference.
        pub(in crate::config) static TABLES: &[&Table] = &[$(&$module::TABLE),*];
    };
}

tables! {
    mod top at "", "The whole file." {
        HTTP = key("http", Kind::SectionOrNone(&http::TABLE), "The HTTP server for metrics and probes; `none` starts no server.");
        SHUTDOWN_TIMEOUT = key("shutdown_timeout", duration(1), "How long the drain after SIGTERM may take. What is not settled by then is released. Keep it below the grace period of whoever sends the signal (Kubernetes: 30s).").default("25s");
        LIMITS = key("limits", Kind::Section(&limits::TABLE), "What all queues together may hold in memory.");
        REDIS = key("redis", Kind::Section(&redis::TABLE), "The Redis that holds the queues.").required();
        RETRY = key("retry", Kind::Named(&retry::TABLE), "Retry policies by name. `default` is there even when it is not written.");
        SINKS = key("sinks", Kind::Named(&sink::TABLE), "Places that elements go to, by name. Required, unless every queue has `mode: rescue`.");
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
    mod tls at "redis.tls", "The same keys stand under `tls` of every sink that has one." {
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
        KAFKA = key("kafka", Kind::Section(&sink_kafka::TABLE), "Kafka topics.");
        AMQP = key("amqp", Kind::Section(&sink_amqp::TABLE), "AMQP 0-9-1 exchanges (RabbitMQ).");
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
    mod sink_kafka at "sinks.NAME.kafka", "A Kafka cluster. Delivery is idempotent and waits for all in-sync replicas (`acks=all`); the partition is the one that a Java producer would choose for the key. `topic` and `key` may stand here for all queues, or under `to:`, which wins. A record has the payload as its value and the headers `delaybridge-id`, `delaybridge-queue`, `delaybridge-due-ms`, `delaybridge-attempt`, and then the route's." {
        BROKERS = key("brokers", Kind::Texts, "`host:port` of some brokers, port 9092 if left out; the rest of the cluster is learned from them. One text may hold several with commas between, as a variable does.").required();
        CLIENT_ID = key("client_id", Kind::Text, "How the producer names itself to the brokers.").default("delaybridge");
        TLS = key("tls", Kind::Section(&tls::TABLE), "Encrypted connections. `tls: {}` checks the brokers' certificates against those of the system.");
        SASL = key("sasl", Kind::Section(&sasl::TABLE), "A login.");
        COMPRESSION = key("compression", Kind::Word(&[now("none"), now("gzip"), now("snappy"), now("lz4"), now("zstd")]), "How batches are compressed.").default("none");
        LINGER = key("linger", duration(0), "How long a record waits for others to share its batch. Larger batches cost everybody less: where much falls due at once, `20ms` gave a tenth more elements a second for a fifth less CPU than `1ms`, and elements that are up to 20 ms later.").default("1ms");
        BATCH_SIZE = key("batch_size", Kind::Size, "Largest batch, before compression. Brokers take 1 MiB with what is around it, unless told otherwise.").default("1MB");
        MAX_MESSAGE_SIZE = key("max_message_size", Kind::Size, "Largest record that is sent at all, before compression; a larger one is a dead letter. No more than what the topics allow (`max.message.bytes`).").default("1MB");
        TIMEOUT = key("timeout", Kind::DurationOrAuto { min_ms: 1_000 }, "Longest that one delivery takes; `delivery.timeout.ms` is derived from it and somewhat shorter, so that the verdict on a record comes first. `auto` is half of the shortest lease among the queues that use the sink, at most 30s. Below 1s the lease is refused as too short for Kafka.").default("auto");
        MAX_RATE = key("max_rate", Kind::Rate, "Deliveries over all queues.").default("none");
        TOPIC = key("topic", Kind::Template, "Topic.");
        KEY = key("key", Kind::Template, "Key of the record, which decides the partition; without one partitions take turns.");
        PROPERTIES = key("properties", Kind::Scalars, "Further settings by their names in librdkafka. What would weaken delivery, and what has a key of its own here, is refused with the reason; what librdkafka does not know is refused as well.");
    }
    mod sasl at "sinks.NAME.kafka.sasl", "A login to Kafka." {
        MECHANISM = key("mechanism", Kind::Word(&[now("PLAIN"), now("SCRAM-SHA-256"), now("SCRAM-SHA-512"), later("OAUTHBEARER"), later("GSSAPI")]), "How the password is proven.").required();
        USERNAME = key("username", Kind::Text, "User.").required();
        PASSWORD = key("password", Kind::Secret, "Password, best as `${VAR}`. This or `password_file` is required.");
        PASSWORD_FILE = key("password_file", Kind::File, "As `redis.password_file`.");
    }
    mod sink_amqp at "sinks.NAME.amqp", "Nodes of one AMQP 0-9-1 cluster. A message counts as delivered when the broker has confirmed it and has not returned it. `exchange` and `routing_key` may stand here for all queues, or under `to:`, which wins; without an exchange it is the default exchange, where the routing key is the name of a queue. The body is the payload; the headers are `delaybridge-id`, `delaybridge-queue`, `delaybridge-due-ms`, `delaybridge-attempt`, and then the route's." {
        URL = key("url", Kind::Secret, "`amqp://[user[:password]@]host[:port][/vhost]`, or `amqps://` for TLS. Without a path the vhost is `/`; a `/` within its name is written `%2F`. What is special in a URL is percent-encoded. This or `urls` is required.");
        URLS = key("urls", Kind::Texts, "Several nodes, never shown with their passwords, tried in turn. All with the same scheme, login and vhost.");
        USERNAME = key("username", Kind::Text, "User; in place of one in the URL. With neither user nor password it is `guest` with the password `guest`, which RabbitMQ lets in from its own machine only.");
        PASSWORD = key("password", Kind::Secret, "Password, best as `${VAR}`.");
        PASSWORD_FILE = key("password_file", Kind::File, "As `redis.password_file`.");
        LOGIN = key("login", Kind::Word(&[now("plain"), now("external")]), "`plain`: by user and password. `external`: by the client certificate, which needs `amqps://`.").default("plain");
        TLS = key("tls", Kind::Section(&tls::TABLE), "Certificates, for `amqps://`.");
        CONNECT_TIMEOUT = key("connect_timeout", duration(1), "For TCP, TLS and login together.").default("5s");
        HEARTBEAT = key("heartbeat", duration(1_000), "Interval of heartbeats, in whole seconds. A broker that is silent twice as long is given up.").default("10s");
        MAX_UNCONFIRMED = key("max_unconfirmed", count(1, 65_535), "Messages on one channel that wait for their confirmation.").default("1000");
        MANDATORY = key("mandatory", Kind::Flag, "The broker returns what it cannot route, and the queue is held. With `false` it confirms such a message and drops it.").default("true");
        PERSISTENT = key("persistent", Kind::Flag, "Messages in durable queues survive a restart of the broker.").default("true");
        MAX_MESSAGE_SIZE = key("max_message_size", Kind::Size, "Largest body that is sent at all; a larger one is a dead letter. No more than what the broker allows (`max_message_size`).").default("128MiB");
        TIMEOUT = key("timeout", duration(1), "Longest that one delivery takes. Every lease of a queue that uses the sink is longer.").default("10s");
        MAX_RATE = key("max_rate", Kind::Rate, "Deliveries over all queues.").default("none");
        EXCHANGE = key("exchange", Kind::TemplateOrEmpty, "Exchange; empty is the default exchange.");
        ROUTING_KEY = key("routing_key", Kind::TemplateOrEmpty, "Routing key; left out, it is empty.");
        TOPOLOGY = key("topology", Kind::Word(&[now("expect"), now("declare")]), "`expect`: exchange, queues and bindings are there; what is missing holds the queue. `declare`: what stands under `declare` is declared at every connect.").default("expect");
        DECLARE = key("declare", Kind::Section(&amqp_declare::TABLE), "What is declared; only with `topology: declare`.");
    }
    mod amqp_declare at "sinks.NAME.amqp.declare", "An exchange, and a queue that is bound to it. What is there already has to be the same." {
        EXCHANGE = key("exchange", Kind::Text, "Name of the exchange, without templates. Left out: the sink's `exchange`.");
        TYPE = key("type", Kind::Text, "`direct`, `fanout`, `topic`, `headers`, or one of a plugin, which begins with `x-`.").default("direct");
        DURABLE = key("durable", Kind::Flag, "Exchange and queue survive a restart of the broker.").default("true");
        QUEUE = key("queue", Kind::Section(&amqp_queue::TABLE), "A queue. Left out, only the exchange is declared.");
    }
    mod amqp_queue at "sinks.NAME.amqp.declare.queue", "A queue that is declared and bound." {
        NAME = key("name", Kind::Text, "Its name.").required();
        TYPE = key("type", Kind::Word(&[now("classic"), now("quorum"), now("stream")]), "The argument `x-queue-type`. Left out, the vhost's default.");
        ARGUMENTS = key("arguments", Kind::Scalars, "Further arguments by name, as `x-max-length`: texts, whole numbers, `true` or `false`.");
        BINDING_KEY = key("binding_key", Kind::TextOrEmpty, "Key of the binding. Left out: the sink's `routing_key` if that is no template; empty for `fanout` and `headers`.");
    }
    mod sink_stdout at "sinks.NAME.stdout", "For trying out, and for pipes." {
        TIMEOUT = key("timeout", duration(1), "Longest that one delivery takes, which depends on who reads the pipe.").default("10s");
        MAX_RATE = key("max_rate", Kind::Rate, "Deliveries over all queues.").default("none");
    }
    mod queue at "queues.NAME", "One queue: where its elements come from, and where they go." {
        SOURCE = key("source", Kind::Section(&source::TABLE), "Where the elements come from.").required();
        TO = key("to", Kind::List(&to::TABLE), "Where they go. An element leaves Redis when every destination has confirmed it. Each sink stands here at most once. Required, unless `mode: rescue`.");
        CODEC = key("codec", Kind::Codec, "How payloads are read for templates and envelopes; [codecs.md](codecs.md) says which codec of Redisson is which. What is delivered with envelope `raw` is never changed by it.").default("raw");
        JAVA_TYPES = key("java_types", Kind::Word(&[now("keep"), now("strip")]), "With `jackson`, `cbor`, `msgpack`, `smile`, `java`, `marshalling` and `auto`: whether the names of Java classes stay in the decoded value (`\"@class\"` in objects, `[\"java.lang.Long\",7]`) or only the values do.").default("keep");
        MAX_DECODED_SIZE = key("max_decoded_size", Kind::Size, "Most bytes that a compressed payload may unpack to, and that the value of a binary codec may take in memory. A larger one counts as a payload that the codec refuses. It comes on top of `max_in_flight_bytes`, while an element is being delivered.").default("16MiB");
        ON_DECODE_ERROR = key("on_decode_error", Kind::Word(&[now("dead_letter"), now("forward_raw"), now("hold")]), "What happens to a payload that the codec refuses: a dead letter, delivery as it is (templates on the payload have no value then), or holding the queue.").default("dead_letter");
        LEASE = key("lease", duration(1_000), "How long a claim is ours without an extension. What a killed daemon had claimed comes back after this time. Four fifths of it must be longer than the time-out of every sink of the queue.").default("30s");
        MAX_IN_FLIGHT = key("max_in_flight", count_or("auto", 1, 1_000_000), "Elements in flight; `auto` adapts to the sinks, up to 10,000.").default("auto");
        MAX_IN_FLIGHT_BYTES = key("max_in_flight_bytes", Kind::Size, "Bytes of elements in flight. One element that is larger goes alone.").default("16MiB");
        MAX_RATE = key("max_rate", Kind::Rate, "Deliveries of this queue. Waiting counts no attempts.").default("none");
        MAX_LATENESS = key("max_lateness", Kind::DurationOrNone, "An element that is later than this is expired.").default("none");
        ON_EXPIRED = key("on_expired", Kind::Word(&[now("dead_letter"), now("deliver")]), "What happens to an expired element.").default("dead_letter");
        RETRY = key("retry", Kind::Text, "Name of a retry policy.").default("default");
        DEAD_LETTER = key("dead_letter", Kind::Section(&dead_letter::TABLE), "Where dead letters are kept, and where they are moved on to.");
        LIST_CLEANUP = key("list_cleanup", Kind::Word(&[now("auto"), now("exact")]), "How claimed elements leave Redisson's list: `auto` at the ends at once and the rest in slices, at the same cost at any depth; `exact` in the claim, at a cost that grows with the depth.").default("auto");
        GHOST_MAX_AGE = key("ghost_max_age", duration(1_000), "With `auto`: how long a claimed element may still show in Redisson's list before it is swept.").default("30s");
        SWEEP_BANDWIDTH = key("sweep_bandwidth", Kind::Size, "With `auto`: bytes per second that sweeping may move, on average.").default("16MiB");
        CLAIM_AHEAD = key("claim_ahead", duration(0), "How long before its due time an element is claimed, at most half of the lease. It is delivered at its due time, and until then counts as in flight. For queues with live Redisson clients whose ready list other consumers read: claimed ahead, the element is not there for their transfer. From the claim on Java neither sees nor cancels it.").default("0s");
        MODE = key("mode", Kind::Word(&[now("deliver"), now("shadow"), now("rescue")]), "What is done with due elements. `deliver`: they are claimed and delivered. `shadow`: nothing is claimed and nothing is written to Redis or a sink; what would have been sent where is logged and counted. `rescue`: elements that are overdue by more than `rescue_after` are moved to the ready list, as a Redisson client would, for Java consumers that stay; no sink is needed.").default("deliver");
        RESCUE_AFTER = key("rescue_after", duration(1), "With `mode: rescue`: how long an element may be overdue before it is moved.").default("10s");
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
        HEADERS = key("headers", Kind::Headers, "Kafka and AMQP: further headers. Redis stream: further fields. Standard output: `headers` of the line. A list carries none.");
        ENVELOPE = key("envelope", Kind::Word(&[now("raw"), now("decoded"), now("json"), now("cloudevents")]), "`raw`: the payload's bytes. `decoded`: the value that the codec read, as JSON or plain text. `json`: one object with `id`, `queue`, `due_ms` (absent when not known), `attempt` and `payload` (or `payload_base64`). `cloudevents`: the payload's bytes, and CloudEvents 1.0 in binary mode as headers `ce_*` and `content-type`; not for a list.").default("raw");
        TOPIC = key("topic", Kind::Template, "Kafka: topic.");
        KEY = key("key", Kind::Template, "Kafka: key of the record, which decides the partition.");
        EXCHANGE = key("exchange", Kind::TemplateOrEmpty, "AMQP: exchange; empty is the default exchange.");
        ROUTING_KEY = key("routing_key", Kind::TemplateOrEmpty, "AMQP: routing key.");
        PROPERTIES = key("properties", Kind::Section(&amqp_properties::TABLE), "AMQP: properties of the message.");
    }
    mod amqp_properties at "queues.NAME.to[].properties", "Properties of an AMQP message, beside those that every message gets: `timestamp` is the due time, `app_id` is `delaybridge`, `message_id` is another at every attempt." {
        CONTENT_TYPE = key("content_type", Kind::Template, "MIME type of the body.");
        CONTENT_ENCODING = key("content_encoding", Kind::Template, "MIME encoding of the body.");
        PRIORITY = key("priority", Kind::NumberTemplate, "0 to 255, for queues that were declared with priorities.");
        CORRELATION_ID = key("correlation_id", Kind::Template, "What the message answers.");
        REPLY_TO = key("reply_to", Kind::Template, "Where answers go.");
        EXPIRATION = key("expiration", Kind::NumberTemplate, "Milliseconds after which the broker may drop the message.");
        TYPE = key("type", Kind::Template, "The application's name for this kind of message.");
    }
    mod dead_letter at "queues.NAME.dead_letter", "Dead letters are kept in the stream `delaybridge:dead:{NAME}` beside the queue. With `sink` they are moved on: each stays in the stream until that sink has confirmed it. What is sent is the payload as it was, with cause and attempts in headers; templates may use `id`, `queue`, `due_ms` and `attempt`, but not the payload, which may be unreadable." {
        STREAM = key("stream", Kind::Section(&dead_stream::TABLE), "Settings of the stream.");
        SINK = key("sink", Kind::Text, "Name of a sink that dead letters are moved on to. It may be one that the queue delivers to, at another place. Where it is a Redis stream, the stream is named on the sink.");
        TOPIC = key("topic", Kind::Template, "Kafka: topic.");
        KEY = key("key", Kind::Template, "Kafka: key of the record.");
        EXCHANGE = key("exchange", Kind::TemplateOrEmpty, "AMQP: exchange; empty is the default exchange.");
        ROUTING_KEY = key("routing_key", Kind::TemplateOrEmpty, "AMQP: routing key.");
        LIST = key("list", Kind::Template, "Redis: key of the list. A list carries no cause.");
    }
    mod dead_stream at "queues.NAME.dead_letter.stream", "How much is kept." {
        MAX_LEN = key("max_len", count_or("none", 1, u64::MAX), "Dead letters that are kept. What is trimmed is lost, so it needs `allow_loss: true`.").default("none");
        ALLOW_LOSS = key("allow_loss", Kind::Flag, "Says that losing the oldest dead letters is intended.").default("false");
    }
}
