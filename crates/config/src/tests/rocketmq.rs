//! RocketMQ sinks: name servers, access keys, and topics as destinations.
#![cfg(feature = "rocketmq")]

use super::*;
use delaybridge_sink_rocketmq::{RocketMqSpec, RocketMqTarget, SlaveNotAvailable};

/// A file whose queue `mails` goes to a RocketMQ sink with these keys.
fn file(sink: &str, route: &str) -> String {
    GOOD.replace("stdout: {}", &format!("rocketmq: {{ {sink} }}"))
        .replace("      - sink: out", &format!("      - {{ sink: out{route} }}"))
}

fn spec(sink: &str) -> RocketMqSpec {
    let config = load(&file(&format!("{sink}, topic: t"), "")).unwrap().config;
    let spec = config.sinks.iter().find(|sink| &*sink.name == "out").unwrap();
    let settings: &dyn std::any::Any = &*spec.connector;
    settings.downcast_ref::<RocketMqSpec>().unwrap().clone()
}

fn sink(sink: &str, expected: &[&str]) {
    check_words(&file(&format!("{sink}, topic: t"), ""), expected);
}

#[test]
fn what_is_left_out_of_a_rocketmq_sink_has_the_documented_default() {
    let Loaded { config, warnings, .. } = load(&file("name_servers: [n], topic: orders", "")).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let shown = describe(&config);
    let expected = "    rocketmq:\n      name_servers: [n:9876]\n      group: delaybridge\n      slave_not_available: retry\n      \
                    connect_timeout: 5s\n      heartbeat: 10s\n      max_unconfirmed: 2000\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn name_servers_are_addresses() {
    let read = spec("name_servers: ['a; b:1', '[::1]:7'], slave_not_available: accept");
    let servers: Vec<_> = read.name_servers.iter().map(|(host, port)| format!("{host} {port}")).collect();
    assert_eq!(servers, ["a 9876", "b 1", "::1 7"]);
    assert_eq!(read.slave_not_available, SlaveNotAvailable::Accept);
    sink("group: g", &["sinks.out.rocketmq: `name_servers` is missing"]);
    sink("name_servers: ['http://a']", &["sinks.out.rocketmq.name_servers[0]: a name server is `host:port`, without"]);
    sink("name_servers: ['u:geheim@a']", &["sinks.out.rocketmq.name_servers[0]: a name server has no login"]);
    sink("name_servers: [a], group: 'a b'", &["sinks.out.rocketmq.group: a group has letters"]);
    sink("name_servers: [a], slave_not_available: maybe", &["sinks.out.rocketmq.slave_not_available: "]);
}

#[test]
fn an_access_key_has_a_secret_that_is_not_shown() {
    let login = "name_servers: [a], access_key: k, secret_key: '${SECRET}', topic: t";
    let shown = describe(&load(&file(login, "")).unwrap().config);
    assert!(shown.contains("      access_key: k\n      secret_key: (hidden)\n"), "{shown}");
    sink("name_servers: [a], access_key: k", &["sinks.out.rocketmq.access_key: there is an access key, but no secret"]);
    sink("name_servers: [a], secret_key: '${SECRET}'", &["sinks.out.rocketmq: there is a secret, but no access key"]);
    let gone = "sinks.out.rocketmq.secret_key_file: read `gone`: No such file";
    sink("name_servers: [a], access_key: k, secret_key_file: gone", &[gone]);
}

#[test]
fn a_route_has_a_topic_of_its_own_or_that_of_its_sink() {
    let route = |sink: &str, route: &str, expected: &[&str]| {
        check_words(&file(&format!("name_servers: [a]{sink}"), route), expected);
    };
    route("", "", &["queues.mails.to[0]: no destination: sink `out` names no topic"]);
    route("", ", topic: 'a.b'", &["queues.mails.to[0].topic: the topic's name has characters that it cannot have"]);
    route("", ", topic: SCHEDULE_TOPIC_XXXX", &["queues.mails.to[0].topic: the topic belongs to the broker"]);
    route(", topic: t", ", key: k", &["queues.mails.to[0].key: `key` means nothing to a sink of kind rocketmq"]);
    let header = "queues.mails.to[0].headers.DELAY: RocketMQ has `DELAY` already";
    route(", topic: t", ", headers: { DELAY: '3' }", &[header]);
    let keys = ", topic: 'o-${payload.region}', sharding_key: '${payload.customer}'";
    let config = load(&file("name_servers: [a], topic: s, tags: paid", keys)).unwrap().config;
    let mails = config.queues.iter().find(|queue| &*queue.id == "mails").unwrap();
    let target: &dyn std::any::Any = &*mails.to[0].target;
    let target = target.downcast_ref::<RocketMqTarget>().unwrap();
    let shown = [Some(&target.topic), target.tags.as_ref(), target.sharding_key.as_ref(), target.keys.as_ref()];
    let expected = [Some("o-${payload.region}"), Some("paid"), Some("${payload.customer}"), None];
    assert_eq!(shown.map(|template| template.map(|template| template.source())), expected);
}

#[test]
fn an_order_by_key_has_the_sharding_key_as_its_key() {
    let ordered =
        |route: &str| file("name_servers: [a], topic: s", route).replace("codec: json", "codec: json\n    order: key");
    let keyed = ordered(", sharding_key: '${payload.customer}'");
    load(&keyed).unwrap_or_else(|errors| panic!("{errors}"));
    check_words(&ordered(""), &["queues.mails.order: `order: key` needs a key, and the messages have none"]);
}
