//! Pages of queues and topics, kept for a second: several people who watch cost as much as one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use delaybridge_core::clock::Instant;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_ops::jobs::TopicPage;
use delaybridge_ops::overview::{Overview, QueuePage};

/// Time for which a page is shown.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum number of pages of a kind.
const PAGES: usize = 32;

/// The pages of the last second.
pub struct OverviewCache {
    pub(super) queues: Pages<QueuePage, Overview>,
    pub(super) topics: Pages<(Option<String>, usize), TopicPage>,
    /// One reader at a time: the others find its page afterwards.
    turn: Semaphore,
}

impl Default for OverviewCache {
    fn default() -> Self {
        OverviewCache { queues: Pages::default(), topics: Pages::default(), turn: Semaphore::new(1) }
    }
}

impl OverviewCache {
    /// Forgets every page, after a change.
    pub fn forget(&self) {
        self.queues.0.lock().clear();
        self.topics.0.lock().clear();
    }

    /// A fresh page, read by `read` if there is none.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn page<K: Hash + Eq, V>(
        &self,
        of: impl Fn(&Self) -> &Pages<K, V>,
        which: K,
        read: impl AsyncFnOnce(&K) -> Result<V, Problem>,
    ) -> Result<Arc<V>, Problem> {
        let pages = of(self);
        if let Some(page) = pages.fresh(&which) {
            return Ok(page);
        }
        // The semaphore is never closed. Dropped with the request, it lets the next one read.
        let _turn = self.turn.acquire().await;
        if let Some(page) = pages.fresh(&which) {
            return Ok(page);
        }
        let page = Arc::new(read(&which).await?);
        pages.keep(which, &page);
        Ok(page)
    }
}

/// Pages of one kind by the question.
pub struct Pages<K, V>(Mutex<HashMap<K, (Instant, Arc<V>)>>);

impl<K, V> Default for Pages<K, V> {
    fn default() -> Self {
        Pages(Mutex::default())
    }
}

impl<K: Hash + Eq, V> Pages<K, V> {
    fn fresh(&self, which: &K) -> Option<Arc<V>> {
        let pages = self.0.lock();
        pages.get(which).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, page)| page.clone())
    }

    fn keep(&self, which: K, page: &Arc<V>) {
        let mut pages = self.0.lock();
        pages.retain(|_, (at, _)| at.elapsed() < FRESH);
        if pages.len() < PAGES {
            pages.insert(which, (Instant::now(), page.clone()));
        }
    }
}
