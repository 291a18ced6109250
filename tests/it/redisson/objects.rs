//! Objects of an application in Redisson's default codec, from its delayed queue to a sink as JSON, as a user sets it
//! up: the tool prints the classes, its output is put into the configuration, the daemon delivers.

use std::path::Path;
use std::process::{Command, Stdio};

use brokers::redisson::VERSIONS;
use serde_json::json;

use super::*;
use crate::faults::rig::tolerate_stalls;
use harness::Daemon;

const SOURCE: &str = include_str!("Orders.java");
const COUNT: usize = 200;

/// The value of the program's `order(n)`.
fn order(n: i64) -> Value {
    let lines: Vec<Value> = (0..n % 4)
        .map(|i| json!({ "@class": "shop.Orders$Line", "count": i * n, "sku": format!("sku-{i}"), "weight": i as f64 + 0.25 }))
        .collect();
    let stock: serde_json::Map<String, Value> = (0..n % 4).map(|i| (format!("sku-{i}"), json!(n))).collect();
    json!({
        "@class": "shop.Orders$Order",
        "id": n,
        "key": format!("00000000-0000-0001-0000-{n:012x}"),
        "name": format!("Bestellung für {n}"),
        "status": if n % 2 == 0 { "OPEN" } else { "PAID" },
        "created": 1_700_000_000_000_i64 + n,
        "lines": lines,
        "stock": stock,
        "marks": [n, -n],
        "note": if n % 3 == 0 { Value::Null } else { json!(format!("note {n}")) },
        "urgent": n % 5 == 0,
        "parent": if n % 7 == 0 && n > 0 { order(n - 1) } else { Value::Null },
    })
}

/// The value without the parts with a text of their own, which are checked separately.
fn without_texts(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("amount");
        fields.remove("due");
        if let Some(parent) = fields.get_mut("parent") {
            *parent = without_texts(parent);
        }
    }
    value
}

/// Runs a command to its end; returns its output.
async fn run(mut command: Command, what: &str) -> String {
    let output = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output());
    let output = output.await.expect("no panic").unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_the_default_codec_arrive_as_json_with_the_classes_that_the_tool_prints() {
    let server = RedisServer::start().await;
    let version = VERSIONS[VERSIONS.len() - 1];
    let compiled = || brokers::redisson::compiled(version, "Orders", SOURCE).unwrap_or_else(|error| panic!("{error}"));
    let (mut tool, class_path) = compiled();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/KryoClasses.java");
    tool.arg("-cp").arg(&class_path).arg(source).arg("shop.Orders$Order");
    let classes = run(tool, "print the classes").await;
    assert!(classes.starts_with("classes:") && classes.contains("shop.Orders$Line"), "{classes}");

    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ out: {{ redis: {{ stream: arrived }} }} }}\n\
         queues:\n  q:\n    source: {{ redisson: {{ name: orders }} }}\n    codec: kryo5\n    \
         to: [{{ sink: out, envelope: decoded, headers: {{ customer: '${{payload.name}}' }} }}]\n{classes}",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    let (mut program, class_path) = compiled();
    program.arg("-cp").arg(&class_path).args(["shop.Orders", &server.url(), "orders", &COUNT.to_string()]);
    run(program, "offer the orders").await;

    let redis = server.client().await;
    let deliveries = eventually("every order to arrive", PATIENCE, async || {
        let deliveries = read_stream(&mut redis.clone(), "arrived").await;
        let dead = daemon.metric("delaybridge_dead_lettered_messages_total").await;
        match deliveries.len() + dead as usize {
            COUNT => Ok(deliveries),
            count => Err(format!("{count} of {COUNT}")),
        }
    })
    .await;
    assert_eq!(deliveries.len(), COUNT, "dead letters: {:?}", daemon.log().all());
    let mut arrived: Vec<Value> =
        deliveries.iter().map(|delivery| serde_json::from_slice(&delivery.payload).expect("JSON")).collect();
    arrived.sort_by_key(|order| order["id"].as_i64());
    for (order, n) in arrived.iter().zip(0..) {
        assert_eq!(without_texts(order), self::order(n), "{order}");
        let amount: f64 = order["amount"].to_string().parse().expect("a number");
        assert!((amount - n as f64 / 100.0).abs() < 1e-9, "{order}");
        assert!(order["due"].as_str().is_some_and(|due| due.starts_with("2023-11-14T22:1")), "{order}");
    }
    // The templates see the fields.
    let customer = deliveries[0].headers.get("customer").expect("the header");
    assert!(String::from_utf8_lossy(customer).starts_with("Bestellung für "));
}
