//! Recurring jobs of whole daemons: each firing once, after a time without any of them too.

use std::collections::BTreeSet;
use std::time::Duration;

use delaybridge_jobs::{CronSchedule, Fired, MissedFirings, NewJob, Patch, Recurring, RecurringName, Scripts};
use delaybridge_link::Clock;
use redis::AsyncCommands;
use serde_json::Value;

use super::random::settings;
use super::rig::{Rig, key, on_test_clock, topic};
use harness::daemon::{ConfigFile, cli};
use harness::ports::free_port;
use harness::{Daemon, RedisServer, ServerOptions, eventually};

const PATIENCE: Duration = Duration::from_secs(60);
const FIRINGS: &str = "delaybridge:jobs:firings:{reports}";
const RECORDS: &str = "delaybridge:jobs:records:{reports}";
const MINUTE: i64 = 60_000;

fn config(server: &RedisServer) -> String {
    format!("redis: {{ url: {} }}\njobs: {{ listen: '127.0.0.1:{}' }}\n", server.url(), free_port())
}

fn recurring(config: &ConfigFile, line: &[&str]) -> Value {
    let output = cli(config, &[&["jobs", "recurring"], line, &["--output", "json"]].concat());
    assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The ids of all jobs, once there are as many.
async fn ids(server: &RedisServer, count: usize) -> BTreeSet<String> {
    let redis = server.client().await;
    eventually("the jobs of the firings", PATIENCE, async || {
        let ids: BTreeSet<String> = redis.clone().hkeys(RECORDS).await.expect("ids");
        if ids.len() >= count { Ok(ids) } else { Err(format!("{ids:?}")) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_fire_each_firing_once_and_make_up_for_missed_ones_by_rule() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let file = ConfigFile::new(&format!("http: none\n{}", config(&server)));
    // Once in ten years, so that the test decides when they are due.
    let yearly = ["--cron", "0 0 29 2 *", "--zone", "Europe/Berlin", "--body", "x"];
    for (name, rule) in [("a-all", "all"), ("b-once", "once"), ("c-skip", "skip")] {
        recurring(&file, &[&["set", "reports", name, "--missed", rule], &yearly[..]].concat());
    }
    let minutely = ["set", "reports", "a-all", "--missed", "all", "--cron", "* * * * *", "--body", "{\"n\":1}"];
    let next = recurring(&file, &minutely)["next_ms"].as_i64().expect("a time");
    // The daemons were away for five minutes.
    let due = next - 5 * MINUTE;
    for name in ["a-all", "b-once", "c-skip"] {
        let _: () = redis.zadd(FIRINGS, name, due).await.expect("zadd");
    }
    let skipping =
        recurring(&file, &["set", "reports", "c-skip", "--missed", "skip", "--cron", "*/1 * * * *", "--body", "x"]);
    assert_eq!(skipping["changed"], true);
    let _: () = redis.zadd(FIRINGS, "c-skip", due).await.expect("zadd");
    let mut daemons = Vec::new();
    for _ in 0..2 {
        let mut daemon = Daemon::start(&config(&server)).await;
        daemon.expect_log("were missed");
        daemons.push(daemon);
    }
    // Five or six minutes have passed, and the last one is on time.
    let found = ids(&server, 7).await;
    eventually("all to be in the future", PATIENCE, async || {
        let scores: Vec<(String, i64)> =
            redis.clone().zrangebyscore_withscores(FIRINGS, 0, next - 1).await.expect("scores");
        if scores.is_empty() { Ok(()) } else { Err(format!("{scores:?}")) }
    })
    .await;
    let of = |name: &str| found.iter().filter(|id| id.starts_with(name)).count();
    assert!((5..=7).contains(&of("a-all:")), "{found:?}");
    assert_eq!(of("b-once:"), 1, "{found:?}");
    assert!((1..=2).contains(&of("c-skip:")), "{found:?}");
    for daemon in &mut daemons {
        daemon.stop().await;
    }
}

#[tokio::test]
async fn recurring_jobs_are_managed_on_the_command_line() {
    let server = RedisServer::start().await;
    let file = ConfigFile::new(&format!("http: none\nredis: {{ url: {} }}\njobs: {{}}\n", server.url()));
    let run = |line: &[&str]| cli(&file, &[&["jobs", "recurring"], line].concat());
    let text = |line: &[&str]| String::from_utf8(run(line).stdout).expect("text");
    let set = [
        "set",
        "reports",
        "nightly",
        "--cron",
        "0 3 * * *",
        "--zone",
        "europe/berlin",
        "--tries",
        "2",
        "--body",
        "x y",
    ];
    assert!(text(&set).starts_with("nightly of reports added, fires next 20"));
    assert!(text(&set).contains("was so already, fires next"));
    assert_eq!(recurring(&file, &["pause", "reports", "nightly"])["changed"], true);
    assert!(text(&["pause", "reports", "nightly"]).contains("was so already"));
    let list = text(&["ls", "reports"]);
    let row = list.lines().nth(1).unwrap_or_default();
    for cell in ["nightly", "0 3 * * *", "Europe/Berlin", "once", "paused"] {
        assert!(row.contains(cell), "{list}");
    }
    assert_eq!(recurring(&file, &["resume", "reports", "nightly"])["changed"], true);
    let shown = text(&["show", "reports", "nightly"]);
    assert!(shown.contains("x y") && !shown.contains("paused"), "{shown}");
    for (line, code, words) in [
        (vec!["set", "reports", "a", "--cron", "never", "--body", "x"], 2, "minute, hour, day of the month"),
        (vec!["set", "reports", "a", "--cron", "@daily", "--zone", "Mars", "--body", "x"], 2, "no time zone `Mars`"),
        (vec!["set", "reports", "a", "--cron", "0 0 31 2 *", "--body", "x"], 2, "never fires"),
        (vec!["show", "reports", "a"], 1, "there is no recurring job of this name"),
        (vec!["resume", "reports", "a"], 1, "there is no recurring job of this name"),
    ] {
        let output = run(&line);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && error.contains(words), "{line:?}: {error}");
    }
    assert_eq!(run(&["delete", "reports", "nightly"]).status.code(), Some(0));
    assert_eq!(run(&["delete", "reports", "nightly"]).status.code(), Some(1));
    assert!(text(&["ls", "reports"]).contains("no recurring jobs"));
}

/// Sets a firing, decides about it, changes the job while the clock is behind the firing again, and lets the old decision and a
/// new one fire. Then the same firing comes once more after its job was finished. Returns whether the old decision did anything,
/// and the number of jobs that were added for each of the other two.
async fn with_a_clock_that_is_set_back(rig: &mut Rig, patches: &[Patch<'_>]) -> (bool, [u64; 2]) {
    let scripts = Box::leak(Box::new(Scripts::patched(Clock::Test, patches)));
    let jobs = rig.queue(settings(), scripts);
    let firing = 1_800_000_000_000 + MINUTE;
    rig.begin(firing - MINUTE).await;
    let name: RecurringName = "r".parse().expect("a name");
    let set = async |cron: &str| {
        let schedule = CronSchedule::new(cron, "UTC").expect("a schedule");
        let missed = MissedFirings::Once;
        let content_type = String::new();
        let recurring = Recurring { schedule, missed, ttr: None, tries: None, ttl: None, priority: 0, content_type };
        let set = jobs.set_recurring(&topic(), &name, &recurring, &"x".into()).await.expect("set");
        assert_eq!((set.changed, set.next_ms), (true, Some(firing)), "the same firing");
    };
    let due = async || jobs.due_recurring(&topic()).await.expect("due").firings.remove(0);
    let mut added = [0; 2];
    set("* * * * *").await;
    rig.set_clock(firing).await;
    let old = due().await;
    rig.set_clock(firing - 500).await;
    set("*/1 * * * *").await;
    rig.set_clock(firing + 1).await;
    let fired = jobs.fire(&topic(), &old).await.expect("fire") != Fired::Elsewhere;
    for added in &mut added {
        if !fired {
            let firing = due().await;
            let Fired::Done { added: n, .. } = jobs.fire(&topic(), &firing).await.expect("fire") else {
                panic!("it was due")
            };
            *added = n;
        }
        for job in jobs.pop_now(&topic(), 10, None).await.expect("pop").jobs {
            jobs.finish(&job.id, job.token).await.expect("finish");
        }
        rig.set_clock(firing - 400).await;
        jobs.delete_recurring(&topic(), &name).await.expect("delete");
        set("* * * * *").await;
        rig.set_clock(firing + 2).await;
    }
    (fired, added)
}

#[tokio::test]
async fn an_old_decision_does_nothing_and_a_finished_firing_is_not_added_again() {
    let mut rig = Rig::start().await;
    assert_eq!(with_a_clock_that_is_set_back(&mut rig, &[]).await, (false, [1, 0]));
    // The test notices both bugs.
    let revision = ("recurring_fire", " or head.revision ~= tonumber(ARGV[8])", "");
    assert!(with_a_clock_that_is_set_back(&mut rig, &[revision]).await.0);
    let remembered = ("recurring_fire", " and not (remembered and tonumber(remembered) > now)", "");
    assert_eq!(with_a_clock_that_is_set_back(&mut rig, &[remembered]).await.1, [1, 1]);
}

fn minutely() -> Recurring {
    let schedule = CronSchedule::new("* * * * *", "UTC").expect("a schedule");
    let missed = MissedFirings::Once;
    let content_type = String::new();
    Recurring { schedule, missed, ttr: None, tries: None, ttl: None, priority: 0, content_type }
}

/// Whoever pauses or removes a recurring job wants that although its firing cannot be fired: no room in Redis, or a rule that this
/// version cannot read.
#[tokio::test]
async fn what_cannot_be_fired_can_be_paused_changed_and_removed() {
    const NOW: i64 = 1_800_000_000_000;
    let options = ServerOptions::default().max_memory("4mb").line("maxmemory-policy", "noeviction");
    let mut rig = Rig::start_with(options).await;
    let mut settings = settings();
    settings.defaults.max_jobs = None;
    let jobs = rig.queue(settings, on_test_clock());
    let names: Vec<RecurringName> = ["a", "b", "c"].map(|name| name.parse().expect("a name")).into();

    rig.begin(NOW).await;
    for name in &names {
        jobs.set_recurring(&topic(), name, &minutely(), &"x".into()).await.expect("set");
        let definition: Vec<u8> = rig.redis.hget(key("recurring"), name.as_str()).await.expect("the definition");
        let zone = definition.strip_suffix(b"UTC").expect("the zone comes last");
        let _: () =
            rig.redis.hset(key("recurring"), name.as_str(), [zone, b"XTC"].concat()).await.expect("another zone");
    }
    rig.set_clock(NOW + 2 * MINUTE).await;
    assert_eq!(jobs.due_recurring(&topic()).await.expect("due").unreadable, 3);
    assert!(jobs.pause_recurring(&topic(), &names[0]).await.expect("pause"));
    assert!(jobs.set_recurring(&topic(), &names[1], &minutely(), &"y".into()).await.expect("set").changed);
    jobs.delete_recurring(&topic(), &names[2]).await.expect("delete");

    rig.begin(NOW).await;
    for name in &names {
        jobs.set_recurring(&topic(), name, &minutely(), &"x".into()).await.expect("set");
    }
    let body = |_| NewJob::new(vec![b'x'; 1000]);
    let full = loop {
        if let Err(error) = jobs.add(&topic(), (0..50).map(body).collect()).await {
            break error;
        }
    };
    assert!(full.to_string().contains("OOM"), "{full}");
    rig.set_clock(NOW + 2 * MINUTE).await;
    assert!(jobs.pause_recurring(&topic(), &names[0]).await.expect("pause"));
    jobs.delete_recurring(&topic(), &names[2]).await.expect("delete");
}
