//! Daemons with the same queues share the looks at queues at rest: at each queue one daemon looks each second, another one now and then in
//! case it does not, and all others once a minute.
//!
//! Every daemon writes a note into Redis each second and reads those of the others. Whose note does not change any more is gone.
//! Clocks are not compared: a note has a count. Only daemons with exactly the same queues share, so that a queue that is new in one
//! configuration is looked at by those that have it. A daemon without an answer to its notes looks by itself.
//!
//! A queue that its looker finds due twice in a row is named in its note, and all daemons look at it: the looker may be full, held or
//! stopped, or the queue has a backlog.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use delaybridge_core::clock::Instant;
use delaybridge_ledger::LookerNote;

/// A daemon whose note has not changed for so long is gone.
const SILENT: Duration = Duration::from_millis(3_500);
/// The note of a daemon that is gone for so long is removed.
const ENDED: Duration = Duration::from_secs(60);
/// The most queues in a note.
const TOLD: usize = 100;
/// The first word of a note. Daemons that share in another way have another one.
const FORM: &str = "1";

/// The part of this daemon in the looks at a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookTurn {
    /// The looker.
    First,
    /// The daemon that looks in case the looker does not.
    Second,
    /// One of those that look in case both do not.
    Other,
}

/// The daemons that share looks, as their notes tell.
#[derive(Debug)]
pub struct Lookers {
    own: Bytes,
    state: Mutex<LookersState>,
}

#[derive(Debug, Default)]
struct LookersState {
    /// A hash of the queues of this daemon; none while it looks at none.
    queues: Option<u64>,
    /// The number of notes so far.
    count: u64,
    /// The other daemons, by their names.
    others: BTreeMap<Bytes, OtherLooker>,
    /// The time of the last answer.
    heard: Option<Instant>,
    /// Queues that were found due twice, by their places among all: to be told.
    unclaimed: BTreeSet<usize>,
    /// Queues that others have told of.
    told: BTreeSet<usize>,
    /// A daemon is gone: what only it knew may be overdue in any queue.
    is_one_gone: bool,
    /// Daemons with the same queues whose notes are not there any more: a Redis that has lost writes has them again a second later.
    without_note: BTreeSet<Bytes>,
}

/// A change of another daemon with the same queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerNews {
    /// The random number of the daemon, as in the names of its claims.
    pub daemon: String,
    /// Its new state.
    pub fate: PeerFate,
    /// The daemons that are left, this one among them.
    pub left: usize,
}

/// The new state of another daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerFate {
    /// It has stopped.
    Stopped,
    /// Its note does not change any more: it died, or is cut off from Redis.
    Silent,
    /// Its note changes again.
    Back,
}

/// What a daemon learns from the notes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// The names of daemons that ended long ago.
    pub(super) ended: Vec<Bytes>,
    /// The changes of other daemons.
    pub(super) news: Vec<PeerNews>,
}

#[derive(Debug)]
struct OtherLooker {
    note: Bytes,
    /// The time at which the note was another one.
    changed: Instant,
    is_gone: bool,
}

impl OtherLooker {
    /// Returns whether its queues are these.
    fn has_queues(&self, queues: Option<u64>) -> bool {
        read(&self.note).is_some_and(|note| Some(note.queues) == queues)
    }
}

/// A note, taken apart.
struct ReadNote {
    queues: u64,
    told: Vec<usize>,
}

/// Reads a note; `None` for anything else.
fn read(note: &[u8]) -> Option<ReadNote> {
    let mut words = std::str::from_utf8(note).ok()?.split(' ');
    if words.next()? != FORM {
        return None;
    }
    let queues = u64::from_str_radix(words.next()?, 16).ok()?;
    let _count: u64 = words.next()?.parse().ok()?;
    let told = words.take(TOLD).map_while(|word| word.parse().ok()).collect();
    Some(ReadNote { queues, told })
}

/// The other daemons, as far as a poll has to know them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookersView {
    /// Whether notes are answered: then it would be noticed that another daemon is gone.
    pub is_heard: bool,
    /// The names of the other daemons that share looks with this one.
    pub others: Arc<[Bytes]>,
}

/// The queues that a poll is asked to look at.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Everything.
    pub all: bool,
    /// Queues, by their places among all.
    pub queues: BTreeSet<usize>,
}

impl Lookers {
    /// Creates the state of a daemon that knows of no other one.
    pub fn new(owner: [u8; 8]) -> Lookers {
        Lookers { own: format!("{:016x}", u64::from_be_bytes(owner)).into(), state: Mutex::default() }
    }

    /// Returns the name of this daemon.
    pub(super) fn own(&self) -> &Bytes {
        &self.own
    }

    /// Sets the hash of the queues that this daemon looks at, if there are any.
    pub fn set_queues(&self, queues: Option<u64>) {
        self.state.lock().queues = queues;
    }

    /// Notes that a queue was found due twice.
    pub fn tell(&self, queue: usize) {
        let mut state = self.state.lock();
        if state.unclaimed.len() < TOLD {
            state.unclaimed.insert(queue);
        }
    }

    /// Returns the other daemons as they are now.
    pub fn view(&self, now: Instant) -> LookersView {
        let state = self.state.lock();
        if state.heard.is_none_or(|heard| now.since(heard) > SILENT) {
            return LookersView::default();
        }
        let shares = |other: &OtherLooker| !other.is_gone && other.has_queues(state.queues);
        let others = state.others.iter().filter(|(_, other)| shares(other)).map(|(name, _)| name.clone()).collect();
        LookersView { is_heard: true, others }
    }

    /// Takes what there is to look at.
    pub fn take_asked(&self) -> Asked {
        let mut state = self.state.lock();
        Asked { all: std::mem::take(&mut state.is_one_gone), queues: std::mem::take(&mut state.told) }
    }

    /// Returns the part of this daemon in the looks at a queue: a rendezvous hash, so that the others keep theirs when one comes or goes.
    pub fn turn(&self, queue: u64, view: &LookersView) -> LookTurn {
        let score = |daemon: &Bytes| (xxh3_64_with_seed(daemon, queue), Reverse(daemon.clone()));
        let own = score(&self.own);
        match view.others.iter().filter(|other| score(other) > own).count() {
            0 => LookTurn::First,
            1 => LookTurn::Second,
            _ => LookTurn::Other,
        }
    }

    /// Returns the next note; `None` where there is nothing to share.
    pub(super) fn note(&self) -> Option<LookerNote> {
        let mut state = self.state.lock();
        state.count += 1;
        let mut text = format!("{FORM} {:016x} {}", state.queues?, state.count);
        for queue in std::mem::take(&mut state.unclaimed) {
            text.push_str(&format!(" {queue}"));
        }
        Some(LookerNote { daemon: self.own.clone(), text: text.into() })
    }

    /// Takes the notes of all daemons over.
    pub(super) fn hear(&self, now: Instant, notes: Vec<LookerNote>) -> Heard {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut fates = Vec::new();
        let was_deaf = state.heard.replace(now).is_none_or(|heard| now.since(heard) > SILENT);
        let mut here = BTreeSet::new();
        for LookerNote { daemon, text } in notes.into_iter().filter(|note| note.daemon != self.own) {
            here.insert(daemon.clone());
            let other_name = daemon.clone();
            let other = state.others.entry(daemon).or_insert_with(|| OtherLooker {
                note: Bytes::new(),
                changed: now,
                is_gone: false,
            });
            if other.note == text {
                continue;
            }
            if let Some(note) = read(&text).filter(|note| Some(note.queues) == state.queues) {
                state.told.extend(note.told);
                if other.is_gone {
                    fates.push((other_name.clone(), PeerFate::Back));
                }
            }
            // With other queues, what it knew of its former ones is as good as gone.
            let queues = |note: &[u8]| read(note).map(|note| note.queues);
            state.is_one_gone |= queues(&other.note).is_some_and(|before| queues(&text) != Some(before));
            *other = OtherLooker { note: text, changed: now, is_gone: false };
        }
        let stopped = std::mem::take(&mut state.without_note).into_iter().filter(|name| !here.contains(name));
        fates.extend(stopped.map(|name| (name, PeerFate::Stopped)));
        for (name, other) in state.others.iter_mut().filter(|(_, other)| !other.is_gone) {
            // Who was not heard itself cannot know how long the others are silent.
            if was_deaf && here.contains(name) {
                other.changed = now;
            }
            other.is_gone = !here.contains(name) || now.since(other.changed) > SILENT;
            state.is_one_gone |= other.is_gone;
            if other.is_gone && other.has_queues(state.queues) {
                if here.contains(name) {
                    fates.push((name.clone(), PeerFate::Silent));
                } else {
                    state.without_note.insert(name.clone());
                }
            }
        }
        state.others.retain(|name, _| here.contains(name));
        let left = 1 + state.others.values().filter(|other| !other.is_gone && other.has_queues(state.queues)).count();
        let news = |(name, fate): (Bytes, PeerFate)| PeerNews {
            daemon: String::from_utf8_lossy(&name).into_owned(),
            fate,
            left,
        };
        let ended = state.others.iter().filter(|(_, other)| other.is_gone && now.since(other.changed) > ENDED);
        Heard { ended: ended.map(|(name, _)| name.clone()).collect(), news: fates.into_iter().map(news).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn daemons(count: u8) -> Vec<Lookers> {
        let all: Vec<_> = (0..count).map(|n| Lookers::new([n; 8])).collect();
        all.iter().for_each(|lookers| lookers.set_queues(Some(7)));
        all
    }

    /// Each of them that speaks writes a note, and then each reads all.
    fn exchange(now: Instant, all: &[Lookers], last: &mut BTreeMap<Bytes, Bytes>, speaks: impl Fn(usize) -> bool) {
        for (_, one) in all.iter().enumerate().filter(|(n, _)| speaks(*n)) {
            let LookerNote { daemon, text } = one.note().expect("a note");
            last.insert(daemon, text);
        }
        let notes: Vec<_> = last.clone().into_iter().map(|(daemon, text)| LookerNote { daemon, text }).collect();
        all.iter().for_each(|one| drop(one.hear(now, notes.clone())));
    }

    fn turns(now: Instant, all: &[Lookers], queue: u64) -> Vec<LookTurn> {
        all.iter().map(|one| one.turn(queue, &one.view(now))).collect()
    }

    #[test]
    fn each_queue_has_one_looker_and_another_one_and_all_have_a_fair_share() {
        let (all, now) = (daemons(5), Instant::now());
        exchange(now, &all, &mut BTreeMap::new(), |_| true);
        let mut shares = [0; 5];
        for queue in 0..1_000 {
            let turns = turns(now, &all, xxh3_64_with_seed(b"queue", queue));
            let count = |turn| turns.iter().filter(|of| **of == turn).count();
            assert_eq!((count(LookTurn::First), count(LookTurn::Second)), (1, 1), "{turns:?}");
            shares[turns.iter().position(|turn| *turn == LookTurn::First).expect("one")] += 1;
        }
        assert!(shares.iter().all(|share| (150..250).contains(share)), "{shares:?}");
    }

    #[test]
    fn who_falls_silent_is_replaced_and_everything_is_looked_at() {
        let (all, mut now, mut last) = (daemons(3), Instant::now(), BTreeMap::new());
        for _ in 0..3 {
            exchange(now, &all, &mut last, |_| true);
            now = now.after(SECOND);
        }
        assert_eq!(all[0].take_asked(), Asked::default());
        let first = |now, all: &[Lookers]| turns(now, all, 1).iter().position(|turn| *turn == LookTurn::First);
        let dead = first(now, &all).expect("one");
        let living = (dead + 1) % 3;
        for _ in 0..3 {
            exchange(now, &all, &mut last, |n| n != dead);
            assert!(!all[living].take_asked().all, "one late note is no death");
            now = now.after(SECOND);
        }
        exchange(now, &all, &mut last, |n| n != dead);
        assert!(all[living].take_asked().all);
        let turns = turns(now, &all, 1);
        assert!((0..3).any(|n| n != dead && turns[n] == LookTurn::First), "{turns:?}");
        // It was only stopped for a while.
        exchange(now.after(SECOND), &all, &mut last, |_| true);
        assert_eq!(first(now.after(SECOND), &all), Some(dead));
    }

    #[test]
    fn who_stops_in_order_is_replaced_at_once() {
        let (all, now, mut last) = (daemons(2), Instant::now(), BTreeMap::new());
        exchange(now, &all, &mut last, |_| true);
        last.remove(&all[0].own);
        exchange(now.after(SECOND), &all[1..], &mut last, |_| true);
        assert!(all[1].take_asked().all);
        assert_eq!(all[1].turn(1, &all[1].view(now.after(SECOND))), LookTurn::First);
    }

    #[test]
    fn other_queues_and_strangers_do_not_share() {
        let (all, now) = (daemons(2), Instant::now());
        all[1].set_queues(Some(8));
        let strange = ["", "1", "1 zz 1", "2 0000000000000007 1", "1 0000000000000007", "\u{1f600}"];
        let strangers =
            strange.iter().map(|text| LookerNote { daemon: text.to_string().into(), text: text.to_string().into() });
        let notes: Vec<_> = strangers.chain(all[1].note()).chain(all[0].note()).collect();
        all[0].hear(now, notes);
        assert_eq!(all[0].view(now), LookersView { is_heard: true, others: [].into() });
    }

    #[test]
    fn everything_is_looked_at_when_any_daemon_has_other_queues_than_before() {
        let (all, mut now, mut last) = (daemons(2), Instant::now(), BTreeMap::new());
        for (queues, expected) in [(7, false), (7, false), (8, true), (8, false), (9, true), (9, false), (7, true)] {
            all[1].set_queues(Some(queues));
            exchange(now, &all, &mut last, |_| true);
            assert_eq!(all[0].take_asked().all, expected, "{queues}");
            now = now.after(SECOND);
        }
    }

    #[test]
    fn who_has_no_answers_looks_by_itself_and_takes_nobody_for_dead_afterwards() {
        let (all, mut now, mut last) = (daemons(2), Instant::now(), BTreeMap::new());
        exchange(now, &all, &mut last, |_| true);
        assert_eq!(all[0].view(now).others.len(), 1);
        now = now.after(10 * SECOND);
        assert_eq!(all[0].view(now), LookersView::default());
        // The first note of the other one after an outage of Redis may be the old one.
        exchange(now, &all[..1], &mut last, |_| true);
        assert!(!all[0].take_asked().all && all[0].view(now).others.len() == 1);
    }

    #[test]
    fn what_becomes_of_a_daemon_is_told_once() {
        let (all, now) = (daemons(4), Instant::now());
        all[3].set_queues(Some(8));
        // Seconds, those who speak, those whose notes are there, and what the first one learns.
        let silent = |daemon: u8, left| (daemon, PeerFate::Silent, left);
        let mut last = BTreeMap::new();
        let mut at = |second: u32, speak: &[usize], gone: &[usize]| {
            speak.iter().for_each(|n| {
                let LookerNote { daemon, text } = all[*n].note().expect("a note");
                last.insert(daemon, text);
            });
            gone.iter().for_each(|n| drop(last.remove(&all[*n].own)));
            let notes: Vec<_> = last.clone().into_iter().map(|(daemon, text)| LookerNote { daemon, text }).collect();
            let news = all[0].hear(now.after(second * SECOND), notes).news.into_iter();
            let number = |name: &str| u8::from_str_radix(&name[..2], 16).expect("a number");
            news.map(|news| (number(&news.daemon), news.fate, news.left)).collect::<Vec<_>>()
        };
        for second in 0..3 {
            assert_eq!(at(second, &[0, 1, 2, 3], &[]), vec![]);
        }
        for second in 3..6 {
            assert_eq!(at(second, &[0, 2], &[]), vec![], "second {second}");
        }
        // The daemon with other queues is not reported.
        assert_eq!(at(6, &[0, 2], &[]), [silent(1, 2)]);
        assert_eq!(at(7, &[0, 2], &[]), vec![]);
        assert_eq!(at(8, &[0, 1, 2], &[]), [(1, PeerFate::Back, 3)]);
        // Redis has lost writes: the next note is there a second later.
        assert_eq!(at(9, &[0, 1], &[2]), vec![]);
        assert_eq!(at(10, &[0, 1, 2], &[]), vec![]);
        assert_eq!(at(11, &[0, 1], &[2, 3]), vec![]);
        assert_eq!(at(12, &[0, 1], &[]), [(2, PeerFate::Stopped, 2)]);
        assert_eq!(at(13, &[0, 1], &[]), vec![]);
        // The death is not reported again when another daemon removes the note.
        for second in 14..17 {
            assert_eq!(at(second, &[0], &[]), vec![]);
        }
        assert_eq!(at(17, &[0], &[]), [silent(1, 1)]);
        assert_eq!(at(18, &[0], &[1]), vec![]);
        assert_eq!(at(19, &[0], &[]), vec![]);
    }

    #[test]
    fn what_is_due_twice_is_told_once() {
        let (all, now, mut last) = (daemons(2), Instant::now(), BTreeMap::new());
        [5, 900, 5].iter().for_each(|queue| all[0].tell(*queue));
        exchange(now, &all, &mut last, |_| true);
        assert_eq!(all[1].take_asked().queues, BTreeSet::from([5, 900]));
        exchange(now.after(SECOND), &all, &mut last, |_| true);
        assert_eq!(all[1].take_asked(), Asked::default());
        (0..1_000).for_each(|queue| all[0].tell(queue));
        exchange(now.after(2 * SECOND), &all, &mut last, |_| true);
        assert_eq!(all[1].take_asked().queues.len(), TOLD);
    }

    #[test]
    fn the_notes_of_the_dead_are_removed_after_a_minute() {
        let (all, now, mut last) = (daemons(2), Instant::now(), BTreeMap::new());
        exchange(now, &all, &mut last, |_| true);
        let dead = LookerNote { daemon: all[1].own.clone(), text: last[&all[1].own].clone() };
        let ended = (1..=62).map(|second| all[0].hear(now.after(second * SECOND), vec![dead.clone()]).ended);
        let ended: Vec<_> = ended.collect();
        assert!(ended[..59].iter().all(Vec::is_empty));
        assert_eq!(ended[61], [all[1].own.clone()]);
    }
}
