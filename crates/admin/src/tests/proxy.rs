//! People whom a proxy names, as clients meet it.

use serde_json::json;

use super::{TOKEN, World};
use delaybridge_http_server::testing::Answer;

/// The proxy of the tests is on this machine, where the tests are too.
const PROXY: &str = ", proxy: { addresses: [127.0.0.0/8], roles: [{ group: sre, role: admin }, { group: shop, role: operator, \
                     queues: 'orders*' }, { user: vic, role: viewer }] }";
/// It is elsewhere.
const ELSEWHERE: &str = ", proxy: { addresses: [10.9.9.9], roles: [{ role: admin }] }";
const PAUSE: &str = r#"{"why":"x"}"#;

/// A request that the proxy has passed on, for this person.
async fn through(world: &World, user: &str, groups: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("host", "ops.example"),
        ("x-forwarded-for", "192.0.2.7"),
        ("x-forwarded-user", user),
        ("x-forwarded-groups", groups),
    ];
    world.send(method, path, &headers, body).await
}

#[tokio::test]
async fn people_have_the_roles_of_their_name_and_their_groups() {
    let world = World::with(false, PROXY).await;
    let purge = "/v1/queues/orders/dead/purge";
    for (user, groups, method, path, body, status) in [
        ("ann", "sre", "POST", "/v1/queues/mails/pause", PAUSE, 200),
        ("ann", "x,sre", "POST", purge, r#"{"all":true}"#, 200),
        ("bob", "shop", "POST", "/v1/queues/orders/pause", PAUSE, 200),
        ("bob", "shop", "POST", "/v1/queues/mails/pause", PAUSE, 403),
        ("bob", "shop", "POST", purge, r#"{"all":true}"#, 403),
        ("bob", "shop", "GET", "/v1/queues/mails", "", 200),
        ("vic", "", "GET", "/v1/queues", "", 200),
        ("vic", "", "GET", "/v1/queues/orders/elements", "", 403),
        ("vic", "shop", "GET", "/v1/queues/orders/elements", "", 200),
        // Known to the proxy, and to nobody here: not even numbers.
        ("eve", "guests", "GET", "/v1/queues", "", 403),
        ("eve", "guests", "GET", "/", "", 403),
        ("", "sre", "POST", "/v1/queues/mails/pause", PAUSE, 401),
    ] {
        let answer = through(&world, user, groups, method, path, body).await;
        assert_eq!(answer.status, status, "{user} {groups} {method} {path}: {}", answer.text());
    }
    let refused = through(&world, "eve", "guests", "GET", "/v1/queues", "").await.text();
    assert!(refused.contains("the user `eve` has no role; `http.admin.proxy.roles` says"), "{refused}");
    let changes = world.send("GET", "/v1/audit?queue=orders", &[("x-forwarded-user", "vic")], "").await.json();
    let who: Vec<_> = changes["changes"].as_array().unwrap().iter().map(|change| &change["by"]).collect();
    assert_eq!(who, [&json!("bob"), &json!("ann")], "{changes}");
    let page = through(&world, "bob", "shop", "GET", "/queues/orders", "").await.text();
    assert!(page.contains("the role `operator` for `orders*`\">bob<") && !page.contains("Log out"), "{page}");
}

#[tokio::test]
async fn whoever_is_not_the_proxy_cannot_name_a_person() {
    for tokens in [false, true] {
        let world = World::with(tokens, ELSEWHERE).await;
        for name in ["x-forwarded-user", "x-forwarded-groups"] {
            let headers = [("host", "127.0.0.1"), (name, "sre")];
            let answer = world.send("POST", "/v1/queues/orders/pause", &headers, PAUSE).await;
            let (status, kind, detail) = answer.problem();
            assert_eq!((status, kind.as_str()), (403, "forbidden"), "{detail}");
            assert!(detail.contains(&format!("`{name}` came from 127.0.0.1, which is not among")), "{detail}");
        }
        // Not even beside a good token: the client believes that the header counts.
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str()), ("x-forwarded-user", "ann")];
        assert_eq!(world.send("POST", "/v1/queues/orders/pause", &headers, PAUSE).await.status, 403);
        let own = world.send("POST", "/v1/queues/orders/pause", &[("host", "127.0.0.1")], PAUSE).await;
        assert_eq!(own.status, if tokens { 401 } else { 200 }, "clients on this machine as ever");
    }
}

#[tokio::test]
async fn without_a_proxy_in_the_configuration_its_headers_mean_nothing() {
    let world = World::start(true).await;
    let headers = [("host", "127.0.0.1"), ("x-forwarded-user", "ann"), ("x-forwarded-groups", "sre")];
    assert_eq!(world.send("POST", "/v1/queues/orders/pause", &headers, PAUSE).await.status, 401);
    assert_eq!(world.send("GET", "/v1/queues", &headers, "").await.status, 200);
}

#[tokio::test]
async fn a_proxy_that_names_nobody_lends_nobody_the_rights_of_its_machine() {
    let world = World::with(false, PROXY).await;
    for host in ["127.0.0.1", "localhost", "ops.example"] {
        let answer = world.send("POST", "/v1/queues/orders/pause", &[("host", host)], PAUSE).await;
        let (status, _, detail) = answer.problem();
        assert!(status == 401 && detail.contains("log in at the proxy, which sends `X-Forwarded-User`"), "{detail}");
    }
    // What the client wrote, and behind it what the proxy wrote.
    let twice = [("x-forwarded-user", "ann"), ("x-forwarded-user", "bob"), ("x-forwarded-groups", "sre")];
    assert_eq!(world.send("POST", "/v1/queues/orders/pause", &twice, PAUSE).await.status, 403);
}

#[tokio::test]
async fn a_token_counts_where_the_proxy_names_nobody() {
    let world = World::with(true, PROXY).await;
    let bearer = format!("Bearer {TOKEN}");
    let token = ("authorization", bearer.as_str());
    assert_eq!(world.send("POST", "/v1/queues/orders/pause", &[token], PAUSE).await.status, 200);
    let both = [token, ("x-forwarded-user", "vic")];
    assert_eq!(world.send("POST", "/v1/queues/orders/pause", &both, PAUSE).await.status, 403, "vic only looks");
}

#[tokio::test]
async fn a_page_of_another_site_does_nothing_in_the_name_of_a_person() {
    let world = World::with(false, PROXY).await;
    let person = [("host", "ops.example"), ("x-forwarded-user", "ann"), ("x-forwarded-groups", "sre")];
    let form = ("content-type", "application/x-www-form-urlencoded");
    for (from, status) in [
        (("origin", "https://ops.example"), 303),
        (("origin", "https://evil.example"), 403),
        (("sec-fetch-site", "cross-site"), 403),
        (("sec-fetch-site", "same-site"), 403),
    ] {
        let headers = [&person[..], &[form, from]].concat();
        let answer = world.send("POST", "/queues/orders/pause", &headers, "why=x").await;
        assert_eq!(answer.status, status, "{from:?}: {}", answer.text());
    }
}
