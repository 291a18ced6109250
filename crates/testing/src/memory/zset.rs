//! A sorted set as Redis has it.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

/// Each member once, in the order of the scores, and of the bytes among equal scores.
#[derive(Debug, Clone, Default)]
pub(super) struct Zset {
    order: BTreeSet<(i64, Bytes)>,
    scores: HashMap<Bytes, i64>,
}

impl Zset {
    /// Adds a member, or gives it another score.
    pub(super) fn add(&mut self, score: i64, member: Bytes) {
        self.remove(&member);
        self.scores.insert(member.clone(), score);
        self.order.insert((score, member));
    }

    /// Removes a member; answers its score.
    pub(super) fn remove(&mut self, member: &Bytes) -> Option<i64> {
        let score = self.scores.remove(member)?;
        self.order.remove(&(score, member.clone()));
        Some(score)
    }

    /// Moves the first members to another set, with their scores.
    pub(super) fn move_first(&mut self, count: usize, to: &mut Zset) {
        for _ in 0..count {
            let Some((score, member)) = self.order.pop_first() else { return };
            self.scores.remove(&member);
            to.add(score, member);
        }
    }

    pub(super) fn score(&self, member: &Bytes) -> Option<i64> {
        self.scores.get(member).copied()
    }

    /// The first member with its score.
    pub(super) fn first(&self) -> Option<&(i64, Bytes)> {
        self.order.first()
    }

    /// All members with their scores.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(i64, Bytes)> {
        self.order.iter()
    }

    /// The members with scores up to this one.
    pub(super) fn until(&self, score: i64) -> impl Iterator<Item = &(i64, Bytes)> {
        self.iter().take_while(move |(at, _)| *at <= score)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
