//! Changes of jobs and topics over our own API: of waiting jobs, of several jobs at once, of whole topics.

use serde_json::{Value, json};

use super::World;
use super::own::pop;
use delaybridge_jobs::{JobSettings, TopicSettings, UnknownTopics};

#[tokio::test]
async fn a_job_is_changed_while_it_waits() {
    let world = World::start().await;
    let added = world.add("orders", r#"{"id":"a","delay":"1h","body":"old","content_type":"text/plain"}"#).await.json();
    let change = async |path: &str, wanted: Value| world.ask("PATCH", path, &wanted.to_string()).await;
    let seen = added["due_ms"].as_i64().unwrap();
    let wanted = json!({ "due_ms": seen + 5, "body": "new", "if_due_ms": seen });
    for changed in [true, false] {
        let answer = change("/v1/jobs/orders~a", wanted.clone()).await;
        let expected = json!({ "id": "orders~a", "changed": changed, "due_ms": seen + 5, "state": "delay" });
        assert_eq!((answer.status, answer.json()), (200, expected));
    }
    let job = world.ask("GET", "/v1/jobs/orders~a", "").await.json();
    assert_eq!((&job["body"], &job["content_type"]), (&json!("new"), &json!("text/plain")), "the type stays");
    let other = change("/v1/jobs/orders~a", json!({ "delay": "0s", "if_due_ms": seen })).await;
    assert_eq!((other.problem().1.as_str(), &other.json()["due_ms"]), ("conflict", &json!(seen + 5)));

    // A waiting consumer gets it, with another type of body.
    let wait = world.ask("POST", "/v1/topics/orders/pop?wait=20s&ttr=1m", "");
    let (popped, changed) =
        tokio::join!(wait, change("/v1/jobs/orders/a", json!({ "delay_ms": 0, "body": { "n": 1 } })));
    assert_eq!((changed.status, &changed.json()["state"]), (200, &json!("ready")));
    let popped = popped.json()["jobs"][0].clone();
    assert_eq!((&popped["body"], &popped["content_type"]), (&json!(r#"{"n":1}"#), &json!("application/json")));
    let held = change("/v1/jobs/orders~a", json!({ "delay": "1h" })).await;
    assert_eq!((held.problem().1.as_str(), &held.json()["state"]), ("conflict", &json!("reserved")));
    assert_eq!(change("/v1/jobs/orders~b", json!({ "delay": "1h" })).await.problem().1, "no-such-job");
    for (wanted, words) in [
        (json!({}), "nothing is to be changed"),
        (json!({ "if_due_ms": 5 }), "nothing is to be changed"),
        (json!({ "delay": "1s", "due_ms": 5 }), "both a delay and a due time"),
        (json!({ "dely": "1s", "body": 1 }), "did you mean `delay`?"),
    ] {
        let problem = change("/v1/jobs/orders~a", wanted).await.problem();
        assert!(problem.0 == 400 && problem.2.contains(words), "{problem:?}");
    }
}

#[tokio::test]
async fn a_job_with_a_unique_key_is_added_once_and_the_answer_names_it() {
    let world = World::start().await;
    let job = r#"{"unique":"welcome ada","unique_for":"1h","delay":"1h","body":"a"}"#;
    let first = world.add("mails", job).await;
    assert_eq!((first.status, first.json().get("existing")), (201, None));
    let id = first.json()["id"].clone();
    let due_ms = first.json()["due_ms"].clone();
    let there = json!({ "id": id, "created": false, "existing": id, "due_ms": due_ms, "state": "delay" });
    let again = world.add("mails", job).await;
    assert_eq!((again.status, again.json()), (200, there));
    // In the query, and in a batch.
    let query = "/v1/topics/mails/jobs?unique=welcome+ada&unique_for_ms=1000&unique_until=expired";
    let again = world.ask("POST", query, "text").await;
    assert_eq!((again.status, &again.json()["existing"]), (200, &id));
    let batch = format!(
        r#"{{"jobs":[{job},{{"unique":"b","unique_for":"1h","body":1}},{{"unique":"b","unique_for":"1h","body":2}}]}}"#
    );
    let jobs = world.ask("POST", "/v1/topics/mails/jobs/batch", &batch).await.json()["jobs"].clone();
    assert_eq!((&jobs[0]["existing"], &jobs[1]["created"]), (&id, &json!(true)));
    assert_eq!((&jobs[2]["existing"], &jobs[2]["id"]), (&jobs[1]["id"], &jobs[1]["id"]));
    // Another topic has keys of its own; a job that is gone holds none.
    assert_eq!(world.add("others", job).await.status, 201);
    world.ask("DELETE", &format!("/v1/jobs/{}", id.as_str().unwrap()), "").await;
    assert_eq!(world.add("mails", job).await.status, 201);
    for (wanted, words) in [
        (r#"{"unique":"a","body":1}"#, "send `unique_for` too"),
        (r#"{"unique_for":"1s","body":1}"#, "send `unique` too"),
        (r#"{"unique":"a","unique_for":"1s","unique_until":"now","body":1}"#, "`finished` or `expired`"),
        (r#"{"unique":"","unique_for":"1s","body":1}"#, "1 to 255 bytes"),
        (r#"{"unique":"a","unique_for":"0s","body":1}"#, "1 ms to ten years"),
    ] {
        let problem = world.add("mails", wanted).await.problem();
        assert!(problem.0 == 400 && problem.2.contains(words), "{problem:?}");
    }
}

#[tokio::test]
async fn jobs_of_several_topics_are_settled_at_once_and_each_has_its_outcome() {
    let world = World::start().await;
    let mut held = Vec::new();
    for topic in ["a", "b"] {
        for n in 0..3 {
            world.add(topic, &format!(r#"{{"id":"{n}","body":"x","tries":1,"ttr":"1m"}}"#)).await;
        }
        let popped = world.ask("POST", &format!("/v1/topics/{topic}/pop?count=3"), "").await.json();
        held.extend(popped["jobs"].as_array().unwrap().iter().map(|job| json!({"id":job["id"],"token":job["token"]})));
    }
    let other = json!({ "id": "b~1", "token": "AAAAAAAAAAAAAAAA" });
    let settle =
        async |what: &str, said: Value| world.ask("POST", &format!("/v1/jobs/{what}"), &said.to_string()).await;
    let outcomes = |answer: &delaybridge_http_server::testing::Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let jobs = answer.json()["jobs"].as_array().unwrap().clone();
        jobs.iter().map(|job| format!("{} {}", job["id"], job["outcome"]).replace('"', "")).collect::<Vec<_>>()
    };
    let touched = settle("touch", json!({ "jobs": [held[3], held[0], other], "ttr": "5m" })).await;
    assert_eq!(outcomes(&touched), ["b~0 touched", "a~0 touched", "b~1 not-yours"]);
    let end = touched.json()["jobs"][0]["deadline_ms"].as_i64().unwrap();
    assert!(end > world.queue.now_ms() + 200_000 && touched.json()["jobs"][2].get("deadline_ms").is_none());
    let said = json!({ "jobs": [held[0], held[5], held[0]], "delay": "1h", "count_attempt": false, "reason": "later" });
    let released = settle("release", said).await;
    assert_eq!(outcomes(&released), ["a~0 released", "b~2 released", "a~0 not-yours"]);
    assert!(released.json()["jobs"][1]["due_ms"].as_i64().unwrap() > end);
    assert_eq!(outcomes(&settle("release", json!({ "jobs": [held[1]] })).await), ["a~1 dead"]);
    let nobody = json!({ "id": "c~9", "token": "AAAAAAAAAAAAAAAA" });
    let all = json!({ "jobs": [held[4], other, nobody, held[2], held[3]] });
    let finished = ["b~1 finished", "b~1 no-such-job", "c~9 no-such-job", "a~2 finished", "b~0 finished"];
    assert_eq!(outcomes(&settle("finish", all.clone()).await), finished);
    let again = outcomes(&settle("finish", all).await);
    assert!(again.iter().all(|outcome| outcome.ends_with("no-such-job")), "{again:?}");
    assert_eq!((world.sizes("a").await, world.sizes("b").await), ([1, 0, 0, 1], [1, 0, 0, 0]));

    // One whose time to live ends before the delay is over stays the consumer's; if all do, the request says why.
    world.add("c", r#"{"id":"0","body":"x","ttl":"1m"}"#).await;
    world.add("c", r#"{"id":"1","body":"x"}"#).await;
    let popped = world.ask("POST", "/v1/topics/c/pop?count=2", "").await.json();
    let said = |job: &Value| json!({ "id": job["id"], "token": job["token"] });
    let first = said(&popped["jobs"][0]);
    let second = said(&popped["jobs"][1]);
    let released = settle("release", json!({ "jobs": [first, second], "delay": "1h" })).await;
    assert_eq!(outcomes(&released), ["c~0 bad-request", "c~1 released"]);
    let refused = settle("release", json!({ "jobs": [first], "delay": "1m" })).await;
    let (status, kind, _) = refused.problem();
    assert!(status == 400 && kind == "bad-request" && refused.text().contains("its time to live ends"), "{kind}");
    let id = first["id"].as_str().unwrap();
    let path = format!("/v1/jobs/{id}/release?token={}", first["token"].as_str().unwrap());
    let refused = world.ask("PUT", &format!("{path}&delay=1m"), "").await;
    assert_eq!(refused.problem().1, "bad-request");
    assert!(refused.text().contains("its time to live ends before the delay is over"), "{}", refused.text());
    assert_eq!(world.sizes("c").await, [1, 0, 1, 0]);
    assert_eq!(world.ask("PUT", &format!("{path}&delay=30s"), "").await.json()["outcome"], "released");

    let many = vec![held[0].clone(); 101];
    for (said, words) in [
        (json!({ "jobs": many }), "expected 1 to 100 items, found 101"),
        (json!({ "jobs": [] }), "expected 1 to 100 items, found 0"),
        (json!({ "jobs": [{ "id": "a~0" }] }), "`id` or `token` is missing"),
        (json!({ "jobs": [held[0]], "delay": "1s" }), "unknown field `delay`"),
        (json!({ "jobs": [{ "id": "a~0", "token": "short" }] }), "`token`"),
    ] {
        let problem = settle("finish", said).await.problem();
        assert!(problem.0 == 400 && problem.2.contains(words), "{problem:?}");
    }
}

#[tokio::test]
async fn a_topic_is_emptied_and_removed_but_not_while_it_is_in_use() {
    let world = World::start().await;
    for n in 0..5 {
        world.add("old", &format!(r#"{{"id":"{n}","body":"x","delay":"{n}h"}}"#)).await;
    }
    let (id, token) = pop(&world, "old").await;
    let empty = async |said: &str| world.ask("POST", "/v1/topics/old/empty", said).await;
    assert_eq!(empty(r#"{"limit":1}"#).await.json(), json!({ "count": 1, "left": 3 }));
    assert_eq!(world.ask("GET", "/v1/jobs/old~1", "").await.status, 404, "the one that would have been due first");
    assert_eq!(empty("").await.json(), json!({ "count": 3, "left": 0 }));
    assert_eq!(empty("").await.json(), json!({ "count": 0, "left": 0 }));
    assert_eq!(empty(r#"{"limit":0}"#).await.problem().0, 400);
    assert_eq!(world.sizes("old").await, [0, 0, 1, 0]);

    let remove = async |query: &str| world.ask("DELETE", &format!("/v1/topics/old{query}"), "").await;
    let refused = remove("").await;
    assert_eq!((refused.problem().1.as_str(), &refused.json()["reserved"]), ("conflict", &json!(1)));
    assert_eq!(remove("?force=yes").await.problem().0, 400);
    assert_eq!(remove("?force=true").await.json(), json!({ "count": 1 }));
    let finished = world.ask("PUT", &format!("/v1/jobs/{id}/finish?token={token}"), "").await;
    assert_eq!(finished.problem().1, "no-such-job");
    assert_eq!(remove("").await.json(), json!({ "count": 0 }));
    assert_eq!(world.ask("GET", "/v1/topics", "").await.json()["topics"], json!([]));
}

#[tokio::test]
async fn a_large_topic_is_emptied_in_slices() {
    let world = World::start().await;
    let topic = "large".parse().unwrap();
    for _ in 0..5 {
        world.queue.add(&topic, vec![delaybridge_jobs::NewJob::new("x"); 500]).await.unwrap();
    }
    let emptied = world.queue.empty(&topic, 2_100).await.unwrap();
    assert_eq!((emptied.removed, emptied.left), (2_100, 400));
    assert_eq!(world.ask("POST", "/v1/topics/large/empty", "").await.json(), json!({ "count": 400, "left": 0 }));
}

#[tokio::test]
async fn topics_that_are_not_listed_are_refused_on_request() {
    let settings = JobSettings {
        topics: [("known".parse().unwrap(), TopicSettings::default())].into(),
        unknown_topics: UnknownTopics::Refuse,
        ..JobSettings::default()
    };
    let world = World::with(|_| {}, settings).await;
    assert_eq!(world.add("known", r#"{"body":"x"}"#).await.status, 201);
    for (method, path, body) in [
        ("POST", "/v1/topics/knwon/jobs", r#"{"body":"x"}"#),
        ("POST", "/v1/topics/knwon/jobs/batch", r#"{"jobs":[{"body":"x"}]}"#),
        ("PUT", "/v1/topics/knwon/pause", ""),
        ("PUT", "/v1/topics/knwon/limits", "{}"),
    ] {
        let (status, kind, detail) = world.ask(method, path, body).await.problem();
        assert_eq!((status, kind.as_str()), (404, "not-found"), "{path}");
        assert!(detail.contains("topic knwon is not listed"), "{detail}");
    }
    assert_eq!(world.sizes("knwon").await, [0; 4]);
    assert_eq!(world.queue.topics(None, 10).await.unwrap(), ["known".parse().unwrap()]);
}
