//! Tests of the destinations: waits, shares, bounds, what is forgotten.

use super::*;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Class;

const SECOND: Duration = Duration::from_secs(1);
const ROOM: Room = Room { count: 100, bytes: 1 << 20 };

fn key(n: u64) -> DestinationKey {
    DestinationKey::whole(n + 1)
}

fn ask(n: u64) -> Ask {
    Ask { lane: key(n), size: 10, gives_up: None }
}

fn admit(destinations: &mut SinkDestinations, asks: impl IntoIterator<Item = Ask>, now: Instant) -> Vec<Admission> {
    asks.into_iter().map(destinations.admit(ROOM, None, now)).collect()
}

/// A destination that has just failed five times.
fn broken(destinations: &mut SinkDestinations, n: u64, now: Instant) {
    for _ in 0..5 {
        destinations.failed(key(n), Class::Transient, true, now, 1.0);
    }
}

#[test]
fn one_that_fails_holds_its_own_elements_and_no_others() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    broken(&mut all, 0, now);
    let admitted = admit(&mut all, [ask(0), ask(1), ask(0)], now);
    assert!(matches!(admitted[..], [Admission::Hold(_), Admission::Send, Admission::Hold(_)]), "{admitted:?}");
    assert_eq!(all.in_trouble(), 1);
    // One at a time finds out whether it works again.
    let later = now.after(SECOND);
    let admitted = admit(&mut all, [ask(0), ask(0)], later);
    assert!(matches!(admitted[..], [Admission::Probe, Admission::Hold(_)]), "{admitted:?}");
    assert_eq!(all.confirmed(key(0), 1, later), [Works { lane: key(0), shown: true }]);
    assert_eq!(admit(&mut all, [ask(0), ask(0)], later), [Admission::Send; 2]);
}

#[test]
fn parts_are_out_of_trouble_when_they_are_no_longer_told_apart_from_the_whole() {
    let now = Instant::now();
    let part = |n: u64, part: u64| DestinationKey { id: 100 * (n + 1) + part, whole: n + 1 };
    let fail = |all: &mut SinkDestinations, key: DestinationKey| {
        for _ in 0..5 {
            all.failed(key, Class::Transient, true, now, 1.0);
        }
    };
    let mut all = SinkDestinations::new(now);
    let works = |lane| Works { lane, shown: true };
    fail(&mut all, part(0, 1));
    fail(&mut all, part(0, 2));
    fail(&mut all, part(1, 1));
    assert_eq!(all.confirmed(part(0, 1), 1, now), [works(part(0, 1))], "a part says nothing about another");
    assert_eq!(all.confirmed(key(2), 1, now), [], "nor does another destination");
    assert_eq!(all.confirmed(key(0), 1, now), [works(part(0, 2))]);
    assert_eq!((all.in_trouble(), all.confirmed(key(0), 1, now)), (1, vec![]));
    assert_eq!(all.confirmed(key(1), 1, now), [works(part(1, 1))]);
    // The whole failed, and only parts of it do now.
    fail(&mut all, key(0));
    fail(&mut all, part(0, 1));
    assert_eq!(all.confirmed(part(0, 2), 1, now), [works(key(0))]);
    assert_eq!((all.in_trouble(), admit(&mut all, [ask(0)], now)), (1, vec![Admission::Send]));
}

#[test]
fn a_probe_that_was_not_answered_lets_the_next_one_through() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    broken(&mut all, 0, now);
    let later = now.after(SECOND);
    assert_eq!(admit(&mut all, [ask(0)], later), [Admission::Probe]);
    all.left(key(0), 10, true, later);
    assert_eq!(admit(&mut all, [ask(0)], later), [Admission::Probe]);
}

#[test]
fn held_elements_come_back_one_after_the_other_and_none_after_five_minutes() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    broken(&mut all, 0, now);
    let waits: Vec<Duration> = admit(&mut all, (0..1_000_000).map(|_| ask(0)), now)
        .into_iter()
        .map(|admission| match admission {
            Admission::Hold(wait) => wait,
            other => panic!("{other:?}"),
        })
        .collect();
    let within = |wait: Duration| waits.iter().filter(|found| **found <= wait).count();
    assert!((1_500..=2_500).contains(&within(SECOND)), "{} in the first second", within(SECOND));
    assert!((18_000..=22_000).contains(&within(10 * SECOND)), "{} in ten seconds", within(10 * SECOND));
    assert_eq!(within(lane::LONGEST), waits.len());
}

#[test]
fn silent_destinations_leave_room_for_others() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    let sent = |admitted: &[Admission]| admitted.iter().filter(|found| **found == Admission::Send).count();
    // A burst for one that has nothing in flight may take three quarters.
    assert_eq!(sent(&admit(&mut all, (0..100).map(|_| ask(0)), now)), 75);
    // It is silent now: no other one may fill the rest in the same way, and each gets in.
    let later = now.after(SECOND);
    assert_eq!(sent(&admit(&mut all, [ask(0), ask(1), ask(2)], later)), 2);
    let much_later = later.after(SECOND);
    assert_eq!(sent(&admit(&mut all, [ask(0), ask(1), ask(2), ask(3)], much_later)), 1);
    // One that answers has all the room.
    for _ in 0..75 {
        all.confirmed(key(0), 1, much_later);
        all.left(key(0), 10, false, much_later);
    }
    assert_eq!(sent(&admit(&mut all, [ask(0), ask(1)], much_later)), 2);
}

#[test]
fn a_failure_counts_only_if_the_same_destination_has_moved() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    all.confirmed(key(1), 1_000, now);
    assert!(all.moved_since(key(1), 1_000) && !all.moved_since(key(1), 1_001));
    assert!(!all.moved_since(key(0), 0));
}

#[test]
fn a_sink_is_known_to_work_for_a_minute_after_a_confirmation_of_another_destination() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    all.confirmed(key(0), 1, now);
    assert!(all.others_work(key(1), now) && !all.others_work(key(0), now));
    assert!(!all.others_work(key(1), now.after(61 * SECOND)));
    all.failed(key(0), Class::Ambiguous, true, now, 1.0);
    assert!(!all.others_work(key(1), now), "its last answer is a failure");
}

#[test]
fn one_that_never_worked_is_given_up_and_one_that_did_is_not() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    all.confirmed(key(1), 1, now);
    for n in [0, 1] {
        all.failed(key(n), Class::TargetPermanent, true, now, 1.0);
    }
    let later = now.after(20 * SECOND);
    // It has to wait again, for its own circuit.
    for n in [0, 1] {
        assert_eq!(admit(&mut all, [ask(n)], later), [Admission::Probe]);
    }
    let ask = |n| Ask { gives_up: Some(10 * SECOND), ..ask(n) };
    let admitted = admit(&mut all, [ask(0), ask(1)], later);
    assert!(matches!(admitted[..], [Admission::Send, Admission::Hold(_)]), "{admitted:?}");
    assert_eq!(
        all.trouble(key(0), later),
        DestinationTrouble { lasted: 20 * SECOND, worked: true },
        "its neighbour worked before"
    );
    all.confirmed(key(1), 2, later);
    assert_eq!(all.trouble(key(0), later), DestinationTrouble { lasted: 20 * SECOND, worked: false });
}

#[test]
fn their_number_is_bounded_and_idle_ones_are_forgotten() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    let at = |n: u64| now.after(Duration::from_millis(n));
    for n in 0..30_000 {
        all.confirmed(key(n), 1, at(n));
    }
    assert!(all.lanes.len() <= MOST, "{}", all.lanes.len());
    assert!(all.moved_since(key(29_999), 1) && !all.moved_since(key(1), 1), "the latest are remembered");
    // Those in trouble go as well: a new one is not taken for one of them.
    let mut all = SinkDestinations::new(now);
    for n in 0..30_000 {
        broken(&mut all, n, at(n));
        // This one is always in use.
        broken(&mut all, 0, at(n));
    }
    assert!(all.lanes.len() <= MOST && all.in_trouble() <= MOST, "{}", all.lanes.len());
    let admitted = admit(&mut all, [ask(29_999), ask(0)], at(30_000));
    assert!(matches!(admitted[..], [Admission::Hold(_), Admission::Probe]), "{admitted:?}");
    assert_eq!(admit(&mut all, [ask(30_000)], at(30_000)), [Admission::Send]);
    let forgotten = all.forget_idle(at(30_001));
    assert!(forgotten.len() + all.in_trouble() == 30_000, "{} were shown", forgotten.len());
    // What is in flight is waited for.
    for (n, probe) in [(0, true), (30_000, false)] {
        all.left(key(n), 10, probe, at(30_001));
    }
    let forgotten = all.forget_idle(now.after(3 * IDLE));
    assert!(all.lanes.is_empty() && forgotten.len() > MOST / 2, "{} shown ones", forgotten.len());
    assert_eq!(all.in_trouble(), 0);
}

#[test]
fn the_pace_of_a_sink_is_one_for_all_of_its_destinations() {
    let now = Instant::now();
    let mut all = SinkDestinations::new(now);
    let mut pace = Bucket::new(50.0, now);
    let admitted: Vec<Admission> = (0..10_000).map(ask).map(all.admit(ROOM, Some(&mut pace), now)).collect();
    let waits: Vec<Duration> = admitted
        .iter()
        .filter_map(|admission| if let Admission::Hold(wait) = admission { Some(*wait) } else { None })
        .collect();
    assert_eq!(waits.len(), 10_000 - 5, "five at once");
    let within = waits.iter().filter(|wait| **wait <= SECOND).count();
    assert!((1_000..=2_500).contains(&within), "{within} come back in the first second");
    // A probe takes its place in it too, and is left to another element if there is none.
    broken(&mut all, 0, now);
    let later = now.after(SECOND / 4);
    let mut none = Bucket::new(0.001, now);
    assert_eq!(none.take(now, 1).granted, 1);
    let held: Vec<Admission> = [ask(0)].into_iter().map(all.admit(ROOM, Some(&mut none), later)).collect();
    assert!(matches!(held[..], [Admission::Hold(_)]), "{held:?}");
    assert_eq!(admit(&mut all, [ask(0)], later), [Admission::Probe]);
}
