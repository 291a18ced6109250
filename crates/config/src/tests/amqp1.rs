//! AMQP 1.0 sinks: URL, login, and addresses as destinations.
#![cfg(feature = "amqp1")]

use super::*;
use delaybridge_sink_amqp1::{Amqp1Login, Amqp1Spec, Amqp1Target};

/// A file whose queue `mails` goes to an AMQP 1.0 sink with these keys.
fn file(sink: &str, route: &str) -> String {
    GOOD.replace("stdout: {}", &format!("amqp1: {{ {sink} }}"))
        .replace("      - sink: out", &format!("      - {{ sink: out{route} }}"))
}

fn spec(sink: &str) -> Amqp1Spec {
    let config = load(&file(&format!("{sink}, address: a"), "")).unwrap().config;
    let spec = config.sinks.iter().find(|sink| &*sink.name == "out").unwrap();
    let settings: &dyn std::any::Any = &*spec.connector;
    settings.downcast_ref::<Amqp1Spec>().unwrap().clone()
}

fn sink(sink: &str, expected: &[&str]) {
    check_words(&file(&format!("{sink}, address: a"), ""), expected);
}

#[test]
fn what_is_left_out_of_an_amqp1_sink_has_the_documented_default() {
    let Loaded { config, warnings, .. } = load(&file("url: 'amqp://b', address: orders", "")).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let shown = describe(&config);
    let expected = "    amqp1:\n      url: amqp://b:5672\n      login: anonymous\n      connect_timeout: 5s\n      \
                    heartbeat: 10s\n      max_unconfirmed: 1000\n      max_links: 32\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn a_url_is_a_server_without_login_and_path() {
    assert_eq!(spec("url: 'amqp://[::1]:7/'").shown_address(), "[::1]:7");
    let encrypted = spec("url: 'amqps://b'");
    assert!(encrypted.tls.is_some() && encrypted.shown_address() == "b:5671");
    sink("heartbeat: 5s", &["sinks.out.amqp1: `url` is missing"]);
    sink("url: 'b:5672'", &["sinks.out.amqp1.url: the URL does not begin with amqp:// or amqps://"]);
    sink("url: 'amqp://u:geheim@b'", &["sinks.out.amqp1.url: the URL has a login: that has keys of its own"]);
    sink("url: 'amqp://b/shop'", &["sinks.out.amqp1.url: the URL has a path"]);
    sink("url: 'amqp://b', tls: {}", &["sinks.out.amqp1.tls: `tls` has no effect, because the URL is amqp://"]);
}

#[test]
fn a_login_is_that_of_a_user_a_certificate_or_none() {
    let user = "url: 'amqps://b', username: u, password: '${SECRET}'";
    assert!(matches!(spec(user).login, Amqp1Login::Plain { .. }));
    assert!(matches!(spec("url: 'amqp://b', login: anonymous").login, Amqp1Login::Anonymous));
    sink("url: 'amqp://b', username: u", &["sinks.out.amqp1.username: there is a user, but no password"]);
    sink("url: 'amqp://b', password: '${SECRET}'", &["sinks.out.amqp1: there is a password, but no user"]);
    sink("url: 'amqp://b', login: plain", &["sinks.out.amqp1.login: login plain needs a user and a password"]);
    sink(
        "url: 'amqps://b', login: anonymous, username: u, password: '${SECRET}'",
        &["sinks.out.amqp1.login: this login takes no user and no password"],
    );
    sink("url: 'amqps://b', login: external", &["sinks.out.amqp1.login: login external needs a client certificate"]);
    check_doubts(
        &file("url: 'amqp://b', username: u, password: '${SECRET}', address: a", ""),
        &["sinks.out.amqp1.username: without TLS the network sees the password"],
    );
}

#[test]
fn a_route_has_an_address_of_its_own_or_that_of_its_sink() {
    let route = |sink: &str, route: &str, expected: &[&str]| {
        check_words(&file(&format!("url: 'amqp://b'{sink}"), route), expected);
    };
    route("", "", &["queues.mails.to[0]: no destination: sink `out` names no address"]);
    route("", ", address: $management", &["queues.mails.to[0].address: the address belongs to the broker"]);
    route(", address: a", ", topic: t", &["queues.mails.to[0].topic: `topic` means nothing to a sink of kind amqp1"]);
    let header = "queues.mails.to[0].headers.delaybridge-id: every message has `delaybridge-id` already";
    route(", address: a", ", headers: { delaybridge-id: x }", &[header]);
    let config = load(&file("url: 'amqp://b', address: a", ", address: '/queue/${payload.region}'")).unwrap().config;
    let mails = config.queues.iter().find(|queue| &*queue.id == "mails").unwrap();
    let target: &dyn std::any::Any = &*mails.to[0].target;
    assert_eq!(target.downcast_ref::<Amqp1Target>().unwrap().address.source(), "/queue/${payload.region}");
}
