//! `dead` at scale: filters, totals, dry runs, ids on standard input, a rate, lines of JSON as output and input.

use std::time::Instant;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use super::{ask, ask_with, config};
use harness::{Layout, RedisServer, RedissonQueue};

/// Stores dead letters of `docs` as a daemon does: every third timed out at `shop`, the others were refused by
/// `events`.
async fn letters(redis: &mut MultiplexedConnection, count: usize) {
    let stream = RedissonQueue::new("app:docs").bridge_key("dead");
    let mut pipe = redis::pipe();
    for n in 0..count {
        let (code, sink, class) =
            if n % 3 == 0 { ("timeout", "shop", "transient") } else { ("NO_ROUTE", "events", "message_permanent") };
        let id = (n as u64 + 1).to_be_bytes();
        let element = Layout::New.pack(id, format!("{{\"order\":{{\"id\":{n}}}}}").as_bytes());
        pipe.cmd("XADD").arg(&stream).arg(format!("{}-0", 1_000 + n)).arg("id").arg(hex::encode(id));
        pipe.arg("reason")
            .arg("max_attempts")
            .arg("origin")
            .arg("delayed")
            .arg("due_ms")
            .arg(5)
            .arg("died_ms")
            .arg(1_000 + n);
        pipe.arg("attempts").arg(10).arg("class").arg(class).arg("code").arg(code).arg("message").arg("no answer");
        pipe.arg("sink")
            .arg(sink)
            .arg("confirmed")
            .arg("audit")
            .arg("attempts_seen")
            .arg("[]")
            .arg("element")
            .arg(element)
            .ignore();
    }
    pipe.exec_async(redis).await.unwrap();
}

async fn count(redis: &mut MultiplexedConnection) -> (usize, usize) {
    let queue = RedissonQueue::new("app:docs");
    (redis.xlen(queue.bridge_key("dead")).await.unwrap(), redis.zcard(queue.bridge_key("retry")).await.unwrap())
}

#[tokio::test]
async fn the_same_filters_choose_letters_for_every_command() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    letters(&mut redis, 300).await;

    let counted = ask(&config, "dead count docs --output json").json();
    assert_eq!((&counted["matched"], &counted["examined"]), (&json!(300), &json!(300)));
    let totals: Vec<_> =
        counted["totals"].as_array().unwrap().iter().map(|total| (&total["code"], &total["count"])).collect();
    assert_eq!(totals, [(&json!("NO_ROUTE"), &json!(200)), (&json!("timeout"), &json!(100))]);
    let text = ask(&config, "dead count docs --code timeout").well();
    assert!(text.contains("100 dead letters in docs") && text.contains("shop"), "{text}");

    let ids = |line: &str| -> Vec<String> {
        let found = ask(&config, &format!("{line} --output json")).json();
        let all = found["dead_letters"].as_array().unwrap();
        all.iter().map(|letter| letter["stream_id"].as_str().unwrap().to_owned()).collect()
    };
    for (filter, expected) in [
        ("--field order.id=7", vec!["1007-0"]),
        ("--id-prefix 0000000000000001 --code timeout", vec!["1000-0"]),
        ("--class transient --sink shop --limit 2", vec!["1297-0", "1294-0"]),
        ("--reason expired --reason junk", vec![]),
        ("--newer-than 1h", vec![]),
        ("--older-than 1h --limit 1", vec!["1299-0"]),
    ] {
        assert_eq!(ids(&format!("dead ls docs {filter}")), expected, "{filter}");
        assert_eq!(ids(&format!("dead show docs {filter}")), expected, "{filter}");
    }
    ask(&config, "dead ls docs --older-than 2h --newer-than 1h").failed(2, &["exchange the two"]);
    ask(&config, "dead ls docs --field order.id").failed(2, &["PATH=VALUE"]);
    ask(&config, "dead ls docs --reason max_atempts").failed(2, &["did you mean `max_attempts`?"]);

    // The sinks of these letters are gone from the configuration, where `out` is.
    ask(&config, "dead ls docs --sink out").well();
    let unknown = ["sink `evnts`", "the configuration has no such sink", "delaybridge dead count docs"];
    for line in ["ls docs", "show docs", "count docs", "export docs", "redrive docs", "purge docs --yes"] {
        ask(&config, &format!("dead {line} --sink evnts")).failed(1, &unknown);
        ask(&config, &format!("dead {line} --sink evnts --sink events --code timeout --reason skipped"))
            .failed(1, &unknown);
    }
    let listed = ask(&config, "dead ls docs --sink evnts --sink events --limit 2 --output json");
    assert_eq!((listed.code, listed.err.as_str()), (0, ""), "the rest was not looked at");
    let listed = ask(&config, "dead ls docs --sink evnts --output json");
    let found: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((listed.code, &found["unknown_sinks"]), (1, &json!(["evnts"])));

    let dry = ask(&config, "dead redrive docs --code timeout --dry-run").well();
    assert!(dry.contains("100 dead letters of docs would be redriven"), "{dry}");
    assert_eq!(count(&mut redis).await, (300, 0));
    let begun = Instant::now();
    let some = ask(&config, "dead redrive docs --field order.id=0 --field order.id=3 --output json").json();
    assert_eq!(some["redriven"], 0, "all fields must fit");
    let done = ask(&config, "dead redrive docs --code timeout --rate 100/s --output json").json();
    assert_eq!((&done["redriven"], &done["stopped"]), (&json!(100), &json!(false)));
    assert!(begun.elapsed().as_millis() >= 990, "{:?}", begun.elapsed());
    assert_eq!(count(&mut redis).await, (200, 100));
    assert_eq!(ask(&config, "dead redrive docs --code timeout --output json").json()["redriven"], 0);

    // On standard input: stream ids and ids of elements, one of which does not exist any more.
    let some = ask_with(&config, "dead redrive docs - --output json", b"1001-0\n\n0000000000000003\n1000-0\n");
    let answer: Value = serde_json::from_str(&some.out).unwrap();
    assert_eq!((some.code, &answer["redriven"], &answer["not_found"]), (1, &json!(2), &json!(["1000-0"])));
    ask(&config, "dead purge docs --sink events").failed(2, &["--dry-run", "--yes"]);
    let dry = ask(&config, "dead purge docs --sink events --dry-run --output json").json();
    assert_eq!((&dry["matched"], &dry["purged"]), (&json!(198), &json!(0)));
    assert!(ask(&config, "dead purge docs --sink events --yes").well().contains("198 dead letters of docs removed"));
    assert_eq!(count(&mut redis).await, (0, 102));
    ask(&config, "dead redrive docs").failed(2, &["--all", "filter"]);
}

#[tokio::test]
async fn letters_go_out_as_lines_and_come_back_as_they_were() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    letters(&mut redis, 30).await;
    let dead = RedissonQueue::new("app:docs").bridge_key("dead");
    let fields = async |redis: &mut MultiplexedConnection| -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
        let all: Vec<(String, Vec<Vec<u8>>)> = redis.xrange_all(&dead).await.unwrap();
        let one = |(_, values): (String, Vec<Vec<u8>>)| {
            let mut pairs: Vec<_> = values.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
            pairs.retain(|(name, _)| name != b"queue");
            pairs.sort();
            pairs
        };
        all.into_iter().map(one).collect()
    };
    let before = fields(&mut redis).await;
    let lines = ask(&config, "dead export docs").well();
    assert_eq!(lines.lines().count(), 30);
    assert_eq!(ask(&config, "dead export docs --after 1027-0").well().lines().count(), 2);
    // Ages count from the beginning of the export, which its places name: what fitted then still fits.
    let newer = |after: &str| ask(&config, &format!("dead export docs --newer-than 1s --after {after}")).well();
    assert_eq!((newer("1010-0..1029-0..2020").lines().count(), newer("1010-0").lines().count()), (10, 0));
    let file = config.write("letters.jsonl", &lines);
    let file = file.display();
    ask(&config, "dead purge docs --all --yes").well();

    assert!(ask(&config, &format!("dead import docs {file} --dry-run")).well().contains("30 dead letters could be"));
    assert_eq!(count(&mut redis).await, (0, 0));
    assert!(ask(&config, &format!("dead import docs {file}")).well().contains("30 dead letters imported to docs"));
    assert_eq!(fields(&mut redis).await, before);
    assert_eq!(ask(&config, "dead redrive docs --all --output json").json()["redriven"], 30);

    // After an invalid line, the lines before it are imported, and the message says how to continue.
    let broken = lines.lines().take(3).chain(["{oops"]).chain(lines.lines().skip(3)).collect::<Vec<_>>().join("\n");
    let broken = config.write("broken.jsonl", &broken);
    let error =
        ask(&config, &format!("dead import docs {}", broken.display())).failed(2, &["line 4", "not JSON", "--skip 3"]);
    assert!(!error.contains("oops"), "{error}");
    assert_eq!(count(&mut redis).await.0, 3);
    let rest = ask_with(&config, "dead import docs - --skip 4 --output json", &std::fs::read(&broken).unwrap());
    assert_eq!(rest.json()["imported"], 27);
    assert_eq!(count(&mut redis).await.0, 30);
    // A dry run finds all invalid lines; with a file for them, the import continues after them.
    let name = broken.display();
    let aside = config.write("aside", "one from before\n");
    let would = ask(&config, &format!("dead import docs {name} --dry-run"));
    for words in ["30 dead letters could be imported", "1 broken\n  line 4: not JSON"] {
        assert!(would.out.contains(words), "{}", would.out);
    }
    would.failed(1, &["with --broken FILE"]);
    let itself = format!("dead import docs {name} --broken {name}");
    ask(&config, &itself).failed(2, &["name another file"]);
    let past = ask(&config, &format!("dead import docs {name} --broken {} --output json", aside.display())).json();
    assert_eq!((&past["imported"], &past["broken"], &past["lines"]), (&30.into(), &1.into(), &31.into()));
    assert_eq!(past["problems"][0]["place"], "line 4");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), "one from before\n{oops\n");
    assert_eq!(count(&mut redis).await.0, 60);
    assert_eq!(ask(&config, &format!("dead export docs --file {file}")).code, 2, "no file is written over");
}

/// The reasons for filters are those that the daemon writes, and those of operators.
#[test]
fn every_reason_of_a_dead_letter_can_be_filtered_by() {
    let written: Vec<&str> = delaybridge_telemetry::labels::DeadReason::ALL.iter().map(|word| word.as_str()).collect();
    let known: Vec<&str> = delaybridge_ops::dead::REASONS.into_iter().filter(|reason| *reason != "killed").collect();
    assert_eq!(known, written);
}
