//! Destinations: keys on the sink and under `to:`, and what contradicts itself.

use super::*;
use delaybridge_sink_redis::{KeyTarget, KeyValue};

#[test]
fn contradictions_between_parts_are_refused() {
    check(
        "codec: json",
        "lease: 12s",
        &[
            "15:12 queues.mails.lease: the lease (12s) less its margin of a fifth is not longer than the time-out of sink `out` (10s) | write `lease: 16s`",
        ],
    );
    check("codec: json", "lease: 13s", &[]);
    check("stdout: {}", "stdout: { timeout: 24s }", &["13:3 queues.mails.lease: the lease (30s) less its margin"]);
    check(
        "      - sink: out",
        "      - sink: out\n      - sink: out",
        &["18:15 queues.mails.to[1].sink: no element comes here: the destination before takes all for `out`"],
    );
    check(
        "name: mails",
        "name: 'order:timeout'",
        &["14:33 queues.mails.source.redisson.name: queue `orders` has the same name"],
    );
    check(
        "name: mails",
        "name: '{order:timeout}'",
        &["14:33 queues.mails.source.redisson.name: queue `orders` has the same keys in Redis"],
    );
    check(
        "stdout: {}",
        "stdout: {}\n    redis: { list: x }",
        &["4:3 sinks.out: a sink has one kind, and this one has 2 | keep one of: stdout, redis"],
    );
    check(
        "codec: json",
        "retry: defualt",
        &["15:12 queues.mails.retry: there is no retry policy `defualt` | did you mean `default`?"],
    );
    check(
        "redis:\n",
        "retry: { default: { initial_interval: 2m } }\nredis:\n",
        &["1:39 retry.default.initial_interval: initial_interval (2m) is longer than max_interval (1m)"],
    );
    check(
        "codec: json",
        "dead_letter: { stream: { max_len: 5 } }",
        &["15:39 queues.mails.dead_letter.stream.max_len: `max_len` trims dead letters"],
    );
    check("codec: json", "dead_letter: { stream: { max_len: 5, allow_loss: true } }", &[]);
    check("codec: json", "dead_letter: { stream: { max_len: none } }", &[]);
    check(
        "codec: json",
        "on_expired: deliver",
        &["15:17 queues.mails.on_expired: `on_expired` has no effect without `max_lateness`"],
    );
    check("codec: json", "on_expired: deliver\n    max_lateness: 1h", &[]);
}

#[test]
fn a_redis_destination_does_not_meet_the_queues_own_keys() {
    let ready = |to: &str, expected: &[&str]| check("redis: { list: done }", to, expected);
    ready(
        "redis: { list: 'order:timeout' }",
        &[
            "7:20 sinks.ready.redis.list: queue `orders` consumes the list `order:timeout`: elements would go in circles",
        ],
    );
    ready("redis: { list: mails }", &["7:20 sinks.ready.redis.list: queue `mails` consumes the list `mails`"]);
    ready("redis: { stream: mails }", &["7:22 sinks.ready.redis.stream: queue `mails` consumes the list `mails`"]);
    ready(
        "redis: { url: 'redis://localhost', list: mails }",
        &["7:46 sinks.ready.redis.list: queue `mails` consumes the list `mails`"],
    );
    ready("redis: { url: 'redis://localhost/1', list: mails }", &[]);
    ready("redis: { url: 'redis://other', list: mails }", &[]);
    ready(
        "redis: { list: 'delaybridge:dead:{mails}' }",
        &["7:20 sinks.ready.redis.list: `delaybridge:dead:{mails}` is among the keys"],
    );
    ready(
        "redis: { list: 'redisson_delay_queue:{mails}' }",
        &["7:20 sinks.ready.redis.list: `redisson_delay_queue:{mails}` is among the keys"],
    );
    ready("redis: { list: a, stream: b }", &["7:31 sinks.ready.redis.stream: there is both `list` and `stream`"]);
    ready("redis: {}", &["12:9 queues.orders.to[0]: no destination: sink `ready` names no list or stream"]);
    ready("redis:", &["12:9 queues.orders.to[0]: no destination: sink `ready` names no list or stream"]);
    ready("redis: { stream: a, push: left }", &["7:31 sinks.ready.redis.push: `push` means nothing to a stream"]);
    ready("redis: { list: a, max_len: 5 }", &["7:32 sinks.ready.redis.max_len: `max_len` means nothing to a list"]);
    ready("redis: { list: '' }", &["7:20 sinks.ready.redis.list: the text is empty"]);
    ready(
        "redis: { list: a, username: u }",
        &["7:33 sinks.ready.redis.username: `username` has no effect without `url`"],
    );
    // The ready list may be a destination where Java consumers read it.
    let tee = GOOD.replace("name: mails", "name: mails, consume: [delayed]").replace("list: done", "list: mails");
    check_text(&tee, &[]);
    check_text(
        &tee.replace("list: mails", "stream: mails"),
        &["7:22 sinks.ready.redis.stream: `mails` is the ready list of queue `mails`"],
    );
    let to = |lines: &str, expected: &[&str]| check("sink: ready", &format!("sink: ready\n{lines}"), expected);
    to("        list: mails", &["13:15 queues.orders.to[0].list: queue `mails` consumes the list `mails`"]);
    to("        stream: s\n        max_len: 7", &[]);
    to("        list: a\n        stream: b", &["14:17 queues.orders.to[0].stream: there is both `list` and `stream`"]);
    to("        max_len: 7", &["13:18 queues.orders.to[0].max_len: `max_len` means nothing to a list"]);
    to(
        "        headers: { a: b }",
        &["13:18 queues.orders.to[0].headers: a list holds bare payloads, without headers"],
    );
    to(
        "        stream: s\n        headers: { id: b }",
        &["14:20 queues.orders.to[0].headers.id: every stream entry has `id` already"],
    );
    check(
        "sink: out",
        "sink: out\n        list: x",
        &["18:15 queues.mails.to[0].list: `list` means nothing to a sink of kind stdout"],
    );
}

#[test]
fn keys_under_to_take_precedence_over_the_sink() {
    let text = GOOD
        .replace("{ list: done }", "{ stream: s, max_len: 9 }")
        .replace("sink: ready", "sink: ready\n        list: l\n        push: left");
    let config = load(&text).unwrap().config;
    let KeyTarget { key, value: KeyValue::List { push, .. }, .. } = target(&config.queues[0].to[0]) else {
        panic!("{config:?}")
    };
    assert_eq!((key.source(), *push), ("l", delaybridge_link::Side::Left));
    let config = load(&text.replace("list: l\n        push: left", "max_len: none")).unwrap().config;
    let KeyTarget { value: KeyValue::Stream { max_len }, .. } = target(&config.queues[0].to[0]) else {
        panic!("{config:?}")
    };
    assert_eq!(*max_len, None);
}

#[test]
fn exactly_once_is_refused_where_it_cannot_hold() {
    let ready = |to: &str, expected: &[&str]| check("{ list: done }", to, expected);
    ready("{ list: '{order:timeout}:done', exactly_once: true }", &[]);
    ready("{ list: done, exactly_once: false }", &[]);
    ready(
        "{ list: done, exactly_once: true }",
        &[
            "7:40 sinks.ready.redis.exactly_once: exactly_once needs a list in the queue's hash slot | write the queue's hash tag into the key, as in `{order:timeout}:ready`",
        ],
    );
    ready(
        "{ list: '{order:timeout}:${id}', exactly_once: true }",
        &["7:59 sinks.ready.redis.exactly_once: exactly_once needs a fixed key"],
    );
    ready(
        "{ stream: '{order:timeout}', exactly_once: true }",
        &["7:55 sinks.ready.redis.exactly_once: `exactly_once` means nothing to a stream"],
    );
    ready(
        "{ url: 'redis://127.0.0.1', list: '{order:timeout}:d', exactly_once: true }",
        &["7:81 sinks.ready.redis.exactly_once: exactly_once needs the Redis that holds the queues"],
    );
    let two = GOOD
        .replace("{ list: done }", "{ list: '{order:timeout}:d', exactly_once: true }")
        .replace("- sink: ready", "- sink: ready\n      - sink: out");
    check_text(&two, &["7:55 sinks.ready.redis.exactly_once: exactly_once needs a queue with this destination only"]);
}

#[test]
fn a_template_needs_a_codec_that_can_answer_it() {
    let orders = |codec: &str, key: &str, expected: &[&str]| {
        let text = GOOD
            .replace("list: done", &format!("list: '{key}'"))
            .replace("name: 'order:timeout' } }", &format!("name: 'order:timeout' }} }}\n    codec: {codec}"));
        check_text(&text, expected);
    };
    orders("raw", "x${id}${queue}${due_ms:-0}${attempt}", &[]);
    orders(
        "raw",
        "x${payload}",
        &[
            "7:20 sinks.ready.redis.list: the template asks for the payload, and codec raw does not look into it | write the codec of your producers, as `codec: string` or `codec: json`",
        ],
    );
    orders("raw", "x${payload.a:-none}", &["7:20 sinks.ready.redis.list: the template asks for the payload"]);
    orders("string", "x${payload}", &[]);
    orders(
        "string",
        "x${payload.a}",
        &[
            "7:20 sinks.ready.redis.list: the template asks for a field of the payload, and codec string reads no fields | write the codec of your producers, as `codec: json`",
        ],
    );
    for codec in ["json", "jackson", "kryo5", "lz4+marshalling", "auto"] {
        orders(codec, "x${payload.a}${payload}", &[]);
    }
    orders("zstd+number", "x${payload}", &[]);
    orders("zstd+number", "x${payload.a}", &["7:20 sinks.ready.redis.list: the template asks for a field"]);
    orders("lz4+raw", "x${payload}", &["7:20 sinks.ready.redis.list: the template asks for the payload"]);
    check("codec: json", "codec: raw", &[]);
    check("sink: out", "sink: out\n        headers: { t: '${payload.t}' }", &[]);
    check(
        "sink: ready",
        "sink: ready\n        envelope: decoded",
        &["13:19 queues.orders.to[0].envelope: codec raw decodes nothing"],
    );
    check_text(
        &GOOD
            .replace("sink: ready", "sink: ready\n        envelope: decoded")
            .replace("name: 'order:timeout' } }", "name: 'order:timeout' } }\n    codec: lz4+raw"),
        &[],
    );
}

#[test]
fn an_event_has_templates_and_one_of_two_modes() {
    let with =
        |keys: &str| format!("      - sink: out\n        envelope: cloudevents\n        cloudevents: {{ {keys} }}");
    let event = |codec: &str, keys: &str| {
        let text = GOOD.replace("codec: json", codec).replace("      - sink: out", &with(keys));
        let config = load(&text).unwrap_or_else(|errors| panic!("{errors}")).config;
        let found = config.queues[1].to[0].message.envelope.clone();
        match found {
            delaybridge_model::Envelope::CloudEvents(event) => event,
            other => panic!("{other:?}"),
        }
    };
    use delaybridge_model::{EventData, EventMode};
    let plain = event("codec: json", "mode: binary");
    assert_eq!((plain.mode, plain.data), (EventMode::Binary, EventData::Raw));
    assert_eq!((plain.kind.source(), plain.source.source()), ("delaybridge.element.due", "/delaybridge/${queue}"));
    assert_eq!(event("codec: json", "mode: structured").data, EventData::Decoded);
    assert_eq!(event("codec: jackson\n    java_types: strip", "mode: binary").data, EventData::Decoded);
    assert_eq!(event("codec: jackson\n    java_types: strip", "data: raw").data, EventData::Raw);
    let own = event("codec: json", "type: 'a.${payload.b}', source: /c, subject: '${id}'");
    let texts = [Some(&own.kind), Some(&own.source), own.subject.as_ref()].map(|text| text.map(|text| text.source()));
    assert_eq!(texts, [Some("a.${payload.b}"), Some("/c"), Some("${id}")]);

    let refused = |keys: &str, message: &str| {
        check_words(&GOOD.replace("      - sink: out", &with(keys)), &[message]);
    };
    refused("mode: structured, data: raw", "queues.mails.to[0].cloudevents.data: the data of a structured event");
    refused("type: ''", "queues.mails.to[0].cloudevents.type: ");
    refused("mod: binary", "queues.mails.to[0].cloudevents.mod: unknown key");
    let text = GOOD.replace("codec: json", "codec: raw").replace("      - sink: out", &with("data: decoded"));
    check_words(&text, &["queues.mails.to[0].cloudevents: codec raw decodes nothing that data decoded could send"]);
    let text = GOOD.replace("      - sink: out", "      - sink: out\n        cloudevents: { mode: structured }");
    check_words(
        &text,
        &["queues.mails.to[0].cloudevents: `cloudevents` has no effect without `envelope: cloudevents`"],
    );
    let list = |mode: &str| {
        let keys =
            format!("      - sink: ready\n        envelope: cloudevents\n        cloudevents: {{ mode: {mode} }}");
        GOOD.replace("      - sink: ready", &keys)
    };
    check_words(&list("structured"), &[]);
    check_words(&list("binary"), &["queues.orders.to[0].envelope: a list holds bare payloads, without headers"]);
}
