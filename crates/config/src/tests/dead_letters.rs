//! Dead letters that are forwarded to a sink.

use super::*;
#[cfg(feature = "amqp")]
use delaybridge_sink_amqp::AmqpTarget;
#[cfg(feature = "kafka")]
use delaybridge_sink_kafka::KafkaTarget;
use delaybridge_sink_redis::{KeyTarget, KeyValue};

/// The good file, with these lines in place of the codec of the queue `mails`.
fn file(dead_letter: &str) -> String {
    GOOD.replace("codec: json", &format!("codec: json\n    dead_letter: {{ {dead_letter} }}"))
}

#[track_caller]
fn dead(dead_letter: &str, expected: &[&str]) {
    check_words(&file(dead_letter), expected);
}

#[test]
fn a_sink_for_dead_letters_alone_is_used() {
    let text = file("sink: grave, stream: { max_len: 5, allow_loss: true }")
        .replace("  ready:\n", "  grave: { redis: { stream: 'dead:${queue}' } }\n  ready:\n");
    let Loaded { config, warnings, .. } = load(&text).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.sinks.iter().map(|sink| &*sink.name).collect::<Vec<_>>(), ["out", "grave", "ready"]);
    let queue = &config.queues[1];
    let to = queue.dead_letter_to.as_ref().unwrap();
    assert_eq!(
        (&*to.sink, to.message.envelope.clone(), to.message.headers.len(), queue.dead_letter_max_len),
        ("grave", delaybridge_model::Envelope::Raw, 0, std::num::NonZeroU64::new(5))
    );
    let KeyTarget { key, value: KeyValue::Stream { .. }, .. } = target(to) else { panic!("{to:?}") };
    assert_eq!(key.source(), "dead:${queue}");
    let shown =
        "    dead_letter:\n      sink: grave\n      sink_stream: dead:${queue}\n      stream:\n        max_len: 5\n";
    assert!(describe(&config).contains(shown), "{}", describe(&config));
}

#[test]
fn where_dead_letters_go_is_checked_like_any_destination() {
    for good in ["sink: out", "sink: ready", "sink: ready, list: 'dead:${id}'", "stream: {}"] {
        dead(good, &[]);
    }
    dead("sink: redy", &["queues.mails.dead_letter.sink: there is no sink `redy` | did you mean `ready`?"]);
    dead("list: x", &["queues.mails.dead_letter.list: `list` has no effect without `sink`"]);
    dead("sink: out, list: x", &["queues.mails.dead_letter.list: `list` means nothing to a sink of kind stdout"]);
    dead("sink: ready, topic: x", &["queues.mails.dead_letter.topic: `topic` means nothing to a sink of kind redis"]);
    dead("sink: ready, headers: {}", &["queues.mails.dead_letter.headers: unknown key"]);
    dead(
        "sink: ready, stream: dead",
        &[
            "queues.mails.dead_letter.stream: `stream` is the stream that the queue keeps, and has keys of its own | set the stream",
        ],
    );
    dead(
        "sink: ready, list: mails",
        &["queues.mails.dead_letter.list: queue `mails` consumes the list `mails`: elements would go in circles"],
    );
    dead("sink: ready, list: 'delaybridge:x'", &["queues.mails.dead_letter.list: `delaybridge:x` is among the keys"]);
}

#[test]
fn a_template_of_dead_letters_does_not_need_the_payload() {
    let message = "the template asks for the payload, and that of a dead letter may be unreadable";
    dead(
        "sink: ready, list: '${payload.a:-x}'",
        &[&format!("queues.mails.dead_letter.list: {message} | write a `list` under")],
    );
    check_words(
        &file("sink: ready")
            .replace("list: done", "list: 'x${payload}'")
            .replace("    to:\n      - sink: ready", "    codec: json\n    to:\n      - sink: ready"),
        &[&format!("sinks.ready.redis.list: {message}")],
    );
    check_words(
        &file("sink: ready").replace("{ list: done }", "{ list: '{order:timeout}:d', exactly_once: true }"),
        &["sinks.ready.redis.exactly_once: exactly_once is for elements, and dead letters go to this sink"],
    );
}

#[test]
fn the_due_time_of_dead_letters_needs_a_default() {
    dead(
        "sink: ready, list: '${due_ms}'",
        &["queues.mails.dead_letter.list: the template asks for the due time, which elements of the ready list lack"],
    );
    dead("sink: ready, list: '${due_ms:-0}'", &[]);
}

#[test]
fn dead_letters_among_the_elements_are_a_warning() {
    let text = GOOD.replace("- sink: ready", "- sink: ready\n    dead_letter: { sink: ready }");
    check_doubts(&text, &["sinks.ready.redis.list: dead letters of queue `orders` go where its elements go"]);
    check_doubts(&text.replace("{ sink: ready }", "{ sink: ready, list: dead }"), &[]);
}

#[cfg(feature = "kafka")]
#[test]
fn dead_letters_go_to_a_topic_of_their_own() {
    let kafka = |sink: &str, dead: &str| {
        file(dead).replace("stdout: {}", &format!("kafka: {{ brokers: [k], topic: t{sink} }}"))
    };
    let config = load(&kafka("", "sink: out, topic: '${queue}.dead', key: '${id}'")).unwrap().config;
    let KafkaTarget { topic, key, .. } = target(config.queues[1].dead_letter_to.as_ref().unwrap());
    assert_eq!((topic.source(), key.as_ref().map(|key| key.source())), ("${queue}.dead", Some("${id}")));
    check_words(
        &kafka(", key: '${payload.a}'", "sink: out, topic: dead"),
        &[
            "sinks.out.kafka.key: the template asks for the payload, and that of a dead letter may be unreadable | write a `key` under `dead_letter:`",
        ],
    );
    check_words(&kafka(", key: '${payload.a}'", "sink: out, topic: dead, key: '${id}'"), &[]);
}

#[cfg(feature = "amqp")]
#[test]
fn dead_letters_go_to_an_exchange_of_their_own() {
    let text = file("sink: out, exchange: '', routing_key: dead")
        .replace("stdout: {}", "amqp: { url: 'amqp://r', exchange: x, routing_key: k }");
    let config = load(&text).unwrap().config;
    let AmqpTarget { exchange, routing_key, .. } = target(config.queues[1].dead_letter_to.as_ref().unwrap());
    assert_eq!((exchange.source(), routing_key.source()), ("", "dead"));
}
