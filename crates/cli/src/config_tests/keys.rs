//! The keys of a file of cases.

use delaybridge_core::message::About;
use delaybridge_settings::keys::tables;
use delaybridge_settings::words::words;
use delaybridge_source::redisson::layout::Layout;

words! {
    /// Layouts of elements; none of the ready list.
    pub(super) list Layouts of Option<Layout> {
        "new" => Some(Layout::New),
        "old" => Some(Layout::Old),
        "bare" => None,
    }
}

words! {
    /// Subjects of failures.
    pub(super) list Abouts of About { "sink" => About::Sink, "target" => About::Target, "route" => About::Route }
}

tables! {
    mod file at "", "A file of cases." {
        CONFIG = key("config", Kind::Text, "The configuration. A relative path starts at this file. Default: that of `--config`.");
        ENV = key("env", Kind::Scalars, "Environment variables of the configuration. They go before those of the process.");
        CASES = key("cases", Kind::List(&case::TABLE), "The cases, each with `name`, `queue`, `element` and `expect`.").required();
    }
    mod case at "cases[]", "One element, and what is to become of it." {
        NAME = key("name", Kind::Text, "What the case shows.").required();
        QUEUE = key("queue", Kind::Text, "The queue, by its name in the configuration.").required();
        ELEMENT = key("element", Kind::Section(&element::TABLE), "The element.").required();
        DUE_MS = key("due_ms", count(0, 253_402_300_799_999), "When the element is due, in milliseconds since 1970.").default("1800000000000");
        LATE = key("late", duration(0), "How late the element is claimed.").default("0s");
        ATTEMPTS = key("attempts", count(0, 1_000_000), "How many attempts have counted before.").default("0");
        FAILS = key("fails", Kind::List(&fails::TABLE), "The sinks that fail. All others confirm.");
        EXPECT = key("expect", Kind::Section(&expect::TABLE), "What is to become of the element.").required();
    }
    mod element at "cases[].element", "Exactly one of `redisson`, `text` and `hex`." {
        REDISSON = key("redisson", Kind::Section(&redisson::TABLE), "An element as Redisson writes it, for queues of Redisson.");
        TEXT = key("text", Kind::TextOrEmpty, "The payload as text.");
        CODEC = key("codec", Kind::Text, "With `text`: the codec that writes it. Default: that of the queue.");
        HEX = key("hex", Kind::TextOrEmpty, "The element's bytes as they are in Redis, as hexadecimal digits. For a job pool: those of the job's record.");
        MEMBER = key("member", Kind::Text, "For job pools and topics: the member of the sorted set, which names the job.");
    }
    mod redisson at "cases[].element.redisson", "An element as Redisson writes it. `payload` or `payload_hex`." {
        PAYLOAD = key("payload", Kind::TextOrEmpty, "The payload as text.");
        CODEC = key("codec", Kind::Text, "The codec that writes it. Default: that of the queue.");
        PAYLOAD_HEX = key("payload_hex", Kind::TextOrEmpty, "The payload's bytes, as hexadecimal digits.");
        LAYOUT = key("layout", word::<Layouts>(), "`new`: Redisson from 3.21.1 on. `old`: up to 3.21.0. `bare`: an element of the ready list, which has no due time.").default("new");
        ID = key("id", Kind::Text, "The element's id: 16 hexadecimal digits.").default("0123456789abcdef");
    }
    mod fails at "cases[].fails[]", "A sink that fails." {
        SINK = key("sink", Kind::Text, "The sink: one of the queue's destinations.").required();
        CLASS = key("class", Kind::Word(&[now("backpressure"), now("transient"), now("ambiguous"), now("message_permanent"), now("target_permanent"), now("unknown")]), "The class of the failure, as in `docs/errors.md`.").required();
        ABOUT = key("about", word::<Abouts>(), "What the failure is about: `sink`, all of it; `target`, the list, stream, topic, exchange, subject or path; `route`, the routing key or partition.").default("sink");
        SENT = key("sent", Kind::Flag, "Whether the element may have left the daemon.").default("true");
        OUTAGE = key("outage", Kind::Flag, "Whether nothing else gets through either. Failures in an outage do not count.").default("false");
        LASTED = key("lasted", duration(0), "How long the destination has refused elements.").default("0s");
        WORKED = key("worked", Kind::Flag, "Whether the destination has taken an element before.").default("false");
    }
    mod expect at "cases[].expect", "`deliver`, and at most one of the others. Without one of them the element is to be delivered." {
        DELIVER = key("deliver", Kind::List(&deliver::TABLE), "All messages that go to sinks, in any order.");
        DEAD = key("dead", Kind::Section(&dead::TABLE), "It becomes a dead letter.");
        HOLD = key("hold", Kind::Section(&hold::TABLE), "The queue is held.");
        RETRY = key("retry", Kind::Section(&retry::TABLE), "It is tried again.");
        WAIT = key("wait", Kind::Section(&wait::TABLE), "It goes back and waits, and the attempt does not count: its sink is full, or its destination refuses.");
        SKIPPED = key("skipped", Kind::Section(&skipped::TABLE), "No destination is meant for it, and it is removed (`on_skipped: drop`).");
    }
    mod deliver at "cases[].expect.deliver[]", "One message. What is not written is not compared." {
        SINK = key("sink", Kind::Text, "The sink: one of the queue's destinations.").required();
        LIST = key("list", Kind::TextOrEmpty, "The list in Redis.");
        STREAM = key("stream", Kind::TextOrEmpty, "The stream in Redis.");
        TOPIC = key("topic", Kind::TextOrEmpty, "The topic.");
        KEY = key("key", Kind::TextOrEmpty, "The record's key.");
        EXCHANGE = key("exchange", Kind::TextOrEmpty, "The exchange.");
        ROUTING_KEY = key("routing_key", Kind::TextOrEmpty, "The routing key.");
        SUBJECT = key("subject", Kind::Text, "The subject.");
        ADDRESS = key("address", Kind::TextOrEmpty, "The address of AMQP 1.0.");
        TAGS = key("tags", Kind::TextOrEmpty, "The tag of RocketMQ.");
        SHARDING_KEY = key("sharding_key", Kind::TextOrEmpty, "The text that chooses the queue in RocketMQ.");
        KEYS = key("keys", Kind::TextOrEmpty, "The keys in RocketMQ, if they are not the id.");
        QUEUE_URL = key("queue_url", Kind::TextOrEmpty, "The URL of the queue.");
        TOPIC_ARN = key("topic_arn", Kind::TextOrEmpty, "The ARN of the topic.");
        GROUP_ID = key("group_id", Kind::TextOrEmpty, "The group of the message.");
        PROPERTIES = key("properties", Kind::Scalars, "Properties of the AMQP message.");
        PATH = key("path", Kind::TextOrEmpty, "Path and query.");
        HEADERS = key("headers", Kind::Scalars, "Headers that the configuration and the envelope give. Further ones are allowed.");
        BODY = key("body", Kind::TextOrEmpty, "The body as text.");
        BODY_HEX = key("body_hex", Kind::TextOrEmpty, "The body's bytes, as hexadecimal digits.");
        BODY_JSON = key("body_json", Kind::Text, "The body as JSON. Spaces and the order of names do not matter.");
    }
    mod dead at "cases[].expect.dead", "What is not written is not compared." {
        REASON = key("reason", Kind::Word(&[now("max_attempts"), now("message_permanent"), now("expired"), now("absurd_due"), now("undecodable"), now("unroutable"), now("junk"), now("skipped")]), "The reason, as `dead ls` shows it.");
        CODE = key("code", Kind::Text, "The code, as in `docs/errors.md`.");
        SINK = key("sink", Kind::Text, "The sink that decides it.");
    }
    mod hold at "cases[].expect.hold", "What is not written is not compared." {
        CODE = key("code", Kind::Text, "The code.");
        SINK = key("sink", Kind::Text, "The sink because of which the queue is held.");
    }
    mod retry at "cases[].expect.retry", "The next attempt. Its time is drawn; both ends of what can be drawn are compared." {
        EARLIEST = key("earliest", duration(0), "The shortest wait that can be drawn.").default("0s");
        LATEST = key("latest", duration(0), "The longest wait that can be drawn.").default("0s");
        COUNTED = key("counted", Kind::Flag, "Whether this attempt counts towards `max_attempts`.");
    }
    mod wait at "cases[].expect.wait", "Without keys." {
    }
    mod skipped at "cases[].expect.skipped", "Without keys." {
    }
}
