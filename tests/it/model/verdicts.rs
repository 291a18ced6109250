//! Steps that settle and extend, with verdicts of present and of former owners (R1, R2, R3).

use std::time::Duration;

use bytes::Bytes;
use delaybridge::link::Side;
use delaybridge::message::Class;
use delaybridge::source::ledger::{Answer, Entry, Move};
use delaybridge::source::redisson::open_entry;

use super::snapshot::{PUSHED, Snapshot, short};
use super::world::{LEASE, LEASE_MS, Sent, World};

impl World<'_> {
    /// A verdict by chance on an entry that the daemon believes it holds.
    pub fn verdict(&mut self, entry: &Entry) -> Move {
        let rng = &mut self.rng;
        let mut header = entry.header.clone();
        header.expiries = 0;
        match rng.u8(..10) {
            0..3 => Move::Confirm,
            3..5 => {
                header.attempts += rng.u32(..2);
                header.set_failure(Class::Transient, "refused");
                header.last_attempt_ms = self.now_us / 1000;
                Move::Retry { header, delay_ms: rng.u64(..20_000) }
            }
            5..7 => Move::Release { at_ms: header.time_ms, header },
            7 => {
                header.confirm(rng.u64(..));
                Move::Progress { header }
            }
            8 => Move::Dead { fields: dead_fields(entry) },
            _ => {
                let side = if rng.bool() { Side::Left } else { Side::Right };
                Move::Push { side, body: entry.element.clone() }
            }
        }
    }

    /// A batch of verdicts on what the daemon believes it holds.
    pub async fn settle_some(&mut self, daemon: usize) {
        let mut batch = Vec::new();
        for _ in 0..self.rng.usize(1..=8) {
            let held = &self.daemons[daemon].held;
            if held.is_empty() {
                break;
            }
            let place = self.rng.usize(..held.len());
            let entry = held[place].clone();
            let step = self.verdict(&entry);
            // Sometimes it forgets that it has settled the entry, and will do so again.
            let forgets = self.rng.u8(..8) == 0;
            let held = &mut self.daemons[daemon].held;
            if let Move::Progress { header } = &step {
                held.push(Entry::decode(entry.under(header)).unwrap());
            }
            if !forgets {
                held.swap_remove(place);
            }
            batch.push((entry.member, step));
        }
        if !batch.is_empty() {
            self.daemons[daemon].sent.push(Sent::Settle(batch.clone()));
            self.settle(daemon, &batch, false).await;
        }
    }

    /// Sends a batch and checks answers and effects.
    pub async fn settle(&mut self, daemon: usize, batch: &[(Bytes, Move)], again: bool) {
        let mut expected = self.seen.clone();
        let mut answers: Vec<Answer> =
            batch.iter().map(|(m, step)| predict(&mut expected, self.now(), m, step)).collect();
        // One command, which returns their number and nothing else.
        let only_confirmed = batch.iter().all(|(_, step)| matches!(step, Move::Confirm));
        let now = (!only_confirmed).then(|| self.now());
        if only_confirmed {
            answers.sort_by_key(|answer| *answer != Answer::Done);
        }
        let names: Vec<_> = batch.iter().map(|(m, step)| format!("{} {}", name(step), short(m))).collect();
        let what = format!("settle {names:?} of {daemon}, again {again}");
        let list = Bytes::from_static(PUSHED.as_bytes());
        let source = &self.daemons[daemon].source;
        let settled = source.settle(&self.rig.conn, batch, Some(&list), None).await.unwrap();
        let got = settled.answers;
        self.note(format!("{what}: {got:?}"));
        assert_eq!((settled.now_ms, &got), (now, &answers), "{what}");
        if again {
            let old = |a: &Answer| matches!(a, Answer::NotMine | Answer::Already);
            assert!(got.iter().all(old), "{what}: {got:?}, sent before");
            return self.unchanged(&what).await;
        }
        // The ids in the stream are Redis's.
        let after = self.look().await;
        for (mine, theirs) in expected.dead.iter_mut().zip(&after.dead) {
            mine.0.clone_from(&theirs.0);
        }
        self.settled_as(&what, expected, &[], false).await;
    }

    /// Extends some of what the daemon believes it holds.
    pub async fn extend_some(&mut self, daemon: usize) {
        let held = &self.daemons[daemon].held;
        let members: Vec<Bytes> = held.iter().filter(|_| self.rng.bool()).map(|e| e.member.clone()).collect();
        if !members.is_empty() {
            self.daemons[daemon].sent.push(Sent::Extend(members.clone()));
            self.extend(daemon, &members).await;
        }
    }

    /// Sends an extend: deadlines move, nothing else does, and the answers say what is not the caller's any more.
    pub async fn extend(&mut self, daemon: usize, members: &[Bytes]) {
        let mut expected = self.seen.clone();
        let until = self.now() + LEASE_MS;
        let held: Vec<bool> =
            members.iter().map(|m| expected.in_flight.get_mut(m).map(|score| *score = until).is_some()).collect();
        let got = self.daemons[daemon].source.extend(&self.rig.conn, LEASE, members).await.unwrap();
        self.note(format!("extend {} of {daemon}: {got:?}", members.len()));
        assert_eq!(got, held, "extend");
        self.settled_as("extend", expected, &[], false).await;
    }
}

/// What the dead letter of this test keeps: enough to redrive it.
fn dead_fields(entry: &Entry) -> Vec<(&'static str, Bytes)> {
    let time = Bytes::from(entry.header.time_ms.to_string());
    let id = Bytes::copy_from_slice(&open_entry(entry).0.0);
    let origin = Bytes::from_static(entry.header.origin.as_str().as_bytes());
    let generation = Bytes::from(entry.header.generation.to_string());
    vec![("element", entry.element.clone()), ("time", time), ("id", id), ("origin", origin), ("generation", generation)]
}

/// One verdict by the rules: only the exact member, under any lease, as long as it is there.
fn predict(state: &mut Snapshot, now: i64, member: &Bytes, step: &Move) -> Answer {
    let entry = Entry::decode(member.clone()).unwrap();
    let Some(until) = state.in_flight.remove(member) else {
        let moved = match step {
            Move::Retry { header, .. } | Move::Release { header, .. } => state.retry.contains_key(&entry.under(header)),
            Move::Progress { header } => state.in_flight.contains_key(&entry.under(header)),
            Move::Confirm | Move::Dead { .. } | Move::Push { .. } => false,
        };
        return if moved { Answer::Already } else { Answer::NotMine };
    };
    match step {
        Move::Confirm => {}
        Move::Retry { header, delay_ms } => {
            assert!(state.retry.insert(entry.under(header), now + *delay_ms as i64).is_none());
        }
        Move::Release { header, at_ms } => assert!(state.retry.insert(entry.under(header), *at_ms).is_none()),
        Move::Progress { header } => assert!(state.in_flight.insert(entry.under(header), until).is_none()),
        Move::Dead { fields } => {
            let flat = fields.iter().flat_map(|(name, value)| [Bytes::from_static(name.as_bytes()), value.clone()]);
            state.dead.push((String::new(), flat.collect()));
        }
        Move::Push { side: Side::Left, body } => state.pushed.insert(0, body.clone()),
        Move::Push { side: Side::Right, body } => state.pushed.push(body.clone()),
    }
    Answer::Done
}

fn name(step: &Move) -> String {
    match step {
        Move::Confirm => "confirm".to_owned(),
        Move::Retry { delay_ms, .. } => format!("retry in {:?}", Duration::from_millis(*delay_ms)),
        Move::Release { at_ms, .. } => format!("release at {at_ms}"),
        Move::Progress { .. } => "progress".to_owned(),
        Move::Dead { .. } => "dead".to_owned(),
        Move::Push { side, .. } => format!("push {side:?}"),
    }
}
