//! What is known of the URLs of a sink: which answer, how many requests each has under way, and which asked to be left alone.
//!
//! A URL that answers nothing would take all places of its sink, and what goes to the others would wait for its time-outs. So
//! it has a few, until it answers, and again while it answers nothing for much longer than it took before. `Retry-After` holds
//! for the URL that asked for it.
//!
//! While no URL of the host has taken anything for a minute, the host has a few places as a whole; and once one of its URLs
//! was busy, there is a pace for all of them.
//!
//! Bounded: so many are remembered, those that were used last.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use delaybridge_core::clock::Instant;

/// URLs that are remembered.
const MOST: usize = 10_000;
/// Places of a URL that does not answer, or of which that is not known.
const FEW: usize = 4;
/// Places of all URLs while none is known to work.
const FEW_OF_HOST: usize = 32;
/// Without an answer for so long, and for twice as long as its last answer took, a URL does not answer.
const SILENT: Duration = Duration::from_millis(100);
/// A URL that has taken something within this time shows that the host works.
const RECENT: Duration = Duration::from_secs(60);
/// The time between two requests to a host of which no URL works, while one is busy: 50 a second.
const PACE: Duration = Duration::from_millis(20);
/// The part of a quiet time that is made up for.
const BURST: Duration = Duration::from_millis(100);

/// The URLs of a sink.
#[derive(Debug)]
pub(super) struct Urls {
    state: Mutex<UrlsState>,
    hash: RandomState,
}

#[derive(Debug)]
struct UrlsState {
    urls: HashMap<u64, Url>,
    host: Host,
}

/// The host, as all of its URLs show it.
#[derive(Debug)]
struct Host {
    under_way: usize,
    /// When one of them took something.
    taken: Option<Instant>,
    /// One was busy since then.
    busy: bool,
    /// The longest pause that was asked for since then.
    paused: Option<Instant>,
    /// When the pace lets the next request through.
    next: Instant,
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct Url {
    under_way: usize,
    /// The time that its last answer took; none if the last request got none.
    took: Option<Duration>,
    /// The last answer, or the beginning of what is under way, if that is later.
    heard: Instant,
    paused: Option<Instant>,
    used: Instant,
    changes: watch::Sender<()>,
}

/// Why a request is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotNow {
    /// The URL asked to be left alone for this time.
    Paused(Duration),
    /// Its host takes nothing, and enough is tried there.
    HostBusy,
}

/// What an answer says of its URL and its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It took the element.
    Taken,
    /// It takes nothing now, and asks for this pause.
    Busy(Option<Duration>),
    /// It answered something else.
    Other,
}

/// The answer to a question for a place.
enum Place {
    Granted,
    NotNow(NotNow),
    Wait(watch::Receiver<()>),
}

/// A request under way to a URL, until this is dropped.
#[derive(Debug)]
pub(super) struct UrlPlace<'a> {
    urls: &'a Urls,
    key: u64,
    begun: Instant,
    is_heard: AtomicBool,
}

impl Urls {
    pub(super) fn new(now: Instant) -> Urls {
        let host =
            Host { under_way: 0, taken: None, busy: false, paused: None, next: now, changes: watch::Sender::new(()) };
        Urls { state: Mutex::new(UrlsState { urls: HashMap::new(), host }), hash: RandomState::new() }
    }

    /// Waits for a place for a request to this path. Cancel safe.
    ///
    /// # Errors
    /// Why none is to be sent now.
    pub(super) async fn place(&self, path: &str) -> Result<UrlPlace<'_>, NotNow> {
        let key = self.hash.hash_one(path);
        loop {
            let now = Instant::now();
            let place = self.state.lock().place(key, now);
            match place {
                Place::Granted => return Ok(UrlPlace { urls: self, key, begun: now, is_heard: false.into() }),
                Place::NotNow(why) => return Err(why),
                // The sender lives as long as what it is about; a URL that was forgotten is asked about anew.
                Place::Wait(mut changes) => drop(changes.changed().await),
            }
        }
    }

    /// The rest of a pause that a URL asked for, if none has taken anything since.
    pub(super) fn paused(&self, now: Instant) -> Option<Duration> {
        left(self.state.lock().host.paused, now)
    }
}

impl UrlPlace<'_> {
    /// The rest of the pause that the URL asked for.
    pub(super) fn paused(&self, now: Instant) -> Option<Duration> {
        left(self.urls.state.lock().urls.get(&self.key)?.paused, now)
    }

    /// The request has its answer.
    pub(super) fn heard(&self, what: Heard) {
        self.is_heard.store(true, Ordering::Relaxed);
        let (now, mut state) = (Instant::now(), self.urls.state.lock());
        let UrlsState { urls, host } = &mut *state;
        match what {
            Heard::Taken => (host.taken, host.busy, host.paused) = (Some(now), false, None),
            Heard::Busy(_) if !host.works(now) => host.busy = true,
            Heard::Busy(_) | Heard::Other => {}
        }
        let pause = if let Heard::Busy(wait) = what { wait.map(|wait| now.after(wait)) } else { None };
        host.paused = host.paused.max(pause);
        if let Some(url) = urls.get_mut(&self.key) {
            (url.took, url.heard) = (Some(now.since(self.begun)), now);
            url.paused = url.paused.max(pause);
            url.changes.send_replace(());
        }
        host.changes.send_replace(());
    }
}

impl Drop for UrlPlace<'_> {
    fn drop(&mut self) {
        let mut state = self.urls.state.lock();
        let UrlsState { urls, host } = &mut *state;
        host.under_way = host.under_way.saturating_sub(1);
        host.changes.send_replace(());
        if let Some(url) = urls.get_mut(&self.key) {
            url.under_way = url.under_way.saturating_sub(1);
            // Given up, with no answer to another request meanwhile.
            if !self.is_heard.load(Ordering::Relaxed) && url.heard <= self.begun {
                url.took = None;
            }
            url.changes.send_replace(());
        }
    }
}

impl UrlsState {
    fn place(&mut self, key: u64, now: Instant) -> Place {
        if !self.urls.contains_key(&key) && self.urls.len() >= MOST {
            self.make_room();
        }
        let url = self.urls.entry(key).or_insert_with(|| Url::new(now));
        url.used = now;
        if let Some(left) = left(url.paused, now) {
            return Place::NotNow(NotNow::Paused(left));
        }
        if url.under_way >= FEW && !url.answers(now) {
            return Place::Wait(url.changes.subscribe());
        }
        if !self.host.works(now) {
            if self.host.under_way >= FEW_OF_HOST {
                return Place::Wait(self.host.changes.subscribe());
            }
            if self.host.busy && !self.host.is_in_pace(now) {
                return Place::NotNow(NotNow::HostBusy);
            }
        }
        if url.under_way == 0 {
            url.heard = now;
        }
        url.under_way += 1;
        self.host.under_way += 1;
        Place::Granted
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

    /// Takes a place in the pace; false if there is none yet.
    fn is_in_pace(&mut self, now: Instant) -> bool {
        let next = self.next.max(now.before(BURST));
        let is_free = next <= now;
        if is_free {
            self.next = next.after(PACE);
        }
        is_free
    }
}

impl Url {
    fn new(now: Instant) -> Url {
        Url { under_way: 0, took: None, heard: now, paused: None, used: now, changes: watch::Sender::new(()) }
    }

    /// Whether it is known to answer in its usual time.
    fn answers(&self, now: Instant) -> bool {
        self.took.is_some_and(|took| now.since(self.heard) <= took.saturating_mul(2).max(SILENT))
    }
}

fn left(until: Option<Instant>, now: Instant) -> Option<Duration> {
    let left = until?.since(now);
    (!left.is_zero()).then_some(left)
}
