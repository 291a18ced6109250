//! The operators' listener: its tokens, its proxy, its links.

use super::*;

#[test]
fn the_operators_listener_says_what_is_wrong_with_its_tokens() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "ann short viewer\n").expect("write the tokens");
    let problem = |keys: &str| {
        let text = GOOD.replacen("redis:\n", &format!("http: {{ admin: {{ {keys} }} }}\nredis:\n"), 1);
        load(&text).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    assert_eq!(problem("listen: '127.0.0.1:1'"), "");
    let short = problem(&format!("tokens_file: {}", file.path().display()));
    assert!(
        short.contains("http.admin.tokens_file\n  read the tokens from") && short.contains("line 1: a token"),
        "{short}"
    );
    assert!(problem("lisen: '127.0.0.1:1'").contains("did you mean `listen`?"));
    assert!(problem("tokens_file: /gone").contains("http.admin.tokens_file"));
}

#[test]
fn the_proxy_of_the_operators_has_addresses_and_roles() {
    let problem = |keys: &str| {
        let text = GOOD.replacen("redis:\n", &format!("http: {{ admin: {{ proxy: {{ {keys} }} }} }}\nredis:\n"), 1);
        load(&text).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    let roles = "roles: [{ group: sre, role: admin }, { user: ann, role: reader, queues: 'a*,b' }, { role: viewer }]";
    assert_eq!(problem(&format!("addresses: [10.0.0.7, 10.1.0.0/16, 'fd00::/8'], {roles}")), "");
    for (keys, expected) in [
        (format!("addresses: [proxy], {roles}"), "http.admin.proxy.addresses[0]\n  it is no IP address"),
        (format!("addresses: [0.0.0.0/0], {roles}"), "it has every address"),
        (format!("addresses: [], {roles}"), "found an empty list"),
        (roles.to_owned(), "`addresses` is missing"),
        ("addresses: [10.0.0.7]".to_owned(), "`roles` is missing"),
        ("addresses: [10.0.0.7], roles: [{ group: sre }]".to_owned(), "`role` is missing"),
        ("addresses: [10.0.0.7], roles: [{ role: root }]".to_owned(), "`root` is not known here"),
        ("addresses: [10.0.0.7], roles: [{ role: admin, queues: 'a,,b' }]".to_owned(), "this is no pattern of names"),
        (
            format!("addresses: [10.0.0.7], {roles}, user_header: X_User"),
            "no name of a header that proxies agree about",
        ),
    ] {
        let found = problem(&keys);
        assert!(found.contains(expected), "{keys}: {found}");
    }
    let text = format!("http: {{ admin: {{ proxy: {{ addresses: [10.1.0.0/16], {roles} }} }} }}\nredis:\n");
    let shown = describe(&load(&GOOD.replacen("redis:\n", &text, 1)).unwrap().config);
    for line in ["addresses: [10.1.0.0/16]", "user_header: X-Forwarded-User", "role: reader", "queues: a*,b"] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
}

#[test]
fn a_link_to_grafana_has_a_place_for_the_name_and_runs_nothing() {
    let problem = |keys: &str| {
        let text = GOOD.replacen("redis:\n", &format!("http: {{ admin: {{ grafana: {{ {keys} }} }} }}\nredis:\n"), 1);
        load(&text).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    assert_eq!(problem("queue: 'https://g.example/d/x?var-queue={queue}', sink: 'http://g/{sink}'"), "");
    for (keys, expected) in [
        ("queue: 'https://g.example/d/x'", "http.admin.grafana.queue\n  the URL has no `{queue}`"),
        ("queue: 'https://g.example/{sink}'", "no `{queue}`"),
        ("sink: 'javascript:alert(1)//{sink}'", "begins with neither `https://` nor `http://`"),
    ] {
        let found = problem(keys);
        assert!(found.contains(expected), "{keys}: {found}");
    }
}

#[test]
fn two_listeners_at_one_address_are_found() {
    let problem = |text: &str| {
        let text = GOOD.replacen("redis:\n", &format!("{text}\nredis:\n"), 1);
        load(&text).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    assert_eq!(problem("http: { listen: '127.0.0.1:9464', admin: { listen: '127.0.0.1:9465' } }"), "");
    let both = problem("http: { listen: '0.0.0.0:9465', admin: {} }");
    assert!(both.contains("`http.admin.listen` and `http.listen` are the same address, 127.0.0.1:9465"), "{both}");
    let jobs = problem("http: { admin: {} }\njobs: { listen: '127.0.0.1:9465' }");
    assert!(jobs.contains("`jobs.listen` and `http.admin.listen` are the same address"), "{jobs}");
}

#[test]
fn the_path_of_a_proxy_is_one_that_a_url_has_as_it_is() {
    let problem = |path: &str| {
        let text = GOOD.replacen("redis:\n", &format!("http: {{ admin: {{ base_path: '{path}' }} }}\nredis:\n"), 1);
        load(&text).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    for good in ["/queues", "/ops/queues", "/a.b~c_d-1"] {
        assert_eq!(problem(good), "", "{good}");
    }
    for bad in ["queues", "/", "/queues/", "//queues", "/a/../b", "/a b", "/a%20b", "/a?b", "https://example/queues"] {
        assert!(problem(bad).contains("http.admin.base_path"), "{bad}: {}", problem(bad));
    }
}
