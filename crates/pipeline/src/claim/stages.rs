//! The stages of an element in its claim, and the number of elements at each.

/// The progress of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementStage {
    InHand,
    /// Confirmed, and not written.
    Unwritten,
    /// The verdict is queued or on its way.
    OnItsWay(Ending),
    Ended(Ending),
    Stale,
}

/// The way in which an element left its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Every sink had confirmed it.
    Confirmed,
    /// Moved elsewhere: to the retries, the dead letters, a list, the source.
    Moved,
}

/// The number of elements at each stage.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StageCounts {
    pub(super) in_hand: usize,
    pub(super) unwritten: usize,
    pub(super) on_its_way: usize,
    pub(super) stale: usize,
}

impl StageCounts {
    pub(super) fn of(&mut self, stage: ElementStage) -> Option<&mut usize> {
        match stage {
            ElementStage::InHand => Some(&mut self.in_hand),
            ElementStage::Unwritten => Some(&mut self.unwritten),
            ElementStage::OnItsWay(_) => Some(&mut self.on_its_way),
            ElementStage::Stale => Some(&mut self.stale),
            ElementStage::Ended(_) => None,
        }
    }

    /// Counts the elements without a verdict or with one that is still to be written.
    pub(super) fn open(&self) -> usize {
        self.in_hand + self.unwritten + self.on_its_way
    }
}
