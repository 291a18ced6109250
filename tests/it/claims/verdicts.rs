//! Steps that settle, with verdicts of present and of former owners (R1, R2, R3), and their rules.

use std::sync::Arc;

use bytes::Bytes;
use delaybridge_core::message::Class;
use delaybridge_ledger::Answer;
use delaybridge_ledger::claims::{ClaimName, Element, Header, Part, SettleCommand, SettleOp, Writer};
use delaybridge_ledger::store::Claims;
use delaybridge_link::Side;

use super::daemon::{Batch, Sent};
use super::list::Treatment;
use super::snapshot::{PUSHED, Snapshot, short};
use super::world::World;

impl World<'_> {
    /// A random verdict on an element that the daemon believes it holds.
    pub fn verdict(&mut self, daemon: usize, claim: ClaimName, element: &Element) -> SettleCommand {
        let now = self.now();
        let header = self.daemons[daemon].header(claim, element);
        let rng = &mut self.rng;
        let step = match rng.u8(..10) {
            0..4 => SettleOp::Confirm,
            4..6 => {
                let mut header = header;
                header.attempts += rng.u32(..2);
                header.set_failure(Class::Transient, "refused");
                header.last_attempt_ms = now;
                SettleOp::Retry { header, delay_ms: rng.u64(..10_000) }
            }
            6 => SettleOp::Release { at_ms: header.time_ms, header },
            7 => {
                let mut header = header;
                header.confirm(rng.u64(..));
                SettleOp::Progress { header }
            }
            8 => SettleOp::Dead { fields: dead_fields(element) },
            _ => {
                let side = if rng.bool() { Side::Left } else { Side::Right };
                SettleOp::Push { side, body: element.bytes() }
            }
        };
        SettleCommand { claim, part: element.part(), member: element.member.clone(), step, body: None }
    }

    /// Sends verdicts on some elements of some claims. A verdict with a lost answer is repeated before any other
    /// verdict on its element.
    pub async fn settle_some(&mut self, daemon: usize) {
        if let Some(batch) = self.daemons[daemon].unsure.pop() {
            return self.settle_heard(daemon, batch).await;
        }
        let held: Vec<ClaimName> = self.daemons[daemon].held.keys().copied().collect();
        let claims = self.rng.usize(1..=3);
        let mut verdicts = Vec::new();
        for name in self.rng.choose_multiple(held, claims) {
            let elements: Vec<Element> = self.daemons[daemon].held[&name].values().cloned().collect();
            let some = self.rng.usize(1..=elements.len());
            for element in self.rng.choose_multiple(elements, some) {
                verdicts.push(self.verdict(daemon, name, &element));
                // Sometimes it forgets that it has settled the element, and does so again.
                if self.rng.u8(..20) == 0 {
                    verdicts.push(self.verdict(daemon, name, &element));
                }
            }
        }
        if verdicts.is_empty() {
            return;
        }
        let batch = self.batch(verdicts);
        match self.rng.u8(..10) {
            0 => {
                self.note(format!("settle {} of {daemon} is on its way", batch.serial));
                let d = &mut self.daemons[daemon];
                d.in_transit.push(Sent::Settle(batch.clone()));
                d.unsure.push(batch);
            }
            1..3 => {
                self.settle(daemon, &batch).await;
                self.daemons[daemon].unsure.push(batch);
            }
            _ => self.settle_heard(daemon, batch).await,
        }
    }

    pub fn batch(&mut self, verdicts: Vec<SettleCommand>) -> Batch {
        self.batches += 1;
        Batch { serial: self.batches, verdicts: Arc::new(verdicts) }
    }

    async fn settle_heard(&mut self, daemon: usize, batch: Batch) {
        let answers = self.settle(daemon, &batch).await;
        let d = &mut self.daemons[daemon];
        batch.verdicts.iter().zip(answers).for_each(|(verdict, answer)| d.learn(verdict, answer));
    }

    /// Sends verdicts, and checks answers and effects.
    pub async fn settle(&mut self, daemon: usize, batch: &Batch) -> Vec<Answer> {
        let again = !self.written.insert(batch.serial);
        let mut expected = self.seen.clone();
        let now = self.now();
        let wanted: Vec<Answer> = batch.verdicts.iter().map(|verdict| predict(&mut expected, now, verdict)).collect();
        let names: Vec<_> =
            batch.verdicts.iter().map(|v| format!("{} {} of {}", name(&v.step), short(&v.member), v.claim)).collect();
        let what = format!("settle {} of {daemon}, again {again}: {names:?}", batch.serial);
        let list = Bytes::from_static(PUSHED.as_bytes());
        let pushes = batch.verdicts.iter().any(|verdict| matches!(verdict.step, SettleOp::Push { .. }));
        let d = &mut self.daemons[daemon];
        let settled = d.store.settle(&batch.verdicts, pushes.then_some(&list), None).await;
        let settled = settled.unwrap_or_else(|e| panic!("{what}: {e}"));
        d.sent.push(Sent::Settle(batch.clone()));
        self.note(format!("{what}: {:?}", settled.answers));
        assert_eq!((settled.now_ms, &settled.answers), (now, &wanted), "{what}");
        if again {
            assert!(!wanted.contains(&Answer::Done), "{what}: {wanted:?}, sent before");
            self.unchanged(&what).await;
        } else {
            self.settled_as(&what, expected, &[], Treatment::None).await;
        }
        wanted
    }

    /// Makes elements dead without a delivery that were taken over for the tenth time.
    pub async fn bury_alive(&mut self, daemon: usize, claim: ClaimName) {
        let dead = |element: &Element| SettleCommand {
            claim,
            part: element.part(),
            member: element.member.clone(),
            step: SettleOp::Dead { fields: dead_fields(element) },
            body: None,
        };
        let Some(held) = self.daemons[daemon].held.get(&claim) else { return };
        let verdicts = held.values().map(dead).collect();
        let batch = self.batch(verdicts);
        self.settle_heard(daemon, batch).await;
    }

    /// Confirms each of these individually.
    pub async fn confirm_one_by_one(&mut self, daemon: usize, claim: ClaimName) {
        let Some(held) = self.daemons[daemon].held.get(&claim) else { return };
        let one = |(part, member): &(Part, Bytes)| SettleCommand {
            claim,
            part: *part,
            member: member.clone(),
            step: SettleOp::Confirm,
            body: None,
        };
        let verdicts = held.keys().map(one).collect();
        let batch = self.batch(verdicts);
        self.settle_heard(daemon, batch).await;
    }
}

impl super::daemon::Daemon {
    /// The header of its next verdict on this element, with a unique writer.
    fn header(&mut self, claim: ClaimName, element: &Element) -> Header {
        let mut header = element.header();
        self.next_place += 1;
        header.writer = Writer { owner: self.owner, claim: claim.number, place: self.next_place };
        header
    }

    fn learn(&mut self, verdict: &SettleCommand, answer: Answer) {
        let SettleCommand { claim, part, member, step, body: _ } = verdict;
        let Some(held) = self.held.get_mut(claim) else { return };
        let element = held.remove(&(*part, member.clone()));
        if let (SettleOp::Progress { header }, Answer::Done | Answer::Already, Some(element)) = (step, answer, element)
        {
            let entry = Element::entry(element.under(header), element.score_ms).expect("an entry of ours");
            held.insert((Part::Entries, entry.member.clone()), entry);
        }
        if held.is_empty() {
            self.held.remove(claim);
            self.empty.push(*claim);
        }
    }
}

/// The fields of this test's dead letters.
fn dead_fields(element: &Element) -> Vec<(&'static str, Bytes)> {
    let origin = Bytes::from_static(element.origin().as_str().as_bytes());
    vec![("element", element.bytes()), ("origin", origin)]
}

/// The effect of one verdict by the rules: only on the exact member of exactly this claim, while it is there.
fn predict(state: &mut Snapshot, now: i64, verdict: &SettleCommand) -> Answer {
    let SettleCommand { claim, part, member, step, body: _ } = verdict;
    let element = match part {
        Part::Bare => Element::bare(member.clone(), 0),
        Part::Entries => Element::entry(member.clone(), 0).expect("an entry of ours"),
    };
    let holding = state.claims.entry(World::text(*claim)).or_default();
    let Some(score) = holding.part_mut(*part).remove(member) else {
        let moved = match step {
            SettleOp::Retry { header, .. } | SettleOp::Release { header, .. } => {
                state.retry.contains_key(&element.under(header))
            }
            SettleOp::Progress { header } => holding.entries.contains_key(&element.under(header)),
            SettleOp::Confirm | SettleOp::Dead { .. } | SettleOp::Push { .. } | SettleOp::Return { .. } => false,
        };
        return if moved { Answer::Already } else { Answer::NotMine };
    };
    match step {
        SettleOp::Confirm => {}
        SettleOp::Retry { header, delay_ms } => {
            assert!(state.retry.insert(element.under(header), (now + *delay_ms as i64) as f64).is_none());
        }
        SettleOp::Release { header, at_ms } => {
            assert!(state.retry.insert(element.under(header), *at_ms as f64).is_none());
        }
        SettleOp::Progress { header } => {
            // A score of the source becomes the time that it means.
            let score = if *part == Part::Bare { header.time_ms as f64 } else { score };
            assert!(holding.entries.insert(element.under(header), score).is_none());
        }
        SettleOp::Dead { fields } => {
            let flat = fields.iter().flat_map(|(name, value)| [Bytes::from_static(name.as_bytes()), value.clone()]);
            state.dead.push((String::new(), flat.collect()));
        }
        SettleOp::Push { side: Side::Left, body } => state.pushed.insert(0, body.clone()),
        SettleOp::Push { side: Side::Right, body } => state.pushed.push(body.clone()),
        SettleOp::Return { .. } => panic!("no queue of Redisson takes an element back"),
    }
    Answer::Done
}

fn name(step: &SettleOp) -> &'static str {
    match step {
        SettleOp::Confirm => "confirm",
        SettleOp::Retry { .. } => "retry",
        SettleOp::Release { .. } => "release",
        SettleOp::Progress { .. } => "progress",
        SettleOp::Dead { .. } => "dead",
        SettleOp::Push { .. } => "push",
        SettleOp::Return { .. } => "return",
    }
}
