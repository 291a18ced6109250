//! Kafka sinks and their destinations.
#![cfg(feature = "kafka")]

use super::*;
use delaybridge_sink_kafka::{KafkaSpec, KafkaTarget};

/// The good file with this Kafka sink and this route to it, each the inside of a `{ }`.
fn file(sink: &str, route: &str) -> String {
    GOOD.replace("stdout: {}", &format!("kafka: {{ {sink} }}"))
        .replace("- sink: out", &format!("- {{ sink: out{route} }}"))
}

/// A sink in the good file, with its topic, and the problems that it has.
#[track_caller]
fn sink(keys: &str, expected: &[&str]) {
    check_words(&file(&format!("topic: t, {keys}"), ""), expected);
}

#[track_caller]
fn route(sink: &str, route: &str, expected: &[&str]) {
    check_words(&file(&format!("brokers: [k], {sink}"), &format!(", {route}")), expected);
}

fn spec(config: &Config) -> &KafkaSpec {
    let connector: &dyn std::any::Any = &*config.sinks[0].connector;
    connector.downcast_ref::<KafkaSpec>().expect("a Kafka sink")
}

#[test]
fn what_is_left_out_of_a_kafka_sink_has_the_documented_default() {
    let Loaded { config, warnings, .. } = load(&file("brokers: [k0, 'k1:9093'], topic: t", "")).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let text = describe(&config);
    for part in [
        "    kafka:\n      brokers: [k0:9092, k1:9093]\n      client_id: delaybridge\n      compression: none\n      linger: 1ms\n",
        "      batch_size: 1MB\n      max_message_size: 1MB\n      timeout: 15s\n      max_rate: none\n",
        "      - sink: out\n        topic: t\n        envelope: raw\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn brokers_are_addresses() {
    let brokers = |written: &str| {
        let loaded = load(&file(&format!("brokers: {written}, topic: t"), "")).unwrap();
        spec(&loaded.config).brokers.join(" ")
    };
    assert_eq!(brokers("['[::1]', '[fe80::1]:1', '${HOST}']"), "[::1]:9092 [fe80::1]:1 redis-0:9092");
    assert_eq!(brokers("['a, b:2,${HOST}:3']"), "a:9092 b:2 redis-0:3");
    sink("client_id: x", &["sinks.out.kafka: `brokers` is missing | `host:port` of some brokers"]);
    sink("brokers: k:9092", &["sinks.out.kafka.brokers: expected a list, found text | each item starts with `- `"]);
    sink("brokers: []", &["sinks.out.kafka.brokers: expected a list, found an empty list"]);
    sink("brokers: [5]", &["sinks.out.kafka.brokers[0]: expected text, found a number"]);
    sink("brokers: ['']", &["sinks.out.kafka.brokers[0]: the text is empty"]);
    let bad = |broker: &str, problem: &str| {
        let expected = format!("sinks.out.kafka.brokers[0]: {problem}");
        sink(&format!("brokers: ['{broker}']"), &[&expected]);
    };
    bad("k:0", "the port is not a number from 1 to 65535 | write `kafka-0:9092`");
    bad("k:x", "the port is not a number");
    bad("a,,b", "no host is named");
    bad("::1", "an IPv6 address needs brackets");
    bad("u:geheim@k:9092", "a broker is `host:port`, without a protocol, user or path");
    bad("PLAINTEXT://k:9092", "a broker is `host:port`, without a protocol, user or path");
    bad("k 0:9092", "the host has a space in it");
}

#[test]
fn a_login_has_a_mechanism_a_user_and_a_password() {
    let sasl = |keys: &str, expected: &[&str]| sink(&format!("brokers: [k], sasl: {{ {keys} }}"), expected);
    const LOGIN: &str = "username: u, password: '${SECRET}'";
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] {
        let text = file(&format!("brokers: [k], topic: t, tls: {{}}, sasl: {{ mechanism: {mechanism}, {LOGIN} }}"), "");
        let Loaded { config, warnings, .. } = load(&text).unwrap();
        assert_eq!(lines(&warnings), [""; 0]);
        assert_eq!(spec(&config).sasl.as_ref().map(|login| login.mechanism.as_str()), Some(mechanism));
        assert!(
            spec(&config).tls.as_ref().is_some_and(|tls| tls.files.ca_file.is_none() && tls.files.client.is_none())
        );
        let shown =
            format!("      sasl:\n        mechanism: {mechanism}\n        username: u\n        password: (hidden)\n");
        assert!(describe(&config).contains(&shown), "{}", describe(&config));
        assert!(describe(&config).contains("      tls:\n        ca_file: (the system's)\n"), "{}", describe(&config));
    }
    sasl(
        "mechanism: SCRAM-SHA-512, username: u",
        &["sinks.out.kafka.sasl: there is a login, but no password | write `password_file: PATH`"],
    );
    sasl(LOGIN, &["sinks.out.kafka.sasl: `mechanism` is missing"]);
    sasl("mechanism: PLAIN, password: '${SECRET}'", &["sinks.out.kafka.sasl: `username` is missing"]);
    sasl(
        &format!("mechanism: GSSAPI, {LOGIN}"),
        &["sinks.out.kafka.sasl.mechanism: `GSSAPI` is not available in this version"],
    );
    sasl(
        &format!("mechanism: SCRAM-SHA-1, {LOGIN}"),
        &["sinks.out.kafka.sasl.mechanism: `SCRAM-SHA-1` is not known here | did you mean `SCRAM-SHA-"],
    );
    sasl(
        "mechanism: PLAIN, username: u, password_file: gone",
        &["sinks.out.kafka.sasl.password_file: read `gone`: No such file"],
    );
    check_doubts(
        &file(&format!("brokers: [k], topic: t, sasl: {{ mechanism: PLAIN, {LOGIN} }}"), ""),
        &["sinks.out.kafka.sasl: mechanism PLAIN without `tls` shows the password to the network"],
    );
    check_doubts(
        &file("brokers: [k], topic: t, sasl: { mechanism: SCRAM-SHA-256, username: u, password: geheim }", ""),
        &["sinks.out.kafka.sasl.password: the password is in the file in plain text"],
    );
}

#[test]
fn tokens_have_a_source_and_no_user() {
    let oidc = |keys: &str, expected: &[&str]| {
        sink(&format!("brokers: [k], tls: {{}}, sasl: {{ mechanism: OAUTHBEARER, oidc: {{ {keys} }} }}"), expected);
    };
    const CLIENT: &str = "token_url: 'https://idp/oauth2/token', client_id: me";
    let text = file(
        &format!(
            "brokers: [k], topic: t, tls: {{}}, sasl: {{ mechanism: OAUTHBEARER, oidc: {{ {CLIENT}, client_secret: '${{SECRET}}', \
             scope: a b, audience: kafka }} }}"
        ),
        "",
    );
    let Loaded { config, warnings, .. } = load(&text).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let shown = "      sasl:\n        mechanism: OAUTHBEARER\n        oidc:\n          token_url: https://idp/oauth2/token\n          \
                 client_id: me\n          client_secret: (hidden)\n          scope: a b\n          audience: kafka\n";
    assert!(describe(&config).contains(shown), "{}", describe(&config));
    oidc(CLIENT, &["sinks.out.kafka.sasl.oidc: the client has no secret | write `client_secret_file: PATH`"]);
    oidc(
        "token_url: 'https://idp/t', client_secret: '${SECRET}'",
        &["sinks.out.kafka.sasl.oidc: `client_id` is missing"],
    );
    oidc(
        "scope: a",
        &[
            "sinks.out.kafka.sasl.oidc: there is neither `token_url` nor `token_file`",
            "sinks.out.kafka.sasl.oidc.scope: `scope` is there, and no token is asked for without `token_url`",
        ],
    );
    oidc(
        "token_url: 'idp/t', client_id: me, client_secret: '${SECRET}'",
        &["sinks.out.kafka.sasl.oidc.token_url: the URL has no scheme"],
    );
    oidc(
        "token_url: 'https://u:geheim@idp/t', client_id: me, client_secret: '${SECRET}'",
        &["sinks.out.kafka.sasl.oidc.token_url: the URL has a user or a password"],
    );
    sink(
        "brokers: [k], tls: {}, sasl: { mechanism: OAUTHBEARER, username: u }",
        &[
            "sinks.out.kafka.sasl: OAUTHBEARER has no source of tokens",
            "sinks.out.kafka.sasl.username: `username` is there, and OAUTHBEARER logs in with a token",
        ],
    );
    sink(
        &format!(
            "brokers: [k], tls: {{}}, sasl: {{ mechanism: PLAIN, username: u, password: '${{SECRET}}', oidc: {{ {CLIENT} }} }}"
        ),
        &["sinks.out.kafka.sasl.oidc: `oidc` is there, and the mechanism has a password"],
    );
    check_doubts(
        &file(
            "brokers: [k], topic: t, sasl: { mechanism: OAUTHBEARER, oidc: { token_url: 'http://idp/t', client_id: me, client_secret: geheim } }",
            "",
        ),
        &[
            "sinks.out.kafka.sasl: mechanism OAUTHBEARER without `tls` shows the token to the network",
            "sinks.out.kafka.sasl.oidc.token_url: without `https://` the network sees the client's proof, and the tokens",
            "sinks.out.kafka.sasl.oidc.client_secret: the client secret is in the file in plain text",
        ],
    );
}

#[test]
fn tokens_of_aws_have_a_region() {
    let iam = |keys: &str, expected: &[&str]| {
        sink(&format!("brokers: [k], tls: {{}}, sasl: {{ mechanism: OAUTHBEARER, {keys} }}"), expected);
    };
    let keys = "aws_msk_iam: { region: eu-west-1, role_arn: 'arn:aws:iam::1:role/r', profile: p }";
    let text = file(&format!("brokers: [k], topic: t, tls: {{}}, sasl: {{ mechanism: OAUTHBEARER, {keys} }}"), "");
    let Loaded { config, warnings, .. } = load(&text).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let shown = "      sasl:\n        mechanism: OAUTHBEARER\n        aws_msk_iam:\n          region: eu-west-1\n          \
                 role_arn: arn:aws:iam::1:role/r\n          profile: p\n";
    assert!(describe(&config).contains(shown), "{}", describe(&config));
    let at = "sinks.out.kafka.sasl.aws_msk_iam";
    iam("aws_msk_iam: { profile: p }", &[&format!("{at}: `region` is missing")]);
    iam("aws_msk_iam: { region: europe }", &[&format!("{at}.region: it is no region of AWS")]);
    iam("aws_msk_iam: { region: eu-west-1, role_arn: me }", &[&format!("{at}.role_arn: it is no ARN")]);
    let both = "aws_msk_iam: { region: eu-west-1 }, oidc: { token_url: 'https://i/t', client_id: c, client_secret: '${SECRET}' }";
    iam(both, &[&format!("{at}: there are two sources of tokens")]);
}

#[test]
fn values_that_the_client_would_refuse_are_refused_with_their_place() {
    let key = |key: &str, expected: &[&str]| sink(&format!("brokers: [k], {key}"), expected);
    for good in ["linger: 0s", "compression: zstd", "max_message_size: 1kB", "batch_size: 1B", "timeout: 23s"] {
        key(good, &[]);
    }
    key("compression: lz5", &["sinks.out.kafka.compression: `lz5` is not known here | did you mean `lz4`?"]);
    key("max_message_size: 999B", &["sinks.out.kafka.max_message_size: 999B is out of range | write a size from"]);
    key("batch_size: 2GiB", &["sinks.out.kafka.batch_size: 2GiB is out of range"]);
    key("timeout: 500ms", &["sinks.out.kafka.timeout: `500ms` is too short | the shortest is 1s"]);
    key("timeout: 24s", &["queues.mails.lease: the lease (30s) less its margin of a fifth is not longer"]);
    key("linger: 8s", &["sinks.out: linger (8s) is more than half of the time-out of the sink (15s)"]);
    key("acks: 1", &["sinks.out.kafka.acks: unknown key"]);
}

#[test]
fn the_time_out_follows_the_shortest_lease() {
    let timeout = |from: &str, to: &str| {
        let text = file("brokers: [k], topic: t", "").replace(from, to);
        load(&text).map(|loaded| loaded.config.sinks[0].timeout.as_millis()).map_err(|errors| lines(&errors.problems))
    };
    assert_eq!(timeout("codec: json", "codec: json"), Ok(15_000));
    assert_eq!(timeout("codec: json", "lease: 20s"), Ok(10_000));
    assert_eq!(timeout("codec: json", "lease: 1h"), Ok(30_000));
    // The other queue's counts where it uses the sink as well.
    assert_eq!(timeout("sink: ready\n  mails:", "sink: out\n    lease: 14s\n  mails:"), Ok(7_000));
    let short = timeout("codec: json", "lease: 1s").unwrap_err();
    assert_eq!(
        short,
        [
            "15:12 queues.mails.lease: the lease (1s) is too short for Kafka: half of it is the time-out of sink `out`, which is 1s at least | write `lease: 2s` or more, or `timeout: 1s` on the sink"
        ]
    );
}

#[test]
fn properties_go_through_unless_they_do_harm() {
    let text = file(
        "brokers: [k], topic: t, properties: { socket.keepalive.enable: true, statistics.interval.ms: 0, ssl.key.password: '${SECRET}' }",
        "",
    );
    let config = load(&text).unwrap().config;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        spec(&config).properties,
        [
            pair("socket.keepalive.enable", "true"),
            pair("statistics.interval.ms", "0"),
            pair("ssl.key.password", "geheim")
        ]
    );
    let shown = "      properties:\n        socket.keepalive.enable: true\n        statistics.interval.ms: 0\n        ssl.key.password: (set)\n";
    assert!(describe(&config).contains(shown), "{}", describe(&config));

    let refused = |name: &str, value: &str, says: &str| {
        let place = format!("sinks.out.kafka.properties.{name}: ");
        let errors =
            load(&file(&format!("brokers: [k], topic: t, properties: {{ {name}: {value} }}"), "")).unwrap_err();
        let got = lines(&errors.problems);
        assert!(got.len() == 1 && got[0].contains(&place) && got[0].contains(says), "{name}: {got:?} not {says}");
    };
    for (name, says) in [
        ("enable.idempotence", "elements would be lost, or written twice"),
        ("acks", "elements would be lost"),
        ("request.required.acks", "elements would be lost"),
        ("max.in.flight", "elements would be lost"),
        ("max.in.flight.requests.per.connection", "elements would be lost"),
        ("retries", "would give up early"),
        ("message.send.max.retries", "would give up early"),
        ("queuing.strategy", "would give up early"),
        ("message.timeout.ms", "verdict before the element's lease ends | write `timeout` on the sink"),
        ("delivery.timeout.ms", "verdict before the element's lease ends"),
        ("enable.gapless.guarantee", "would end the whole producer"),
        ("transactional.id", "transactions are not available"),
        ("transaction.timeout.ms", "transactions are not available"),
        ("partitioner", "where a Java producer puts it"),
        ("delivery.report.only.error", "settled by its delivery report"),
        ("dr_msg_cb", "settled by its delivery report"),
        ("log_cb", "loads code"),
        ("plugin.library.paths", "loads code"),
        ("ssl.engine.location", "loads code"),
        ("sasl.kerberos.kinit.cmd", "the mechanism that it belongs to is not available"),
        ("sasl.oauthbearer.config", "the mechanism that it belongs to is not available"),
        ("test.mock.num.brokers", "a mock inside the daemon"),
        ("enable.ssl.certificate.verification", "impersonate a broker"),
        ("group.id", "a setting of consumers"),
        ("auto.offset.reset", "a setting of consumers"),
        ("builtin.features", "only reports"),
        ("bootstrap.servers", "has a key of its own here | write `brokers` on the sink"),
        ("metadata.broker.list", "write `brokers`"),
        ("client.id", "write `client_id`"),
        ("security.protocol", "write `tls`"),
        ("ssl.ca.location", "write `tls.ca_file`"),
        ("ssl.certificate.location", "write `tls.cert_file`"),
        ("ssl.key.location", "write `tls.key_file`"),
        ("sasl.mechanism", "write `sasl.mechanism`"),
        ("sasl.mechanisms", "write `sasl.mechanism`"),
        ("sasl.username", "write `sasl.username`"),
        ("sasl.password", "write `sasl.password_file`"),
        ("compression.type", "write `compression`"),
        ("compression.codec", "write `compression`"),
        ("linger.ms", "write `linger`"),
        ("queue.buffering.max.ms", "write `linger`"),
        ("batch.size", "write `batch_size`"),
        ("message.max.bytes", "write `max_message_size`"),
    ] {
        refused(name, "geheim", says);
    }
    refused("enable.ssl.certificate.verification", "false", "impersonate a broker");
    sink("brokers: [k], properties: { enable.ssl.certificate.verification: true }", &[]);
    sink("brokers: [k], properties: [a]", &["sinks.out.kafka.properties: expected names with values, found a list"]);
    check_doubts(
        &file("brokers: [k], topic: t, properties: { ssl.key.password: geheim }", ""),
        &["sinks.out.kafka.properties.ssl.key.password: a secret is in the file in plain text"],
    );
}

#[test]
fn no_spelling_evades_the_list_of_refused_properties() {
    let properties = |written: &str, expected: &[&str]| {
        sink(&format!("brokers: [k], properties: {{ {written} }}"), expected);
    };
    const PLACE: &str = "sinks.out.kafka.properties.";
    for (name, says) in [
        ("topic.acks", "`topic.acks` is refused: elements would be lost"),
        ("topic.request.required.acks", "`topic.request.required.acks` is refused: elements would be lost"),
        ("topic.topic.acks", "`topic.topic.acks` is refused: elements would be lost"),
        ("topic.message.timeout.ms", "`topic.message.timeout.ms` is refused: a record must have its verdict"),
        ("topic.partitioner", "`topic.partitioner` is refused"),
        ("topic.compression.codec", "`topic.compression.codec` has a key of its own here | write `compression`"),
        ("topic.test.mock.num.brokers", "`topic.test.mock.num.brokers` is refused"),
    ] {
        properties(&format!("{name}: 1"), &[&format!("{PLACE}{name}: {says}")]);
    }
    // Names of their own, and a name under which a property of topics is known as well.
    properties("topic.metadata.refresh.sparse: false", &[]);
    properties("topic.blacklist: x", &[]);
    properties("topic.request.timeout.ms: 5000", &[]);
    properties(
        "request.timeout.ms: 5000, topic.request.timeout.ms: 6000",
        &[&format!("{PLACE}topic.request.timeout.ms: `request.timeout.ms` is there twice | keep one")],
    );
    let text = file("brokers: [k], topic: t, properties: { topic.request.timeout.ms: 5000 }", "");
    let config = load(&text).unwrap().config;
    assert_eq!(spec(&config).properties, [("request.timeout.ms".to_owned(), "5000".to_owned())]);
}

#[test]
fn names_in_certificates_count_unless_the_user_says_otherwise_by_the_key_for_it() {
    const NAME: &str = "ssl.endpoint.identification.algorithm";
    let own = format!(
        "sinks.out.kafka.properties.{NAME}: `{NAME}` has a key of its own here | write `tls: {{ verify_hostname: false }}`"
    );
    let property = |value: &str, tls: &str| {
        let keys = format!("brokers: [k], topic: t, tls: {{ {tls} }}, properties: {{ {NAME}: {value} }}");
        load(&file(&keys, "")).map(|loaded| lines(&loaded.warnings)).map_err(|errors| lines(&errors.problems))
    };
    for value in ["none", "None", "NONE", "''", "'none '", "false"] {
        let problems = property(value, "").unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(&own), "{value}: {problems:?}");
    }
    assert_eq!(property("https", ""), Ok(Vec::new()));
    let warnings = property("none", "verify_hostname: false").unwrap();
    assert!(
        warnings.len() == 1
            && warnings[0].contains("tls.verify_hostname: the name in the brokers' certificates is not checked")
    );
    let problems = property("https", "verify_hostname: false").unwrap_err();
    assert!(problems.len() == 1 && problems[0].contains(NAME), "{problems:?}");
    let loaded = load(&file("brokers: [k], topic: t, tls: { verify_hostname: false }", "")).unwrap();
    assert!(spec(&loaded.config).tls.as_ref().is_some_and(|tls| !tls.verify_hostname));
    assert!(describe(&loaded.config).contains("        verify_hostname: false\n"), "{}", describe(&loaded.config));
}

#[test]
fn a_route_names_its_topic_or_the_sink_does() {
    let target = |sink: &str, route: &str| {
        let config =
            load(&file(&format!("brokers: [k], {sink}"), route)).unwrap_or_else(|errors| panic!("{errors}")).config;
        let KafkaTarget { topic, key, .. } = super::target(&config.queues[1].to[0]);
        format!("{} {:?}", topic.source(), key.as_ref().map(|key| key.source()))
    };
    assert_eq!(target("topic: t", ""), "t None");
    assert_eq!(target("topic: t, key: '${id}'", ", topic: u"), r#"u Some("${id}")"#);
    assert_eq!(target("topic: t, key: '${id}'", ", key: k"), r#"t Some("k")"#);
    assert_eq!(target("linger: 0s", ", topic: '${queue}.${payload.a}'"), "${queue}.${payload.a} None");

    route("linger: 0s", "envelope: raw", &["queues.mails.to[0]: no destination: sink `out` names no topic"]);
    route("topic: t", "topic: 'a b'", &["queues.mails.to[0].topic: the topic's name has characters"]);
    route("topic: t", "topic: ..", &["queues.mails.to[0].topic: `.` and `..` are no names of topics"]);
    route(
        "topic: t",
        &format!("topic: {}", "x".repeat(250)),
        &["queues.mails.to[0].topic: the topic's name is longer"],
    );
    route("topic: t", "topic: '${ident}'", &["queues.mails.to[0].topic: `${ident}` is no field"]);
    route("topic: t", "list: l", &["queues.mails.to[0].list: `list` means nothing to a sink of kind kafka"]);
    check_words(
        &GOOD.replace("sink: ready", "sink: ready\n        topic: x"),
        &[
            "queues.orders.to[0].topic: `topic` means nothing to a sink of kind redis | remove it, or name a sink of kind kafka",
        ],
    );
    let raw = file("brokers: [k], topic: t, key: '${payload.a}'", "").replace("codec: json", "codec: raw");
    check_words(&raw, &["sinks.out.kafka.key: the template asks for the payload, and codec raw does not look"]);
}

#[test]
fn headers_that_every_record_has_are_taken() {
    let headers = |headers: &str, expected: &[&str]| route("topic: t", &format!("headers: {{ {headers} }}"), expected);
    headers("tenant: a, content-type: b, id: c, ce_id: d", &[]);
    headers(
        "delaybridge-id: a",
        &["queues.mails.to[0].headers.delaybridge-id: every record has `delaybridge-id` already"],
    );
    headers("'': a", &["queues.mails.to[0].headers.: the header's name is empty"]);
    route(
        "topic: t",
        "envelope: cloudevents, headers: { ce_id: a, Content-Type: b, other: c }",
        &[
            "queues.mails.to[0].headers.ce_id: envelope cloudevents has `ce_id` already",
            "queues.mails.to[0].headers.Content-Type: envelope cloudevents has `Content-Type` already",
        ],
    );
}
