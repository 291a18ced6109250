//! The API of lmstfy, case by case as the tests of its Go client have them, in our own words: `docs/lmstfy.md` has the
//! table. The cases are numbered as there.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Answer, World};
use delaybridge_jobs::JobSettings;
use delaybridge_link::test_server::eventually;
use delaybridge_model::Face;

struct Lmstfy {
    world: World,
    token: String,
    /// With `tokens.yaml`.
    dir: tempfile::TempDir,
}

#[derive(Debug)]
struct Job {
    id: String,
    queue: String,
    data: Vec<u8>,
    ttl: i64,
    remain_tries: i64,
    attributes: Option<BTreeMap<String, String>>,
}

impl Job {
    fn of(value: &Value) -> Job {
        assert_eq!(value["namespace"], "test-ns", "{value}");
        assert!(value["elapsed_ms"].is_i64());
        Job {
            id: value["job_id"].as_str().unwrap().to_owned(),
            queue: value["queue"].as_str().unwrap().to_owned(),
            data: STANDARD.decode(value["data"].as_str().unwrap()).unwrap(),
            ttl: value["ttl"].as_i64().unwrap(),
            remain_tries: value["remain_tries"].as_i64().unwrap(),
            attributes: serde_json::from_value(value["attributes"].clone()).unwrap(),
        }
    }
}

impl Lmstfy {
    /// With a tokens file, and a token from the administrator's endpoint.
    async fn start() -> Lmstfy {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens.yaml");
        // printf %s geheim | sha256sum
        let hash = "addb0f5e7826c857d7376d1bd9bc33c0c544790a2eac96144a8af22b1298c940";
        let text =
            format!("tokens: {{ root: {{ sha256: {hash}, grants: [{{ topics: ['*'], rights: [admin] }}] }} }}\n");
        std::fs::write(&file, text).unwrap();
        let world = World::with(|spec| spec.tokens_file = Some(file.clone()), JobSettings::default()).await;
        let headers = [("x-token", "geheim"), ("content-type", "application/x-www-form-urlencoded")];
        let made = world.client().await.ask("POST", "/token/test-ns", &headers, b"description=the+tests").await;
        assert_eq!(made.status, 201, "{}", made.text());
        Lmstfy { world, dir, token: made.json()["token"].as_str().unwrap().to_owned() }
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut all = vec![("x-token", self.token.as_str())];
        all.extend(headers);
        self.world.client().await.ask(method, &format!("/api/test-ns/{path}"), &all, body).await
    }

    async fn publish(&self, queue: &str, data: &[u8], ttl: u32, tries: u16, delay: u32) -> String {
        let path = format!("{queue}?ttl={ttl}&tries={tries}&delay={delay}");
        let answer = self.ask("PUT", &path, &[], data).await;
        assert_eq!((answer.status, &answer.json()["msg"]), (201, &json!("published")), "{}", answer.text());
        assert!(answer.headers.contains_key("x-request-id"));
        answer.json()["job_id"].as_str().unwrap().to_owned()
    }

    async fn consume(&self, queues: &str, ttr: u32, timeout: u32) -> Option<Job> {
        let answer =
            self.ask("GET", &format!("{queues}?ttr={ttr}&timeout={timeout}&freeze_tries=false"), &[], b"").await;
        match answer.status {
            404 => {
                assert_eq!(answer.json(), json!({ "msg": "no job available" }));
                None
            }
            status => {
                assert_eq!((status, &answer.json()["msg"]), (200, &json!("new job")), "{}", answer.text());
                Some(Job::of(&answer.json()))
            }
        }
    }

    async fn consume_many(&self, queues: &str, count: u32, ttr: u32, timeout: u32) -> Vec<Job> {
        let answer = self.ask("GET", &format!("{queues}?ttr={ttr}&timeout={timeout}&count={count}"), &[], b"").await;
        match answer.status {
            404 => Vec::new(),
            _ => answer.json().as_array().unwrap().iter().map(Job::of).collect(),
        }
    }

    async fn republish(&self, job: &Job, ttl: u32) -> String {
        let path = format!("{}/job/{}?ttl={ttl}&tries=1&delay=0", job.queue, job.id);
        let answer = self.ask("PUT", &path, &[], &job.data).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["job_id"].as_str().unwrap().to_owned()
    }

    async fn bulk(&self, queue: &str, jobs: &[u8]) -> Vec<String> {
        let answer = self.ask("PUT", &format!("{queue}/bulk?ttl=10&tries=1&delay=0"), &[], jobs).await;
        assert_eq!((answer.status, &answer.json()["msg"]), (201, &json!("published")), "{}", answer.text());
        serde_json::from_value(answer.json()["job_ids"].clone()).unwrap()
    }

    /// A job of one try that a consumer had for a second and lost.
    async fn dead(&self, queue: &str) -> String {
        let id = self.publish(queue, b"hello1", 0, 1, 0).await;
        assert_eq!(self.consume(queue, 1, 0).await.unwrap().id, id);
        let topic = format!("test-ns.{queue}").parse().unwrap();
        // The daemon's clock does this once a second.
        eventually("the job to die", async || self.world.queue.tick(&topic, 100).await.unwrap().aged.died == 1).await;
        id
    }

    async fn size(&self, queue: &str) -> i64 {
        let answer = self.ask("GET", &format!("{queue}/size"), &[], b"").await.json();
        assert_eq!((&answer["namespace"], &answer["queue"]), (&json!("test-ns"), &json!(queue)));
        answer["size"].as_i64().unwrap()
    }
}

#[tokio::test]
async fn cases_2_3_21_24_25_26_publish_and_republish() {
    let lmstfy = Lmstfy::start().await;
    let id = lmstfy.publish("republish", b"hello", 0, 1, 0).await;
    assert_eq!(id.len(), 26);
    let job = lmstfy.consume("republish", 5, 1).await.unwrap();
    assert_eq!((&job.id, &job.data[..], job.ttl, job.remain_tries), (&id, &b"hello"[..], 0, 0));
    let new = lmstfy.republish(&job, 10).await;
    assert_ne!(new, id);
    let job = lmstfy.consume("republish", 5, 1).await.unwrap();
    assert_eq!((&job.id, &job.data[..], job.ttl), (&new, &b"hello"[..], 10));
    assert_eq!(lmstfy.ask("GET", &format!("republish/job/{id}"), &[], b"").await.status, 404, "the old one is gone");
    // An id of lmstfy itself, which is none of ours: only the new one is there.
    let foreign = Job { id: "1".to_owned() + &id, ..job };
    assert_eq!(lmstfy.republish(&foreign, 0).await.len(), 26);
}

#[tokio::test]
async fn cases_4_27_bodies_of_a_batch_are_the_bytes_that_were_sent() {
    let lmstfy = Lmstfy::start().await;
    let items = [r#""hello \u003cmsg\u003e""#, "123456", r#"{"msg":"success"}"#, r#"["foo", "bar"]"#, "true"];
    let ids = lmstfy.bulk("batch", format!("[{}]", items.join(",")).as_bytes()).await;
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), items.len());
    for _ in 0..items.len() {
        let job = lmstfy.consume("batch", 5, 1).await.unwrap();
        let at = ids.iter().position(|id| *id == job.id).unwrap();
        assert_eq!(String::from_utf8(job.data).unwrap(), items[at]);
    }
    let refused = lmstfy.ask("PUT", "batch/bulk", &[], b"{}").await;
    assert_eq!(
        (refused.status, refused.json()),
        (400, json!({ "error": "request body should be an array of objects" }))
    );
    assert_eq!(lmstfy.ask("PUT", "batch/bulk", &[], b"[]").await.json()["error"], "no jobs");
    let many = format!("[{}]", vec!["1"; 65].join(","));
    assert_eq!(lmstfy.ask("PUT", "batch/bulk", &[], many.as_bytes()).await.json()["error"], "too many jobs");
}

#[tokio::test]
async fn the_queues_of_all_namespaces_are_listed_for_the_administrator() {
    let lmstfy = Lmstfy::start().await;
    for queue in ["one", "two"] {
        lmstfy.publish(queue, b"hello", 0, 1, 0).await;
    }
    let info = async |token: &str| {
        let answer = lmstfy.world.client().await.ask("GET", "/info", &[("x-token", token)], b"").await;
        (answer.status, answer.json())
    };
    assert_eq!(info("geheim").await, (200, json!({ "test-ns": ["one", "two"] })));
    // A token of a namespace is none of the file.
    assert_eq!(info(&lmstfy.token).await, (401, json!({ "error": "invalid token" })));
}

#[tokio::test]
async fn cases_5_6_8_consume_ack_and_attributes() {
    let lmstfy = Lmstfy::start().await;
    let id = lmstfy.publish("consume", b"hello", 0, 1, 0).await;
    let job = lmstfy.consume("consume", 10, 0).await.unwrap();
    assert_eq!((&job.id, &job.data[..], job.attributes), (&id, &b"hello"[..], None));
    assert_eq!(lmstfy.ask("DELETE", &format!("consume/job/{id}"), &[], b"").await.status, 204);
    // Of a queue that never had it, and again: the answer is the same.
    assert_eq!(lmstfy.ask("DELETE", &format!("other/job/{id}"), &[], b"").await.status, 204);
    assert_eq!(lmstfy.ask("DELETE", &format!("consume/job/{id}"), &[], b"").await.status, 204);
    assert_eq!(lmstfy.world.sizes("test-ns.consume").await, [0; 4]);

    let headers = [("enable-job-version", "YES"), ("job-attr-HELLO", "world"), ("job-attr-FOO", "bar")];
    let published = lmstfy.ask("PUT", "attributes?ttl=10&tries=10", &headers, b"hello").await;
    assert_eq!(published.status, 201);
    let job = lmstfy.consume("attributes", 10, 3).await.unwrap();
    assert_eq!((&job.data[..], job.remain_tries), (&b"hello"[..], 9));
    let expected = BTreeMap::from([("hello".to_owned(), "world".to_owned()), ("foo".to_owned(), "bar".to_owned())]);
    assert_eq!(job.attributes, Some(expected));
    let many: Vec<(String, &str)> = (0..17).map(|n| (format!("job-attr-{n}"), "x")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let refused = lmstfy.ask("PUT", "attributes", &[&[("enable-job-version", "yes")][..], &many].concat(), b"x").await;
    assert_eq!(refused.json()["error"], "too many attributes, cannot exceed 16");
}

#[tokio::test]
async fn cases_7_9_several_jobs_and_several_queues() {
    let lmstfy = Lmstfy::start().await;
    let mut ids = HashSet::new();
    for _ in 0..4 {
        ids.insert(lmstfy.publish("many", b"hello", 0, 1, 0).await);
    }
    let first = lmstfy.consume_many("many", 3, 30, 3).await;
    let second = lmstfy.consume_many("many", 3, 30, 3).await;
    assert_eq!((first.len(), second.len()), (3, 1));
    assert_eq!(first.iter().chain(&second).map(|job| job.id.clone()).collect::<HashSet<_>>(), ids);
    let began = Instant::now();
    assert!(lmstfy.consume_many("many", 3, 3, 1).await.is_empty());
    assert!(began.elapsed() >= Duration::from_secs(1));

    lmstfy.publish("multi1", b"hello1", 0, 1, 0).await;
    let id = lmstfy.publish("multi2", b"hello2", 0, 1, 0).await;
    let job = lmstfy.consume("multi2,multi1", 10, 1).await.unwrap();
    assert_eq!((job.queue.as_str(), &job.id, &job.data[..]), ("multi2", &id, &b"hello2"[..]));
    assert_eq!(lmstfy.consume("multi2,multi1", 10, 1).await.unwrap().queue, "multi1");
    assert_eq!(lmstfy.ask("GET", "multi1?count=101", &[], b"").await.json()["error"], "invalid count");
}

#[tokio::test]
async fn cases_10_11_12_sizes_and_looks() {
    let lmstfy = Lmstfy::start().await;
    let empty = lmstfy.ask("GET", "peek/peek", &[], b"").await;
    assert_eq!((empty.status, empty.json()), (404, json!({ "error": "the queue is empty" })));
    let id = lmstfy.publish("peek", b"hello1", 0, 1, 0).await;
    lmstfy.publish("peek", b"hello2", 0, 1, 0).await;
    lmstfy.publish("peek", b"later", 0, 1, 60).await;
    let job = Job::of(&lmstfy.ask("GET", "peek/peek", &[], b"").await.json());
    assert_eq!((&job.id, &job.data[..], job.remain_tries), (&id, &b"hello1"[..], 1));
    assert_eq!(lmstfy.size("peek").await, 2);
    let job = Job::of(&lmstfy.ask("GET", &format!("peek/job/{id}"), &[], b"").await.json());
    assert_eq!(job.data, b"hello1");
    let gone = lmstfy.ask("GET", "peek/job/01ARYZ6S410000000000000000", &[], b"").await;
    assert_eq!((gone.status, gone.json()), (404, json!({ "error": "job not found" })));
    assert_eq!(lmstfy.ask("DELETE", "peek", &[], b"").await.status, 204);
    assert_eq!(lmstfy.size("peek").await, 0);
}

#[tokio::test]
async fn cases_13_14_15_dead_letters() {
    let lmstfy = Lmstfy::start().await;
    let none = lmstfy.ask("GET", "dead/deadletter", &[], b"").await.json();
    assert_eq!((&none["deadletter_size"], &none["deadletter_head"]), (&json!(0), &json!("")));
    let id = lmstfy.dead("dead").await;
    let dead = lmstfy.ask("GET", "dead/deadletter", &[], b"").await.json();
    let expected = json!({ "namespace": "test-ns", "queue": "dead", "deadletter_size": 1, "deadletter_head": id });
    assert_eq!(dead, expected);
    assert_eq!(lmstfy.ask("GET", "dead/deadletter/size", &[], b"").await.json()["size"], 1);

    let respawned = lmstfy.ask("PUT", "dead/deadletter?limit=2&ttl=120", &[], b"").await.json();
    assert_eq!(respawned, json!({ "msg": "respawned", "count": 1 }));
    let job = lmstfy.consume("dead", 1, 0).await.unwrap();
    assert_eq!((&job.id, &job.data[..]), (&id, &b"hello1"[..]));

    let other = lmstfy.dead("gone").await;
    assert_eq!(lmstfy.ask("DELETE", "gone/deadletter?limit=2", &[], b"").await.status, 204);
    assert_eq!(lmstfy.ask("GET", &format!("gone/job/{other}"), &[], b"").await.status, 404);
    assert_eq!(lmstfy.ask("PUT", "dead/deadletter?limit=0", &[], b"").await.json()["error"], "invalid limit");
}

#[tokio::test]
async fn cases_16_to_20_a_client_with_a_shorter_time_out_costs_no_job() {
    let lmstfy = Lmstfy::start().await;
    // The Go client refuses such a request before it is sent. One that sends it hangs up while the server waits.
    let mut client = lmstfy.world.client().await;
    let token = [("x-token", lmstfy.token.as_str())];
    lmstfy.world.until_connected(1).await;
    client.send("GET", "/api/test-ns/short?ttr=600&timeout=6", &token, b"").await;
    drop(client);
    lmstfy.world.until_connected(0).await;
    let id = lmstfy.publish("short", b"hello", 0, 1, 0).await;
    assert_eq!(lmstfy.consume("short", 10, 3).await.unwrap().id, id, "the only try was not used up");
    assert!(lmstfy.consume("short", 10, 0).await.is_none());
}

#[tokio::test]
async fn cases_22_23_28_a_request_that_was_given_up_is_done_or_not_and_nothing_else() {
    let lmstfy = Lmstfy::start().await;
    // Given up before its body was sent.
    let mut client = lmstfy.world.client().await;
    let head = format!(
        "PUT /api/test-ns/given-up HTTP/1.1\r\nhost: localhost\r\nx-token: {}\r\ncontent-length: 5\r\n\r\nhel",
        lmstfy.token
    );
    lmstfy.world.until_connected(1).await;
    client.raw(head.as_bytes()).await;
    drop(client);
    lmstfy.world.until_connected(0).await;
    assert_eq!(lmstfy.size("given-up").await, 0);
    // Given up while it was answered: the job is there, as a whole.
    let mut client = lmstfy.world.client().await;
    lmstfy.world.until_connected(1).await;
    client.send("PUT", "/api/test-ns/given-up", &[("x-token", lmstfy.token.as_str())], b"hello").await;
    drop(client);
    lmstfy.world.until_connected(0).await;
    if let Some(job) = lmstfy.consume("given-up", 10, 0).await {
        assert_eq!(job.data, b"hello");
    }
}

#[tokio::test]
async fn mistakes_have_the_words_of_lmstfy() {
    let lmstfy = Lmstfy::start().await;
    let check = async |method: &str, path: &str, status: u16, error: &str| {
        let answer = lmstfy.ask(method, path, &[], b"hello").await;
        assert_eq!((answer.status, answer.json()), (status, json!({ "error": error })), "{method} {path}");
    };
    check("PUT", "q?ttl=5&delay=10", 400, "ttl is shorter than delay").await;
    check("PUT", "q?tries=0", 400, "tries shouldn't be zero").await;
    check("PUT", "q?tries=70000", 400, "invalid tries").await;
    check("PUT", "q?delay=x", 400, "invalid delay").await;
    check("PUT", "q?ttl=-1", 400, "invalid ttl").await;
    check("PUT", "_q", 400, "queue name contains forbidden characters").await;
    check("PUT", "q.r", 400, "queue name contains forbidden characters").await;
    check("PUT", "q,r", 400, "queue name contains forbidden characters").await;
    check("GET", "q?timeout=x", 400, "invalid timeout").await;
    check("GET", ",", 400, "invalid queue name(s)").await;
    check("POST", "q/nothing", 404, "api not found").await;
    let large = vec![b'x'; (1 << 20) + 1];
    let answer = lmstfy.ask("PUT", "q", &[], &large).await;
    assert_eq!((answer.status, answer.json()), (413, json!({ "error": "body too large" })));
    assert_eq!(lmstfy.size("q").await, 0);
}

#[tokio::test]
async fn tokens_belong_to_a_namespace_and_can_be_taken_away() {
    let lmstfy = Lmstfy::start().await;
    let ask = async |token: &str, path: &str| {
        let headers = [("x-token", token)];
        let headers = if token.is_empty() { &[][..] } else { &headers[..] };
        let answer = lmstfy.world.client().await.ask("PUT", path, headers, b"x").await;
        (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    let own = &lmstfy.token;
    assert_eq!(ask("", "/api/test-ns/q").await, (401, "token not found".to_owned()));
    assert_eq!(ask("01ARYZ6S41", "/api/test-ns/q").await, (401, "invalid token".to_owned()));
    assert_eq!(ask(own, "/api/other/q").await, (401, "invalid token".to_owned()));
    assert_eq!(ask(&format!("default:{own}"), "/api/test-ns/q").await.0, 201);
    assert_eq!(ask("", &format!("/api/test-ns/q?token={own}")).await.0, 201);

    let admin = async |method: &str, path: &str| {
        lmstfy.world.client().await.ask(method, path, &[("x-token", "geheim")], b"").await
    };
    let listed = admin("GET", "/token/test-ns").await.json();
    let tokens = listed["tokens"].as_object().unwrap();
    assert_eq!(tokens.values().collect::<Vec<_>>(), ["the tests"]);
    assert!(!listed.to_string().contains(own.as_str()), "a token is never shown again");
    assert_eq!(admin("POST", "/token/test-ns").await.json()["error"], "invalid description");
    assert_eq!(
        admin("POST", "/token/test-ns?description=a&token=short").await.json()["error"],
        "the user token was too short"
    );
    let chosen = admin("POST", "/token/test-ns?description=a&token=01234567890123456789").await;
    assert_eq!((chosen.status, &chosen.json()["token"]), (201, &json!("01234567890123456789")));
    assert_eq!(ask("01234567890123456789", "/api/test-ns/q").await.0, 201);
    assert_eq!(ask(own, "/token/test-ns/x").await.0, 404, "there is no PUT");
    let refused =
        lmstfy.world.client().await.ask("POST", "/token/test-ns?description=a", &[("x-token", own)], b"").await;
    assert_eq!(refused.status, 401, "a token that was made makes no others");
    let refused = lmstfy.world.client().await.ask("GET", "/token/test-ns", &[("x-token", own)], b"").await;
    assert_eq!(refused.status, 401, "and lists none");
    assert_eq!(admin("DELETE", &format!("/token/test-ns/{own}")).await.status, 204);
    assert_eq!(ask(own, "/api/test-ns/q").await, (401, "invalid token".to_owned()));
}

/// At the address for clients there are no tokens to be made; at that for administrators a client on the same machine needs none.
#[tokio::test]
async fn clients_and_administrators_may_have_addresses_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    std::fs::write(&file, "root 0123456789abcdef admin *\n").unwrap();
    let faces = |faces: Vec<Face>| {
        let file = file.clone();
        World::with(move |spec| (spec.tokens_file, spec.faces) = (Some(file), faces), JobSettings::default())
    };
    let clients = faces(vec![Face::Lmstfy]).await;
    let mut client = clients.client().await;
    assert_eq!(client.ask("POST", "/token/ns?description=x", &[], b"").await.status, 404);
    assert_eq!(client.ask("GET", "/v1/topics", &[], b"").await.status, 404);
    assert_eq!(client.ask("GET", "/api/ns/q?timeout=0", &[], b"").await.status, 401);
    let root = [("x-token", "0123456789abcdef")];
    assert_eq!(client.ask("GET", "/api/ns/q/size", &root, b"").await.status, 200);
    let admin = faces(vec![Face::LmstfyAdmin]).await;
    let mut client = admin.client().await;
    let made = client.ask("POST", "/token/ns?description=x", &[], b"").await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(client.ask("GET", "/info", &[], b"").await.status, 200);
    // A page in a browser on this machine is not trusted.
    let page = [("origin", "http://evil.example")];
    assert_eq!(client.ask("POST", "/token/ns?description=y", &page, b"").await.status, 401);
    assert_eq!(client.ask("GET", "/api/ns/q/size", &root, b"").await.status, 404);
}

#[tokio::test]
async fn what_a_token_made_ends_with_it() {
    let lmstfy = Lmstfy::start().await;
    let publish = async || lmstfy.ask("PUT", "q", &[], b"x").await.status;
    assert_eq!(publish().await, 201);
    // Another owner has no right to the namespace.
    let hash = "addb0f5e7826c857d7376d1bd9bc33c0c544790a2eac96144a8af22b1298c940";
    let write = |name: &str, topics: &str| {
        let text = format!(
            "tokens: {{ {name}: {{ sha256: {hash}, grants: [{{ topics: ['{topics}'], rights: [admin] }}] }} }}\n"
        );
        std::fs::write(lmstfy.dir.path().join("tokens.yaml"), text).unwrap();
    };
    let until = async |expected: u16| {
        delaybridge_link::test_server::eventually("the tokens are read again", async || publish().await == expected)
            .await;
    };
    write("other", "*");
    until(401).await;
    write("root", "test-ns.*");
    until(201).await;
    write("root", "elsewhere.*");
    until(401).await;
}

/// The limiter's cases of lmstfy's own server tests, in our words.
#[tokio::test]
async fn a_token_may_be_used_so_often() {
    let lmstfy = Lmstfy::start().await;
    let path = format!("/token/test-ns/{}/limit", lmstfy.token);
    let admin = async |method: &str, body: &str| {
        lmstfy.world.client().await.ask(method, &path, &[("x-token", "geheim")], body.as_bytes()).await
    };
    assert_eq!(admin("GET", "").await.status, 404);
    assert_eq!(admin("POST", r#"{"read":0,"write":0,"interval":2}"#).await.status, 400);
    assert_eq!(admin("POST", r#"{"read":1,"write":0,"interval":0}"#).await.status, 400);
    let limits = json!({ "read": 2, "write": 3, "interval": 2 });
    let added = admin("POST", &limits.to_string()).await;
    assert_eq!((added.status, added.json()), (201, json!({ "limiter": limits })));
    assert_eq!(admin("POST", &limits.to_string()).await.status, 409, "it has one");
    assert_eq!((admin("GET", "").await.status, admin("GET", "").await.json()), (200, limits.clone()));
    let listed = lmstfy.world.client().await.ask("GET", "/token/test-ns", &[("x-token", "geheim")], b"").await.json();
    assert_eq!(listed["tokens"].as_object().unwrap().values().collect::<Vec<_>>(), ["the tests"]);

    let publish = async || lmstfy.ask("PUT", "q", &[], b"x").await;
    let consume = async || lmstfy.ask("GET", "q?ttr=10&timeout=0", &[], b"").await;
    for _ in 0..3 {
        assert_eq!(publish().await.status, 201);
    }
    let throttled = publish().await;
    assert_eq!((throttled.status, throttled.headers["retry-after"].as_str()), (429, "1"));
    assert!(throttled.json()["msg"].as_str().unwrap().contains("3 in 2s"), "{}", throttled.text());
    assert_eq!([consume().await.status, consume().await.status, consume().await.status], [200, 200, 429]);
    let again = "as many are allowed after a while";
    delaybridge_link::test_server::eventually(again, async || publish().await.status == 201).await;

    let more = json!({ "read": 0, "write": 1000, "interval": 1 });
    assert_eq!(admin("PUT", &more.to_string()).await.status, 200);
    for _ in 0..10 {
        assert_eq!((publish().await.status, consume().await.status), (201, 200), "zero is no limit");
    }
    assert_eq!((admin("DELETE", "").await.status, admin("GET", "").await.status), (200, 404));
    let own = [("x-token", lmstfy.token.as_str())];
    let own = lmstfy.world.client().await.ask("POST", &path, &own, limits.to_string().as_bytes()).await;
    assert_eq!(own.status, 401, "a token does not lift its own limits");
}

/// As in the server's own tests: without a time to run a job is dead after its only try.
#[tokio::test]
async fn a_job_without_a_time_to_run_comes_back_at_once() {
    let lmstfy = Lmstfy::start().await;
    lmstfy.publish("q", b"x", 60, 2, 0).await;
    let first = lmstfy.ask("GET", "q?ttr=0&timeout=1", &[], b"").await.json();
    let second = lmstfy.ask("GET", "q?ttr=0&timeout=1", &[], b"").await.json();
    assert_eq!(
        (&first["job_id"], &first["remain_tries"], &second["remain_tries"]),
        (&second["job_id"], &json!(1), &json!(0))
    );
}
