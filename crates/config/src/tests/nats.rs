//! NATS sinks: servers, logins, and subjects as destinations.
#![cfg(feature = "nats")]

use super::*;
use delaybridge_sink_nats::{NatsLogin, NatsSpec, NatsTarget};

/// A file whose queue `mails` goes to a NATS sink with these keys.
fn file(sink: &str, route: &str) -> String {
    GOOD.replace("stdout: {}", &format!("nats: {{ {sink} }}"))
        .replace("      - sink: out", &format!("      - {{ sink: out{route} }}"))
}

fn spec(sink: &str) -> NatsSpec {
    let config = load(&file(&format!("{sink}, subject: s"), "")).unwrap().config;
    let spec = config.sinks.iter().find(|sink| &*sink.name == "out").unwrap();
    let settings: &dyn std::any::Any = &*spec.connector;
    settings.downcast_ref::<NatsSpec>().unwrap().clone()
}

fn sink(sink: &str, expected: &[&str]) {
    check_words(&file(&format!("{sink}, subject: s"), ""), expected);
}

#[test]
fn what_is_left_out_of_a_nats_sink_has_the_documented_default() {
    let Loaded { config, warnings, .. } = load(&file("servers: [n], subject: orders", "")).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let shown = describe(&config);
    let expected = "    nats:\n      servers: [n:4222]\n      inbox_prefix: _INBOX\n      connect_timeout: 5s\n      \
                    ping_interval: 5s\n      max_unconfirmed: 1000\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn servers_are_addresses_without_a_login() {
    let read = spec("servers: ['a, nats://b:1', '[::1]:7']");
    assert_eq!(read.addresses(), ["a:4222", "b:1", "[::1]:7"]);
    sink("ping_interval: 1s", &["sinks.out.nats: `servers` is missing"]);
    sink("servers: ['nats://u:geheim@a']", &["sinks.out.nats.servers[0]: a server has no login"]);
    sink("servers: ['tls://a']", &["sinks.out.nats.servers[0]: a server is `host:port`; TLS has a key of its own"]);
    sink("servers: ['a/b']", &["sinks.out.nats.servers[0]: a server is `host:port`, without a path"]);
    sink("servers: [a], inbox_prefix: 'a.*'", &["sinks.out.nats.inbox_prefix: it is no subject without wildcards"]);
}

#[test]
fn a_login_is_one_of_three() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("user.nk");
    std::fs::write(&path, "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n").unwrap();
    std::os::unix::fs::PermissionsExt::set_mode(&mut path.metadata().unwrap().permissions(), 0o600);
    let key = format!("servers: [a], nkey_file: {}", path.display());
    assert!(matches!(spec(&key).login, NatsLogin::Key(_)));
    let user = "servers: [a], tls: {}, username: u, password: '${SECRET}'";
    assert!(matches!(spec(user).login, NatsLogin::User { .. }));
    sink(&format!("{key}, username: u, password: '${{SECRET}}'"), &["sinks.out.nats: there are several logins"]);
    sink("servers: [a], username: u", &["sinks.out.nats.username: there is a user, but no password"]);
    sink("servers: [a], password: '${SECRET}'", &["sinks.out.nats: there is a password, but no user"]);
    sink("servers: [a], nkey_file: gone", &["sinks.out.nats.nkey_file: read `gone`: No such file"]);
    let credentials = format!("servers: [a], credentials_file: {}", path.display());
    sink(
        &credentials,
        &["sinks.out.nats.credentials_file: the file cannot be used: it has no section `NATS USER JWT`"],
    );
    check_doubts(
        &file("servers: [a], username: u, password: '${SECRET}', subject: s", ""),
        &["sinks.out.nats.username: without `tls` the network sees the password"],
    );
}

#[test]
fn a_route_has_a_subject_of_its_own_or_that_of_its_sink() {
    let route = |sink: &str, route: &str, expected: &[&str]| {
        check_words(&file(&format!("servers: [a]{sink}"), route), expected);
    };
    route("", "", &["queues.mails.to[0]: no destination: sink `out` names no subject"]);
    route("", ", subject: 'a.*'", &["queues.mails.to[0].subject: the subject has a wildcard, `*` or `>`"]);
    route("", ", subject: $JS.API.INFO", &["queues.mails.to[0].subject: the subject belongs to the server"]);
    route(", subject: s", ", topic: t", &["queues.mails.to[0].topic: `topic` means nothing to a sink of kind nats"]);
    let header = "queues.mails.to[0].headers.Nats-Rollup: the server has `Nats-Rollup` already";
    route(", subject: s", ", headers: { Nats-Rollup: all }", &[header]);
    let config = load(&file("servers: [a], subject: s", ", subject: 'orders.${payload.region}'")).unwrap().config;
    let mails = config.queues.iter().find(|queue| &*queue.id == "mails").unwrap();
    let target: &dyn std::any::Any = &*mails.to[0].target;
    assert_eq!(target.downcast_ref::<NatsTarget>().unwrap().subject.source(), "orders.${payload.region}");
}
