//! All daemons, as any of them shows them.

use serde_json::json;

use super::World;
use delaybridge_ops::Session;
use delaybridge_ops::fleet::{FleetMember, leave, tell};

#[tokio::test]
async fn every_daemon_is_shown_with_its_configuration_and_what_is_no_record_is_not() {
    let world = World::start(true).await;
    assert_eq!(world.get("/v1/fleet").await["daemons"], json!([]));
    assert!(world.ask("GET", "/fleet", "").await.text().contains("No daemon has reported yet"));
    let session = Session::open(world.config.clone(), "").await.unwrap();
    let member = |daemon: &str, configuration: &str| FleetMember {
        daemon: daemon.to_owned(),
        host: format!("host-{daemon}"),
        configuration: configuration.to_owned(),
        ready: true,
        in_flight: 7,
        delivered_per_second: 4.2,
        lateness_p99_ms: (daemon == "a").then_some(61_000.0),
        ..FleetMember::default()
    };
    for (daemon, configuration) in [("b", "new"), ("a", "old"), ("b", "new")] {
        tell(&session, &member(daemon, configuration)).await.unwrap();
    }
    world.redis(&["HSET", "delaybridge:fleet", "x", "{", "y", &"z".repeat(9_000)]).await;
    // One that is no text does not hide the others.
    let bytes = "return redis.call('HSET', KEYS[1], string.char(255), string.char(254, 0), 'z', string.char(255))";
    world.redis(&["EVAL", bytes, "1", "delaybridge:fleet"]).await;
    let found = world.get("/v1/fleet").await;
    let daemons = found["daemons"].as_array().unwrap();
    assert_eq!(daemons.len(), 2, "{found}");
    assert_eq!(
        (&daemons[0]["host"], &daemons[1]["in_flight"], &daemons[1]["gone"]),
        (&json!("host-a"), &json!(7), &json!(false))
    );
    assert_eq!(found["configurations"], json!({ "new": 1, "old": 1 }));
    let page = world.ask("GET", "/fleet", "").await.text();
    assert!(page.contains("2 configurations") && page.contains("host-b") && page.contains("ready"), "{page}");
    let sums = "2 daemons together: 14 in flight, 8.4/s delivered, 0.0/s failed, the highest p99 1m 1s.";
    assert!(page.contains(sums), "{page}");
    tell(&session, &member("b", "new")).await.unwrap();
    // Fails with a number that is not two: what is none is removed.
    let two = "return redis.call('HLEN', KEYS[1]) == 2 and 1 or redis.error_reply('ERR left over')";
    world.redis(&["EVAL", two, "1", "delaybridge:fleet"]).await;
    leave(&session, "a").await.unwrap();
    assert_eq!(world.get("/v1/fleet").await["daemons"].as_array().unwrap().len(), 1);
    world.redis(&["HSET", "delaybridge:fleet", "c", r#"{"daemon":"c","host":"h","pid":1,"version":"","configuration":"","listen":"","up_seconds":0,"ready":true,"queues":0,"held":0,"sinks_in_trouble":0,"in_flight":0,"delivered_per_second":0,"failed_per_second":0,"at_ms":5}"#]).await;
    assert_eq!(world.get("/v1/fleet").await["daemons"][1]["gone"], true);
    let page = world.ask("GET", "/fleet", "").await.text();
    assert!(page.contains("1 daemon together: 7 in flight"), "what is gone is no sum: {page}");
}
