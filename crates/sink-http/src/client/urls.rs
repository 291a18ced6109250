//! The URLs of a sink: which ones answer, how many requests each has under way, and which asked for a pause.
//!
//! A URL that answers nothing would take all places of its sink, and what goes to the others would wait for its time-outs. So
//! it has a few, until it answers, and again while it answers nothing for much longer than it took before. All such URLs
//! together have three quarters of the places, so that those that answer go on, and those that let a request wait for nothing
//! have half of the places, so that new ones are tried. `Retry-After` holds for the URL that asked for it.
//!
//! While no URL of the host has taken anything for a minute, and one was busy, there is a pace for all of them, until so many
//! answers in a row say something else.
//!
//! Bounded: so many are remembered, those that were used last.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use delaybridge_core::clock::Instant;

/// URLs that are remembered.
const MOST: usize = 10_000;
/// Places of a URL that does not answer, or of which that is not known.
const FEW: usize = 4;
/// Without an answer for so long, and for twice as long as its last answer took, a URL does not answer.
const SILENT: Duration = Duration::from_millis(100);
/// A URL that has taken something within this time shows that the host works.
const RECENT: Duration = Duration::from_secs(60);
/// The time between two requests to a host of which no URL works, while one is busy: 50 a second.
const PACE: Duration = Duration::from_millis(20);
/// The part of a quiet time that is made up for.
const BURST: Duration = Duration::from_millis(100);
/// The number of answers in a row that are not busy after which the host is not busy.
const NOT_BUSY: u32 = 10;
/// The longest wait of an element that finds no place in the pace.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Urls {
    state: Mutex<UrlsState>,
    hash: RandomState,
    /// Places of all URLs that are not known to answer.
    unsure: Semaphore,
    /// Places of those among them that are known to answer nothing.
    silent: Semaphore,
    /// While no more than so many of `unsure` are free, each URL has one.
    crowded: usize,
}

#[derive(Debug)]
struct UrlsState {
    urls: HashMap<u64, Url>,
    host: Host,
}

/// The host, as all of its URLs show it.
#[derive(Debug)]
struct Host {
    /// The time at which one of them last took something.
    taken: Option<Instant>,
    /// Set if one was busy since then: the number of answers in a row since that were not.
    busy: Option<u32>,
    /// The longest pause that was asked for since then.
    paused: Option<Instant>,
    /// The time of the next request that the pace allows.
    next: Instant,
    /// The time at which the last element that found no place in the pace comes back.
    comes_back: Instant,
}

#[derive(Debug)]
struct Url {
    under_way: usize,
    last: LastRequest,
    /// The last answer, or the beginning of what is under way, if that is later.
    heard: Instant,
    paused: Option<Instant>,
    used: Instant,
    changes: watch::Sender<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastRequest {
    /// Nothing was sent yet.
    None,
    /// An answer, after this time.
    Answered(Duration),
    /// No answer before it was given up.
    GivenUp,
}

/// The expectation of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// An answer in its usual time.
    Answers,
    /// Nothing is known.
    New,
    /// No answer.
    Silent,
}

/// Why a request is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotNow {
    /// The URL asked to be left alone for this time.
    Paused(Duration),
    /// The host takes nothing, and the pace has no place before this time is over.
    HostBusy(Duration),
}

/// The meaning of an answer for its URL and its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The element was taken.
    Taken,
    /// Nothing is taken now; with the pause that was asked for.
    Busy(Option<Duration>),
    /// Another answer.
    Other,
    /// The connection broke before the answer.
    Lost,
}

/// The answer to a question for a place.
enum Place {
    Granted(Standing),
    NotNow(NotNow),
    /// The places of the URL are taken.
    OfUrl(watch::Receiver<()>),
    /// One of those that URLs of this standing share is to be taken.
    Shared(Standing, watch::Receiver<()>),
}

/// A place among those that URLs share which are not known to answer.
#[derive(Debug, Default)]
struct SharedPlace<'a> {
    unsure: Option<SemaphorePermit<'a>>,
    silent: Option<SemaphorePermit<'a>>,
}

impl SharedPlace<'_> {
    fn is_enough_for(&self, standing: Standing) -> bool {
        match standing {
            Standing::Answers => true,
            Standing::New => self.unsure.is_some(),
            Standing::Silent => self.unsure.is_some() && self.silent.is_some(),
        }
    }
}

/// A request under way to a URL, until this is dropped.
#[derive(Debug)]
pub(super) struct UrlPlace<'a> {
    urls: &'a Urls,
    key: u64,
    begun: Instant,
    /// The request was sent, and has no answer.
    waits: AtomicBool,
    _shared: SharedPlace<'a>,
}

impl Urls {
    /// Creates an empty set. `places`: the requests that may be under way.
    pub(super) fn new(places: usize, now: Instant) -> Urls {
        let host = Host { taken: None, busy: None, paused: None, next: now, comes_back: now };
        let quarter = (places / 4).max(1);
        let half = (places / 2).max(1);
        let unsure = (places * 3 / 4).max(1);
        Urls {
            state: Mutex::new(UrlsState { urls: HashMap::new(), host }),
            hash: RandomState::new(),
            unsure: Semaphore::new(unsure),
            silent: Semaphore::new(half),
            crowded: unsure.saturating_sub(quarter),
        }
    }

    /// Waits for a place for a request to this path. Cancel safe.
    pub(super) async fn place(&self, path: &str) -> Result<UrlPlace<'_>, NotNow> {
        let key = self.hash.hash_one(path);
        let mut shared = SharedPlace::default();
        loop {
            let now = Instant::now();
            let free = self.unsure.available_permits() + usize::from(shared.unsure.is_some());
            let few = if free <= self.crowded { 1 } else { FEW };
            let place = self.state.lock().place(key, few, &shared, now);
            match place {
                Place::Granted(standing) => {
                    if standing == Standing::Answers {
                        shared = SharedPlace::default();
                    }
                    return Ok(UrlPlace { urls: self, key, begun: now, waits: false.into(), _shared: shared });
                }
                Place::NotNow(why) => return Err(why),
                // The sender lives as long as what it is about; a URL that was forgotten is asked about anew.
                Place::OfUrl(mut changes) => {
                    shared = SharedPlace::default();
                    let _ = changes.changed().await;
                }
                Place::Shared(standing, mut changes) => {
                    shared = SharedPlace::default();
                    // Order: any. A place that is dropped goes to the next one.
                    tokio::select! {
                        taken = self.shared(standing) => shared = taken,
                        _changed = changes.changed() => {}
                    }
                }
            }
        }
    }

    /// Waits for a place that URLs share, in turn.
    async fn shared(&self, standing: Standing) -> SharedPlace<'_> {
        // They are never closed.
        let silent = match standing {
            Standing::Silent => self.silent.acquire().await.ok(),
            Standing::New | Standing::Answers => None,
        };
        SharedPlace { unsure: self.unsure.acquire().await.ok(), silent }
    }

    /// Returns the rest of a pause that a URL asked for, if none has taken anything since.
    pub(super) fn paused(&self, now: Instant) -> Option<Duration> {
        left(self.state.lock().host.paused, now)
    }
}

impl UrlPlace<'_> {
    /// Returns the rest of the pause that the URL asked for.
    pub(super) fn paused(&self, now: Instant) -> Option<Duration> {
        left(self.urls.state.lock().urls.get(&self.key)?.paused, now)
    }

    /// Records that from here on bytes may leave.
    pub(super) fn sent(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Records that no byte has left after all.
    pub(super) fn not_sent(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// Records the answer to the request.
    pub(super) fn heard(&self, what: Heard) {
        self.waits.store(false, Ordering::Relaxed);
        let now = Instant::now();
        let mut state = self.urls.state.lock();
        let UrlsState { urls, host } = &mut *state;
        host.heard(what, now);
        let pause = if let Heard::Busy(wait) = what { wait.map(|wait| now.after(wait)) } else { None };
        host.paused = host.paused.max(pause);
        if let Some(url) = urls.get_mut(&self.key) {
            (url.last, url.heard) = (LastRequest::Answered(now.since(self.begun)), now);
            url.paused = url.paused.max(pause);
            url.changes.send_replace(());
        }
    }
}

impl Drop for UrlPlace<'_> {
    fn drop(&mut self) {
        let mut state = self.urls.state.lock();
        if let Some(url) = state.urls.get_mut(&self.key) {
            url.under_way = url.under_way.saturating_sub(1);
            // Given up, with no answer to another request meanwhile.
            if self.waits.load(Ordering::Relaxed) && url.heard <= self.begun {
                url.last = LastRequest::GivenUp;
            }
            url.changes.send_replace(());
        }
    }
}

impl UrlsState {
    /// Decides about a place for a request to a URL. `few`: places of a URL that is not known to answer.
    fn place(&mut self, key: u64, few: usize, shared: &SharedPlace<'_>, now: Instant) -> Place {
        if !self.urls.contains_key(&key) && self.urls.len() >= MOST {
            self.make_room();
        }
        let url = self.urls.entry(key).or_insert_with(|| Url::new(now));
        url.used = now;
        if let Some(left) = left(url.paused, now) {
            return Place::NotNow(NotNow::Paused(left));
        }
        let standing = url.standing(now);
        if url.under_way >= few && standing != Standing::Answers {
            return Place::OfUrl(url.changes.subscribe());
        }
        let is_paced = self.host.busy.is_some() && !self.host.works(now);
        if is_paced && !self.host.is_in_pace(now) {
            return Place::NotNow(NotNow::HostBusy(self.host.come_back(now)));
        }
        if !shared.is_enough_for(standing) {
            return Place::Shared(standing, url.changes.subscribe());
        }
        if is_paced {
            self.host.take_pace(now);
        }
        if url.under_way == 0 {
            url.heard = now;
        }
        url.under_way += 1;
        Place::Granted(standing)
    }

    /// Forgets a part of those with nothing under way, the longest unused first.
    fn make_room(&mut self) {
        let quiet = self.urls.iter().filter(|(_, url)| url.under_way == 0);
        let mut quiet: Vec<_> = quiet.map(|(key, url)| (url.used, *key)).collect();
        quiet.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in quiet.into_iter().take(MOST / 4) {
            self.urls.remove(&key);
        }
    }
}

impl Host {
    fn works(&self, now: Instant) -> bool {
        self.taken.is_some_and(|at| now.since(at) <= RECENT)
    }

    fn heard(&mut self, what: Heard, now: Instant) {
        match what {
            Heard::Taken => (self.taken, self.busy, self.paused) = (Some(now), None, None),
            Heard::Busy(_) if !self.works(now) => self.busy = Some(0),
            Heard::Other => self.busy = self.busy.map(|answers| answers + 1).filter(|answers| *answers < NOT_BUSY),
            Heard::Busy(_) | Heard::Lost => {}
        }
    }

    fn is_in_pace(&self, now: Instant) -> bool {
        self.next <= now
    }

    fn take_pace(&mut self, now: Instant) {
        self.next = self.next.max(now.before(BURST)).after(PACE);
    }

    /// Computes the time after which an element that is not in the pace comes back: one after the other.
    fn come_back(&mut self, now: Instant) -> Duration {
        self.comes_back = self.comes_back.max(now).after(PACE).min(now.after(LONGEST_WAIT));
        self.comes_back.since(now)
    }
}

impl Url {
    fn new(now: Instant) -> Url {
        let changes = watch::Sender::new(());
        Url { under_way: 0, last: LastRequest::None, heard: now, paused: None, used: now, changes }
    }

    fn standing(&self, now: Instant) -> Standing {
        match self.last {
            LastRequest::None => Standing::New,
            LastRequest::Answered(took) if now.since(self.heard) <= took.saturating_mul(2).max(SILENT) => {
                Standing::Answers
            }
            // Nothing is under way: the next one is in its usual time.
            LastRequest::Answered(_) if self.under_way == 0 => Standing::Answers,
            LastRequest::Answered(_) | LastRequest::GivenUp => Standing::Silent,
        }
    }
}

fn left(until: Option<Instant>, now: Instant) -> Option<Duration> {
    let left = until?.since(now);
    (!left.is_zero()).then_some(left)
}
