//! The messages of consumers that a connection may hold until they are settled: shared by the stream, which reads them, and the
//! consumer, which takes them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

/// The bodies of one connection. A connection without a consumer takes none.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    /// The largest body.
    largest: AtomicU64,
    /// The bytes from which on nothing more is read.
    most: AtomicU64,
    held: AtomicU64,
    reader: AtomicWaker,
}

impl Arriving {
    /// Allows bodies of this size, and this many bytes of whole messages at a time.
    pub(crate) fn allow(&self, largest: u64, most: u64) {
        self.largest.store(largest, Ordering::Relaxed);
        self.most.store(most, Ordering::Relaxed);
    }

    /// Returns whether messages are consumed.
    pub(super) fn is_allowed(&self) -> bool {
        self.most.load(Ordering::Relaxed) > 0
    }

    /// Returns whether a body of this size may be read.
    pub(super) fn takes(&self, size: u64) -> bool {
        size <= self.largest.load(Ordering::Relaxed)
    }

    /// Adds a message with a body of this size that has come whole.
    pub(super) fn arrived(&self, size: u64) {
        self.held.fetch_add(size, Ordering::Relaxed);
    }

    /// Subtracts the bodies of this many bytes that are not in memory any more.
    pub(crate) fn taken(&self, size: u64) {
        self.held.fetch_sub(size, Ordering::AcqRel);
        self.reader.wake();
    }

    /// Waits until there is room for more.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        self.reader.register(cx.waker());
        // Between the look and the registration some may have gone.
        if self.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn has_room(&self) -> bool {
        let held = self.held.load(Ordering::Acquire);
        held == 0 || held < self.most.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn nothing_is_read_beyond_the_bytes_that_may_be_held() {
        let arriving = Arriving::default();
        let cx = Context::from_waker(Waker::noop());
        assert!(!arriving.takes(1) && arriving.takes(0) && arriving.poll_room(&cx).is_ready());
        arriving.allow(100, 150);
        assert!(arriving.takes(100) && !arriving.takes(101));
        arriving.arrived(100);
        assert!(arriving.poll_room(&cx).is_ready());
        arriving.arrived(100);
        assert!(arriving.poll_room(&cx).is_pending());
        arriving.taken(100);
        assert!(arriving.poll_room(&cx).is_ready());
    }
}
