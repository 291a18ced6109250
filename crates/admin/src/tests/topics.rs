//! Topics of the job queue: in the API, and on the page.

use serde_json::json;

use super::{TOKEN, World};
use delaybridge_config::load_str;
use delaybridge_ops::Session;
use delaybridge_ops::jobs::NewJob;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

pub(super) async fn add(world: &World, topic: &str, bodies: &[&str]) {
    let yaml = format!("redis: {{ url: 'redis://127.0.0.1:{}' }}\njobs: {{}}\n", world.redis.port());
    let config = load_str(&yaml, "c.yaml", &|_| None).unwrap().config;
    let jobs = Session::open(config, "ann").await.unwrap().jobs().unwrap();
    let new = bodies.iter().map(|body| NewJob::new(body.as_bytes().to_vec())).collect();
    jobs.add(&topic.parse().unwrap(), new).await.unwrap();
}

#[tokio::test]
async fn topics_are_listed_looked_at_and_paused() {
    let world = World::start(true).await;
    add(&world, "orders", &["one", "two"]).await;
    add(&world, "mails", &["three"]).await;
    let found = world.get("/v1/topics").await;
    let names: Vec<_> =
        found["topics"].as_array().unwrap().iter().map(|topic| topic["topic"].as_str().unwrap()).collect();
    assert_eq!((names, &found["next"]), (vec!["audit", "mails", "orders"], &json!(null)));
    assert_eq!((&found["topics"][2]["ready"], &found["topics"][0]["ready"]), (&json!(2), &json!(0)));

    // Page by page, each once.
    let first = world.get("/v1/topics?limit=1").await;
    assert_eq!((&first["topics"][0]["topic"], &first["next"]), (&json!("audit"), &json!("audit")));
    let second = world.get("/v1/topics?limit=1&after=audit").await;
    assert_eq!((&second["topics"][0]["topic"], &second["next"]), (&json!("mails"), &json!("mails")));
    let rest = world.get("/v1/topics?after=mails").await;
    assert_eq!((rest["topics"].as_array().unwrap().len(), &rest["next"]), (1, &json!(null)));

    assert_eq!(world.get("/v1/topics/audit").await["limits"]["ttr_ms"], 5_000);
    assert_eq!(world.ask("POST", "/v1/topics/orders/pause", "").await.json()["paused"], true);
    assert_eq!(world.get("/v1/topics/orders").await["paused"], true);
    let jobs = world.get("/v1/topics/orders/jobs?state=ready").await;
    assert_eq!((jobs["jobs"].as_array().unwrap().len(), &jobs["jobs"][0]["state"]), (2, &json!("ready")));
    assert_eq!(world.ask("POST", "/v1/topics/orders/resume", "").await.json()["paused"], false);
    assert_eq!(world.get("/v1/topics/orders").await["paused"], false);

    // A misspelt topic is not made by a pause; bodies and changes need the token.
    assert_eq!(world.ask("POST", "/v1/topics/ordres/pause", "").await.problem().0, 404);
    assert_eq!(world.ask("GET", "/v1/topics/ordres", "").await.problem().0, 404);
    assert_eq!(world.ask("GET", "/v1/topics/a%20b", "").await.problem().0, 400);
    assert_eq!(world.ask("GET", "/v1/topics/orders/jobs?state=late", "").await.problem().0, 400);
    assert_eq!(world.send("GET", "/v1/topics/orders/jobs", &[], "").await.status, 401);
    assert_eq!(world.send("POST", "/v1/topics/orders/pause", &[], "").await.status, 401);
    assert_eq!(world.get("/v1/topics").await["topics"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn the_page_shows_topics_and_their_jobs() {
    let world = World::start(true).await;
    add(&world, "orders", &["<script>alert(1)</script>"]).await;
    let token = format!("Bearer {TOKEN}");
    let token = ("authorization", token.as_str());
    let text = async |path: &str| {
        let answer = world.send("GET", path, &[token], "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    };
    for path in ["/", "/topics"] {
        let page = text(path).await;
        assert!(page.contains("href=\"topics/orders\"") && page.contains("href=\"topics/audit\""), "{page}");
        assert!(page.contains("ready for"), "{page}");
    }
    let topic = text("/topics/orders").await;
    assert!(topic.contains("max_body") && topic.contains("orders/jobs?state=ready"), "{topic}");
    assert!(topic.contains("action=\"orders/pause\""), "{topic}");
    let jobs = text("/topics/orders/jobs?state=ready").await;
    assert!(jobs.contains("&lt;script&gt;alert(1)") && !jobs.contains("<script>alert"), "{jobs}");
    let paused = world.send("POST", "/topics/orders/pause", &[token, FORM, ("origin", "http://localhost")], "").await;
    assert_eq!((paused.status, paused.headers["location"].as_str()), (303, "../orders"), "{}", paused.text());
    assert!(text("/topics/orders").await.contains("Resume") && text("/").await.contains("Nothing is handed out"));
    // Without a token there are numbers, and neither jobs nor changes.
    let page = world.send("GET", "/topics/orders", &[], "").await.text();
    assert!(page.contains("Jobs are shown after a login") && !page.contains("orders/pause"), "{page}");
    assert_eq!(world.send("GET", "/topics/orders/jobs", &[], "").await.status, 401);
}
