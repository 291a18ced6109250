//! HTTP sinks and their destinations.
#![cfg(feature = "http")]

use std::fs;

use super::*;

/// The good file with this HTTP sink and this route to it, each the inside of a `{ }`.
fn file(sink: &str, route: &str) -> String {
    GOOD.replace("stdout: {}", &format!("http: {{ {sink} }}"))
        .replace("- sink: out", &format!("- {{ sink: out{route} }}"))
}

/// A sink in the good file, and the problems that it has.
#[track_caller]
fn sink(keys: &str, expected: &[&str]) {
    check_words(&file(keys, ""), expected);
}

#[track_caller]
fn shown(sink: &str, route: &str) -> String {
    let Loaded { config, warnings, .. } = load(&file(sink, route)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lines(&warnings), [""; 0]);
    describe(&config)
}

#[track_caller]
fn assert_shown(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn what_is_left_out_of_an_http_sink_has_the_documented_default() {
    let text = shown("url: 'https://hooks/orders'", "");
    assert_shown(
        &text,
        &[
            "    http:\n      url: https://hooks\n      method: POST\n      connect_timeout: 5s\n      max_concurrency: 64\n      read_body: false\n      probe: options\n",
            "      timeout: 10s\n      max_rate: none\n",
            "      - sink: out\n        path: /orders\n        envelope: raw\n",
        ],
    );
}

#[test]
fn a_url_is_a_server_and_a_path() {
    let path = |url: &str, route: &str| {
        let text = shown(&format!("url: '{url}'"), route);
        text.lines().find_map(|line| line.trim().strip_prefix("path: ")).expect("a path").to_owned()
    };
    assert_eq!(path("https://hooks", ""), "/");
    assert_eq!(path("https://hooks/o/${payload.id}", ""), "/o/${payload.id}");
    assert_eq!(path("https://hooks/o?token=geheim", ""), "/o?(hidden)");
    assert_eq!(path("https://hooks/services/${SECRET}", ""), "/(hidden)");
    assert_eq!(path("https://hooks/a", ", path: '/b/${id}'"), "/b/${id}");
    assert_eq!(path("https://hooks/a", ", path: '/${SECRET}'"), "/(hidden)");
    sink("method: POST", &["sinks.out.http: `url` is missing"]);
    let bad = |url: &str, problem: &str| sink(&format!("url: '{url}'"), &[&format!("sinks.out.http.url: {problem}")]);
    bad("hooks/orders", "the URL has no scheme | write `https://host/path`");
    bad("ftp://hooks/", "the scheme is neither `https` nor `http`");
    bad("https://${queue}.hooks/", "only the path and the query can be templates");
    bad("https://me:geheim@hooks/", "the URL has a user or a password | use `bearer_token_file`");
    bad("https://hooks:x/", "the port is not a number");
    bad("https://hooks/a b", "the path has a character that no URL has there");
    bad("https://hooks/a#b", "the part behind `#` is never sent");
    bad("https://hooks/${payload", "`${` has no closing `}`");
    bad("https://hooks/${foo}", "`${foo}` is no field of an element");
    check_words(
        &file("url: 'https://hooks'", ", path: orders"),
        &["queues.mails.to[0].path: a path begins with `/` | write a path such as"],
    );
}

#[test]
fn a_path_asks_for_what_the_codec_reads() {
    let text = file("url: 'https://hooks/${payload.id}'", "").replace("codec: json", "codec: raw");
    check_words(&text, &["sinks.out.http.url: the template asks for the payload, and codec raw"]);
}

#[test]
fn headers_are_never_shown_and_some_are_ours() {
    let text = shown("url: 'https://hooks', method: PUT, headers: { x-key: '${SECRET}', x-n: 5 }", "");
    assert_shown(&text, &["      method: PUT\n      headers:\n        x-key: (hidden)\n        x-n: (hidden)\n"]);
    let bad = |name: &str, problem: &str| {
        let expected = format!("sinks.out.http.headers.{name}: {problem}");
        sink(&format!("url: 'https://hooks', headers: {{ '{name}': x }}"), &[&expected]);
    };
    bad("Host", "the header belongs to the connection");
    bad("content-length", "the header belongs to the connection");
    bad("Idempotency-Key", "every request has this header already");
    bad("delaybridge-id", "every request has this header already");
    bad("webhook-id", "every request has this header already");
    bad("x y", "HTTP has no header of this name");
    sink(
        "url: 'https://hooks', headers: { x: \"a\\nb\" }",
        &["sinks.out.http.headers.x: the value has a line break or another control character"],
    );
    let route = |name: &str, problem: &str| {
        let expected = format!("queues.mails.to[0].headers.{name}: {problem}");
        check_words(&file("url: 'https://hooks'", &format!(", headers: {{ '{name}': x }}")), &[&expected]);
    };
    route("Webhook-Id", "every request has `Webhook-Id` already");
    route("connection", "the connection has `connection` already");
    route("x y", "HTTP has no header `x y`");
}

#[test]
fn files_of_secrets_are_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let token = write("token", "geheim\n");
    let secrets = write("secrets", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let good = format!("url: 'https://hooks', bearer_token_file: '{token}', signature: {{ secret_file: '{secrets}' }}");
    assert_shown(
        &shown(&good, ""),
        &[&format!("      bearer_token_file: {token}\n      signature:\n        secret_file: {secrets}\n")],
    );
    let empty = write("empty", "\n");
    let short = write("short", "whsec_Z2VoZWlt");
    sink(
        &format!("url: 'https://hooks', bearer_token_file: '{empty}'"),
        &["sinks.out.http.bearer_token_file: the file cannot be used: its first line is empty"],
    );
    sink(
        &format!("url: 'https://hooks', signature: {{ secret_file: '{short}' }}"),
        &["sinks.out.http.signature.secret_file: the file cannot be used: line 1: a secret has 24 to 64 bytes"],
    );
    sink("url: 'https://hooks', signature: {}", &["sinks.out.http.signature: `secret_file` is missing"]);
    sink(
        &format!("url: 'https://hooks', bearer_token_file: '{token}', headers: {{ Authorization: x }}"),
        &["sinks.out.http.headers.Authorization: `bearer_token_file` makes this header"],
    );
    let Loaded { warnings, .. } = load(&file(&good.replace("https", "http"), "")).unwrap();
    let warnings = lines(&warnings);
    assert!(warnings.len() == 1 && warnings[0].contains("without `https://` the network sees"), "{warnings:?}");
}

#[test]
fn tls_needs_https() {
    sink("url: 'http://hooks', tls: {}", &["sinks.out.http.tls: there is `tls`, and the URL begins with `http://`"]);
    assert_shown(&shown("url: 'https://hooks', tls: {}", ""), &["      tls:\n        ca_file: (the system's)\n"]);
}

#[test]
fn a_proxy_is_shown_without_its_login() {
    let text = shown("url: 'https://hooks', proxy: 'http://user:${SECRET}@proxy:8080'", "");
    assert_shown(&text, &["      proxy: http://proxy:8080\n"]);
    assert!(!text.contains("geheim") && !text.contains("user:"), "{text}");
    assert_shown(&shown("url: 'https://hooks', proxy: none", ""), &["      proxy: none\n"]);
    sink(
        "url: 'https://hooks', proxy: 'socks5://proxy'",
        &["sinks.out.http.proxy: the URL of a proxy begins with `http://`"],
    );
    let plain = load(&file("url: 'https://hooks', proxy: 'http://user:plain@proxy'", "")).unwrap();
    let warnings = lines(&plain.warnings);
    assert!(warnings.len() == 1 && warnings[0].contains("the URL holds a password in plain text"), "{warnings:?}");
}

#[test]
fn dead_letters_have_a_path_of_their_own() {
    let text = GOOD.replace("stdout: {}", "http: { url: 'https://hooks/a' }");
    let dead =
        |keys: &str| text.replace("    codec: json\n", &format!("    codec: json\n    dead_letter: {{ {keys} }}\n"));
    let loaded = load(&dead("sink: out, path: /dead")).unwrap();
    assert_eq!(lines(&loaded.warnings), [""; 0]);
    let same = load(&dead("sink: out")).unwrap();
    assert!(lines(&same.warnings)[0].contains("go where its elements go"), "{:?}", lines(&same.warnings));
}
