//! Tests of the board: the conditions of readiness, and the size of the answer.

use std::time::Duration;

use super::*;
use crate::labels::Stage;

pub(super) fn reason(text: &str) -> Reason {
    Reason { code: text.to_owned(), text: text.to_owned(), sink: None }
}

pub(super) fn running() -> Status {
    let status = Status::new();
    status.add_queues(1);
    status.add_sink(&"events".into());
    assert_eq!(status.sink(&"events".into(), SinkState::Up), SinkNews::Nothing, "up from the start");
    status.redis_up(&"default".into());
    status.started();
    status
}

#[test]
fn a_daemon_is_ready_only_if_nothing_is_in_the_way() {
    let check = |name: &str, change: &dyn Fn(&Status), expected: bool| {
        let status = running();
        change(&status);
        assert_eq!(status.ready().ok, expected, "{name}");
    };
    check("nothing", &|_| (), true);
    check("stopping", &|status| status.stopping(), false);
    check("redis", &|status| assert!(status.redis_lost(&"default".into(), "refused".into())), false);
    check("hold", &|status| assert!(status.held(&"orders".into(), Some(reason("WRONGTYPE")))), false);
    check(
        "down",
        &|status| assert_eq!(status.sink(&"events".into(), SinkState::Down(reason("x"))), SinkNews::State),
        false,
    );
    check(
        "full",
        &|status| assert_eq!(status.sink(&"events".into(), SinkState::Blocked(reason("OOM"))), SinkNews::State),
        true,
    );
    check("unknown", &|status| status.add_sink(&"other".into()), false);
    assert!(!Status::new().ready().ok);
}

#[test]
fn what_is_gone_or_changed_is_shown_no_more_and_a_refused_reload_is_shown_and_ready() {
    let status = running();
    status.held(&"orders".into(), Some(reason("WRONGTYPE")));
    status.sink(&"events".into(), SinkState::Down(reason("x")));
    status.destination(&"events".into(), 1, Some(("topic t".to_owned(), reason("y"))));
    assert_eq!(status.forget_queue(&"orders".into()), (true, false));
    status.remove_sink(&"events".into());
    status.remove_queue();
    let answer = status.ready();
    assert!(answer.ok, "{}", answer.body);
    assert_eq!((&answer.body["queues"]["total"], &answer.body["destinations"]["in_trouble"]), (&json!(0), &json!(0)));

    status.runs("00ff");
    status.reloading();
    assert_eq!(status.ready().body["configuration"]["reloading"], true);
    let refusal = Refusal {
        path: "queues.q.lease".to_owned(),
        line: Some(7),
        message: "too short".to_owned(),
        ..Refusal::default()
    };
    status.reloaded(&[refusal]);
    let answer = status.ready();
    assert!(answer.ok);
    let shown = &answer.body["configuration"];
    assert_eq!((&shown["hash"], &shown["reloads"], &shown["reloading"]), (&json!("00ff"), &json!(1), &json!(false)));
    assert_eq!(shown["last_reload"]["problems"][0]["line"], 7);
    assert!(status.headline().contains("last reload refused: queues.q.lease: too short"), "{}", status.headline());
    status.reloaded(&[]);
    assert_eq!(status.ready().body["configuration"]["last_reload"]["successful"], true);
}

#[test]
fn the_answer_names_what_is_not_ready_and_why() {
    let status = running();
    status.held(&"orders".into(), Some(reason("key x holds a hash")));
    status.sink(&"events".into(), SinkState::Down(reason("connection refused")));
    let body = status.ready().body;
    assert_eq!(body["queues"]["reasons"]["orders"]["reason"], "key x holds a hash");
    assert_eq!(body["sinks"]["reasons"]["events"]["state"], "down");
    assert_eq!(body["sinks"]["reasons"]["events"]["reason"], "connection refused");
    assert_eq!((&body["sinks"]["not_up"], &body["sinks"]["up"]), (&json!(1), &json!({})));
    assert!(status.held(&"orders".into(), None));
    assert_eq!(status.sink(&"events".into(), SinkState::Up), SinkNews::State);
    assert_eq!(status.ready().body["queues"]["reasons"], json!({}));
    assert_eq!(status.ready().body["sinks"]["up"]["events"]["seconds"], 0);
    status.add_sink(&"other".into());
    assert_eq!(status.ready().body["sinks"]["reasons"]["other"]["state"], "unknown");
}

#[test]
fn the_stalled_queues_of_one_redis_do_not_hide_those_of_another() {
    let status = running();
    let stalled =
        |queue: &str| Stalled { queue: queue.into(), waits_for: Stage::Room, time: Duration::ZERO, news: true };
    let one = "one".into();
    let other = "other".into();
    assert!(status.stalled(&one, &[stalled("a")]) && !status.stalled(&one, &[stalled("a"), stalled("b")]));
    assert!(status.stalled(&other, &[stalled("c")]));
    let shown = || {
        let body = status.live().body;
        let queues =
            body["stalled"].as_array().unwrap().iter().map(|stalled| stalled["queue"].as_str().unwrap().to_owned());
        (
            queues.collect::<Vec<_>>().join(" "),
            body["stalled_queues"].as_u64().unwrap(),
            body["live"].as_bool().unwrap(),
        )
    };
    assert_eq!(shown(), ("a b c".to_owned(), 3, false));
    assert!(status.headline().contains("c waits for room"), "{}", status.headline());
    // The watchdog of a Redis without stalled queues says nothing about the others.
    assert!(status.stalled(&other, &[]) && !status.stalled(&other, &[]));
    assert_eq!(shown(), ("a b".to_owned(), 2, false));
    assert!(status.stalled(&one, &[]));
    assert_eq!(shown(), (String::new(), 0, true));
}

#[test]
fn ten_thousand_held_queues_make_a_short_answer() {
    let status = running();
    for n in 0..10_000 {
        status.held(&format!("queue-{n}").into(), Some(reason("no")));
    }
    let body = status.ready().body;
    assert_eq!((&body["queues"]["held"], &body["queues"]["not_listed"]), (&json!(10_000), &json!(9_900)));
    assert!(body.to_string().len() < 20_000);
}

#[test]
fn saying_the_same_twice_is_no_news() {
    let status = running();
    assert!(!status.held(&"orders".into(), None));
    assert!(status.held(&"orders".into(), Some(reason("a"))));
    assert!(!status.held(&"orders".into(), Some(reason("a"))));
    assert!(status.held(&"orders".into(), Some(reason("b"))));
    assert_eq!(status.sink(&"events".into(), SinkState::Up), SinkNews::Nothing);
    let down = |text: &str| status.sink(&"events".into(), SinkState::Down(reason(text)));
    assert_eq!((down("a"), down("a"), down("b")), (SinkNews::State, SinkNews::Nothing, SinkNews::Reason));
}

#[test]
fn a_task_that_falls_silent_is_named_until_it_ends() {
    let status = Status::new();
    let heart = status.heartbeat("claimer orders", Duration::from_secs(60));
    heart.beat();
    let now = Instant::now();
    assert!(status.live_at(now.after(Duration::from_secs(50))).ok);
    let answer = status.live_at(now.after(Duration::from_secs(70)));
    assert!(!answer.ok);
    assert_eq!(answer.body["stuck"][0]["task"], "claimer orders");
    drop(heart);
    assert!(status.live_at(now.after(Duration::from_secs(70))).ok);
}

#[test]
fn a_task_that_waits_is_watched_again_from_its_next_beat() {
    let status = Status::new();
    let heart = status.heartbeat("claimer orders", Duration::from_secs(60));
    heart.rest();
    let later = Instant::now().after(Duration::from_secs(3600));
    assert!(status.live_at(later).ok);
    heart.beat();
    assert!(!status.live_at(later).ok);
}

#[test]
fn topics_that_are_not_served_are_named_and_the_daemon_stays_ready() {
    let status = running();
    assert_eq!(status.ready().body.get("topics"), None, "there is no job queue");
    let failed = vec![("orders".into(), "a key holds a list".to_owned())];
    status.topics(Topics { total: 9, paused: vec!["mails".into()], failed, unreadable: 3, index: None });
    let Answer { ok, body } = status.ready();
    assert!(ok, "others are served");
    assert_eq!((&body["topics"]["total"], &body["topics"]["not_served"]), (&json!(9), &json!(2)));
    assert_eq!((&body["topics"]["unreadable_names"], body["topics"].get("index_not_read")), (&json!(3), None));
    assert_eq!(body["topics"]["reasons"]["mails"], json!({ "state": "paused" }));
    assert_eq!(body["topics"]["reasons"]["orders"], json!({ "state": "not_read", "reason": "a key holds a list" }));
}

#[test]
fn claims_that_this_version_cannot_read_are_shown_after_a_while_and_the_daemon_stays_ready() {
    let status = running();
    let shown = |later| {
        let board = status.board();
        let now = Instant::now().after(Duration::from_secs(later));
        board.unknown(now).map(|(queue, (claims, _))| (queue.to_string(), *claims)).collect::<Vec<_>>()
    };
    status.unknown_claims(&"orders".into(), 8);
    assert_eq!((shown(50), shown(61)), (vec![], vec![("orders".to_owned(), 8)]));
    status.unknown_claims(&"orders".into(), 9);
    assert_eq!(shown(61), [("orders".to_owned(), 9)], "more of them are no beginning");
    assert!(status.ready().ok);
    status.unknown_claims(&"orders".into(), 0);
    assert_eq!(shown(61), []);
}

#[test]
fn a_silent_worker_is_seen_by_the_probes_one_after_the_other() {
    let status = running();
    let probes = |silent: &[(usize, u64)]| {
        let silent: Vec<_> = silent.iter().map(|(number, seconds)| (*number, Duration::from_secs(*seconds))).collect();
        status.silent_workers(&silent);
        (status.ready().ok, status.live().ok)
    };
    assert_eq!(probes(&[]), (true, true));
    assert_eq!(probes(&[(2, 5)]), (false, true));
    assert_eq!(status.ready().body["silent_workers"], 1);
    assert_eq!(probes(&[(1, 5), (2, 30)]), (false, false));
    let stuck = &status.live().body["stuck"];
    assert_eq!(stuck, &json!([{ "task": "worker 2 of the runtime", "silent_seconds": 30 }]));
    assert_eq!(probes(&[]), (true, true));
}
