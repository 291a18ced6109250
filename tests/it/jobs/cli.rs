//! `delaybridge jobs` as a shell script uses it, and the daemon's care for jobs without consumers.

use std::process::Output;

use serde_json::Value;

use harness::daemon::{ConfigFile, cli};
use harness::{Daemon, RedisServer, eventually};

struct Answer(Output);

impl Answer {
    #[track_caller]
    fn code(&self, code: i32) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let out = text(&self.0.stdout);
        let err = text(&self.0.stderr);
        assert_eq!(self.0.status.code(), Some(code), "{out}{err}");
        out + &err
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.code(0)).expect("one JSON document")
    }
}

fn ask(config: &ConfigFile, line: &[&str]) -> Answer {
    Answer(cli(config, &[&["jobs"], line].concat()))
}

fn config(server: &RedisServer) -> ConfigFile {
    let topics = "{ defaults: { tries: 2, ttr: 300ms }, topics: { small: { max_jobs: 1, max_body: 10B } } }";
    ConfigFile::new(&format!("http: none\nredis: {{ url: {} }}\njobs: {topics}\n", server.url()))
}

#[tokio::test]
async fn a_job_goes_through_its_life_on_the_command_line() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let added = ask(&config, &["add", "orders", "--id", "4711", "--body", "{}", "--output", "json"]).json();
    assert_eq!((&added["jobs"][0]["id"], &added["jobs"][0]["created"]), (&"orders~4711".into(), &true.into()));
    let again = ask(&config, &["add", "orders", "--id", "4711", "--body", "{}"]).code(0);
    assert!(again.contains("was there already"), "{again}");
    ask(&config, &["add", "orders", "--delay", "1h", "--body", "later"]).code(0);
    let unique = ["add", "mails", "--unique", "welcome ada", "--unique-for", "1h", "--body", "x", "--output", "json"];
    let first = ask(&config, &unique).json()["jobs"][0].clone();
    let second = ask(&config, &unique).json()["jobs"][0].clone();
    assert_eq!((&second["existing"], &second["created"]), (&first["id"], &false.into()));
    assert!(ask(&config, &unique[..8]).code(0).contains("holds the unique key; nothing was added"));
    ask(&config, &unique[..4]).code(2);
    ask(&config, &["destroy", "mails", "--yes"]).code(0);

    let topics = ask(&config, &["topics", "--output", "json"]).json();
    let orders = &topics["topics"].as_array().expect("topics")[0];
    assert_eq!((&orders["topic"], &orders["ready"], &orders["delay"]), (&"orders".into(), &1.into(), &1.into()));

    // `peek` shows a topic like a queue.
    let peek = |line: &[&str]| Answer(cli(&config, &[&["peek"], line].concat()));
    assert!(
        peek(&["orders"]).code(0).contains("later") && peek(&["orders", "--state", "ready"]).code(0).contains("4711")
    );
    assert!(peek(&["orders", "--state", "retry"]).code(2).contains("a topic has no jobs in `retry`"));
    assert!(peek(&["nothing"]).code(2).contains("no queue with this id; it has none"));

    let popped = ask(&config, &["pop", "orders", "--ttr", "1m", "--output", "json"]).json();
    let job = &popped["jobs"][0];
    assert_eq!((&job["payload"], &job["attempts"], &job["tries_left"]), (&"{}".into(), &1.into(), &1.into()));
    let token = job["token"].as_str().expect("a token");
    ask(&config, &["pop", "orders"]).code(4);
    ask(&config, &["touch", "orders~4711", "--token", token, "--ttr", "2m"]).code(0);
    let other = "AAAAAAAAAAAAAAAA";
    let refused = ask(&config, &["finish", "orders~4711", "--token", other]).code(1);
    assert!(refused.contains("not reserved under this token"), "{refused}");
    ask(&config, &["release", "orders~4711", "--token", token, "--reason", "busy"]).code(0);
    let shown = ask(&config, &["get", "orders~4711"]).code(0);
    assert!(shown.contains("ready") && shown.contains("busy"), "{shown}");

    let popped = ask(&config, &["pop", "orders", "--ttr", "1m", "--output", "json"]).json();
    let token = popped["jobs"][0]["token"].as_str().expect("a token");
    ask(&config, &["bury", "orders~4711", "--token", token, "--reason", "no such customer"]).code(0);
    let dead = ask(&config, &["dead", "ls", "orders"]).code(0);
    assert!(dead.contains("orders~4711") && dead.contains("no such customer"), "{dead}");
    ask(&config, &["dead", "redrive", "orders", "--all"]).code(0);
    let popped = ask(&config, &["pop", "nothing", "orders", "--output", "json"]).json();
    let token = popped["jobs"][0]["token"].as_str().expect("a token");
    ask(&config, &["finish", "orders~4711", "--token", token]).code(0);
    ask(&config, &["get", "orders~4711"]).code(1);
    ask(&config, &["destroy", "orders"]).code(2);
    ask(&config, &["empty", "orders"]).code(2);
    let emptied = ask(&config, &["empty", "orders", "--yes", "--output", "json"]).json();
    assert_eq!(emptied["count"], 1);
    ask(&config, &["add", "orders", "--body", "x"]).code(0);
    ask(&config, &["pop", "orders", "--ttr", "1m"]).code(0);
    let refused = ask(&config, &["destroy", "orders", "--yes"]).code(1);
    assert!(refused.contains("in use: 1 jobs are reserved") && refused.contains("--force"), "{refused}");
    ask(&config, &["destroy", "orders", "--yes", "--force"]).code(0);
    ask(&config, &["destroy", "orders", "--yes"]).code(0);
    assert!(ask(&config, &["topics"]).code(0).contains("small"), "a topic with settings of its own is always shown");
}

#[tokio::test]
async fn a_waiting_job_is_changed_on_the_command_line() {
    let server = RedisServer::start().await;
    let config = config(&server);
    ask(&config, &["add", "orders", "--id", "a", "--delay", "1h", "--body", "old"]).code(0);
    let due = "4000000000000";
    let changed = ask(&config, &["change", "orders~a", "--due", due, "--body", "new", "--output", "json"]).json();
    assert_eq!((&changed["changed"], &changed["due_ms"]), (&true.into(), &4_000_000_000_000_i64.into()));
    let shown = ask(&config, &["get", "orders~a", "--output", "json"]).json();
    assert_eq!((&shown["jobs"][0]["payload"], &shown["jobs"][0]["due_ms"]), (&"new".into(), &changed["due_ms"]));
    assert!(ask(&config, &["change", "orders~a", "--due", due]).code(0).contains("was so already"));
    let other = ask(&config, &["change", "orders~a", "--delay", "0s", "--if-due", "1"]).code(1);
    assert!(other.contains("another due time, 4000000000000"), "{other}");
    ask(&config, &["change", "orders~a"]).code(2);
    ask(&config, &["change", "orders~a", "--delay", "0s", "--if-due", due]).code(0);
    ask(&config, &["pop", "orders", "--ttr", "1m"]).code(0);
    let refused = ask(&config, &["change", "orders~a", "--delay", "1h"]).code(1);
    assert!(refused.contains("the job is reserved"), "{refused}");
    ask(&config, &["change", "orders~nobody", "--delay", "1h"]).code(1);
    ask(&config, &["add", "mails", "--id", "low", "--body", "x"]).code(0);
    ask(&config, &["add", "mails", "--id", "high", "--body", "x", "--priority", "8"]).code(0);
    let shown = |id: &str| ask(&config, &["get", id, "--output", "json"]).json()["jobs"][0]["priority"].clone();
    assert_eq!((shown("mails~high"), shown("mails~low")), (8.into(), Value::Null));
    assert!(ask(&config, &["change", "mails~low", "--priority", "9"]).code(0).contains("changed"));
    assert!(ask(&config, &["get", "mails~low"]).code(0).contains("priority      9"));
    assert!(Answer(cli(&config, &["peek", "mails"])).code(0).contains("PRIORITY"));
    let popped = ask(&config, &["pop", "mails", "--ttr", "1m", "--output", "json"]).json();
    assert_eq!(popped["jobs"][0]["id"], "mails~low");
    ask(&config, &["change", "mails~high", "--priority", "10"]).code(2);
    ask(&config, &["add", "small", "--id", "a", "--body", "x"]).code(0);
    let large = ask(&config, &["change", "small~a", "--body", "more than ten bytes"]).code(2);
    assert!(large.contains("19 bytes, topic small allows 10"), "{large}");
}

#[tokio::test]
async fn topics_that_are_not_listed_are_refused_on_request() {
    let server = RedisServer::start().await;
    let yaml = |more: &str| {
        let jobs = "{ topics: { small: {} }, unknown_topics: refuse }";
        ConfigFile::new(&format!("http: none\nredis: {{ url: {} }}\njobs: {jobs}\n{more}", server.url()))
    };
    let config = yaml("");
    ask(&config, &["add", "small", "--body", "x"]).code(0);
    let refused = ask(&config, &["add", "samll", "--body", "x"]).code(2);
    assert!(refused.contains("topic samll is not listed") && refused.contains("jobs.topics"), "{refused}");
    assert!(!ask(&config, &["topics"]).code(0).contains("samll"));
    let input = yaml("inputs: { in: { kafka: { brokers: ['127.0.0.1:9092'], topics: [x] }, topic: other } }\n");
    let checked = Answer(cli(&input, &["check"])).code(2);
    assert!(checked.contains("refuses the topic `other` of input `in`"), "{checked}");
}

#[tokio::test]
async fn limits_are_refused_in_words() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let large = ask(&config, &["add", "small", "--body", "more than ten bytes"]).code(2);
    assert!(large.contains("19 bytes, topic small allows 10"), "{large}");
    ask(&config, &["add", "small", "--body", "x"]).code(0);
    let full = ask(&config, &["add", "small", "--body", "y"]).code(1);
    assert!(full.contains("topic small is full: it may have 1 jobs"), "{full}");
    let none = ConfigFile::new(&format!(
        "http: none\nredis: {{ url: {} }}\nsinks: {{ out: {{ stdout: {{}} }} }}\nqueues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ));
    assert!(ask(&none, &["topics"]).code(2).contains("write `jobs: {}`"));
}

#[tokio::test]
async fn the_daemon_gives_back_what_a_consumer_kept_and_shows_it() {
    let server = RedisServer::start().await;
    let yaml = format!("redis: {{ url: {} }}\njobs: {{ defaults: {{ tries: 2, ttr: 100ms }} }}\n", server.url());
    let mut daemon = Daemon::start(&yaml).await;
    let config = ConfigFile::new(&format!("http: none\n{yaml}"));
    ask(&config, &["add", "orders", "--body", "x"]).code(0);
    ask(&config, &["add", "orders", "--body", "y", "--ttl", "200ms", "--delay", "100ms"]).code(0);
    ask(&config, &["pop", "orders"]).code(0);
    let wait = std::time::Duration::from_secs(30);
    let metric = async |series: &str| daemon.metric(series).await;
    eventually("the first comes back, the second is dropped", wait, async || {
        let ready = metric("delaybridge_jobs{place=\"ready\",topic=\"orders\"}").await;
        let ended = [
            metric("delaybridge_jobs_ended_total{how=\"timed_out\",topic=\"orders\"}").await,
            metric("delaybridge_jobs_ended_total{how=\"expired\",topic=\"orders\"}").await,
        ];
        if ready == 1.0 && ended == [1.0, 1.0] { Ok(()) } else { Err(format!("ready {ready}, ended {ended:?}")) }
    })
    .await;
    ask(&config, &["pop", "orders"]).code(0);
    eventually("its last try is over", wait, async || {
        let dead = metric("delaybridge_jobs{place=\"dead\",topic=\"orders\"}").await;
        if dead == 1.0 { Ok(()) } else { Err(format!("dead {dead}")) }
    })
    .await;
    daemon.stop().await;
}
