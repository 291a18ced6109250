//! Elements that are sent alone, because one of them may be what ends the channel or the connection. Pure.

use std::collections::HashMap;

use delaybridge_core::message::MessageId;

/// Suspects that are remembered: more than a queue may have in flight. Forgetting them costs their neighbours a doubt.
const MOST: usize = 16 * 1024;
/// Connections that died with an element outstanding, after which it is sent alone.
const DEATHS: u8 = 3;

/// Why elements were left without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelEnd {
    /// One of them made the broker close the channel, or one that went alone is still to be tried.
    Culprit,
    /// The connection died: mostly an outage, and seldom the work of one of them.
    Connection,
    /// The channel ended for a reason that is not one of theirs.
    Other,
}

/// The number of connections that died with each element outstanding.
#[derive(Debug, Default)]
pub(super) struct Suspects(HashMap<MessageId, u8>);

impl Suspects {
    pub(super) fn is_alone(&self, id: MessageId) -> bool {
        self.0.get(&id).is_some_and(|deaths| *deaths >= DEATHS)
    }

    /// Forgets an element that is sent alone now.
    pub(super) fn tried(&mut self, id: MessageId) {
        self.0.remove(&id);
    }

    /// Takes in the elements that were outstanding at the end of a channel.
    pub(super) fn left(&mut self, ids: impl ExactSizeIterator<Item = MessageId>, end: ChannelEnd) {
        if end == ChannelEnd::Other {
            return;
        }
        if self.0.len() + ids.len() > MOST {
            self.0.clear();
        }
        for id in ids.take(MOST) {
            let deaths = self.0.entry(id).or_default();
            *deaths = if end == ChannelEnd::Culprit { DEATHS } else { deaths.saturating_add(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> MessageId {
        MessageId(n.to_be_bytes())
    }

    #[test]
    fn the_third_connection_that_dies_with_an_element_isolates_it() {
        let mut suspects = Suspects::default();
        for deaths in 1..=3 {
            suspects.left([id(1), id(2)].into_iter(), ChannelEnd::Connection);
            suspects.left([id(2)].into_iter(), ChannelEnd::Other);
            assert_eq!(suspects.is_alone(id(1)) && suspects.is_alone(id(2)), deaths == 3, "after {deaths}");
        }
        assert!(!suspects.is_alone(id(3)));
        // One that went alone and ended it again stays alone; its neighbour, which arrived, is not known any more.
        suspects.tried(id(1));
        suspects.tried(id(2));
        suspects.left([id(1)].into_iter(), ChannelEnd::Culprit);
        assert!(suspects.is_alone(id(1)) && !suspects.is_alone(id(2)));
    }

    #[test]
    fn their_number_is_bounded() {
        let mut suspects = Suspects::default();
        for n in 0..100 {
            suspects.left((n * 1_000..(n + 1) * 1_000).map(id).collect::<Vec<_>>().into_iter(), ChannelEnd::Connection);
            assert!(suspects.0.len() <= MOST);
        }
        suspects.left((0..2 * MOST as u64).map(id).collect::<Vec<_>>().into_iter(), ChannelEnd::Culprit);
        assert_eq!(suspects.0.len(), MOST);
    }
}
