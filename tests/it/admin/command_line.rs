//! Commands through a daemon have the same results as commands on Redis.

use std::process::Output;

use redis::AsyncCommands;
use serde_json::Value;

use super::start;
use crate::delivery::PATIENCE;
use harness::daemon::{Daemon, cli};
use harness::{RedisServer, eventually};

fn done(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

/// Runs a command on Redis, and through the daemon.
fn both(daemon: &Daemon, port: u16, arguments: &[&str]) -> [Output; 2] {
    let url = format!("http://127.0.0.1:{port}");
    let over: Vec<&str> = arguments.iter().copied().chain(["--daemon", url.as_str()]).collect();
    [cli(daemon.config(), arguments), cli(daemon.config(), &over)]
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_over_a_daemon_have_the_results_that_they_have_over_redis() {
    let redis = RedisServer::start().await;
    let (mut daemon, port) = start(&redis).await;
    let same = |arguments: &[&str], text: &dyn Fn(String) -> String| {
        let [one, other] = both(&daemon, port, arguments).map(|output| text(done(&output)));
        assert_eq!(one, other, "{arguments:?}");
        one
    };
    // Times of two looks differ.
    let steady = |text: String| {
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        for queue in value["queues"].as_array_mut().expect("queues") {
            queue["now_ms"] = Value::Null;
            // Redis does not know the elements in a daemon.
            let _ = queue.as_object_mut().expect("a queue").remove("here");
        }
        let _ = value.as_object_mut().expect("an object").remove("sinks");
        value.to_string()
    };
    let found = same(&["queues", "--output", "json"], &steady);
    assert!(found.contains(r#""queue":"orders""#) && found.contains(r#""scheduled":30"#), "{found}");
    same(&["queues"], &|text| {
        text.lines().map(|line| line.split("  in ").next().unwrap_or_default().to_owned()).collect()
    });

    let url = format!("http://127.0.0.1:{port}");
    let paused =
        done(&cli(daemon.config(), &["pause", "orders", "--why", "x", "--by", "ann", "--for", "2h", "--daemon", &url]));
    assert!(paused.starts_with("orders: paused until "), "{paused}");
    let shown = done(&cli(daemon.config(), &["queues"]));
    assert!(shown.contains("by ann (local): x"), "{shown}");
    assert_eq!(
        done(&cli(daemon.config(), &["resume", "orders"])),
        "orders: resumed; it was paused by ann (local): x\n"
    );
    assert_eq!(done(&cli(daemon.config(), &["resume", "orders", "--daemon", &url])), "orders: was not paused\n");

    let [one, other] = both(&daemon, port, &["resume", "order"]);
    assert_eq!(
        (one.status.code(), &one.stderr),
        (other.status.code(), &other.stderr),
        "the same words for the same mistake"
    );
    let nobody = cli(daemon.config(), &["queues", "--daemon", "http://127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("`http.admin`"));
    let piped = cli(daemon.config(), &["top", "--daemon", &url]);
    assert!(String::from_utf8_lossy(&piped.stderr).contains("queues --watch"), "no terminal, no `top`");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_and_dead_letters_over_a_daemon_are_those_over_redis() {
    let redis = RedisServer::start().await;
    let (mut daemon, port) = start(&redis).await;
    daemon.expect_log("an operator's change failed").expect_log("an operator's change over Redis failed");
    let url = format!("http://127.0.0.1:{port}");
    let over = |line: &str| {
        let arguments: Vec<&str> = line.split(' ').chain(["--daemon", &url]).collect();
        cli(daemon.config(), &arguments)
    };
    let direct = |line: &str| cli(daemon.config(), &line.split(' ').collect::<Vec<_>>());
    // The same words, and the same JSON except for the time of the look.
    let same = |line: &str| {
        let words = |output: &Output| done(output).lines().map(no_numbers).collect::<Vec<_>>();
        assert_eq!(words(&over(line)), words(&direct(line)), "{line}");
        let line = format!("{line} --output json");
        let [one, other] = [over(&line), direct(&line)].map(|output| {
            let mut value: Value = serde_json::from_str(&done(&output)).expect("JSON");
            value["now_ms"] = Value::Null;
            value
        });
        assert_eq!(one, other, "{line}");
        one
    };
    let found = same("peek orders --limit 3");
    assert_eq!((&found["total"], &found["elements"][2]["payload"]), (&30.into(), &r#"{"id":"o2"}"#.into()), "{found}");
    assert_eq!(same("peek orders --id o7")["elements"][0]["state"], "scheduled");
    assert_eq!(same("find orders --field id=o7")["elements"][0]["id"], "o7");
    assert_eq!(same("find orders --field id=o29 --limit 5")["incomplete"], true);
    assert_eq!(same("find orders --field id=none")["examined"], 30);
    assert_eq!(same("find orders --text o29")["elements"][0]["id"], "o29");
    let anywhere = done(&over("search o7"));
    assert_eq!(anywhere, done(&direct("search o7")));
    assert!(anywhere.starts_with("orders\n") && anywhere.contains("1 hit in "), "{anywhere}");

    // Each change through the daemon is visible in the next look on Redis.
    assert!(done(&over("reschedule orders o1 --at 9100000000000 --output json")).contains("9100000000000"));
    assert!(done(&direct("peek orders --id o1")).contains("2258-"), "the other time");
    assert!(done(&over("cancel orders o2")).contains("o2 of orders: was scheduled, is gone"));
    for n in 3..13 {
        let killed = done(&over(&format!("kill orders o{n} --why x --by ann")));
        assert!(killed.contains("was scheduled, is dead"), "{killed}");
    }
    let dead = same("dead ls orders --reason killed");
    assert_eq!((dead["total"].as_u64(), dead["dead_letters"].as_array().map(Vec::len)), (Some(10), Some(10)));
    assert!(dead["dead_letters"][0]["message"].as_str().is_some_and(|why| why.contains("killed by ann (local): x")));
    assert_eq!(same("dead count orders")["matched"], 10);
    same("dead ls orders --field id=o5 --newer-than 1h");
    let place = dead["dead_letters"][9]["stream_id"].as_str().expect("a place").to_owned();
    same(&format!("dead show orders {place}"));
    same("peek orders --id o5");
    assert_eq!(same("find orders --field id=o5")["elements"][0]["state"], "dead");

    // Lines of an export, and back.
    let lines = done(&over("dead export orders --reason killed"));
    assert_eq!((lines.lines().count(), &lines), (10, &done(&direct("dead export orders --reason killed"))));
    let rest = done(&over(&format!("dead export orders --after {place}")));
    assert_eq!(rest.lines().count(), 9, "{rest}");
    let known = daemon.config().write("known", &lines);
    let broken = daemon.config().write("broken", "{}\n");
    assert!(done(&over(&format!("dead import orders {}", known.display()))).contains("10 letters there already"));
    let other = lines.replace("\"queue\":\"orders\"", "\"queue\":\"elsewhere\"");
    let others = daemon.config().write("others", &format!("{other}{{}}\n"));
    let [one, two] = [
        over(&format!("dead import orders {}", others.display())),
        over(&format!("dead import orders {}", broken.display())),
    ];
    let words = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words(&one).contains("line 11") && words(&one).contains("--skip 10"), "{}", words(&one));
    assert!(words(&two).contains("line 1:") && one.status.code() == Some(2), "{}", words(&two));
    assert_eq!(same("dead count orders")["matched"], 20, "those before the broken line are there");
    assert!(done(&direct("dead purge orders --newer-than 1h --yes")).contains("20 dead letters of orders removed"));
    assert!(done(&over(&format!("dead import orders {}", known.display()))).contains("10 dead letters"));
    let topic = over("dead import orders --from-kafka t");
    assert!(words(&topic).contains("without --daemon"), "{}", words(&topic));
    let dead = same("dead ls orders --reason killed");
    let place = dead["dead_letters"][9]["stream_id"].as_str().expect("a place").to_owned();

    for line in ["dead redrive orders --reason killed --dry-run", "dead purge orders --id-prefix o1 --dry-run"] {
        same(line);
    }
    assert_eq!(done(&over("dead purge orders --id-prefix o12 --yes")), "1 dead letter of orders removed\n");
    assert_eq!(done(&over(&format!("dead redrive orders {place}"))), "1 dead letter of orders redriven\n");
    assert_eq!(done(&over("dead redrive orders --all --rate 20")), "8 dead letters of orders redriven\n");
    assert_eq!(done(&direct("dead count orders")), "0 dead letters in orders\n");
    let mut client = redis.client().await;
    eventually("the redriven elements", PATIENCE, async || {
        let delivered: usize = client.llen("done").await.map_err(|error| error.to_string())?;
        if delivered == 9 { Ok(()) } else { Err(format!("{delivered}")) }
    })
    .await;

    // What is done over Redis is in the daemon's log too.
    assert!(done(&direct("cancel orders o20")).contains("is gone"));
    eventually("the daemon's line about it", PATIENCE, async || {
        let told = |line: &String| {
            ["changed something over Redis", "cancel", "o20", "@"].iter().all(|part| line.contains(part))
        };
        if daemon.log().all().iter().any(told) { Ok(()) } else { Err("none".to_owned()) }
    })
    .await;

    // The same mistakes have the same messages and exit codes.
    for line in
        ["run-now orders o2", "peek orders --id o99", "dead show orders 1-1", "dead redrive orders o99", "peek order"]
    {
        let [one, other] = [over(line), direct(line)];
        let words = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((one.status.code(), words(&one)), (other.status.code(), words(&other)), "{line}");
        assert!(!one.status.success());
    }
    let two = over("dead ls orders --field a=1 --field b=2");
    assert!(String::from_utf8_lossy(&two.stderr).contains("without --daemon") && two.status.code() == Some(2));
    assert_eq!(daemon.stop().await, 0);
}

/// A line without its numbers and units of time, some of which depend on the moment of the look: `998ms ago`, `1s ago`.
/// JSON is compared with its numbers.
fn no_numbers(line: &str) -> String {
    let letters: String = line.chars().map(|letter| if letter.is_ascii_digit() { ' ' } else { letter }).collect();
    letters.split_whitespace().filter(|word| !matches!(*word, "ms" | "s" | "m")).collect::<Vec<_>>().join(" ")
}
