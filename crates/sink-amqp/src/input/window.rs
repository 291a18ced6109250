//! The number of messages that a consumer may hold, so that their bytes stay bounded. Pure.
//!
//! The broker counts messages and not bytes, so the bound goes by the largest message of late: a larger one narrows the window
//! at once, smaller ones widen it after a whole round of them.

/// Messages of a round.
const ROUND: u32 = 1_000;
/// The size below which messages count as this large: their own bytes are less than what is held beside them.
const SMALL: u64 = 1 << 10;

#[derive(Debug)]
pub(super) struct Window {
    most: u16,
    bytes: u64,
    /// The message size that the window is for.
    largest: u64,
    /// The largest message of this round, and the number of its messages.
    round: (u64, u32),
    /// The window that the broker knows.
    open: u16,
}

impl Window {
    /// Creates a window of at most `most` messages and about `bytes`, for messages of up to this size so far.
    pub(super) fn new(most: u32, bytes: u64, largest: u64) -> Window {
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        let mut window = Window { most, bytes, largest: largest.max(SMALL), round: (0, 0), open: 1 };
        window.open = window.wanted();
        window
    }

    /// Returns the window to begin with.
    pub(super) fn open(&self) -> u16 {
        self.open
    }

    /// Takes the size of a message into account.
    pub(super) fn note(&mut self, size: usize) {
        let size = u64::try_from(size).unwrap_or(u64::MAX).max(SMALL);
        self.round = (self.round.0.max(size), self.round.1 + 1);
        if size > self.largest {
            self.largest = size;
        }
        if self.round.1 >= ROUND {
            self.largest = self.round.0;
            self.round = (0, 0);
        }
    }

    /// Computes the new window, if it is time for one: a narrower one at once, a wider one if it is twice as wide.
    pub(super) fn changed(&mut self) -> Option<u16> {
        let wanted = self.wanted();
        let widens = wanted / 2 >= self.open || (wanted == self.most && wanted > self.open);
        (wanted < self.open || widens).then(|| {
            self.open = wanted;
            wanted
        })
    }

    fn wanted(&self) -> u16 {
        u16::try_from(self.bytes / self.largest).unwrap_or(u16::MAX).clamp(1, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_window_follows_the_largest_message_of_late() {
        let mut window = Window::new(500, 64 << 20, 1 << 20);
        assert_eq!(window.open(), 64);
        // Small messages widen it, after a round.
        for n in 0..1_000 {
            assert_eq!(window.changed(), None, "{n}");
            window.note(200);
        }
        assert_eq!((window.changed(), window.changed()), (Some(500), None));
        // A large one narrows it at once, and one of the same size changes nothing.
        window.note(16 * MIB);
        assert_eq!((window.changed(), window.changed()), (Some(4), None));
        window.note(16 * MIB);
        assert_eq!(window.changed(), None);
        // One above the whole bound goes alone.
        window.note(100 * MIB);
        assert_eq!(window.changed(), Some(1));
    }

    #[test]
    fn a_window_is_never_empty_nor_wider_than_asked() {
        assert_eq!(Window::new(500, 1 << 20, 16 << 20).open(), 1);
        assert_eq!(Window::new(7, 64 << 20, 1 << 10).open(), 7);
        assert_eq!(Window::new(65_535, u64::MAX, 1).open(), 65_535);
    }
}
