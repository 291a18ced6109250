//! Pages of the web, and clients that are not ours.

use serde_json::Value;

use super::*;
use crate::api::start;

/// The headers of an image in a foreign page, of a page after DNS rebinding, and of a proxied request.
const STRANGERS: [&[(&str, &str)]; 4] = [
    &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
    &[("host", "evil.example")],
    &[("host", "evil.example"), ("sec-fetch-site", "same-origin")],
    &[("x-forwarded-for", "10.0.0.7")],
];

#[tokio::test]
async fn a_page_of_the_web_reserves_and_reads_no_job() {
    let redis = server().await;
    let (mut daemon, port) = start(&redis, "  compat: [lmstfy]\n", "").await;
    daemon.expect_log("refused a request");
    assert_eq!(add(port, "shop.orders", r#"{"body":"secret"}"#).await.status, 201);
    for headers in STRANGERS {
        for request in [
            "GET /v1/topics/shop.orders/jobs",
            "GET /api/shop/orders/peek",
            "GET /api/shop/orders?ttr=1",
            "POST /v1/topics/shop.orders/pop",
        ] {
            let answer = ask(port, request, headers, "").await;
            let refused = matches!(answer.status, 401 | 403);
            assert!(refused, "{request} {headers:?}: {} {}", answer.status, answer.body);
        }
    }
    assert_eq!(ask(port, "POST /v1/topics/shop.orders/pop", &[], "").await.status, 200, "nobody has it");
}

#[tokio::test]
async fn a_page_whose_name_was_pointed_here_reads_no_queue() {
    let redis = server().await;
    let (mut daemon, port) = crate::admin::start(&redis).await;
    daemon.expect_log("refused a request");
    for path in ["/v1/queues", "/v1/queues/orders", "/v1/sinks", "/"] {
        let answer = ask(port, &format!("GET {path}"), &[("host", "evil.example:9465")], "").await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.body);
    }
}

/// What clients of other job queues send, unedited.
#[tokio::test]
async fn foreign_clients_are_understood() {
    let redis = server().await;
    let (_daemon, port) = start(&redis, "  compat: [lmstfy]\n", "").await;
    let form = ("content-type", "application/x-www-form-urlencoded");
    let job = "POST /v1/topics/t/jobs";
    let mut wrong = Vec::new();
    let mut check = async |request: &str, headers: &[(&str, &str)], body: &str, status: u16, words: &str| {
        let answer = ask(port, request, headers, body).await;
        if answer.status != status || !answer.body.contains(words) {
            wrong.push(format!("{request} {body}: {} {}", answer.status, answer.body));
        }
    };
    check(job, &[form], "plain text", 201, "").await;
    check(job, &[], "plain text", 201, "").await;
    check(job, &[JSON], r#"{"body":null}"#, 201, "").await;
    check(job, &[JSON], r#"{"body":1,"due":"2100-01-01T00:00:00Z"}"#, 201, "4102444800000").await;
    // The settings in the query would make the whole envelope the body.
    check(&format!("{job}?delay=1s"), &[JSON], r#"{"id":"mine","body":"x"}"#, 400, "settings in the query").await;
    check("GET /metrics", &[], "", 404, "http.listen").await;
    check("PUT /api/n/q?ttl=60", &[], "x", 201, "").await;
    check("GET /api/n/q?ttr=0&timeout=0", &[], "", 200, "job_id").await;
    check("GET /v1/openapi-3.0.json", &[], "", 200, r#""openapi":"3.0"#).await;
    check(job, &[JSON], r#"{"id":"mine","body":"one"}"#, 201, "").await;
    check(job, &[JSON], r#"{"id":"mine","body":"two"}"#, 409, "id-taken").await;
    assert!(wrong.is_empty(), "{} of 11: {}", wrong.len(), wrong.join("; "));
}

/// A consumer that takes bytes gets a job without any once, as others.
#[tokio::test]
async fn a_job_without_a_body_is_handed_out_once() {
    let redis = server().await;
    let (_daemon, port) = start(&redis, "", "").await;
    assert_eq!(add(port, "empty", r#"{"id":"e","body":"","ttr":"10m"}"#).await.status, 201);
    let bytes = [("accept", "application/octet-stream")];
    assert_eq!(ask(port, "POST /v1/topics/empty/pop", &bytes, "").await.status, 200);
    let shown: Value = serde_json::from_str(&ask(port, "GET /v1/topics/empty", &[], "").await.body).expect("JSON");
    assert_eq!((&shown["ready"], &shown["reserved"]), (&0.into(), &1.into()), "{shown}");
    assert_eq!(ask(port, "POST /v1/topics/empty/pop", &bytes, "").await.status, 204, "it is handed out again");
}
