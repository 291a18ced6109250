//! The sets that a claim in memory holds its elements in, and the names of claims.

use bytes::Bytes;

use super::zset::Zset;
use delaybridge_ledger::claims::{ClaimName, Contents, Element, Part};

/// The two keys of a claim.
#[derive(Debug, Clone, Default)]
pub(super) struct ClaimSets {
    /// Elements -> due time in ms.
    pub(super) bare: Zset,
    /// Entries -> time of this attempt in ms.
    pub(super) entries: Zset,
}

impl ClaimSets {
    pub(super) fn part(&mut self, part: Part) -> &mut Zset {
        match part {
            Part::Bare => &mut self.bare,
            Part::Entries => &mut self.entries,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bare.len() + self.entries.len()
    }

    /// The contents, entries first.
    pub(super) fn contents(&self) -> Contents {
        let mut contents = Contents::default();
        for (score_ms, member) in self.entries.iter() {
            contents.add_entry(member.clone(), *score_ms);
        }
        contents.elements.extend(self.bare.iter().map(|(due_ms, member)| Element::bare(member.clone(), *due_ms)));
        contents
    }
}

/// A name as it is among the leases.
pub(super) fn text(name: ClaimName) -> Bytes {
    name.to_string().into()
}

/// The name of a lease; `None` for one of another version.
pub(super) fn name(text: &Bytes) -> Option<ClaimName> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
