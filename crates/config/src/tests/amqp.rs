//! AMQP sinks and their destinations.
#![cfg(feature = "amqp")]

use super::*;
use delaybridge_sink_amqp::{AmqpArgument, AmqpLogin, AmqpQueue, AmqpSpec, AmqpTarget, AmqpTopology};

/// The good file with this AMQP sink and this route to it, each the inside of a `{ }`.
fn file(sink: &str, route: &str) -> String {
    GOOD.replace("stdout: {}", &format!("amqp: {{ {sink} }}"))
        .replace("- sink: out", &format!("- {{ sink: out{route} }}"))
}

/// A sink in the good file, with its exchange, and the problems that it has.
#[track_caller]
fn sink(keys: &str, expected: &[&str]) {
    check_words(&file(&format!("exchange: x, {keys}"), ""), expected);
}

#[track_caller]
fn route(sink: &str, route: &str, expected: &[&str]) {
    check_words(&file(&format!("url: 'amqp://r', {sink}"), &format!(", {route}")), expected);
}

#[track_caller]
fn spec(sink: &str) -> AmqpSpec {
    let config = load(&file(&format!("exchange: x, {sink}"), "")).unwrap_or_else(|errors| panic!("{errors}")).config;
    let connector: &dyn std::any::Any = &*config.sinks[0].connector;
    let spec = connector.downcast_ref::<AmqpSpec>().expect("an AMQP sink");
    spec.clone()
}

#[test]
fn what_is_left_out_of_an_amqp_sink_has_the_documented_default() {
    let Loaded { config, warnings, .. } = load(&file("url: 'amqp://r', exchange: x", "")).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let text = describe(&config);
    for part in [
        "    amqp:\n      urls: [amqp://r:5672]\n      vhost: /\n      login: plain\n      username: guest\n      password: (hidden)\n",
        "      connect_timeout: 5s\n      heartbeat: 10s\n      frame_max: 128KiB\n      max_unconfirmed: 1000\n      mandatory: true\n      persistent: true\n",
        "      max_message_size: 128MiB\n      topology: expect\n      timeout: 10s\n      max_rate: none\n",
        "      - sink: out\n        exchange: x\n        routing_key: \n        envelope: raw\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_nodes_of_a_cluster_have_one_login_and_one_vhost() {
    let one = spec("urls: ['amqps://u:${SECRET}@a/shop', 'amqps://u:${SECRET}@[::1]:7/shop']");
    assert_eq!((one.addresses().join(" "), one.vhost.as_str()), ("a:5671 [::1]:7".to_owned(), "shop"));
    assert!(one.tls.is_some());
    let AmqpLogin::Plain { username, .. } = &one.login else { panic!("{one:?}") };
    assert_eq!(username, "u");
    let differ = |other: &str, what: &str| {
        let expected = format!("sinks.out.amqp.urls[1]: the URL has another {what} than the first");
        sink(&format!("urls: ['amqp://u:${{SECRET}}@a/v', '{other}']"), &[&expected]);
    };
    differ("amqps://u:${SECRET}@b/v", "scheme");
    differ("amqp://u:${SECRET}@b", "vhost");
    differ("amqp://w:${SECRET}@b/v", "user");
    differ("amqp://u:${TEN}@b/v", "password");
    sink("url: 'amqp://a', urls: ['amqp://b']", &["sinks.out.amqp.urls: there is both `url` and `urls`"]);
    sink("heartbeat: 5s", &["sinks.out.amqp: `url` is missing | `amqp://[user[:password]@]host"]);
    sink("urls: []", &["sinks.out.amqp.urls: expected a list, found an empty list"]);
    sink("url: 'amqp://a/'", &["sinks.out.amqp.url: the `/` at the end names a vhost without a name"]);
    sink("url: 'redis://a'", &["sinks.out.amqp.url: the URL does not begin with amqp:// or amqps://"]);
}

#[test]
fn a_login_is_whole_or_left_out() {
    for good in [
        "url: 'amqp://u:${SECRET}@r'",
        "url: 'amqp://u@r', password: '${SECRET}'",
        "url: 'amqp://r', username: u, password: '${SECRET}'",
        "url: 'amqps://r', tls: {}",
    ] {
        sink(good, &[]);
    }
    sink("url: 'amqp://u@r'", &["sinks.out.amqp.url: there is a user, but no password"]);
    sink("url: 'amqp://r', password: '${SECRET}'", &["sinks.out.amqp.url: there is a password, but no user"]);
    // A mistake in the URL is one mistake: the user is in it.
    sink(
        "url: 'amqp://guest@r/', password: '${SECRET}'",
        &["sinks.out.amqp.url: the `/` at the end names a vhost without a name"],
    );
    sink("url: 'amqp://u:geheim@r', username: v", &["sinks.out.amqp.url: the user is in the URL and in `username`"]);
    sink(
        "url: 'amqp://u:geheim@r', password: geheim",
        &["sinks.out.amqp.url: the password is in the URL and in a separate key"],
    );
    sink("url: 'amqp://u@r', password_file: gone", &["sinks.out.amqp.password_file: read `gone`: No such file"]);
    sink("url: 'amqp://r', tls: {}", &["sinks.out.amqp.tls: `tls` has no effect, because the URL is amqp://"]);
    sink("url: 'amqp://r', login: external", &["sinks.out.amqp.login: login external needs amqps://"]);
    sink("url: 'amqps://r', login: external", &["sinks.out.amqp.login: login external needs a client certificate"]);
    check_doubts(
        &file("url: 'amqp://u:geheim@r', exchange: x", ""),
        &["sinks.out.amqp.url: the URL holds a password in plain text"],
    );
    check_doubts(
        &file("url: 'amqp://r', username: u, password: geheim, exchange: x", ""),
        &["sinks.out.amqp.password: the password is in the file in plain text"],
    );
}

#[test]
fn a_client_certificate_can_be_the_login() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("cert.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    std::fs::write(path("key.pem"), "-----BEGIN PRIVATE KEY-----\n").unwrap();
    let tls = format!("tls: {{ cert_file: '{}', key_file: '{}' }}", path("cert.pem"), path("key.pem"));
    let external = spec(&format!("url: 'amqps://r', login: external, {tls}"));
    assert!(matches!(external.login, AmqpLogin::External), "{external:?}");
    assert!(external.tls.as_ref().is_some_and(|tls| tls.client.is_some()));
    sink(
        &format!("url: 'amqps://r', username: u, login: external, {tls}"),
        &["sinks.out.amqp.login: login external takes no user and no password"],
    );
}

#[test]
fn values_out_of_range_and_settings_that_lose_messages_are_reported() {
    let key = |key: &str, expected: &[&str]| sink(&format!("url: 'amqp://r', {key}"), expected);
    key("heartbeat: 1500ms", &["sinks.out.amqp.heartbeat: the broker takes seconds, up to 65535"]);
    key("heartbeat: 100ms", &["sinks.out.amqp.heartbeat: `100ms` is too short"]);
    key("max_unconfirmed: 0", &["sinks.out.amqp.max_unconfirmed: 0 is out of range"]);
    for size in ["4KiB", "17MiB"] {
        let refused =
            "sinks.out.amqp.frame_max: no broker and no client agree on frames of this size | write a size from";
        key(&format!("frame_max: {size}"), &[refused]);
    }
    key("mandatory: maybe", &["sinks.out.amqp.mandatory: `maybe` is neither true nor false"]);
    key("timeout: 24s", &["queues.mails.lease: the lease (30s) less its margin of a fifth is not longer"]);
    key("properties: {}", &["sinks.out.amqp.properties: unknown key"]);
    check_doubts(
        &file("url: 'amqp://r', exchange: x, mandatory: false, persistent: false", ""),
        &[
            "sinks.out.amqp.mandatory: messages that no queue takes are confirmed and lost",
            "sinks.out.amqp.persistent: messages are lost when the broker restarts",
        ],
    );
}

#[test]
fn what_is_declared_is_one_exchange_and_one_queue() {
    let declared = |keys: &str| spec(&format!("url: 'amqp://r', topology: declare, {keys}")).declare.clone().unwrap();
    let queue = |name: &str, arguments: Vec<(&str, AmqpArgument)>, binding_key: &str| {
        let arguments = arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Some(AmqpQueue { name: name.to_owned(), arguments, binding_key: binding_key.to_owned() })
    };
    let topology = |exchange: &str, kind: &str, queue| AmqpTopology {
        exchange: exchange.to_owned(),
        exchange_kind: kind.to_owned(),
        durable: true,
        queue,
    };
    let text = |text: &str| AmqpArgument::Text(text.to_owned());
    assert_eq!(declared("routing_key: k"), topology("x", "direct", None));
    assert_eq!(
        declared("routing_key: k, declare: { queue: { name: q, type: quorum } }"),
        topology("x", "direct", queue("q", vec![("x-queue-type", text("quorum"))], "k"))
    );
    assert_eq!(
        declared(
            "declare: { exchange: y, type: topic, queue: { name: q, binding_key: '#', arguments: { x-max-length: 5, x-overflow: reject-publish, x-single-active-consumer: true, x-delivery-limit: '${TEN}' } } }"
        ),
        topology(
            "y",
            "topic",
            queue(
                "q",
                vec![
                    ("x-max-length", AmqpArgument::Number(5)),
                    ("x-overflow", text("reject-publish")),
                    ("x-single-active-consumer", AmqpArgument::Flag(true)),
                    ("x-delivery-limit", AmqpArgument::Number(10)),
                ],
                "#"
            )
        )
    );
    assert_eq!(
        declared("declare: { type: fanout, queue: { name: q } }"),
        topology("x", "fanout", queue("q", vec![], ""))
    );
    let alone = file("url: 'amqp://r', routing_key: q, topology: declare, declare: { queue: { name: q } }", "");
    let text = describe(&load(&alone).unwrap().config);
    assert!(
        text.contains(
            "      topology: declare\n      declare:\n        durable: true\n        queue:\n          name: q\n"
        ),
        "{text}"
    );
}

#[test]
fn what_cannot_be_declared_is_refused_with_the_reason() {
    let declare = |keys: &str, expected: &[&str]| {
        check_words(&file(&format!("url: 'amqp://r', topology: declare, {keys}"), ""), expected)
    };
    declare(
        "exchange: 'x.${queue}'",
        &["sinks.out.amqp.exchange: an exchange that differs from element to element cannot be declared at connect"],
    );
    declare("exchange: 'x.${queue}', declare: { exchange: y }", &[]);
    declare(
        "exchange: x, declare: { exchange: 'y.${queue}' }",
        &["sinks.out.amqp.declare.exchange: `${queue}` is a template"],
    );
    declare("routing_key: q", &["sinks.out.amqp.declare: there is nothing to declare"]);
    declare("exchange: amq.topic", &["sinks.out.amqp.exchange: names that begin with `amq.` belong to the broker"]);
    declare(
        "exchange: x, declare: { type: fan }",
        &["sinks.out.amqp.declare.type: `fan` is no type of exchange | did you mean `fanout`?"],
    );
    declare("exchange: x, declare: { type: x-delayed-message }", &[]);
    declare(
        "exchange: x, declare: { queue: { name: q } }",
        &["sinks.out.amqp.declare.queue: `binding_key` is missing, and the sink names no fixed routing key"],
    );
    declare(
        "exchange: x, declare: { queue: { binding_key: k } }",
        &["sinks.out.amqp.declare.queue: `name` is missing"],
    );
    declare(
        "exchange: x, routing_key: k, declare: { durable: false, queue: { name: q, type: quorum } }",
        &["sinks.out.amqp.declare.queue: a quorum queue is always durable"],
    );
    declare(
        "exchange: x, routing_key: k, declare: { queue: { name: q, type: quorum, arguments: { x-queue-type: classic } } }",
        &["sinks.out.amqp.declare.queue.type: there is both `type` and `x-queue-type`"],
    );
    declare(
        "exchange: x, routing_key: k, declare: { queue: { name: q, arguments: { x-max-length: 1.5 } } }",
        &["sinks.out.amqp.declare.queue.arguments.x-max-length: the number is not whole"],
    );
    declare(
        "routing_key: q, declare: { queue: { name: q, binding_key: k } }",
        &["sinks.out.amqp.declare.queue.binding_key: every queue is bound to the default exchange by its name"],
    );
    sink(
        "url: 'amqp://r', declare: { type: topic }",
        &["sinks.out.amqp.declare: `declare` has no effect without `topology: declare`"],
    );
    let bounded = "url: 'amqp://r', topology: declare, exchange: x, routing_key: k, declare: { queue: { name: q, arguments: { x-max-length: 5 } } }";
    check_doubts(
        &file(bounded, ""),
        &["sinks.out.amqp.declare.queue.arguments: a full queue drops its oldest messages"],
    );
}

#[test]
fn a_route_names_its_exchange_or_the_sink_does() {
    let target = |sink: &str, route: &str| {
        let text = file(&format!("url: 'amqp://r'{sink}"), route);
        let config = load(&text).unwrap_or_else(|errors| panic!("{errors}")).config;
        let AmqpTarget { exchange, routing_key, properties, .. } = super::target(&config.queues[1].to[0]);
        let properties: Vec<_> =
            properties.iter().map(|(name, value)| format!(" {}={}", name.as_str(), value.source())).collect();
        format!("{}|{}{}", exchange.source(), routing_key.source(), properties.concat())
    };
    assert_eq!(target(", exchange: x", ""), "x|");
    assert_eq!(target(", exchange: x, routing_key: k", ", routing_key: '${payload.a}'"), "x|${payload.a}");
    assert_eq!(target(", exchange: x, routing_key: k", ", exchange: ''"), "|k");
    assert_eq!(target("", ", routing_key: q"), "|q");
    assert_eq!(
        target(
            ", exchange: x",
            ", properties: { type: due, priority: 5, expiration: '${payload.ttl}', content_type: text/plain }"
        ),
        "x| content_type=text/plain priority=5 expiration=${payload.ttl} type=due"
    );
    let none = "queues.mails.to[0]: no destination: sink `out` names no exchange and no routing key";
    route("heartbeat: 5s", "envelope: raw", &[none]);
    let nowhere = "the default exchange needs the name of a queue as its routing key";
    route("heartbeat: 5s", "exchange: ''", &[&format!("queues.mails.to[0].exchange: {nowhere}")]);
    route(
        "exchange: x",
        "exchange: '${ident}'",
        &["queues.mails.to[0].exchange: `${ident}` is no field of an element"],
    );
    route(
        "exchange: x",
        &format!("routing_key: {}", "k".repeat(256)),
        &["queues.mails.to[0].routing_key: the text is longer than 255 bytes"],
    );
    route("exchange: x", "topic: t", &["queues.mails.to[0].topic: `topic` means nothing to a sink of kind amqp"]);
    let property =
        |written: &str, expected: &[&str]| route("exchange: x", &format!("properties: {{ {written} }}"), expected);
    property("priority: 256", &["queues.mails.to[0].properties.priority: the priority is not a number from 0 to 255"]);
    property(
        "expiration: 1s",
        &["queues.mails.to[0].properties.expiration: the expiration is not a number of milliseconds"],
    );
    property("message_id: x", &["queues.mails.to[0].properties.message_id: unknown key"]);
    property("type: 5", &["queues.mails.to[0].properties.type: expected text, found a number"]);
    check_words(
        &GOOD.replace("sink: ready", "sink: ready\n        properties: { type: x }"),
        &["queues.orders.to[0].properties: `properties` means nothing to a sink of kind redis"],
    );
}

#[test]
fn headers_that_every_message_has_are_taken() {
    route(
        "exchange: x",
        "headers: { delaybridge-id: a }",
        &["queues.mails.to[0].headers.delaybridge-id: every message has `delaybridge-id` already"],
    );
    route(
        "exchange: x",
        &format!("headers: {{ {}: a }}", "h".repeat(256)),
        &[&format!("queues.mails.to[0].headers.{}: the header's name is longer than 255 bytes", "h".repeat(256))],
    );
    route(
        "exchange: x",
        "envelope: cloudevents, properties: { content_type: text/plain }",
        &["queues.mails.to[0].properties: envelope cloudevents has `content_type` already"],
    );
}
