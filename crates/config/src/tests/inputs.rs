//! Inputs beside the queues that deliver their jobs.

use super::*;

/// An input from `place`, whose messages go to `to`.
fn file(sink: &str, input: &str, to: &str) -> String {
    format!(
        "redis: {{ url: 'redis://127.0.0.1:6379/0' }}\n\
         sinks: {{ out: {{ {sink} }} }}\n\
         inputs: {{ late: {{ {input}, topic: late, to: {to} }} }}\n"
    )
}

#[cfg(feature = "amqp")]
#[test]
fn messages_of_rabbitmq_do_not_go_back_to_the_queue_that_they_came_from() {
    let (sink, input) = ("amqp: { url: 'amqp://a/shop' }", "amqp: { url: 'amqp://a/shop', queue: delay-in }");
    let check = |sink: &str, to: &str, expected: &[&str]| check_words(&file(sink, input, to), expected);
    let circle = [
        "inputs.late.to[0].exchange: input `late` consumes queue delay-in: messages would come back | name another place",
    ];
    check(sink, "{ sink: out, exchange: '', routing_key: delay-in }", &circle);
    check(sink, "{ sink: out, exchange: '', routing_key: orders }", &[]);
    // Another exchange, another broker, or a place that each message has.
    check(sink, "{ sink: out, exchange: orders, routing_key: delay-in }", &[]);
    check(sink, "{ sink: out, exchange: '' }", &[]);
    check(sink, "{ sink: out, exchange: '', routing_key: '${input.header.to:-delay-in}' }", &[]);
    check("amqp: { url: 'amqp://b/shop' }", "{ sink: out, exchange: '', routing_key: delay-in }", &[]);
}

#[cfg(feature = "kafka")]
#[test]
fn records_of_kafka_do_not_go_back_to_the_topics_that_they_came_from() {
    let sink = "kafka: { brokers: ['a:9092'] }";
    let input = "kafka: { brokers: ['a:9092'], topics: [one, two] }";
    let check = |to: &str, expected: &[&str]| check_words(&file(sink, input, to), expected);
    let circle =
        ["inputs.late.to[0].topic: input `late` consumes topic two: messages would come back | name another place"];
    check("{ sink: out, topic: two }", &circle);
    check("{ sink: out, topic: three }", &[]);
    check("{ sink: out, topic: '${input.header.to:-two}' }", &[]);
}

#[cfg(all(feature = "amqp", feature = "nats"))]
#[test]
fn a_route_names_the_headers_of_messages_that_it_wants() {
    let (sink, input) = ("nats: { servers: ['a:4222'] }", "amqp: { url: 'amqp://a/shop', queue: delay-in }");
    let check = |rule: &str, expected: &[&str]| {
        let to = format!("{{ sink: out, subject: orders, headers_from_message: {rule} }}");
        check_words(&file(sink, input, &to), expected);
    };
    check("{ keep: [tenant, 'X-*'], drop: ['x-internal-*'] }", &[]);
    check("{ keep: ['*'] }", &[]);
    check(
        "{}",
        &[
            "inputs.late.to[0].headers_from_message: `headers_from_message` has neither `keep` nor `drop` | write `drop: [x-internal-*]`, or remove it",
        ],
    );
    let never = "inputs.late.to[0].headers_from_message.keep[1]: `Nats-TTL` never passes to this destination (NATS) | remove it";
    check("{ keep: [tenant, Nats-TTL, 'nats-*'] }", &[never]);
    let two_words = "inputs.late.to[0].headers_from_message.keep[0]: `two words` never passes to this destination (NATS) | remove it";
    check("{ keep: [two words] }", &[two_words]);
    let text = format!(
        "redis: {{ url: 'redis://127.0.0.1:6379/0' }}\njobs: {{}}\nsinks: {{ out: {{ {sink} }} }}\n\
         queues: {{ q: {{ source: {{ jobs: {{ topic: late }} }}, to: [{{ sink: out, subject: orders, \
         headers_from_message: {{ keep: ['X-*'], drop: [x-a] }} }}] }} }}\n"
    );
    let shown = describe(&load(&text).unwrap().config);
    assert!(shown.contains("headers_from_message:\n          keep: [x-*]\n          drop: [x-a]\n"), "{shown}");
}
