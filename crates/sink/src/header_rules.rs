//! The headers that a message of an input may bring to its destination: one table for all kinds of destinations. Pure.
//!
//! With a header that steers the destination, whoever publishes a message could purge a stream, route copies of it or replace
//! the login of the sink. With one that the destination cannot carry, the message would be a dead letter that no redrive saves.
//! Neither passes; everything else does. The contract of sinks tries the row of each kind at the real destination.
//!
//! The headers of a route are the operator's own choice. The rules do not apply to them.

use crate::headers::is_standard;
use delaybridge_core::carried::OWN_HEADERS;

/// A row of the table: what one kind of destination does with headers.
#[derive(Debug)]
pub struct HeaderRules {
    /// The destination, for a person.
    pub title: &'static str,
    /// Names that steer the destination, or that the sink writes itself. `*` at the end stands for any text.
    pub control: &'static [&'static str],
    /// The spellings of a name that are one name to the destination.
    spelling: Spelling,
    /// Whether a message can have a header with this name and value.
    fits: fn(&str, &str) -> bool,
    /// The same in words.
    pub limits: &'static str,
    /// Whether values that are no text pass too, in the form of their protocol.
    pub carries_bytes: bool,
    /// Whether a name may be there several times; else the first one passes.
    pub repeats: bool,
    /// The bytes that all headers of a message have together, at most: names, values and [`EACH`].
    pub room: usize,
}

/// The bytes that a header takes beside its name and its value.
pub const EACH: usize = 4;

/// A value that every destination carries.
const ANY_VALUE: &str = "x";

/// The spellings that are one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// Capital letters matter.
    Exact,
    /// Capital letters do not matter.
    AnyCase,
    /// Neither capital letters nor `_` for `-` matter: programs behind CGI, WSGI or PHP see one name.
    Cgi,
}

/// The end of a header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFate {
    /// The header passes as it is.
    Passes,
    /// The header is left out, because it steers the destination, or because the sink writes one of this name itself.
    Control,
    /// The header is left out, because the destination cannot carry it.
    Unfit,
}

impl HeaderRules {
    /// Decides whether a header with this name and value passes; `None` for a value that is no text.
    pub fn fate(&self, name: &str, value: Option<&str>) -> HeaderFate {
        let is_for_inputs = OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
        let fits = || match value {
            Some(value) => (self.fits)(name, value),
            None => self.carries_bytes && (self.fits)(name, ANY_VALUE),
        };
        if is_for_inputs || is_standard(&self.spelled(name)) || self.steers(name) {
            HeaderFate::Control
        } else if fits() {
            HeaderFate::Passes
        } else {
            HeaderFate::Unfit
        }
    }

    /// Returns whether a header of this name steers the destination, or is one that the sink writes itself.
    pub fn steers(&self, name: &str) -> bool {
        let spelled = self.spelled(name);
        let is_spelled_so = |pattern: &&str| match pattern.strip_suffix('*') {
            Some(begin) => spelled.starts_with(begin),
            None => spelled == **pattern,
        };
        self.control.iter().any(is_spelled_so)
    }

    /// Returns whether a header of a route can have this name.
    pub fn has_name(&self, name: &str) -> bool {
        (self.fits)(name, ANY_VALUE)
    }

    /// Returns the name as the destination may read it: two names that are spelled alike here are one there.
    pub fn spelled(&self, name: &str) -> String {
        match self.spelling {
            Spelling::Exact => name.to_owned(),
            Spelling::AnyCase => name.to_ascii_lowercase(),
            Spelling::Cgi => name.to_ascii_lowercase().replace('_', "-"),
        }
    }
}

/// The rules that most kinds share.
const ANY: HeaderRules = HeaderRules {
    title: "",
    control: &[],
    spelling: Spelling::Exact,
    fits: |_, _| true,
    limits: "",
    carries_bytes: false,
    repeats: false,
    room: usize::MAX,
};

/// Records of Kafka.
pub static KAFKA: HeaderRules = HeaderRules { title: "Kafka", carries_bytes: true, repeats: true, ..ANY };

/// Messages of RabbitMQ. `CC` and `BCC` route copies, and close the channel if they are texts. A broker takes a message that it finds in
/// `x-death` or `x-received-from` for one that goes in circles, and drops it. The counts are those of another queue.
pub static AMQP: HeaderRules = HeaderRules {
    title: "RabbitMQ (`amqp`)",
    control: &[
        "CC",
        "BCC",
        "x-death",
        "x-first-death-*",
        "x-last-death-*",
        "x-received-from",
        "x-delivery-count",
        "x-acquired-count",
        "x-opt-*",
    ],
    fits: |name, _| name.len() <= 255,
    limits: "names over 255 bytes",
    carries_bytes: true,
    ..ANY
};

/// Messages of AMQP 1.0. Artemis and ActiveMQ delay, drop, replace and group messages by such properties.
pub static AMQP1: HeaderRules = HeaderRules {
    title: "AMQP 1.0 (`amqp1`)",
    control: &["_AMQ_*", "_HQ_*", "AMQ_*", "JMSX*", "JMS_AMQP_*", "x-opt-*", "x-cc"],
    // The only one that is a property, of a type without other letters.
    fits: |name, value| !name.eq_ignore_ascii_case("content-type") || value.is_ascii(),
    limits: "a `content-type` with letters outside of ASCII",
    ..ANY
};

/// Messages of NATS. The prefixes are kept for the server, for its MQTT and for key-value buckets. Clients take a message without a body
/// for an answer of the server if `Status` is a number.
pub static NATS: HeaderRules = HeaderRules {
    title: "NATS",
    control: &["nats-*", "nmqtt-*", "kv-operation"],
    spelling: Spelling::AnyCase,
    fits: |name, value| {
        let is_status = name == "Status" && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        is_name && !is_status && !value.contains(['\r', '\n'])
    },
    limits: "names with other letters than visible ASCII without `:`, values with line breaks, a `Status` that is a number",
    ..ANY
};

/// Messages of RocketMQ. `DELAY` and the `TIMER_` ones would delay the message again; others would make it a part of a transaction,
/// or a reply; the sink sets tags, keys and sharding key itself.
pub static ROCKETMQ: HeaderRules = HeaderRules {
    title: "RocketMQ",
    control: &[
        "1ST_POP_TIME",
        "ARRIVE_TIME",
        "BORN_TIMESTAMP",
        "BUYER_ID",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "CLUSTER",
        "CONSUME_START_TIME",
        "CORRECTION_FLAG",
        "CORRELATION_ID",
        "DELAY",
        "DLQ_ORIGIN_MESSAGE_ID",
        "DLQ_ORIGIN_TOPIC",
        "DUP_INFO",
        "EXTEND_UNIQ_INFO",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
        "INNER_NUM",
        "INSTANCE_ID",
        "KEYS",
        "MAX_OFFSET",
        "MAX_RECONSUME_TIMES",
        "MIN_OFFSET",
        "MQ2_FLAG",
        "MSG_REGION",
        "MSG_TYPE",
        "ORIGIN_MESSAGE_ID",
        "PGROUP",
        "POP_CK",
        "POP_CK_OFFSET",
        "PROPERTY_FORWARD_QUEUE_ID",
        "PUSH_REPLY_TIME",
        "REAL_QID",
        "REAL_TOPIC",
        "RECONSUME_TIME",
        "REDIRECT",
        "REPLY_TO_CLIENT",
        "RETRY_TOPIC",
        "TAGS",
        "TIMER_*",
        "TRACE_CONTEXT",
        "TRACE_ON",
        "TRANSACTION_CHECK_TIMES",
        "TRANSFER_FLAG",
        "TRAN_MSG",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "TTL",
        "UNIQ_KEY",
        "WAIT",
        "_SYS_*",
        "__*",
    ],
    // The ends of a name and of a value are one byte, which is no part of another letter.
    fits: |name, value| {
        let is_empty = name.is_empty() || value.is_empty();
        !is_empty && ![name, value].iter().any(|text| text.contains(['\u{1}', '\u{2}']))
    },
    limits: "empty names and values, U+0001 and U+0002, and what is more than 30,000 bytes together",
    // Of 31,000: tags, keys and the daemon's own headers need some.
    room: 30_000,
    ..ANY
};

/// Messages of SQS and SNS. What is no attribute is in the JSON of one of them.
pub static AWS: HeaderRules = HeaderRules { title: "SQS, SNS", ..ANY };

/// Requests. Headers of the connection say where the body ends; others say who sends, replace method or path, or make the request a
/// conditional one.
pub static HTTP: HeaderRules = HeaderRules {
    title: "HTTP",
    control: &[
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-*",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "authorization",
        "cookie",
        "forwarded",
        "x-forwarded-*",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "remote-user",
        "x-remote-*",
        "x-auth-request-*",
        "x-host",
        // Of meshes: where a request goes, how often and how long.
        "l5d-*",
        "x-envoy-*",
        "idempotency-key",
        "user-agent",
        "webhook-*",
        "x-http-method*",
        "x-method-override",
        "x-original-*",
        "x-rewrite-url",
        "if-*",
        "range",
    ],
    spelling: Spelling::Cgi,
    fits: |name, value| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_value = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        // The values of attributes of CloudEvents are percent-encoded.
        is_name && (name.starts_with("ce_") || value.bytes().all(is_value))
    },
    limits: "names that HTTP does not have, values with control characters, and what is more than 64 KiB together",
    // More than any server takes by default, and fewer headers than the client can hold.
    room: 64 << 10,
    ..ANY
};

/// Entries of a stream in Redis. A field of the sink's name would be there twice.
pub static REDIS_STREAM: HeaderRules =
    HeaderRules { title: "Redis stream", control: &["payload", "id", "queue", "due_ms", "attempt"], ..ANY };

/// Elements of a list in Redis, which are bare payloads.
pub static REDIS_LIST: HeaderRules =
    HeaderRules { title: "Redis list", fits: |_, _| false, limits: "any header", ..ANY };

/// Lines on standard output.
pub static STDOUT: HeaderRules = HeaderRules { title: "standard output", ..ANY };

/// The whole table, in the order of the documentation.
pub static TABLE: [&HeaderRules; 10] =
    [&KAFKA, &AMQP, &AMQP1, &NATS, &ROCKETMQ, &AWS, &HTTP, &REDIS_STREAM, &REDIS_LIST, &STDOUT];

/// The head of the page about headers.
const HEAD: &str = "\
# Headers of messages

<!-- Generated by a test from crates/sink/src/header_rules.rs; change it there. -->

Which headers a message of an [input](delayed-messages.md) brings along to its destination. For whoever writes its configuration: read the row of your
destination. These do not pass, and the message goes on without them:

- Headers that steer the destination: with `Nats-Rollup: all` a publisher would purge a stream, with `CC` send copies to other queues,
  with `Authorization` replace the login of a webhook. So are those that the sink writes itself (`delaybridge-...`, and `headers` of a webhook).
- Headers that the destination cannot carry.
- `x-delay`, `x-due` and `x-delay-to`, which the input reads; with `envelope: cloudevents` also `ce_...`.

Where a name may be there once, the first header passes. Headers of the route (`headers`) are your own choice: none of this applies to
them, and they replace those of the message. A dead letter that is forwarded follows the same table.

`delaybridge_headers_left_out_total` counts what was left out, with a reason: `control`, `unfit`, or `rule` for the rule of the
route, which says by `headers_from_message` which of the other headers it wants. Capital letters do not matter:

<!-- beside it: redis: { url: \"redis://127.0.0.1:6379/0\" } -->
```yaml
sinks:
  stream: { nats: { servers: [\"127.0.0.1:4222\"] } }
inputs:
  late:
    amqp: { url: \"amqp://127.0.0.1:5672\", queue: delay-in }
    topic: late
    to:
      sink: stream
      subject: orders.eu
      headers: { x-origin: \"${input.header.x-first-death-queue:-}\" }    # one that never passes, under another name
      headers_from_message: { keep: [tenant, \"x-*\"], drop: [\"x-internal-*\"] }
```

A message whose headers are larger than its destination takes is a dead letter. Name the large headers under `drop`, and bring the letter
back with `delaybridge dead redrive`.

| destination | never passes | cannot be carried |
|---|---|---|
";

/// Renders the page about headers, `docs/headers.md`.
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    for rules in TABLE {
        let names: Vec<_> = rules.control.iter().map(|name| format!("`{}`", name.replace('*', "..."))).collect();
        let bytes = if rules.carries_bytes || !rules.has_name("x") { "" } else { "values that are no text" };
        let limits: Vec<_> = [rules.limits, bytes].into_iter().filter(|text| !text.is_empty()).collect();
        page.push_str(&format!("| {} | {} | {} |\n", rules.title, names.join(", "), limits.join("; ")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use HeaderFate::{Control, Passes, Unfit};

    #[test]
    fn a_header_that_steers_its_destination_never_passes() {
        fn check(rules: &HeaderRules, rows: &[(&str, HeaderFate)]) {
            for (name, fate) in rows {
                assert_eq!(rules.fate(name, Some("x")), *fate, "{}: {name}", rules.title);
            }
        }
        for rules in TABLE {
            for name in ["x-delay", "X-Due", "x-delay-to", "delaybridge-id", "Delaybridge-Attempt"] {
                assert_eq!(rules.fate(name, Some("x")), Control, "{}: {name}", rules.title);
            }
        }
        check(
            &AMQP,
            &[("CC", Control), ("BCC", Control), ("cc", Passes), ("x-first-death-queue", Control), ("x-match", Passes)],
        );
        check(
            &NATS,
            &[
                ("Nats-Rollup", Control),
                ("nats-TTL", Control),
                ("KV-Operation", Control),
                ("natsu", Passes),
                ("x-nats-id", Passes),
            ],
        );
        check(
            &ROCKETMQ,
            &[("DELAY", Control), ("TIMER_DELIVER_MS", Control), ("__STARTDELIVERTIME", Control), ("Delay", Passes)],
        );
        check(&REDIS_STREAM, &[("payload", Control), ("attempt", Control), ("Payload", Passes)]);
        check(&REDIS_LIST, &[("tenant", Unfit)]);
        check(&AMQP1, &[("_AMQ_SCHED_DELIVERY", Control), ("AMQ_SCHEDULED_DELAY", Control), ("tenant", Passes)]);
        check(
            &HTTP,
            &[
                ("Authorization", Control),
                ("Content_Length", Control),
                ("x_forwarded_for", Control),
                ("x-tenant", Passes),
                ("two words", Unfit),
            ],
        );
    }

    #[test]
    fn the_page_about_headers_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/headers.md");
        if std::fs::read_to_string(&path).ok().as_deref() != Some(&reference()) {
            std::fs::write(&path, reference()).unwrap();
            panic!("docs/headers.md was out of date and has been rewritten: look at it and commit it");
        }
    }

    #[test]
    fn a_value_that_is_no_text_passes_where_the_destination_has_such() {
        for (rules, fate) in [(&KAFKA, Passes), (&AMQP, Passes), (&NATS, Unfit), (&STDOUT, Unfit)] {
            assert_eq!(rules.fate("n", None), fate, "{}", rules.title);
        }
        assert_eq!(AMQP.fate("CC", None), Control);
    }
}
