//! A table of facts, and what is said of them.

use super::order::Predecessor;
use super::*;
use crate::audit::OperatorChange;
use crate::element::Holder;
use crate::overview::{DestinationTrouble, Hold, SinkRow};
use crate::pause::PauseState;

const NOW: i64 = 1_795_251_632_252;

/// What a row expects.
struct Expected {
    state: Whereabouts,
    /// Parts of the summary.
    says: &'static [&'static str],
    waits_for: &'static [ObstacleKind],
    commands: &'static [&'static str],
}

/// One row: an element, and what is around it.
#[derive(Clone)]
struct Row {
    detail: Option<Detail>,
    rules: WhyRules,
    paused: Vec<PauseState>,
    daemons: Option<u64>,
    before: u64,
    predecessor: Option<Predecessor>,
    daemon: Option<AtDaemon>,
    change: Option<OperatorChange>,
}

fn row(detail: Detail) -> Row {
    let rules = WhyRules { mode: "deliver", max_attempts: 10, ..WhyRules::default() };
    Row {
        detail: Some(detail),
        rules,
        paused: Vec::new(),
        daemons: Some(1),
        before: 0,
        predecessor: None,
        daemon: Some(AtDaemon::default()),
        change: None,
    }
}

fn explained(row: &Row) -> ElementWhy {
    explain(&WhyFacts {
        queue: "orders",
        id: "52414e444f4d3842",
        now_ms: NOW,
        detail: row.detail.as_ref(),
        rules: row.rules.clone(),
        paused: &row.paused,
        daemons: row.daemons,
        before: row.before,
        predecessor: row.predecessor.as_ref(),
        daemon: row.daemon.as_ref(),
        change: row.change.as_ref(),
    })
}

fn check(row: &Row, expected: &Expected) {
    let found = explained(row);
    let kinds: Vec<_> = found.waits_for.iter().map(|obstacle| obstacle.kind).collect();
    let commands: Vec<_> = found.remedies.iter().map(|remedy| remedy.command.as_str()).collect();
    assert_eq!(
        (found.state, &kinds[..], &commands[..]),
        (expected.state, expected.waits_for, expected.commands),
        "{found:?}"
    );
    for part in expected.says {
        assert!(found.summary.contains(part), "{part} is missing in {}", found.summary);
    }
    let read: ElementWhy = serde_json::from_str(&serde_json::to_string(&found).unwrap()).unwrap();
    // Buttons are of the page alone, which computes its own answer.
    let mut sent = found;
    sent.remedies.iter_mut().for_each(|remedy| remedy.cure = None);
    assert_eq!(read, sent, "a daemon's answer is read as it was written");
}

fn scheduled(after_ms: i64) -> Detail {
    Detail {
        state: PeekState::Scheduled,
        due_ms: Some(NOW + after_ms),
        outstanding: vec!["events".to_owned()],
        ..Detail::default()
    }
}

fn retried(after_ms: i64) -> Detail {
    Detail {
        state: PeekState::Retry,
        due_ms: Some(NOW - 60_000),
        next_attempt_ms: Some(NOW + after_ms),
        attempts: 3,
        first_attempt_ms: Some(NOW - 50_000),
        last_attempt_ms: Some(NOW - 5_000),
        class: "transient".to_owned(),
        code: "timeout".to_owned(),
        outstanding: vec!["events".to_owned()],
        ..Detail::default()
    }
}

fn claimed(left_ms: i64) -> Detail {
    let held_by = Some(Holder { claim: "1.aa.7.0".to_owned(), daemon: "00aa".to_owned(), expiries: 0 });
    Detail { state: PeekState::InFlight, held_by, lease_ends_ms: Some(NOW + left_ms), ..Detail::default() }
}

fn dead() -> Detail {
    Detail {
        state: PeekState::Dead,
        died_ms: Some(NOW - 3_600_000),
        stream_id: Some("1795251632252-0".to_owned()),
        reason: "attempts".to_owned(),
        message: "no answer within 5s".to_owned(),
        sink: "events".to_owned(),
        attempts: 10,
        ..retried(0)
    }
}

fn pause(sink: Option<&str>) -> PauseState {
    let sink = sink.map(str::to_owned);
    PauseState {
        sink,
        by: "ann".to_owned(),
        why: "a deployment".to_owned(),
        since_ms: NOW - 300_000,
        until_ms: Some(NOW + 1),
    }
}

fn sink(state: &str) -> SinkRow {
    let reason = Some("no broker".to_owned());
    SinkRow { sink: "events".to_owned(), state: state.to_owned(), reason, seconds: 90, ..SinkRow::default() }
}

#[test]
fn an_element_that_nothing_is_in_the_way_of_waits_for_its_time_alone() {
    let run_now = &["delaybridge run-now orders 52414e444f4d3842"];
    for (detail, state, says, waits_for, commands) in [
        (
            scheduled(7_500_000),
            Whereabouts::Scheduled,
            &["falls due in 2h 5m (2026-11-21T11:05:32Z)"][..],
            &[ObstacleKind::DueTime][..],
            &run_now[..],
        ),
        (scheduled(-5_000), Whereabouts::Due, &["due for 5s", "claimed next"], &[], &[]),
        (
            retried(3_000),
            Whereabouts::Retry,
            &["tried again in 3s after timeout; 3 of 10 attempts used."],
            &[ObstacleKind::BackOff],
            run_now,
        ),
        (retried(-2_000), Whereabouts::Retry, &["as soon as it is claimed"], &[], &[]),
        (
            claimed(20_000),
            Whereabouts::InFlight,
            &["with daemon 00aa", "may be delivered right now", "ends in 20s"],
            &[ObstacleKind::Claim],
            &[],
        ),
        (
            claimed(-10_000),
            Whereabouts::InFlight,
            &["lease ended 10s ago", "died or lost Redis", "takes it over"],
            &[ObstacleKind::Claim],
            &[],
        ),
        (
            dead(),
            Whereabouts::Dead,
            &["dead for 1h, by `attempts` after 10 attempts (timeout at events): no answer within 5s. It is not tried"],
            &[ObstacleKind::Redrive],
            &["delaybridge dead redrive orders 1795251632252-0"],
        ),
        (Detail { state: PeekState::Ready, ..Detail::default() }, Whereabouts::Ready, &["on the ready list"], &[], &[]),
    ] {
        check(&row(detail), &Expected { state, says, waits_for, commands });
    }
}

#[test]
fn what_is_in_the_way_is_named_with_the_command_against_it() {
    let due = row(scheduled(-5_000));
    let check = |row: Row, kind, says: &'static str, commands: &'static [&'static str]| {
        let waits_for: &[_] = &[kind];
        let found = explained(&row);
        let kinds: Vec<_> = found.waits_for.iter().map(|obstacle| obstacle.kind).collect();
        let of: Vec<_> = found.remedies.iter().map(|remedy| remedy.command.as_str()).collect();
        assert_eq!((&kinds[..], &of[..]), (waits_for, commands), "{found:?}");
        assert!(found.summary.contains(&format!("In the way: {says}")), "{}", found.summary);
    };
    let of_pause = "the queue is paused 5m ago by ann: a deployment; until";
    let resume = &["delaybridge resume orders"];
    check(Row { paused: vec![pause(None)], ..due.clone() }, ObstacleKind::Pause, of_pause, resume);
    let of_sink = "sink events paused 5m ago by ann";
    let resume = &["delaybridge resume --sink events"];
    check(Row { paused: vec![pause(Some("events"))], ..due.clone() }, ObstacleKind::Pause, of_sink, resume);
    let none = "no daemon serves the queue";
    check(Row { daemons: Some(0), ..due.clone() }, ObstacleKind::NoDaemon, none, &["delaybridge run"]);
    let rules = WhyRules { mode: "shadow", ..due.rules.clone() };
    check(
        Row { rules, ..due.clone() },
        ObstacleKind::Mode,
        "the mode of the queue is `shadow`",
        &["delaybridge reload"],
    );
    let live = &["delaybridge check --live"];
    let hold = Some(Hold { reason: "no topic".to_owned(), seconds: 240 });
    let daemon = AtDaemon { held: hold, ..AtDaemon::default() };
    let held = "this daemon holds the queue for 4m: no topic";
    check(Row { daemon: Some(daemon), ..due.clone() }, ObstacleKind::Hold, held, live);
    let daemon = AtDaemon { sinks: vec![sink("down")], ..AtDaemon::default() };
    let down = "sink events, down since 08:59:02 UTC: no broker";
    check(Row { daemon: Some(daemon), ..due.clone() }, ObstacleKind::Sink, down, live);
    let destination =
        DestinationTrouble { destination: "t".to_owned(), reason: "no leader".to_owned(), ..Default::default() };
    let troubled = SinkRow { destinations: vec![destination], ..sink("up") };
    let daemon = AtDaemon { sinks: vec![troubled], ..AtDaemon::default() };
    let trouble = "t of sink events is in trouble for 0ms, if the element goes there: no leader";
    check(Row { daemon: Some(daemon), ..due.clone() }, ObstacleKind::Destination, trouble, live);
    let daemon = AtDaemon { delivered_per_second: 50.0, ..AtDaemon::default() };
    let before = "1,000 elements are due before it, about 20s at the rate";
    check(Row { before: 1_000, daemon: Some(daemon), ..due.clone() }, ObstacleKind::Before, before, &[]);
    let rules = WhyRules { order: Some("key"), ..due.rules.clone() };
    check(Row { rules, ..due }, ObstacleKind::Order, "elements with its key are delivered one after the other", &[]);
}

/// A time of the next attempt that is over says nothing: the sink has to come back.
#[test]
fn the_next_attempt_is_that_of_the_sink_once_its_time_has_come() {
    let down = Some(AtDaemon { sinks: vec![sink("down")], ..AtDaemon::default() });
    let next = |detail, daemon| {
        let found = explained(&Row { daemon, ..row(detail) });
        (found.next_words().unwrap_or_default(), found.summary)
    };
    let (words, summary) = next(retried(-136_000), down.clone());
    assert_eq!(words, "waiting for sink events, down since 08:59:02 UTC");
    let expected = "It waits for sink events, down since 08:59:02 UTC: no broker. It is tried again as soon as the sink answers; 3 of 10 \
                    attempts used.";
    assert_eq!(summary, expected);
    let (words, summary) = next(retried(3_000), down.clone());
    assert_eq!(words, "2026-11-21T09:00:35Z (in 3s)");
    assert!(summary.contains("in 3s after timeout") && summary.contains("In the way: sink events, down"), "{summary}");
    assert_eq!(next(retried(-2_000), Some(AtDaemon::default())).0, "as soon as it is claimed");
    assert_eq!(next(scheduled(-5_000), down).0, "waiting for sink events, down since 08:59:02 UTC");
    assert_eq!(next(dead(), None).0, "never by itself");
    assert_eq!(explained(&Row { detail: None, ..row(dead()) }).next_words(), None);
}

#[test]
fn a_rate_limit_is_named_before_those_that_wait_for_it() {
    let rules = WhyRules { max_rate: Some(5.0), ..row(Detail::default()).rules };
    let sinks = vec![SinkRow { max_rate: Some(50.0), ..sink("up") }];
    let daemon = Some(AtDaemon { sinks, ..AtDaemon::default() });
    let found = explained(&Row { rules, before: 60, daemon, ..row(scheduled(-5_000)) });
    let details: Vec<_> = found.waits_for.iter().map(|one| &one.detail[..]).collect();
    let expected = [
        "`max_rate` of the queue lets 5 elements a second out at each daemon",
        "`max_rate` of sink events lets 50 elements a second out at each daemon",
        "60 elements are due before it",
    ];
    assert_eq!(details, expected);
    assert!(found.summary.contains(expected[0]), "{}", found.summary);
}

#[test]
fn the_element_before_it_in_its_order_is_named() {
    let rules = WhyRules { order: Some("key"), ..row(Detail::default()).rules };
    let before = Predecessor {
        id: "a".to_owned(),
        state: PeekState::Retry,
        due_ms: NOW - 60_000,
        attempts: 2,
        code: "timeout".to_owned(),
        next_attempt_ms: Some(NOW + 5_000),
    };
    let order = |predecessor: Option<Predecessor>| {
        let found = explained(&Row { rules: rules.clone(), before: 7, predecessor, ..row(scheduled(-1_000)) });
        assert_eq!(found.waits_for[0].kind, ObstacleKind::Order, "before the number of the others");
        found.waits_for[0].clone()
    };
    let found = order(Some(before.clone()));
    assert!(
        found.detail.ends_with("; a is before it, due for 1m, and is tried again in 5s after timeout"),
        "{found:?}"
    );
    assert_eq!((found.until_ms, found.element.as_deref()), (Some(NOW + 5_000), Some("a")));
    let found = order(Some(Predecessor { state: PeekState::InFlight, next_attempt_ms: None, ..before }));
    assert!(found.detail.ends_with("and is in flight") && found.until_ms.is_none(), "{found:?}");
    assert_eq!(order(None).element, None);
}

#[test]
fn a_sink_that_has_confirmed_it_is_not_in_its_way() {
    let detail =
        Detail { outstanding: vec!["mails".to_owned()], confirmed: vec!["events".to_owned()], ..scheduled(-1) };
    let daemon = Some(AtDaemon { sinks: vec![sink("down")], ..AtDaemon::default() });
    assert_eq!(explained(&Row { daemon, ..row(detail) }).waits_for, []);
}

#[test]
fn every_attempt_that_is_known_is_listed_once() {
    let seen = |ago: i64| SeenAttempt {
        at_ms: NOW - ago,
        sink: "events".to_owned(),
        class: "transient".to_owned(),
        code: "timeout".to_owned(),
    };
    let times = |row: &Row| {
        let found = explained(row);
        let times: Vec<_> = found.attempts_seen.iter().map(|seen| NOW - seen.at_ms).collect();
        (times, found.notes.iter().filter(|note| note.contains("earlier attempt")).count())
    };
    let by_redis = Row { daemon: None, ..row(retried(3_000)) };
    assert_eq!(times(&by_redis), (vec![5_000], 1), "the last one alone is in Redis");
    let daemon = Some(AtDaemon { attempts: vec![seen(50_000), seen(20_000), seen(5_040)], ..AtDaemon::default() });
    assert_eq!(times(&Row { daemon, ..by_redis.clone() }), (vec![50_000, 20_000, 5_040], 0));
    let kept = serde_json::json!([{ "at_ms": NOW - 9_000, "sink": "events", "class": "transient", "code": "x" }]);
    let letter = Detail { attempts_seen: Some(kept), ..dead() };
    assert_eq!(times(&Row { detail: Some(letter), ..by_redis }), (vec![9_000, 5_000], 1));
}

#[test]
fn of_what_is_gone_it_says_what_is_known_or_that_nothing_is() {
    let gone = Row { detail: None, ..row(Detail::default()) };
    let nothing =
        Expected { state: Whereabouts::Gone, says: &["Nothing more is known of it"], waits_for: &[], commands: &[] };
    check(&gone, &nothing);
    check(&Row { daemon: None, paused: vec![pause(None)], daemons: Some(0), ..gone.clone() }, &nothing);
    let event = SeenEvent { at_ms: NOW - 4_000, fate: "delivered".to_owned(), sink: Some("events".to_owned()) };
    let daemon = Some(AtDaemon { events: vec![event], ..AtDaemon::default() });
    let says = &["This daemon last saw it 4s ago: delivered (events)."];
    check(&Row { daemon, ..gone.clone() }, &Expected { says, ..nothing });
    let what = "cancel".to_owned();
    let by = "ann@shell".to_owned();
    let at_ms = NOW - 60_000;
    let change = Some(OperatorChange { what, by, at_ms, ..OperatorChange::default() });
    let says = &["The last change of an operator: `cancel` by ann@shell, 1m ago."];
    check(&Row { change, ..gone }, &Expected { says, ..nothing });
}

#[test]
fn an_end_by_lateness_is_announced() {
    let rules = WhyRules { expires_after_ms: Some(60_000), ..row(Detail::default()).rules };
    let notes = |detail| explained(&Row { rules: rules.clone(), ..row(detail) }).notes.join(" ");
    assert!(notes(scheduled(60_000)).contains("expires in 2m"));
    assert!(notes(scheduled(-70_000)).contains("expires already"));
    assert!(!notes(claimed(5)).contains("expires"));
}

#[test]
fn of_many_destinations_in_trouble_those_are_named_that_the_element_goes_to() {
    let troubled =
        |name: String| DestinationTrouble { destination: name, reason: "410".to_owned(), ..Default::default() };
    let named = |names: &dyn Fn(usize) -> String, routes: &[&str]| {
        let destinations = (0..46).map(|n| troubled(names(n))).collect();
        let row = Row {
            daemon: Some(AtDaemon {
                sinks: vec![SinkRow {
                    sink: "events".to_owned(),
                    state: "up".to_owned(),
                    destinations,
                    ..SinkRow::default()
                }],
                ..AtDaemon::default()
            }),
            ..row(Detail { routes: routes.iter().map(|&route| route.to_owned()).collect(), ..scheduled(-5_000) })
        };
        let found = explained(&row).waits_for;
        found.into_iter().map(|obstacle| obstacle.detail).collect::<Vec<_>>()
    };
    let path = |n| format!("path /hook/{n}");
    let own = "path /hook/7 of sink events is in trouble for 0ms: 410";
    assert_eq!(named(&path, &["events: path /hook/7"]), [own]);
    for longer in ["events: list orders, eu", "events: list orders 7"] {
        let orders = |n| format!("list {}", if n == 0 { "orders".to_owned() } else { format!("other-{n}") });
        assert_eq!(named(&orders, &[longer]), Vec::<String>::new(), "its name begins as that of another");
    }
    assert_eq!(named(&path, &["events: path /hook/99"]), Vec::<String>::new(), "it goes elsewhere");
    let doubt = "path /hook/0 of sink events is in trouble for 0ms, if the element goes there: 410";
    for (names, routes, first) in [
        (&path as &dyn Fn(usize) -> String, &["nowhere: the payload cannot be read"][..], doubt),
        (
            &|n| format!("{n}"),
            &["events: topic 7"],
            "0 of sink events is in trouble for 0ms, if the element goes there: 410",
        ),
        (
            &|_| "path /${payload.x}".to_owned(),
            &["events: path /a"],
            "path /${payload.x} of sink events is in trouble for 0ms, if the element goes there: 410",
        ),
    ] {
        let found = named(names, routes);
        assert_eq!((found.len(), found[0].as_str()), (4, first), "three are named, and the number of the others");
        assert_eq!(found[3], "43 further destinations of sink events in trouble, if the element goes there");
    }
}
