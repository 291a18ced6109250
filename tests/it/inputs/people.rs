//! What people do with messages that wait: they look for them, cancel and move them by the id of the message, and change an input.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use crate::amqp::{blocking, shared, start, url};
use crate::faults::rig::PATIENCE;
use harness::amqp::Rabbits;
use harness::ports::free_port;
use harness::publisher::Publisher;
use harness::{Daemon, RedisServer, eventually, http};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_found_moved_and_cancelled_by_its_id() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let url = url(&rabbit);
    let publisher = Publisher::connect(&url).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let page = free_port();
    let jobs = free_port();
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         jobs: {{ listen: '127.0.0.1:{jobs}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{url}' }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{url}', queue: delay-in }}, topic: late, to: {{ sink: shop }} }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start_for_operators_at(&format!("127.0.0.1:{page}"), &yaml).await;
    for id in ["order-1", "order-2", "order-3", "order 4"] {
        let headers = [("x-delay", AMQPValue::LongInt(3_600_000))];
        let properties = BasicProperties::default().with_message_id(id.into());
        publisher.publish(("delayed", "orders"), properties, &headers, id).await.expect("publish");
    }
    daemon.expect_log("an operator's change over Redis failed");
    let run = |arguments: &[&str]| {
        let output = daemon.beside(arguments);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), text)
    };
    let said = async |arguments: &[&str], expected: &str| {
        eventually(expected, PATIENCE, async || match run(arguments) {
            (true, text) if text.contains(expected) => Ok(text),
            (_, text) => Err(text),
        })
        .await
    };
    // Where it is, and what is known of its input.
    let listed = said(&["peek", "late"], "late~order-3").await;
    assert!(listed.contains("late~order-1") && listed.contains("late~h~"), "{listed}");
    let daemon_url = format!("http://127.0.0.1:{page}");
    let seen = said(&["queues", "--daemon", &daemon_url], "4 received, 4 scheduled").await;
    assert!(seen.contains("late: input up for"), "{seen}");
    said(&["why", "late", "late~order-1"], "late~order-1").await;
    let rows = http::get(page, "/v1/queues", Duration::from_secs(10)).await.expect("the queues").body;
    let rows: serde_json::Value = serde_json::from_str(&rows).expect("JSON");
    let input = &rows["queues"][0]["here"]["input"];
    assert_eq!(
        (&input["state"], &input["scheduled"], &input["refused"]),
        (&"up".into(), &4.into(), &0.into()),
        "{rows}"
    );
    let html = http::get(page, "/queues/late", Duration::from_secs(10)).await.expect("the page").body;
    assert!(html.contains("4 received, 4 scheduled, 0 known already"), "{html}");

    // Cancelled at the command line and over HTTP; the same once more is told apart.
    assert!(run(&["cancel", "late", "late~order-1"]).0);
    let (again, text) = run(&["cancel", "late", "late~order-1"]);
    assert!(!again && text.contains("it was delivered or cancelled"), "{text}");
    let path = "/v1/jobs/late~order-2";
    let delete = async || http::send(jobs, "DELETE", path, &[], b"", Duration::from_secs(10)).await.expect("an answer");
    assert_eq!((delete().await.status, delete().await.status), (204, 404));
    // Moved: what was due in an hour comes now, by the command line and over HTTP.
    assert!(run(&["reschedule", "late", "late~order-3", "--in", "1s"]).0);
    let change = format!("/v1/jobs/late~h~{:032x}", xxhash_rust::xxh3::xxh3_128(b"order 4"));
    let body = br#"{"delay":"0s"}"#;
    let headers = [("content-type", "application/json")];
    let changed = http::send(jobs, "PATCH", &change, &headers, body, Duration::from_secs(10)).await.expect("an answer");
    assert!((200..300).contains(&changed.status), "{} {}", changed.status, changed.body);
    let mut came = Vec::new();
    eventually("both messages", PATIENCE, async || {
        came.extend(Rabbits::connect(&url).await?.take_all("orders").await?);
        if came.len() >= 2 { Ok(()) } else { Err(format!("{}", came.len())) }
    })
    .await;
    let mut bodies: Vec<_> = came.iter().map(|one| String::from_utf8_lossy(&one.payload).into_owned()).collect();
    bodies.sort();
    assert_eq!(bodies, ["order 4", "order-3"]);
    let (_, left) = run(&["peek", "late"]);
    assert!(!left.contains("late~order"), "{left}");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_whose_jobs_clients_take_is_seen_as_the_others_are_and_gives_out_the_messages() {
    let server = RedisServer::start().await;
    let rabbit = start();
    let url = url(&rabbit);
    let publisher = Publisher::connect(&url).await.expect("connect");
    publisher.declare("delay-in", &[]).await;
    let page = free_port();
    let jobs = free_port();
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         jobs: {{ listen: '127.0.0.1:{jobs}' }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{url}', queue: delay-in }}, topic: mails }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start_for_operators_at(&format!("127.0.0.1:{page}"), &yaml).await;
    daemon.expect_log("input down");
    let headers = [("x-delay", AMQPValue::LongInt(200)), ("tenant", harness::publisher::text("a"))];
    let properties = BasicProperties::default()
        .with_message_id("m-1".into())
        .with_content_type("text/plain".into())
        .with_priority(5);
    publisher.publish(("delayed", "orders"), properties, &headers, "hello").await.expect("publish");
    let pop = "/v1/topics/mails/pop?wait=30s";
    let popped = http::send(jobs, "POST", pop, &[], b"", Duration::from_secs(40)).await.expect("an answer").body;
    let popped: serde_json::Value = serde_json::from_str(&popped).expect("JSON");
    let job = &popped["jobs"][0];
    assert_eq!(
        (&job["id"], &job["body"], &job["content_type"]),
        (&"mails~m-1".into(), &"hello".into(), &"text/plain".into())
    );
    assert_eq!(
        (&job["message"]["headers"]["tenant"], &job["message"]["properties"]["priority"]),
        (&"a".into(), &"5".into())
    );
    assert_eq!(job["message"]["origin"]["routing_key"], "orders", "{popped}");

    // The API, the command line and both pages.
    let get = async |path: &str| http::get(page, path, Duration::from_secs(10)).await.expect("an answer").body;
    let rows: serde_json::Value = serde_json::from_str(&get("/v1/queues").await).expect("JSON");
    let input = &rows["inputs"][0];
    assert_eq!((&input["name"], &input["topic"]), (&"late".into(), &"mails".into()), "{rows}");
    assert_eq!((&input["input"]["state"], &input["input"]["scheduled"]), (&"up".into(), &1.into()), "{rows}");
    let ask = || {
        let output = daemon.beside(&["queues", "--daemon", &format!("http://127.0.0.1:{page}")]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let text = ask();
    assert!(
        text.contains("input late, to topic mails: input up for") && text.contains("1 received, 1 scheduled"),
        "{text}"
    );
    let overview = get("/").await;
    assert!(overview.contains("1 received, 1 scheduled") && overview.contains("topics/mails"), "{overview}");
    let topic = get("/topics/mails").await;
    assert!(topic.contains("Input late") && topic.contains("1 received, 1 scheduled"), "{topic}");

    // And when it takes nothing.
    blocking(|| rabbit.kill());
    eventually("the input to be down", PATIENCE, async || match ask() {
        text if text.contains("input late, to topic mails: input down for") => Ok(()),
        text => Err(text),
    })
    .await;
    let overview = get("/").await;
    assert!(overview.contains("1 input down or unknown"), "{overview}");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_with_another_input_is_refused_with_the_reason_and_stops_nothing() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let url = url(&rabbit);
    let publisher = Publisher::connect(&url).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{url}' }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{url}', queue: delay-in, prefetch: 50 }}, topic: late, to: {{ sink: shop }} }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    daemon.expect_log("reload refused");
    // An input, the rules of its queue, and another input.
    for (from, to) in [
        ("prefetch: 50", "prefetch: 60"),
        ("topic: late", "topic: later"),
        ("to: { sink: shop } }", "to: { sink: shop }, lease: 40s }"),
        ("inputs: { late:", "inputs: { late2: { amqp: { url: 'amqp://127.0.0.1:1', queue: x }, topic: x }, late:"),
    ] {
        let lines = daemon.log().count();
        daemon.rewrite(|text| {
            assert!(text.contains(from), "{from} in {text}");
            text.replace(from, to)
        });
        assert!(!daemon.reload().await, "{to}");
        let said = daemon.log().since(lines).join("\n");
        assert!(said.contains("restart the daemon") && said.contains("inputs"), "{to}: {said}");
        daemon.rewrite(|text| text.replace(to, from));
    }
    assert!(daemon.reload().await, "the file is as it was");
    publisher.publish(("delayed", "orders"), BasicProperties::default(), &[], "goes on").await.expect("publish");
    eventually("the message", PATIENCE, async || {
        let all = Rabbits::connect(&url).await?.take_all("orders").await?;
        if all.len() == 1 { Ok(()) } else { Err(format!("{}", all.len())) }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
}
