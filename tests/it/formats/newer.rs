//! What a newer version has left in Redis after a downgrade: it stays, byte for byte, and the rest is delivered beside it.

use std::time::Duration;

use super::dump::Dump;
use super::{recordings, scenario};
use harness::ports::free_port;
use harness::{Daemon, RedisServer, eventually};

/// The claim of a newer version, in names of keys and of leases.
fn newer_name(name: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(name).into_owned();
    match text.strip_prefix("1.") {
        Some(rest) => format!("2.{rest}").into_bytes(),
        None => text.replace("delaybridge:claim:1.", "delaybridge:claim:2.").into_bytes(),
    }
}

/// The same data with the next version in every place that has one, and a pause in a form that nobody knows yet.
fn of_a_newer_version(dump: &Dump) -> Dump {
    let mut newer = dump.clone();
    for (key, _, items) in &mut newer.keys {
        *key = newer_name(key);
        let name = String::from_utf8_lossy(key).into_owned();
        items.retain(|(field, _)| !(name.ends_with("state:{returned}") && field == b"pause"));
        for (a, b) in items.iter_mut() {
            if name.contains(":leases:") {
                *a = newer_name(a);
            } else if a.starts_with(&[0xdb, 1]) {
                a[1] = 2;
            } else if name.contains(":jobs:records:") || name.contains(":jobs:state:") {
                b[0] = 2;
            } else if a == b"pause" {
                *b = br#"{"until":"a word of tomorrow"}"#.to_vec();
            }
        }
    }
    newer.keys.retain(|(_, _, items)| !items.is_empty());
    newer
}

/// The members of the sorted sets, and the fields with their values, that have a version.
fn versioned(dump: &Dump) -> Vec<String> {
    let mut all = Vec::new();
    for (key, kind, items) in &dump.keys {
        let key = String::from_utf8_lossy(key).into_owned();
        for (a, b) in items {
            // A score is the next time that it is looked at.
            let with_value = kind == "hash" && (key.contains(":records:") || a == b"pause");
            let own = key.contains("claim:2.") || a.starts_with(b"2.") || a.starts_with(&[0xdb, 2]);
            if with_value || own {
                let value = if with_value { hex::encode(b) } else { String::new() };
                all.push(format!("{key} {} {value}", hex::encode(a)));
            }
        }
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_newer_version_has_left_stays_and_holds_up_nothing_else() {
    let newer = of_a_newer_version(&recordings().pop().expect("a recording").1);
    let before = versioned(&newer);
    // Two claims of each queue, three entries, a pause, three records.
    assert!(before.len() >= 10, "{before:#?}");

    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    newer.write(&mut redis).await;
    let port = free_port();
    let mut daemon = Daemon::start(&scenario::configuration(&server, &server.url(), port)).await;
    for said in ["of a newer format", "of another version", "paused"] {
        daemon.expect_log(said);
    }

    // Beside it, everything goes on.
    scenario::offer(&mut redis, "held", "of today", true).await;
    scenario::offer(&mut redis, "returned", "of today", true).await;
    scenario::entries(&mut redis, "stuck", 6).await;
    scenario::ask(port, "POST /v1/topics/mails/jobs", r#"{"id":"good","body":"of today"}"#).await;
    let taken = scenario::ask(port, "POST /v1/topics/mails/pop?count=10", "").await;
    assert_eq!((&taken["jobs"][0]["id"], taken["jobs"].as_array().map(Vec::len)), (&"mails~good".into(), Some(1)));

    // It is counted, and a pause that cannot be read is one.
    eventually("the gauges to count it", Duration::from_secs(60), async || {
        let metrics = daemon.metrics().await;
        let of = |name: &str, queue: &str| metrics.sum(&format!("delaybridge_unknown_{name}{{queue=\"{queue}\"}}"));
        match (of("entries", "returned"), of("claims", "held")) {
            (entries, claims) if entries >= 3.0 && claims >= 1.0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let page = daemon.get("/readyz").await.expect("an answer").body;
    assert!(page.contains("a newer version"), "{page}");
    assert_eq!(daemon.stop().await, 0);

    let after = versioned(&Dump::read(&mut redis).await);
    let lost: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    assert!(lost.is_empty(), "lost: {lost:#?}");
}
