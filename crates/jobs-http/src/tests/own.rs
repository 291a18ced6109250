//! Our own API: each endpoint as its clients see it. Every answer is compared with the OpenAPI document.

use std::time::Duration;

use serde_json::{Value, json};

use super::World;
use delaybridge_jobs::{JobSettings, TopicSettings};

/// Pops one job and answers its id and token.
pub(super) async fn pop(world: &World, topic: &str) -> (String, String) {
    let answer = world.ask("POST", &format!("/v1/topics/{topic}/pop?wait_ms=5000"), "").await.json();
    let job = &answer["jobs"][0];
    (job["id"].as_str().unwrap().to_owned(), job["token"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_job_is_added_popped_and_finished() {
    let world = World::start().await;
    let added = world.add("orders", r#"{"id":"o-7","body":{"orderId":7},"ttr_ms":5000}"#).await;
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!(added.json()["id"], "orders~o-7");
    let again = world.add("orders", r#"{"id":"o-7","body":{"orderId":7}}"#).await;
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)));
    let other = world.add("orders", r#"{"id":"o-7","body":"other"}"#).await;
    assert_eq!((other.status, &*other.problem().1), (409, "id-taken"));
    let batch = r#"{"jobs":[{"id":"o-7","body":"other"},{"id":"o-7","body":{"orderId":7}}]}"#;
    let batch = world.ask("POST", "/v1/topics/orders/jobs/batch", batch).await.json();
    assert_eq!((&batch["jobs"][0]["conflict"], batch["jobs"][1].get("conflict")), (&json!(true), None), "{batch}");

    let popped = world.ask("POST", "/v1/topics/orders/pop?count=5", "").await.json();
    let job = &popped["jobs"][0];
    assert_eq!(popped["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(job["body"], r#"{"orderId":7}"#);
    assert_eq!((&job["attempt"], &job["topic"], &job["ttr_ms"]), (&json!(1), &json!("orders"), &json!(5000)));
    assert_eq!(job["content_type"], "application/json");
    assert_eq!(world.sizes("orders").await, [0, 0, 1, 0]);

    let token = job["token"].as_str().unwrap();
    let other = world.ask("PUT", "/v1/jobs/orders~o-7/finish?token=AAAAAAAAAAAAAAAA", "").await;
    assert_eq!(other.problem().1, "not-yours");
    let path = format!("/v1/jobs/orders~o-7/finish?token={token}");
    assert_eq!(world.ask("PUT", &path, "").await.status, 204);
    assert_eq!(world.ask("PUT", &path, "").await.problem().1, "no-such-job");
    assert_eq!(world.sizes("orders").await, [0, 0, 0, 0]);
}

/// A body that an endpoint ignores is a mistake of the client, and nothing else would tell it.
#[tokio::test]
async fn a_body_where_none_is_taken_is_refused() {
    let world = World::start().await;
    world.add("t", r#"{"body":"x"}"#).await;
    for (method, path, body, says) in [
        ("POST", "/v1/topics/t/pop", r#"{"count":5}"#, "count, ttr"),
        ("PUT", "/v1/topics/t/pause", r#"{"reason":"a deployment"}"#, "leave it out"),
        ("GET", "/v1/topics/t", "x", "leave it out"),
        ("DELETE", "/v1/topics/t", r#"{"force":true}"#, "takes none"),
    ] {
        let answer = world.ask(method, path, body).await;
        assert_eq!(answer.status, 400, "{method} {path}");
        assert!(answer.text().contains(says), "{method} {path}: {}", answer.text());
    }
    assert_eq!(world.sizes("t").await, [0, 1, 0, 0]);
    // What some clients send with every request.
    for (body, status) in [("{}", 200), (" null ", 204)] {
        assert_eq!(world.ask("POST", "/v1/topics/t/pop", body).await.status, status, "{body}");
    }
    assert_eq!(world.sizes("t").await, [0, 0, 1, 0]);
}

/// Durations with units, topic and id apart in the path, and what is said of a job in the body.
#[tokio::test]
async fn a_job_is_addressed_by_topic_and_id() {
    let world = World::start().await;
    let path = "/v1/topics/mail/jobs?delay=1h&ttr=60s&tries=5&ttl=1d&id=own-id";
    let added = world.ask("POST", path, r#"{"orderId":7}"#).await;
    assert_eq!((added.status, &added.json()["state"]), (201, &json!("delay")), "{}", added.text());
    let due_ms = added.json()["due_ms"].clone();
    assert!(due_ms.as_i64().unwrap() > world.queue.now_ms() + 3_500_000, "{due_ms}");
    assert_eq!(world.ask("POST", path, r#"{"orderId":8}"#).await.status, 409);
    let again = world.ask("POST", path, r#"{"orderId":7}"#).await;
    assert_eq!((again.status, &again.json()["state"], &again.json()["due_ms"]), (200, &json!("delay"), &due_ms));
    let job = world.ask("GET", "/v1/jobs/mail/own-id", "").await.json();
    assert_eq!((&job["id"], &job["ttr_ms"], &job["tries"]), (&json!("mail~own-id"), &json!(60_000), &json!(5)));
    assert_eq!((&job["body"], &job["content_type"]), (&json!(r#"{"orderId":7}"#), &json!("application/json")));
    assert_eq!(job["expires_ms"].as_i64().unwrap() - job["added_ms"].as_i64().unwrap(), 86_400_000);
    assert_eq!(world.ask("DELETE", "/v1/jobs/mail/mail~own-id", "").await.status, 204);

    assert_eq!(world.add("mail", r#"{"id":"b","body":"b","ttr":"30s"}"#).await.json()["state"], "ready");
    let take = async || {
        let popped = world.ask("POST", "/v1/topics/mail/pop?wait=20s&count=10&ttr=45s", "").await.json();
        assert_eq!(popped["jobs"][0]["ttr_ms"], 45_000);
        popped["jobs"][0]["token"].as_str().unwrap().to_owned()
    };
    let put =
        async |what: &str, said: Value| world.ask("PUT", &format!("/v1/jobs/mail/b/{what}"), &said.to_string()).await;
    let token = take().await;
    let touched = put("touch", json!({ "token": token, "ttr": "2m" })).await.json();
    assert!(touched["deadline_ms"].as_i64().unwrap() > world.queue.now_ms() + 100_000);
    let said = json!({ "token": token, "delay": "0s", "count_attempt": false, "reason": "later" });
    assert_eq!(put("release", said).await.json()["outcome"], "released");
    assert_eq!(put("finish", json!({ "token": token })).await.status, 409);
    let token = take().await;
    assert_eq!(put("finish", json!({ "token": token })).await.status, 204);
    let gone = world.add("mail", r#"{"id":"b","body":"b"}"#).await;
    assert_eq!((gone.status, &gone.json()["state"]), (200, &json!("gone")));
    assert_eq!(world.ask("GET", "/v1/jobs/mail/b", "").await.problem().1, "no-such-job");
}

/// More than one slice; what is added meanwhile is not meant.
#[tokio::test]
async fn a_body_of_any_type_comes_back_as_it_was() {
    let world = World::start().await;
    let check = async |job: &str, field: &str, body: &str| {
        assert_eq!(world.add("bodies", job).await.status, 201, "{job}");
        let popped = world.ask("POST", "/v1/topics/bodies/pop", "").await.json();
        assert_eq!(popped["jobs"][0][field], body, "{job}");
    };
    check(r#"{"body":"plain \u00e4"}"#, "body", "plain ä").await;
    check(r#"{"body":{"b":1,"a":[1.50,18446744073709551616]}}"#, "body", r#"{"b":1,"a":[1.50,18446744073709551616]}"#)
        .await;
    check(r#"{"body":7}"#, "body", "7").await;
    check(r#"{"body_base64":"/wA="}"#, "body_base64", "/wA=").await;

    // Bytes both ways, and the settings in the query.
    let mut client = world.client().await;
    let headers = [("content-type", "application/x-protobuf")];
    let added = client.ask("POST", "/v1/topics/raw/jobs?id=r1&ttr_ms=4000&tries=2", &headers, b"\xff\x00raw").await;
    assert_eq!(added.json()["id"], "raw~r1");
    let accept = [("accept", "application/octet-stream")];
    let popped = client.ask("POST", "/v1/topics/raw/pop", &accept, b"").await;
    assert_eq!((popped.status, &popped.body[..]), (200, &b"\xff\x00raw"[..]));
    assert_eq!(popped.headers["content-type"], "application/x-protobuf");
    assert_eq!(popped.headers["delaybridge-job-id"], "raw~r1");
    let token = &popped.headers["delaybridge-token"];
    assert_eq!(client.ask("PUT", &format!("/v1/jobs/raw~r1/finish?token={token}"), &[], b"").await.status, 204);
    assert_eq!(client.ask("POST", "/v1/topics/raw/pop", &accept, b"").await.status, 204);
}

#[tokio::test]
async fn a_batch_is_added_as_a_whole_or_not_at_all() {
    let limited = TopicSettings { max_jobs: Some(3), max_body: 10, ..TopicSettings::default() };
    let settings = JobSettings { topics: [("few".parse().unwrap(), limited)].into(), ..JobSettings::default() };
    let world = World::with(|_| {}, settings).await;
    let batch =
        async |jobs: &str| world.ask("POST", "/v1/topics/few/jobs/batch", &format!(r#"{{"jobs":{jobs}}}"#)).await;
    let added = batch(r#"[{"body":1},{"body":2}]"#).await;
    assert_eq!((added.status, added.json()["jobs"].as_array().unwrap().len()), (200, 2));
    let full = batch(r#"[{"body":3},{"body":4}]"#).await;
    assert_eq!((full.problem().1.as_str(), full.headers["retry-after"].as_str()), ("too-many", "1"));
    assert_eq!(full.status, 429);
    assert_eq!(batch(r#"[{"body":3},{"body":"longer than ten"}]"#).await.problem().0, 413);
    let unknown = batch(r#"[{"body":3},{"body":4,"bdoy":5}]"#).await.problem().2;
    assert_eq!(unknown, "read the body: unknown field `bdoy` of `jobs[1]`; did you mean `body`?");
    assert_eq!(batch("[]").await.problem().0, 400);
    assert_eq!(world.sizes("few").await, [0, 2, 0, 0]);
}

#[tokio::test]
async fn consumers_release_touch_and_bury() {
    let world = World::start().await;
    world.add("work", r#"{"id":"a","body":"a","tries":2,"ttr_ms":60000}"#).await;
    let (id, token) = pop(&world, "work").await;
    let touched = world.ask("PUT", &format!("/v1/jobs/{id}/touch?token={token}&ttr_ms=120000"), "").await.json();
    assert!(touched["deadline_ms"].as_i64().unwrap() > world.queue.now_ms() + 100_000);
    let put =
        async |what: &str, token: &str| world.ask("PUT", &format!("/v1/jobs/{id}/{what}?token={token}"), "").await;

    // Uncounted, then counted, then dead: two tries.
    let path = format!("/v1/jobs/{id}/release?token={token}&count_attempt=false&delay_ms=0");
    assert_eq!(world.ask("PUT", &path, "").await.json()["outcome"], "released");
    assert_eq!(world.ask("PUT", &path, "").await.problem().1, "not-yours");
    let (_, token) = pop(&world, "work").await;
    assert_eq!(put("release", &token).await.json()["outcome"], "released");
    let (_, token) = pop(&world, "work").await;
    assert_eq!(put("release", &token).await.json()["outcome"], "dead");
    assert_eq!(world.sizes("work").await, [0, 0, 0, 1]);

    let dead = world.ask("GET", "/v1/topics/work/dead", "").await.json();
    assert_eq!((&dead["jobs"][0]["id"], &dead["jobs"][0]["attempts"]), (&json!("work~a"), &json!(2)));
    let one = |ids: &str| format!(r#"{{"ids":["{ids}"]}}"#);
    assert_eq!(world.ask("POST", "/v1/topics/work/dead/redrive", &one("work~a")).await.json()["count"], 1);
    assert_eq!(world.ask("POST", "/v1/topics/work/dead/redrive", &one("other~a")).await.problem().0, 400);
    assert_eq!(world.ask("POST", "/v1/topics/work/dead/redrive", "").await.problem().0, 400);
    let (_, token) = pop(&world, "work").await;
    let bury = format!("/v1/jobs/{id}/bury?token={token}&reason=no%20address");
    assert_eq!(world.ask("PUT", &bury, "").await.status, 204);
    let job = world.ask("GET", "/v1/jobs/work~a", "").await.json();
    assert_eq!((&job["state"], &job["reason"]), (&json!("dead"), &json!("no address")));
    assert_eq!(world.ask("POST", "/v1/topics/work/dead/purge", r#"{"limit":10}"#).await.json()["count"], 1);
    assert_eq!(world.ask("GET", "/v1/jobs/work~a", "").await.problem().1, "no-such-job");
}

#[tokio::test]
async fn who_lost_a_job_is_told_so() {
    let world = World::start().await;
    world.add("slow", r#"{"id":"a","body":"a","ttr_ms":1}"#).await;
    let (id, first) = pop(&world, "slow").await;
    // Waits for the end of the reservation.
    let (_, second) = pop(&world, "slow").await;
    for what in ["finish", "release", "touch", "bury"] {
        let refused = world.ask("PUT", &format!("/v1/jobs/{id}/{what}?token={first}"), "").await;
        assert_eq!((refused.status, refused.problem().1.as_str()), (409, "not-yours"), "{what}");
    }
    assert_eq!(world.ask("PUT", &format!("/v1/jobs/{id}/finish?token={second}"), "").await.status, 204);
}

#[tokio::test]
async fn a_pop_waits_for_a_job_and_takes_the_most_urgent_topic_first() {
    let world = World::start().await;
    world.add("low", r#"{"id":"l","body":"low"}"#).await;
    world.add("high", r#"{"id":"h","body":"high"}"#).await;
    assert_eq!(pop(&world, "high,low").await.0, "high~h");
    assert_eq!(pop(&world, "high,low").await.0, "low~l");
    let empty = world.ask("POST", "/v1/topics/high,low/pop?wait=30ms", "").await;
    assert_eq!((empty.status, empty.text().as_str()), (204, ""));
    let (popped, _) = tokio::join!(pop(&world, "high,low"), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.add("low", r#"{"id":"late","body":"late","delay_ms":100}"#).await
    });
    assert_eq!(popped.0, "low~late");
    let paused = world.ask("PUT", "/v1/topics/low/pause", "").await;
    assert_eq!(paused.status, 204);
    world.add("low", r#"{"id":"p","body":"p"}"#).await;
    assert_eq!(world.ask("POST", "/v1/topics/low/pop", "").await.status, 204);
    assert_eq!(world.ask("GET", "/v1/topics/low", "").await.json()["paused"], true);
    assert_eq!(world.ask("PUT", "/v1/topics/low/resume", "").await.status, 204);
    assert_eq!(pop(&world, "low").await.0, "low~p");
}

#[tokio::test]
async fn jobs_and_topics_can_be_looked_at() {
    let world = World::start().await;
    world.add("b", r#"{"id":"late","body":"x","delay_ms":60000,"ttl_ms":120000}"#).await;
    world.add("a", r#"{"id":"now","body":"y"}"#).await;
    let job = world.ask("GET", "/v1/jobs/b~late", "").await.json();
    assert_eq!((&job["state"], &job["attempts"], &job["body"]), (&json!("delay"), &json!(0), &json!("x")));
    assert!(job["due_ms"].as_i64().unwrap() > world.queue.now_ms() + 50_000 && job["expires_ms"].is_i64());
    let topics = world.ask("GET", "/v1/topics", "").await.json();
    let names: Vec<&Value> = topics["topics"].as_array().unwrap().iter().map(|topic| &topic["topic"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((&topics["topics"][0]["ready"], &topics["topics"][1]["delay"]), (&json!(1), &json!(1)));
    let page = world.ask("GET", "/v1/topics?limit=1", "").await.json();
    assert_eq!(page["next"], "a");
    assert_eq!(world.ask("GET", "/v1/topics?limit=1&after=a", "").await.json()["topics"][0]["topic"], "b");
    assert_eq!(world.ask("GET", "/v1/topics/b/jobs?state=delay", "").await.json()["jobs"][0]["id"], "b~late");
    assert_eq!(world.ask("GET", "/v1/topics/a/jobs", "").await.json()["jobs"][0]["id"], "a~now");
    for n in 0..3 {
        world.add("a", &format!(r#"{{"id":"next{n}","body":"y"}}"#)).await;
    }
    // Where a page ends is said, and not where all of the state were shown.
    for (query, shown, next) in [("limit=2", 2, json!(2)), ("limit=2&skip=2", 2, Value::Null), ("", 4, Value::Null)] {
        let page = world.ask("GET", &format!("/v1/topics/a/jobs?{query}"), "").await.json();
        assert_eq!((page["jobs"].as_array().unwrap().len(), &page["next"]), (shown, &next), "{query}");
    }
    assert_eq!(world.ask("GET", "/v1/topics/b/jobs?state=delay&limit=1", "").await.json().get("next"), None);
    // A page of large bodies is shorter than its limit.
    let large = "x".repeat(900 << 10);
    for n in 0..6 {
        world.add("large", &format!(r#"{{"id":"{n}","body":"{large}","tries":1}}"#)).await;
        let (id, token) = pop(&world, "large").await;
        assert_eq!(world.ask("PUT", &format!("/v1/jobs/{id}/bury?token={token}"), "").await.status, 204);
    }
    let mut skip = json!(0);
    let mut seen = 0;
    while skip.is_u64() {
        let page = world.ask("GET", &format!("/v1/topics/large/dead?skip={skip}"), "").await.json();
        seen += page["jobs"].as_array().unwrap().len();
        assert!(seen < 6 || page.get("next").is_none(), "{:?}", page.get("next"));
        skip = page["next"].clone();
    }
    assert_eq!(seen, 6);
    assert_eq!(world.ask("DELETE", "/v1/jobs/b~late", "").await.status, 204);
    assert_eq!(world.ask("DELETE", "/v1/jobs/b~late", "").await.problem().1, "no-such-job");
    let document = world.ask("GET", "/v1/openapi.json", "").await.json();
    assert_eq!(document["openapi"], "3.1.0");
}

#[tokio::test]
async fn mistakes_are_explained() {
    let world = World::start().await;
    let check = async |method: &str, path: &str, body: &str, expected: &str| {
        let problem = world.ask(method, path, body).await.problem();
        assert!(problem.2.contains(expected), "{method} {path} {body}: {problem:?}");
    };
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"dleay":5}"#, "unknown field `dleay`; did you mean `delay`?").await;
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"delay":5}"#, "expected a text").await;
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"delay":"5"}"#, "`5` has no unit; write `5s`").await;
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"ttr":"5s","ttr_ms":5}"#, "both `ttr` and `ttr_ms`").await;
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"delay_ms":5,"due_ms":6}"#, "both a delay and a due time").await;
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"delay_ms":"5"}"#, "expected a whole number").await;
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"id":"a b"}"#, "letters, digits").await;
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"tries":0}"#, "tries must be 1 to 1000000").await;
    check("POST", "/v1/topics/a/jobs", r#"{"body":1,"delay_ms":9,"ttl_ms":5}"#, "time to live ends before").await;
    check("POST", "/v1/topics/a/jobs?dleay_ms=5", r#"{"body":1}"#, "unknown parameter `dleay_ms`").await;
    check("POST", "/v1/topics/a%20b/jobs", r#"{"body":1}"#, "read the topic").await;
    check("POST", "/v1/topics/a/pop?count=1000", "", "it is 1 to 100").await;
    check("POST", "/v1/topics/a/pop?wait_ms=9999999", "", "the longest wait").await;
    check("PUT", "/v1/jobs/a~b/finish", "", "`token` is missing").await;
    check("PUT", "/v1/jobs/a~b/finish?token=x", "", "invalid token").await;
    check("PUT", "/v1/jobs/a~b/finish?token=AAAAAAAAAAAAAAAA", "{}", "a query and a body").await;
    check("PUT", "/v1/jobs/a~b/finish", r#"{"token":"AAAAAAAAAAAAAAAA","delay":"5s"}"#, "unknown field `delay`").await;
    check("PUT", "/v1/jobs/nonsense/finish?token=AAAAAAAAAAAAAAAA", "", "TOPIC~ID").await;
    check("GET", "/v1/topics/a/jobs?state=late", "", "it is delay, ready, reserved or dead").await;
    assert_eq!(world.ask("GET", "/v2", "").await.problem().1, "no-such-path");
    let wrong = world.ask("DELETE", "/v1/topics", "").await;
    assert_eq!((wrong.problem().1.as_str(), wrong.headers["allow"].as_str()), ("method", "GET"));
    assert_eq!(world.sizes("a").await, [0; 4]);
}

#[tokio::test]
async fn an_outage_is_told_from_an_unknown_outcome() {
    let mut world = World::start().await;
    world.add("orders", r#"{"id":"o","body":"o"}"#).await;
    world.redis.freeze();
    let unknown = world.add("orders", r#"{"id":"p","body":"p"}"#).await;
    let (status, kind, detail) = unknown.problem();
    assert_eq!((status, kind.as_str()), (503, "outcome-unknown"), "{detail}");
    assert!(detail.contains("it may have been done") && unknown.headers.contains_key("retry-after"));
    world.redis.thaw();
    world.redis.kill();
    let away = loop {
        let answer = world.add("orders", r#"{"id":"q","body":"q"}"#).await;
        let (status, kind, _) = answer.problem();
        assert_eq!(status, 503);
        // The first call may be the one that finds out.
        if kind != "outcome-unknown" {
            break kind;
        }
    };
    assert_eq!(away, "unavailable");
}

/// A body of no bytes is handed out once, as any other: an answer without a body is an answer.
#[tokio::test]
async fn an_empty_body_is_popped_once() {
    let world = World::start().await;
    world.add("empty", r#"{"id":"e","body":"","ttr":"10m"}"#).await;
    let accept = [("accept", "application/octet-stream")];
    let mut client = world.client().await;
    let popped = client.ask("POST", "/v1/topics/empty/pop", &accept, b"").await;
    assert_eq!((popped.status, popped.body.len(), popped.headers["delaybridge-attempt"].as_str()), (200, 0, "1"));
    drop(client);
    world.until_connected(0).await;
    assert_eq!(world.sizes("empty").await, [0, 0, 1, 0]);
    assert_eq!(world.client().await.ask("POST", "/v1/topics/empty/pop", &accept, b"").await.status, 204);
    let token = &popped.headers["delaybridge-token"];
    assert_eq!(world.ask("PUT", &format!("/v1/jobs/empty~e/finish?token={token}"), "").await.status, 204);
}

/// What is no JSON is the body, unless its client says that it is JSON.
#[tokio::test]
async fn a_body_without_a_type_is_what_it_looks_like() {
    let world = World::start().await;
    const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
    let add = async |query: &str, headers: &[(&str, &str)], body: &[u8]| {
        let added = world.client().await.ask("POST", &format!("/v1/topics/t/jobs{query}"), headers, body).await;
        if added.status != 201 {
            return Err(added.problem().2);
        }
        let popped = world.ask("POST", "/v1/topics/t/pop", "").await.json();
        Ok(popped["jobs"][0]["body"].as_str().unwrap().to_owned())
    };
    for headers in [&[FORM][..], &[]] {
        assert_eq!(add("", headers, b"plain text").await.unwrap(), "plain text");
        assert_eq!(add("", headers, b"name=value&x=1").await.unwrap(), "name=value&x=1");
        assert_eq!(add("", headers, b"{not json").await.unwrap(), "{not json");
        assert_eq!(add("", headers, b"[1, 2]").await.unwrap(), "[1, 2]");
        assert_eq!(add("", headers, br#"{"body":"x"}"#).await.unwrap(), "x");
        assert!(add("", headers, br#"{"bdoy":"x"}"#).await.unwrap_err().contains("`body` is missing"));
    }
    let json = [("content-type", "application/json")];
    assert!(add("", &json, b"plain text").await.unwrap_err().contains("not valid JSON"));
    assert_eq!(add("", &json, br#"{"body":null}"#).await.unwrap(), "null");
    assert_eq!(add("", &json, br#"{"body":{ "a" : 1.0 }}"#).await.unwrap(), r#"{ "a" : 1.0 }"#);
    // Settings at two places, one of which would be lost without a word.
    let both = add("?delay=0s", &json, br#"{"id":"mine","body":"x"}"#).await.unwrap_err();
    assert!(both.contains("settings in the query"), "{both}");
    assert_eq!(add("?delay=0s", &json, br#"{"id":"mine","text":"x"}"#).await.unwrap(), r#"{"id":"mine","text":"x"}"#);
    for media_type in ["text/plain", "application/problem+json", "application/octet-stream"] {
        let sent = [("content-type", media_type)];
        let refused = add("", &sent, br#"{"body":"x","delay":"1h"}"#).await.unwrap_err();
        assert!(refused.contains("nothing would read them"), "{media_type}: {refused}");
        // What is only a body is one.
        assert_eq!(add("", &sent, br#"{"body":"x"}"#).await.unwrap(), r#"{"body":"x"}"#);
        assert_eq!(add("", &sent, br#"{"delay":"1h"}"#).await.unwrap(), r#"{"delay":"1h"}"#);
    }
    let bytes = [("content-type", "application/octet-stream")];
    assert_eq!(add("?delay=0s", &bytes, br#"{"body":"x"}"#).await.unwrap(), r#"{"body":"x"}"#);
}

#[tokio::test]
async fn a_due_time_may_be_written_as_people_do() {
    let world = World::start().await;
    let added = world.add("t", r#"{"body":"x","due":"2100-01-01T00:00:00Z"}"#).await.json();
    assert_eq!(added["due_ms"], 4_102_444_800_000_i64);
    let added = world.ask("POST", "/v1/topics/t/jobs?due=2100-01-01T08:00:00%2B08:00", r#"{"a":1}"#).await.json();
    assert_eq!(added["due_ms"], 4_102_444_800_000_i64);
    for (job, expected) in [
        (r#"{"body":1,"due":"soon"}"#, "write a time as"),
        (r#"{"body":1,"due":"2100-01-01T00:00:00Z","due_ms":5}"#, "both `due` and `due_ms`"),
        (r#"{"body":1,"due":"2100-01-01T00:00:00Z","delay":"5s"}"#, "both a delay and a due time"),
        // Seconds, and microseconds.
        (r#"{"body":1,"due_ms":1800000000}"#, "more than ten years ago: it counts in milliseconds"),
        (r#"{"body":1,"due_ms":1800000000000000}"#, "after the year 9999: it counts in milliseconds"),
        (r#"{"body":1,"delay":null}"#, "`delay` is null"),
        (r#"{"body":1,"due_ms":null}"#, "`due_ms` is null"),
    ] {
        let problem = world.add("t", job).await.problem().2;
        assert!(problem.contains(expected), "{problem}");
    }
    let (status, _, hint) = world.ask("GET", "/metrics", "").await.problem();
    assert!(status == 404 && hint.contains("http.listen"), "{hint}");
}

#[tokio::test]
async fn the_highest_priority_is_handed_out_first_and_can_be_changed() {
    let world = World::start().await;
    for (path, body) in [
        ("", r#"{"id":"plain","body":"x"}"#),
        ("", r#"{"id":"low","body":"x","priority":1}"#),
        ("?id=high&priority=9", "x"),
        ("", r#"{"id":"late","body":"x","priority":9,"delay":"1h"}"#),
    ] {
        let added = world.ask("POST", &format!("/v1/topics/mails/jobs{path}"), body).await;
        assert_eq!(added.status, 201, "{}", added.text());
    }
    let batch = r#"{"jobs":[{"id":"middle","body":"x","priority":5}]}"#;
    assert_eq!(world.ask("POST", "/v1/topics/mails/jobs/batch", batch).await.status, 200);
    for (body, words) in [
        (r#"{"body":"x","priority":10}"#, "`priority` is 0 to 9"),
        (r#"{"body":"x","priority":-1}"#, "`priority`"),
        (r#"{"body":"x","priority":"high"}"#, "`priority`"),
    ] {
        let problem = world.add("mails", body).await.problem();
        assert!(problem.0 == 400 && problem.2.contains(words), "{problem:?}");
    }
    let job = world.ask("GET", "/v1/jobs/mails~middle", "").await.json();
    assert_eq!((&job["priority"], &job["tries"]), (&json!(5), &json!(10)));
    let changed = world.ask("PATCH", "/v1/jobs/mails~plain", r#"{"priority":7}"#).await.json();
    assert_eq!((&changed["changed"], &changed["state"]), (&json!(true), &json!("ready")));
    let popped = world.ask("POST", "/v1/topics/mails/pop?count=9", "").await.json();
    let of = |job: &Value| (job["id"].as_str().unwrap().to_owned(), job["priority"].clone());
    let got: Vec<_> = popped["jobs"].as_array().unwrap().iter().map(of).collect();
    let expected = [("high", 9), ("plain", 7), ("middle", 5), ("low", 1)];
    assert_eq!(got, expected.map(|(id, priority)| (format!("mails~{id}"), json!(priority))));
}
