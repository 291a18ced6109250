//! Headers of messages at destinations of several kinds: they steer none, and what a destination cannot carry keeps no message back.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray};
use redis::AsyncCommands;
use serde_json::json;

use super::amqp::arrived;
use crate::amqp::{blocking, shared, url};
use crate::faults::rig::PATIENCE;
use crate::http::receiver::Receiver;
use harness::amqp::Rabbits;
use harness::daemon::cli;
use harness::nats::{make_stream, read_stream};
use harness::publisher::{Publisher, text};
use harness::{Daemon, RedisServer, eventually};

/// The fields of all entries of a stream in Redis.
async fn entries(server: &RedisServer, key: &str) -> Vec<Vec<String>> {
    let mut range = redis::cmd("XRANGE");
    let read: Vec<(String, Vec<String>)> =
        range.arg(key).arg("-").arg("+").query_async(&mut server.client().await).await.expect("read the stream");
    read.into_iter().map(|(_, fields)| fields).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_neither_steers_its_destinations_nor_stays_behind_for_its_headers() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let receiver = Receiver::start(&["http/1.1"]).await;
    let nats = blocking(|| brokers::Nats::start().unwrap_or_else(|error| panic!("start NATS: {error}")));
    blocking(|| make_stream(&nats, "ORDERS", "orders.>", &json!({ "allow_rollup_hdrs": true })));
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders", "copies"]).await;
    let yaml = format!(
        "redis: {{ url: '{redis}' }}\n\
         sinks:\n  \
           stream: {{ nats: {{ servers: ['127.0.0.1:{nats}'], subject: orders.eu, timeout: 5s }} }}\n  \
           entries: {{ redis: {{ stream: entries }} }}\n  \
           list: {{ redis: {{ list: list }} }}\n  \
           shop: {{ amqp: {{ url: '{rabbit}', heartbeat: 2s, timeout: 5s }} }}\n  \
           hook: {{ http: {{ url: 'https://localhost:{hook}/orders', tls: {{ ca_file: '{ca}' }}, timeout: 5s, \
             headers: {{ authorization: Bearer own, x-api-key: own }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{rabbit}', queue: delay-in, heartbeat: 2s }}, topic: late }} }}\n\
         queues: {{ q: {{ source: {{ jobs: {{ topic: late }} }}, lease: 20s, to: [{{ sink: stream }}, {{ sink: list }}, \
           {{ sink: entries, headers_from_message: {{ drop: ['X-Internal-*'] }} }}, {{ sink: hook }}, \
           {{ sink: shop, routing_key: orders }}] }} }}\n",
        redis = server.url(),
        nats = nats.port(),
        rabbit = url(&rabbit),
        hook = receiver.port,
        ca = receiver.pki.ca.display(),
    );
    let daemon = Daemon::start(&yaml).await;
    let arrived_at_hook = async |count: usize| {
        eventually("the request", PATIENCE, async || match receiver.received().len() {
            all if all >= count => Ok(()),
            all => Err(format!("{all} requests")),
        })
        .await;
    };
    let plain = [("tenant", text("a"))];
    publisher.publish(("delayed", "late"), BasicProperties::default(), &plain, "first").await.expect("publish");
    arrived_at_hook(1).await;
    let others = AMQPValue::FieldArray(FieldArray::from(vec![text("copies")]));
    let steering = [
        ("tenant", text("b")),
        ("x-internal-price", text("7")),
        ("Nats-Rollup", text("all")),
        ("Nats-Expected-Stream", text("another")),
        ("payload", text("another")),
        ("id", text("another")),
        ("attempt", AMQPValue::LongInt(77)),
        ("Authorization", text("Bearer stolen")),
        ("X_Api_Key", text("stolen")),
        ("Host", text("another.example")),
        ("Content-Length", text("1")),
        ("Transfer-Encoding", text("chunked")),
        ("Connection", text("close")),
        ("two words", text("a")),
        ("lines", text("a\r\nNats-Rollup: all")),
        ("BCC", others.clone()),
        ("CC", others),
    ];
    publisher.publish(("delayed", "late"), BasicProperties::default(), &steering, "second").await.expect("publish");

    // Nothing was purged.
    eventually("both messages in the stream", PATIENCE, async || {
        match blocking(|| read_stream(&nats, "ORDERS"))?.len() {
            2 => Ok(()),
            count => Err(format!("{count} messages")),
        }
    })
    .await;
    let stored = blocking(|| read_stream(&nats, "ORDERS")).expect("the server is there");
    assert_eq!(stored.iter().map(|message| &message.payload[..]).collect::<Vec<_>>(), [b"first", &b"second"[..]]);
    let has = |name: &str| stored[1].headers.contains_key(name);
    assert!(has("tenant") && has("Authorization") && !has("Nats-Rollup") && !has("two words"), "{stored:?}");

    // One request, from the one who may send it, with the whole body.
    arrived_at_hook(2).await;
    let request = receiver.received().pop().expect("a request");
    assert_eq!((request.body.as_slice(), request.header("content-length")), (&b"second"[..], Some("6")));
    assert_eq!((request.header("authorization"), request.header("x-api-key")), (Some("Bearer own"), Some("own")));
    assert_eq!(request.header("host"), Some(format!("localhost:{}", receiver.port).as_str()));
    assert_eq!((request.header("transfer-encoding"), request.header("x_api_key")), (None, None));
    assert_eq!((request.header("tenant"), request.header("nats-rollup")), (Some("b"), Some("all")));

    // Each field once.
    eventually("both entries", PATIENCE, async || match entries(&server, "entries").await.len() {
        2 => Ok(()),
        count => Err(format!("{count} entries")),
    })
    .await;
    let entry = entries(&server, "entries").await.pop().expect("an entry");
    let mut fields: Vec<&str> = entry.iter().step_by(2).map(String::as_str).collect();
    fields.sort_unstable();
    assert!(fields.windows(2).all(|pair| pair[0] != pair[1]), "{entry:?}");
    assert_eq!((entry[0].as_str(), entry[1].as_str()), ("payload", "second"));
    assert!(fields.contains(&"two words") && !fields.contains(&"x-internal-price"), "{entry:?}");

    // No copies.
    let orders = arrived(&rabbit, "orders", 2).await;
    assert_eq!(orders.len(), 2);
    assert_eq!(
        Rabbits::connect(&url(&rabbit)).await.expect("connect").take_all("copies").await.expect("look").len(),
        0
    );
    let list = eventually("both in the list", PATIENCE, async || {
        let list: Vec<Vec<u8>> = server.client().await.lrange("list", 0, -1).await.map_err(|e| e.to_string())?;
        if list.len() == 2 { Ok(list) } else { Err(format!("{list:?}")) }
    })
    .await;
    assert_eq!(list, [b"first".to_vec(), b"second".to_vec()]);

    // A delivery that is made again counts again. RabbitMQ removes `BCC` itself.
    let metrics = daemon.metrics().await;
    for (sink, reason, least) in [
        ("stream", "control", 2.0),
        ("stream", "unfit", 3.0),
        ("hook", "control", 5.0),
        ("hook", "unfit", 3.0),
        ("entries", "control", 3.0),
        ("entries", "rule", 1.0),
        ("shop", "control", 1.0),
        ("list", "unfit", 1.0),
    ] {
        let selector = format!("delaybridge_headers_left_out_total{{queue=\"q\",sink=\"{sink}\",reason=\"{reason}\"}}");
        let count = metrics.sum(&selector);
        assert!(count >= least, "{sink} {reason}: {count}");
    }
    assert_eq!(metrics.sum("delaybridge_dead_lettered_messages_total"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_headers_are_too_large_is_saved_by_a_rule_of_its_route() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let yaml = format!(
        "redis: {{ url: '{redis}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{rabbit}', heartbeat: 2s, timeout: 5s }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{rabbit}', queue: delay-in, heartbeat: 2s }}, topic: late }} }}\n\
         queues: {{ q: {{ source: {{ jobs: {{ topic: late }} }}, to: [{{ sink: shop, routing_key: orders }}] }} }}\n",
        redis = server.url(),
        rabbit = url(&rabbit),
    );
    let mut daemon = Daemon::start(&yaml).await;
    daemon.expect_log("HEADERS_TOO_LARGE");
    // It fits into a frame of the broker as it is, and not with the headers of the daemon.
    let large = "x".repeat(127_500);
    let headers = [("tenant", text("a")), ("x-trace", text(&large))];
    publisher.publish(("delayed", "late"), BasicProperties::default(), &headers, "large").await.expect("publish");
    const DEAD: &str = "delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"message_permanent\"}";
    eventually("the dead letter", PATIENCE, async || match daemon.metric(DEAD).await {
        1.0 => Ok(()),
        count => Err(format!("{count} dead letters")),
    })
    .await;
    daemon.rewrite(|text| {
        text.replace("routing_key: orders", "routing_key: orders, headers_from_message: { drop: [X-Trace] }")
    });
    assert!(daemon.reload().await);
    let redriven = cli(daemon.config(), &["dead", "redrive", "q", "--all"]);
    assert!(redriven.status.success(), "{redriven:?}");
    let orders = arrived(&rabbit, "orders", 1).await;
    let header = |name: &str| orders[0].headers.get(name).map(Vec::as_slice);
    assert_eq!((&orders[0].payload[..], header("tenant"), header("x-trace")), (&b"large"[..], Some(&b"a"[..]), None));
    let left_out = "delaybridge_headers_left_out_total{queue=\"q\",sink=\"shop\",reason=\"rule\"}";
    assert!(daemon.metric(left_out).await >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_whose_headers_are_too_large_is_forwarded_without_those_of_its_message() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders", "graves"]).await;
    let yaml = format!(
        "redis: {{ url: '{redis}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{rabbit}', heartbeat: 2s, timeout: 5s }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{rabbit}', queue: delay-in, heartbeat: 2s }}, topic: late }} }}\n\
         queues: {{ q: {{ source: {{ jobs: {{ topic: late }} }}, to: [{{ sink: shop, routing_key: orders }}], \
           dead_letter: {{ sink: shop, routing_key: graves }} }} }}\n",
        redis = server.url(),
        rabbit = url(&rabbit),
    );
    let mut daemon = Daemon::start(&yaml).await;
    daemon.expect_log("HEADERS_TOO_LARGE").expect_log("dead letter not forwarded");
    let large = "x".repeat(127_500);
    let headers = [("tenant", text("a")), ("x-trace", text(&large))];
    publisher.publish(("delayed", "late"), BasicProperties::default(), &headers, "large").await.expect("publish");
    let graves = arrived(&rabbit, "graves", 1).await;
    let has = |name: &str| graves[0].headers.contains_key(name);
    assert_eq!((&graves[0].payload[..], has("tenant"), has("x-trace")), (&b"large"[..], false, false));
    assert!(has("delaybridge-dead-reason"), "{:?}", graves[0].headers.keys());
    // Counted when the letter is forwarded, and not at each attempt.
    eventually("the headers to be counted", PATIENCE, async || {
        let left_out = "delaybridge_headers_left_out_total{queue=\"q\",sink=\"shop\",reason=\"unfit\"}";
        match daemon.metric(left_out).await {
            2.0 => Ok(()),
            count => Err(format!("{count} headers")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_forwarded_has_the_headers_of_its_message() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let yaml = format!(
        "redis: {{ url: '{redis}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{rabbit}', heartbeat: 2s, timeout: 5s }} }}, graves: {{ redis: {{ stream: graves }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{rabbit}', queue: delay-in, heartbeat: 2s }}, topic: late, \
           to: {{ sink: shop, routing_key: orders }}, dead_letter: {{ sink: graves }} }} }}\n",
        redis = server.url(),
        rabbit = url(&rabbit),
    );
    let mut daemon = Daemon::start(&yaml).await;
    daemon.expect_log("HEADERS_TOO_LARGE");
    let large = "x".repeat(127_500);
    let headers = [("tenant", text("a")), ("x-trace", text(&large)), ("id", text("another"))];
    publisher.publish(("delayed", "orders"), BasicProperties::default(), &headers, "large").await.expect("publish");
    let entry = eventually("the letter", PATIENCE, async || {
        entries(&server, "graves").await.pop().ok_or_else(|| "no letter".to_owned())
    })
    .await;
    let fields: Vec<_> = entry.chunks(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let all =
        |name: &str| fields.iter().filter(|(known, _)| *known == name).map(|(_, value)| *value).collect::<Vec<_>>();
    assert_eq!((all("payload"), all("tenant")), (vec!["large"], vec!["a"]));
    assert_eq!((all("x-trace"), all("delaybridge-dead-reason")), (vec![large.as_str()], vec!["message_permanent"]));
    assert_eq!(all("id").len(), 1);
}
