//! The stage: the servers, the daemons on links of their own, and the observations.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::evidence::{Lived, Struck};
use crate::life::{Road, Seat};
use crate::offers::now_ms;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::source::{Clients, Guide, Source};
use crate::target::Target;
use crate::what::What;

/// The interval between checks of the daemons.
const LOOK: Duration = Duration::from_millis(250);
/// The interval between readings of the clock.
const TICK: Duration = Duration::from_millis(20);
/// Minimum delay of a tick that counts as a stall of the machine, in ms.
const STALL_MS: i64 = 250;

/// The servers and daemons of a run.
pub struct Stage {
    /// The Redis with the queues, locked while it has a problem.
    pub source: tokio::sync::Mutex<Source>,
    /// The clock of the Redis with the queues, if it jumps.
    pub clock: Option<Clock>,
    /// The file system of the Redis with the queues, if it can be full.
    pub disk: Option<Disk>,
    /// The guide to the queues, which bypasses all proxies.
    pub guide: Guide,
    /// The destinations, locked while they have a problem.
    pub target: tokio::sync::Mutex<Target>,
    /// The seed of the plan.
    pub seed: u64,
    /// The number of times that all consumers of jobs were killed.
    pub consumers: tokio::sync::watch::Sender<u64>,
    /// Whether the daemons serve jobs instead of queues.
    pub crowded: bool,
    /// The other binary, which daemons run for some time.
    pub old: Option<PathBuf>,
    pub seats: Vec<Seat>,
    /// The rest of a lease in which a daemon may drop elements, in ms. Nothing is sent in the last fifth of a lease,
    /// and unsent elements stay there. A daemon counts from sending the claim, Redis from receiving it, up to a
    /// time-out later: two fifths more. With more time left by Redis's clock, nothing may be left.
    pub dropped_ms: i64,
    lives: AtomicUsize,
    seen: Mutex<Seen>,
}

/// The observations so far.
#[derive(Default)]
struct Seen {
    lives: Vec<Lived>,
    struck: Vec<Struck>,
    stalls: Vec<(i64, i64)>,
}

impl Stage {
    /// Starts everything, and waits until it is ready.
    pub async fn start(plan: &Plan, lie: Option<&str>) -> Arc<Stage> {
        let clock = (plan.settings.profile == Profile::Clock).then(Clock::new);
        let disk_of = |broker: bool| {
            let mut faults = plan.faults.iter().map(|fault| fault.what).filter(What::needs_a_disk);
            faults.any(|what| matches!(what, What::Broker(_)) == broker).then(Disk::start)
        };
        let disk = disk_of(false);
        let source = Source::start(plan.settings.profile, clock.as_ref(), disk.as_ref()).await;
        let target = Target::start(plan.settings.destinations(), disk_of(true)).await;
        if plan.settings.fails {
            // The daemon waits for a response for seven tenths of a lease.
            target.receiver().fails(Some(plan.settings.lease.mul_f64(0.6)));
        }
        let mut seats = Vec::new();
        for _ in 0..plan.settings.daemons {
            let road = match &source {
                Source::Fixed(server) => Road::Through(server.port()),
                group => Road::Straight(group.yaml()),
            };
            seats.push(Seat::new(plan, road, &target, lie.map(str::to_owned)).await);
        }
        let dropped_ms = i64::try_from(plan.settings.lease.as_millis() * 3 / 5).expect("a lease of seconds");
        let stage = Stage {
            clock,
            disk,
            seed: plan.seed,
            old: plan.settings.old.clone(),
            consumers: tokio::sync::watch::Sender::new(0),
            crowded: !plan.settings.profile.delivers(),
            guide: source.guide().await,
            source: tokio::sync::Mutex::new(source),
            target: tokio::sync::Mutex::new(target),
            seats,
            dropped_ms,
            lives: AtomicUsize::new(0),
            seen: Mutex::default(),
        };
        for seat in 0..stage.seats.len() {
            stage.start_daemon(seat).await;
        }
        for seat in &stage.seats {
            assert!(seat.ready(Duration::from_secs(30)).await, "a daemon is not ready: {:#?}", seat.log().await);
        }
        Arc::new(stage)
    }

    /// Connects to the masters of the queues, which must be available.
    pub async fn clients(&self) -> Clients {
        self.guide.clients().await.unwrap_or_else(|e| panic!("connect to the Redis with the queues: {e}"))
    }

    /// Starts a process of this daemon, unless there is one.
    pub async fn start_daemon(&self, seat: usize) {
        let number = self.lives.fetch_add(1, Ordering::Relaxed) + 1;
        self.seats[seat].start(number).await;
    }

    /// Records a process that has ended.
    pub fn ended(&self, life: Option<Lived>) {
        self.seen().lives.extend(life);
    }

    /// Records a finished fault.
    pub fn struck(&self, struck: Struck) {
        self.seen().struck.push(struck);
    }

    /// Takes the observations.
    pub fn take_seen(&self) -> (Vec<Lived>, Vec<Struck>, Vec<(i64, i64)>) {
        let mut seen = self.seen();
        let Seen { lives, struck, stalls } = &mut *seen;
        (std::mem::take(lives), std::mem::take(struck), std::mem::take(stalls))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Scrapes the daemons until `end` is cancelled, and restarts those that ended by themselves.
    pub async fn watch(self: Arc<Self>, end: CancellationToken) {
        while !end.is_cancelled() {
            for (place, seat) in self.seats.iter().enumerate() {
                seat.scrape().await;
                if let Some(ended) = seat.ended() {
                    self.ended(Some(ended));
                    self.start_daemon(place).await;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Records when this process, and so the daemons, were not scheduled.
    pub async fn watch_the_clock(self: Arc<Self>, end: CancellationToken) {
        let mut last = now_ms();
        while !end.is_cancelled() {
            tokio::time::sleep(TICK).await;
            let now = now_ms();
            if now - last > STALL_MS {
                self.seen().stalls.push((last, now));
            }
            last = now;
        }
    }
}
