//! Data of other programs and versions in the keys of the job queue, with a real daemon.

use std::time::Duration;

use redis::AsyncCommands;

use crate::api::start;
use crate::harness::daemon::cli;
use crate::harness::{RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_name_that_is_no_utf8_stops_no_clock_and_what_cannot_be_read_is_shown() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let _: () = redis.zadd("delaybridge:jobs:topics", &b"\xff\xfe"[..], 0).await.expect("a name that is none");
    let (mut daemon, _) = start(&server, "", "").await;
    daemon.expect_log("delaybridge:jobs:topics has members");
    let config = daemon.config();
    // The exit code and the output.
    let run = |words: &str| {
        let output = cli(config, &words.split(' ').collect::<Vec<_>>());
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let well = |words: &str| {
        let (code, text) = run(words);
        assert_eq!(code, Some(0), "{words}: {text}");
        text
    };
    well("jobs add mails --body late --tries 1 --ttr 200ms");
    well("jobs pop mails");
    // Without further requests for this topic, only the clock notices that its consumer took too long.
    let mut look = redis.clone();
    eventually("the clock to end the reservation", SOON, async || {
        match look.zcard::<_, usize>("delaybridge:jobs:dead:{mails}").await {
            Ok(1) => Ok(()),
            other => Err(format!("{other:?} dead")),
        }
    })
    .await;
    eventually("the name to be shown", SOON, async || {
        let body = daemon.get("/readyz").await.map_err(|error| error.to_string())?.body;
        if body.contains("\"unreadable_names\": 1") { Ok(()) } else { Err(body) }
    })
    .await;

    let newer = [&b"\x02"[..], &[7; 40]].concat();
    let _: () = redis.hset("delaybridge:jobs:records:{mails}", "newer", &newer).await.expect("a newer record");
    let _: () = redis.zadd("delaybridge:jobs:due:{mails}", "newer", 1).await.expect("its id");
    let _: () = redis.hset("delaybridge:jobs:topic:{mails}", "ttr", "soon").await.expect("a limit");
    let (code, found) = run("fsck");
    assert_eq!(code, Some(1), "{found}");
    for words in ["index of topics: not in order", "unreadable_topic", "job mails~newer (waits)", "field ttr"] {
        assert!(found.contains(words), "{words}: {found}");
    }
    // An order of priorities that was damaged.
    well("jobs add mails --id urgent --priority 9 --delay 1h --body urgent");
    let _: () = redis.zrem("delaybridge:jobs:urgent:{mails}", "urgent").await.expect("remove its place");
    let _: () = redis.zadd("delaybridge:jobs:urgent:{mails}", "gone", i64::MAX).await.expect("a stray one");
    let (_, found) = run("fsck");
    for words in ["stray_priority", "misplaced_priority", "job mails~gone", "job mails~urgent", "with --repair"] {
        assert!(found.contains(words), "{words}: {found}");
    }
    let (_, repaired) = run("fsck --repair");
    assert!(repaired.contains("job mails~gone: repaired") && repaired.contains("mails~urgent: repaired"), "{repaired}");
    let order: Vec<String> = redis.zrange("delaybridge:jobs:urgent:{mails}", 0, -1).await.expect("the order");
    assert_eq!(order, ["urgent"]);
    assert!(!run("fsck").1.contains("priority"), "it was repaired");
    well("jobs add mails --id good --body good");
    let popped = well("jobs pop mails --count 10 --output json");
    assert!(popped.contains("mails~good") && !popped.contains("newer"), "{popped}");
    let dead = well("jobs dead ls mails");
    assert!(dead.contains("mails~newer"), "{dead}");
    let (code, refused) = run("jobs add mails --id good --body other");
    assert!(code == Some(1) && refused.contains("other bodies"), "{code:?}: {refused}");
}
