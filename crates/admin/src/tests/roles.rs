//! What each role may do, with which queues: the table of rights as clients meet it.

use super::World;

const VIEWER: &str = "viewer0123456789";
const READER: &str = "reader0123456789";
const OPERATOR: &str = "operator0123456789";
const ADMIN: &str = "admin0123456789ab";

#[tokio::test]
async fn each_role_has_its_rights_for_its_queues_and_no_more() {
    let world = World::start(true).await;
    let all = [VIEWER, READER, OPERATOR, ADMIN];
    let run_now = "/v1/queues/orders/elements/x/run-now";
    let purge = "/v1/queues/orders/dead/purge";
    for (method, path, body, allowed) in [
        ("GET", "/v1/queues", "", &all[..]),
        ("GET", "/v1/queues/mails", "", &all),
        ("GET", "/v1/queues/orders/dead/count", "", &all),
        ("GET", "/v1/queues/orders/elements/x/why", "", &all),
        ("GET", "/v1/queues/mails/dead/count", "", &[VIEWER]),
        ("GET", "/v1/queues/orders/elements", "", &[READER, OPERATOR, ADMIN]),
        ("GET", "/v1/queues/mails/elements", "", &[]),
        ("GET", "/queues/orders/elements", "", &[READER, OPERATOR, ADMIN]),
        ("GET", "/v1/config", "", &[]),
        ("GET", "/v1/topics/audit/jobs", "", &[OPERATOR]),
        ("POST", "/v1/queues/orders/pause", r#"{"why":"x"}"#, &[OPERATOR, ADMIN]),
        ("POST", "/v1/queues/orders/resume", "{}", &[OPERATOR, ADMIN]),
        ("POST", "/v1/queues/mails/pause", r#"{"why":"x"}"#, &[]),
        ("POST", "/v1/sinks/out/pause", r#"{"why":"x"}"#, &[]),
        ("POST", run_now, "{}", &[OPERATOR, ADMIN]),
        ("DELETE", "/v1/queues/orders/elements/x", "", &[ADMIN]),
        ("POST", "/v1/queues/orders/dead/redrive", r#"{"all":true}"#, &[OPERATOR, ADMIN]),
        ("POST", purge, r#"{"all":true}"#, &[ADMIN]),
        ("POST", "/v1/reload", "", &[]),
    ] {
        for token in all {
            let bearer = format!("Bearer {token}");
            let answer = world.send(method, path, &[("authorization", &bearer)], body).await;
            let refused = answer.status == 403;
            assert_eq!(!refused, allowed.contains(&token), "{method} {path} {token}: {}", answer.text());
        }
    }
    let bearer = format!("Bearer {VIEWER}");
    let (status, kind, detail) = world.send("POST", purge, &[("authorization", &bearer)], "{}").await.problem();
    assert_eq!((status, kind.as_str()), (403, "forbidden"));
    assert!(
        detail.contains("the role `admin` for `orders`; the token `vic` has the role `viewer` for `*`"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_page_shows_what_its_reader_may_do() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9999999999999", r#"{"id":"x"}"#]).await;
    for (token, pauses, searches, runs, removes) in [
        (VIEWER, false, false, false, false),
        (READER, false, true, false, false),
        (OPERATOR, true, true, true, false),
        (ADMIN, true, true, true, true),
    ] {
        let bearer = format!("Bearer {token}");
        let page = async |path: &str| world.send("GET", path, &[("authorization", &bearer)], "").await;
        let text = page("/queues/orders").await.text();
        assert_eq!((text.contains("Pause the queue"), text.contains("Search payloads")), (pauses, searches), "{token}");
        let element = page("/queues/orders/elements/x").await;
        assert_eq!(element.status, 200, "{token}");
        let text = element.text();
        // Why it is there is for everybody; what is in it is not.
        assert!(text.contains("It is scheduled"), "{token}: {text}");
        assert_eq!(text.contains("<h2>Payload"), token != VIEWER, "{token}: {text}");
        let states = page("/queues/orders").await.text();
        assert_eq!(
            states.contains("elements?state=scheduled"),
            token != VIEWER,
            "{token}: a link that would be refused"
        );
        assert_eq!((text.contains("Run now"), text.contains("for good")), (runs, removes), "{token}");
    }
}
