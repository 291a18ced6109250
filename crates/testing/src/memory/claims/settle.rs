//! Settling in memory: each command is about an exact member of a claim.

use bytes::Bytes;

use super::super::queue::Queue;
use super::super::zset::Zset;
use delaybridge_ledger::Answer;
use delaybridge_ledger::claims::{Element, Header, Part, SettleCommand, SettleOp, Settled};

impl Queue {
    pub(in crate::memory) fn settle(
        &mut self,
        batch: &[SettleCommand],
        push_to: Option<&Bytes>,
        dead_max_len: Option<u64>,
        now_ms: i64,
    ) -> Settled {
        let deaths = self.deaths();
        let answers = batch.iter().map(|verdict| self.settle_verdict(verdict, push_to, now_ms)).collect();
        Settled { now_ms, answers, trimmed: self.trim_dead(dead_max_len, deaths) }
    }

    fn settle_verdict(&mut self, verdict: &SettleCommand, push_to: Option<&Bytes>, now_ms: i64) -> Answer {
        let element = match verdict.part {
            Part::Bare => Some(Element::bare(verdict.member.clone(), 0)),
            Part::Entries => Element::entry(verdict.member.clone(), 0),
        };
        let Some(element) = element else { return Answer::NotMine };
        let score = self.part(verdict, verdict.part).and_then(|held| held.score(&verdict.member));
        let known =
            |place: Option<&Zset>, header: &Header| match place.and_then(|held| held.score(&element.under(header))) {
                Some(_) => Answer::Already,
                None => Answer::NotMine,
            };
        let Some(score) = score else {
            return match &verdict.step {
                SettleOp::Push { .. } if self.is_no_list(push_to) => Answer::WrongType,
                SettleOp::Retry { header, .. } | SettleOp::Release { header, .. } => known(Some(&self.retry), header),
                SettleOp::Progress { header } => known(self.part(verdict, Part::Entries), header),
                SettleOp::Confirm | SettleOp::Dead { .. } | SettleOp::Push { .. } | SettleOp::Return { .. } => {
                    Answer::NotMine
                }
            };
        };
        match &verdict.step {
            SettleOp::Confirm => {}
            SettleOp::Retry { header, delay_ms } => {
                self.retry.add(now_ms.saturating_add_unsigned(*delay_ms), element.under(header));
            }
            SettleOp::Release { header, at_ms } => self.retry.add(*at_ms, element.under(header)),
            SettleOp::Return { at_ms } => {
                if self.scheduled.score(&element.bytes()).is_none() {
                    self.scheduled.add(*at_ms, element.bytes());
                }
            }
            SettleOp::Dead { fields } => self.add_dead(fields, now_ms),
            SettleOp::Push { .. } if self.is_no_list(push_to) => return Answer::WrongType,
            SettleOp::Push { side, body } => self.push(push_to, *side, body),
            SettleOp::Progress { header } => {
                if let Some(keys) = self.claims.get_mut(&verdict.claim) {
                    keys.part(verdict.part).remove(&verdict.member);
                    keys.entries.add(score, element.under(header));
                }
                return Answer::Done;
            }
        }
        self.remove(verdict);
        Answer::Done
    }

    /// One key of the claim that a verdict names.
    fn part(&self, verdict: &SettleCommand, part: Part) -> Option<&Zset> {
        let keys = self.claims.get(&verdict.claim)?;
        Some(match part {
            Part::Bare => &keys.bare,
            Part::Entries => &keys.entries,
        })
    }

    fn remove(&mut self, verdict: &SettleCommand) {
        let Some(keys) = self.claims.get_mut(&verdict.claim) else { return };
        keys.part(verdict.part).remove(&verdict.member);
        self.forget_if_empty(verdict.claim);
    }

    /// Whether a push is refused: no list is named, or the key is of another type.
    fn is_no_list(&self, push_to: Option<&Bytes>) -> bool {
        push_to.is_none_or(|list| self.not_lists.contains(list))
    }
}
