//! `when` and `on_skipped`.

use super::*;

#[test]
fn a_condition_is_compiled_and_shown() {
    let text = GOOD
        .replace("      - sink: out", "      - sink: out\n        when: 'payload.amount > 100'\n    on_skipped: drop");
    let config = load(&text).expect("a configuration").config;
    let mails = &config.queues[1];
    let when = mails.to[0].when().expect("a condition");
    assert_eq!((when.source(), mails.on_skipped), ("payload.amount > 100", OnSkipped::Drop));
    let shown = describe(&config);
    assert!(shown.contains("when: payload.amount > 100\n") && shown.contains("on_skipped: drop\n"), "{shown}");
    // Another condition is another configuration.
    let other = load(&text.replace("100", "101")).expect("a configuration").config;
    assert_ne!(summary(&config), summary(&other));
    assert!(!describe(&load(GOOD).expect("a configuration").config).contains("skipped"));
}

#[test]
fn a_mistake_in_a_condition_has_its_column_and_a_help() {
    let when = |text: &str, expected: &str| {
        check("      - sink: out", &format!("      - sink: out\n        when: {text}"), &[expected]);
    };
    let at = "18:15 queues.mails.to[0].when";
    when(
        "'payload.a = 1'",
        &format!("{at}: the condition cannot be read at column 11: `=` is written `==` here | as in"),
    );
    let unknown = |name: &str, help: &str| {
        let message =
            format!("`{name}` is no field of an element: there are id, queue, due_ms, topic, payload, payload.NAME");
        when(&format!("'{name} == 1'"), &format!("{at}: the condition cannot be read at column 1: {message} | {help}"));
    };
    unknown("paylaod.a", "did you mean `payload.a`?");
    unknown("a.b", "a field of the payload is written `payload.a.b`, a text has quotes");
    let attempt = "`attempt` changes from one attempt to the next, and the destinations of an element must not";
    let help = "remove it; `retry` bounds the attempts";
    when("'attempt > 1'", &format!("{at}: the condition cannot be read at column 1: {attempt} | {help}"));
    when("''", at);
    check(
        "    to:\n      - sink: ready",
        "    to:\n      - sink: ready\n        when: 'payload.a == 1'",
        &[
            "13:15 queues.orders.to[0].when: the condition asks for the payload, and codec raw does not look into it | write",
        ],
    );
    check(
        "    to:\n      - sink: ready",
        "    codec: string\n    to:\n      - sink: ready\n        when: 'payload.a == 1'",
        &[
            "14:15 queues.orders.to[0].when: the condition asks for a field of the payload, and codec string reads no fields",
        ],
    );
    check("    to:\n      - sink: ready", "    to:\n      - sink: ready\n        when: 'due_ms > 1'", &[]);
}

#[test]
fn on_skipped_is_for_queues_that_skip() {
    check(
        "codec: json",
        "on_skipped: drop",
        &[
            "15:17 queues.mails.on_skipped: `on_skipped` has no effect: the destination at `out` takes every element | write",
        ],
    );
}

#[test]
fn a_look_is_refused_where_nothing_can_be_seen() {
    let base = |sink: &str, to: &str| {
        format!(
            "redis: {{ url: redis://h }}\nsinks: {{ s: {{ {sink} }} }}\nqueues:\n  q:\n    source: {{ redisson: {{ name: q }} }}\n    \
             to: [{{ sink: s, duplicates: look{to} }}]\n"
        )
    };
    let looks = [
        ("kafka: { brokers: [h] }", ", topic: t"),
        ("redis: { url: redis://o }", ", list: l"),
        ("redis: {}", ", stream: l"),
        ("nats: { servers: [h] }", ", subject: t"),
        ("sqs: { queue_url: 'https://sqs.eu-west-1.amazonaws.com/1/q.fifo', group_id: g }", ""),
    ];
    for (sink, to) in looks {
        let config = load(&base(sink, to)).unwrap_or_else(|errors| panic!("{sink}: {errors}")).config;
        assert!(config.queues[0].to[0].looks(), "{sink}");
        assert!(describe(&config).contains("duplicates: look"), "{sink}");
    }
    let none = "does not tell what it has already";
    let refused = [
        ("http: { url: 'http://h/' }", "", none),
        ("amqp: { url: amqp://h }", ", routing_key: r", none),
        ("sqs: { queue_url: 'https://sqs.eu-west-1.amazonaws.com/1/q' }", "", none),
        ("redis: {}", ", list: '{q}:l', exactly_once: true", "a push with `exactly_once` is never made twice"),
    ];
    for (sink, to, expected) in refused {
        let errors = load(&base(sink, to)).err().unwrap_or_else(|| panic!("{sink}: not refused")).to_string();
        assert!(errors.contains(expected) && errors.contains("duplicates"), "{sink}: {errors}");
    }
}

#[test]
fn a_destination_behind_one_that_takes_all_for_the_sink_is_refused() {
    let of = |first: &str, second: &str| {
        format!(
            "redis: {{ url: redis://h }}\nsinks: {{ s: {{ kafka: {{ brokers: [h] }} }} }}\nqueues:\n  q:\n    \
             source: {{ redisson: {{ name: q }} }}\n    codec: json\n    \
             to: [{{ sink: s, topic: a{first} }}, {{ sink: s, topic: b{second} }}]\n"
        )
    };
    let when = ", when: payload.x";
    let other = ", when: payload.y";
    for second in ["", other] {
        let config = load(&of(when, second)).unwrap_or_else(|errors| panic!("{errors}")).config;
        assert_eq!(config.queues[0].to.len(), 2);
        let errors = load(&of("", second)).expect_err("nothing would come there").to_string();
        assert!(errors.contains("no element comes here") && errors.contains("to[1].sink"), "{errors}");
    }
}
