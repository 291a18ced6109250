//! `recover`, `check --live` and `restore` after the leases of claims were deleted.

use delaybridge_ops::acl::AclPurpose;
use redis::AsyncCommands;
use serde_json::json;

use super::ask;
use harness::Daemon;
use harness::daemon::ConfigFile;
use harness::redisson::{Element, Layout};
use harness::{RedisServer, RedissonQueue, eventually};

/// The configuration of these tests, with time-outs that fit the lease and cause no warning.
fn yaml(url: &str) -> String {
    super::yaml(url).replace("command_timeout: 60s", "command_timeout: 14s")
}

/// Makes a claim with two elements and without a lease.
async fn unleased(server: &RedisServer) -> (RedissonQueue, [Element; 2]) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    let elements = ["a", "b"].map(|payload| Element::new(Layout::New, 5_000, payload));
    let members: Vec<_> = elements.iter().map(|element| (element.due_ms, &element.member[..])).collect();
    queue.claim_for(&redis, 4_000_000_000_000, &members).await;
    let _: () = redis.del(queue.bridge_key("leases")).await.unwrap();
    (queue, elements)
}

#[tokio::test]
async fn claims_without_a_lease_are_reported_and_brought_back_while_a_daemon_runs() {
    let server = RedisServer::start().await;
    let config = ConfigFile::new(&yaml(&server.url()));
    let mut redis = server.client().await;
    // The daemon's own user may not scan the database.
    let check = format!("check --live --config {}", config.confined(AclPurpose::Operator).display());
    let well = ask(&config, &check).out;
    assert!(well.contains("every claim has its lease"), "{well}");
    unleased(&server).await;
    let found = ask(&config, &check);
    assert_ne!(found.code, 0, "{}{}", found.out, found.err);
    assert!(found.out.contains("1 of texts (delaybridge recover texts)"), "{}", found.out);

    let mut daemon = Daemon::start(&yaml(&server.url()).replace("http: none\n", "")).await;
    daemon.expect_log("leases expired");
    let done = ask(&config, "recover texts --output json").json();
    assert_eq!(done, json!({ "queue": "texts", "claims": 1, "elements": 2 }));
    eventually("the elements to be delivered", std::time::Duration::from_secs(60), async || {
        let mut arrived: Vec<String> = redis.clone().lrange("done", 0, -1).await.map_err(|e| e.to_string())?;
        arrived.sort();
        if arrived == ["a", "b"] { Ok(()) } else { Err(format!("{arrived:?}")) }
    })
    .await;
    assert!(ask(&config, "recover texts").well().contains("every claim of texts has its lease"));
    assert_eq!(daemon.stop().await, 0);
    assert!(redis.exists::<_, bool>("app:texts").await.is_ok_and(|there| !there));
}

#[tokio::test]
async fn restore_returns_what_is_in_claims_without_a_lease() {
    let server = RedisServer::start().await;
    let config = ConfigFile::new(&yaml(&server.url()));
    let mut redis = server.client().await;
    let (queue, elements) = unleased(&server).await;
    assert_eq!(ask(&config, "restore texts --output json").json()["scheduled"], 2);
    assert_eq!(ask(&config, "restore texts --apply --output json").json()["scheduled"], 2);
    let mut scheduled: Vec<(Vec<u8>, i64)> = redis.zrange_withscores(&queue.timeouts, 0, -1).await.unwrap();
    scheduled.sort();
    let mut expected = elements.map(|element| (element.member, element.due_ms));
    expected.sort();
    assert_eq!(scheduled, expected);
    for kind in ["claim", "leases", "retry"] {
        let left: Vec<String> = redis.keys(format!("delaybridge:{kind}:*")).await.unwrap();
        assert_eq!(left, Vec::<String>::new());
    }
}
