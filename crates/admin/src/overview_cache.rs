//! What pages show of many queues, topics or dead letters, kept for a moment: several people who watch cost as much as one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use delaybridge_core::clock::Instant;
use delaybridge_ops::operations::{Counted, ListQueues, ListTopics, TopicPage};
use delaybridge_ops::overview::Overview;
use delaybridge_ops::pause::SinkPauses;

/// Time for which a page is shown.
const FRESH: Duration = Duration::from_secs(1);
/// The same of what takes up to half a second to count.
const COUNTED: Duration = Duration::from_secs(5);
/// Maximum number of pages of a kind.
const PAGES: usize = 32;

/// The pages of the last moment.
pub struct OverviewCache {
    pub(super) queues: Pages<ListQueues, Overview>,
    pub(super) topics: Pages<ListTopics, TopicPage>,
    pub(super) sinks: Pages<String, SinkPauses>,
    /// The dead letters of a queue by their causes.
    pub(super) causes: Pages<String, Counted>,
}

impl Default for OverviewCache {
    fn default() -> Self {
        OverviewCache {
            queues: Pages::new(FRESH),
            topics: Pages::new(FRESH),
            sinks: Pages::new(FRESH),
            causes: Pages::new(COUNTED),
        }
    }
}

impl OverviewCache {
    /// Forgets every page, after a change.
    pub fn forget(&self) {
        self.queues.forget();
        self.topics.forget();
        self.sinks.forget();
        self.causes.forget();
    }

    /// A fresh page, read by `read` if there is none.
    pub async fn page<K: Hash + Eq, V, E>(
        &self,
        of: impl Fn(&Self) -> &Pages<K, V>,
        which: K,
        read: impl AsyncFnOnce(&K) -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        let pages = of(self);
        if let Some(page) = pages.fresh(&which) {
            return Ok(page);
        }
        // The semaphore is never closed. Dropped with the request, it lets the next one read.
        let _turn = pages.turn.acquire().await;
        if let Some(page) = pages.fresh(&which) {
            return Ok(page);
        }
        let forgotten = pages.forgotten();
        let page = Arc::new(read(&which).await?);
        pages.keep(which, &page, forgotten);
        Ok(page)
    }
}

/// Pages of one kind by the question.
pub struct Pages<K, V> {
    kept: Mutex<HashMap<K, (Instant, Arc<V>)>>,
    /// Number of times that everything was forgotten: what was read before is not kept after it.
    forgotten: AtomicU64,
    lasts: Duration,
    /// One reader at a time: the others find its page afterwards.
    turn: Semaphore,
}

impl<K: Hash + Eq, V> Pages<K, V> {
    fn new(lasts: Duration) -> Self {
        Pages { kept: Mutex::default(), forgotten: AtomicU64::new(0), lasts, turn: Semaphore::new(1) }
    }

    fn fresh(&self, which: &K) -> Option<Arc<V>> {
        let kept = self.kept.lock();
        kept.get(which).filter(|(at, _)| at.elapsed() < self.lasts).map(|(_, page)| page.clone())
    }

    /// Keeps a page that was read after so many changes, if there was no other since.
    fn keep(&self, which: K, page: &Arc<V>, forgotten: u64) {
        let mut kept = self.kept.lock();
        if self.forgotten() != forgotten {
            return;
        }
        kept.retain(|_, (at, _)| at.elapsed() < self.lasts);
        if kept.len() < PAGES {
            kept.insert(which, (Instant::now(), page.clone()));
        }
    }

    fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        let mut kept = self.kept.lock();
        self.forgotten.fetch_add(1, Ordering::Relaxed);
        kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_read_before_a_change_is_not_shown_after_it() {
        let cache = OverviewCache::default();
        let read = async |paused: usize, changes: bool| {
            let read = async |_: &String| {
                // The change is made while the page is read.
                if changes {
                    cache.forget();
                }
                Ok(SinkPauses { asked: paused, ..SinkPauses::default() })
            };
            let page = cache.page(|cache| &cache.sinks, "out".to_owned(), read).await;
            page.unwrap_or_else(|()| panic!("a page")).asked
        };
        assert_eq!(read(1, true).await, 1);
        assert_eq!(read(2, false).await, 2, "the page of before the change");
        assert_eq!(read(3, false).await, 2, "kept for all who look");
    }
}
