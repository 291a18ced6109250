//! Data of other programs and versions in the keys of the job queue, with a real daemon.

use std::time::Duration;

use redis::AsyncCommands;

use crate::api::start;
use harness::daemon::{ConfigFile, cli};
use harness::{RedisServer, eventually};

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
    well("jobs add mails --id good --body good");
    let popped = well("jobs pop mails --count 10 --output json");
    assert!(popped.contains("mails~good") && !popped.contains("newer"), "{popped}");
    let dead = well("jobs dead ls mails");
    assert!(dead.contains("mails~newer"), "{dead}");
    let (code, refused) = run("jobs add mails --id good --body other");
    assert!(code == Some(1) && refused.contains("other bodies"), "{code:?}: {refused}");
}

/// No daemon runs: its clock removes strays by itself, and could be faster than the second look.
#[tokio::test]
async fn a_damaged_order_of_priorities_is_found_and_repaired() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let config = ConfigFile::new(&format!("http: none\nredis: {{ url: \"{}\" }}\njobs: {{}}\n", server.url()));
    let run = |words: &str| {
        let output = cli(&config, &words.split(' ').collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    let (code, added) = run("jobs add mails --id urgent --priority 9 --delay 1h --body urgent");
    assert_eq!(code, Some(0), "{added}");
    let urgent = "delaybridge:jobs:urgent:{mails}";
    let _: () = redis.zrem(urgent, "urgent").await.expect("remove its place");
    let _: () = redis.zadd(urgent, "gone", i64::MAX).await.expect("a stray one");
    let (code, found) = run("fsck");
    assert_eq!(code, Some(1), "{found}");
    for words in ["stray_priority", "misplaced_priority", "job mails~gone", "job mails~urgent", "with --repair"] {
        assert!(found.contains(words), "{words}: {found}");
    }
    let (code, repaired) = run("fsck --repair");
    assert_eq!(code, Some(0), "{repaired}");
    assert!(repaired.contains("job mails~gone: repaired") && repaired.contains("mails~urgent: repaired"), "{repaired}");
    let order: Vec<String> = redis.zrange(urgent, 0, -1).await.expect("the order");
    assert_eq!(order, ["urgent"]);
    let (code, clean) = run("fsck");
    assert!(code == Some(0) && !clean.contains("priority"), "{clean}");
}

#[tokio::test]
async fn what_is_no_recurring_job_keeps_none_from_firing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let firings = "delaybridge:jobs:firings:{mails}";
    let recurring = "delaybridge:jobs:recurring:{mails}";
    // More strays than recurring jobs that a topic may have, a name that is no text, and a definition that means nothing.
    let strays: Vec<_> = (0..1_500).map(|n| (1, format!("stray-{n}"))).collect();
    let _: () = redis.zadd_multiple(firings, &strays).await.expect("strays");
    for name in [&b"\xff\xfe"[..], b"odd"] {
        let _: () = redis.zadd(firings, name, 0).await.expect("an odd name");
        let _: () = redis.hset(recurring, name, [&b"\x01"[..], &[255; 40]].concat()).await.expect("an odd definition");
    }
    let (mut daemon, _) = start(&server, "", "").await;
    daemon.expect_log("2 due recurring jobs cannot be read");
    let run = |words: &[&str]| {
        let output = cli(daemon.config(), words);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{words:?}: {text}");
        text
    };
    for name in ["whole", "split"] {
        run(&["jobs", "recurring", "set", "mails", name, "--cron", "0 3 1 1 *", "--body", name]);
    }
    let now: (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await.expect("the time");
    let _: () = redis.zadd(firings, "whole", now.0 * 1_000 - 2_000).await.expect("make it due");
    let _: () = redis.zadd(firings, "split", (now.0 * 1_000 - 1_000) as f64 + 0.5).await.expect("make it due");
    let mut look = redis.clone();
    eventually("both to fire", SOON, async || match look.zcard::<_, usize>("delaybridge:jobs:due:{mails}").await {
        Ok(2) => Ok(()),
        other => Err(format!("{other:?} jobs")),
    })
    .await;
    eventually("the strays to be removed", SOON, async || match look.zcard::<_, usize>(firings).await {
        Ok(4) => Ok(()),
        other => Err(format!("{other:?} firings")),
    })
    .await;
    let listed = run(&["jobs", "recurring", "ls", "mails"]);
    assert!(listed.contains("whole") && listed.contains("split"), "{listed}");
}
