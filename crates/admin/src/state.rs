//! The state that all requests of the listener share.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::AdminAccess;
use super::overview_cache::OverviewCache;
use delaybridge_core::clock::Instant;
use delaybridge_http_server::room::BodyMemory;
use delaybridge_http_server::turns::Turns;
use delaybridge_model::{AdminSpec, Config, GrafanaLinks};
use delaybridge_ops::Session;
use delaybridge_ops::reload::ReloadHandle;
use delaybridge_telemetry::attempts::Attempts;
use delaybridge_telemetry::events::Events;
use delaybridge_telemetry::events::admin::AdminEvents;
use delaybridge_telemetry::history::{HistoryArchive, MINUTE};
use delaybridge_telemetry::metrics::Metrics;
use delaybridge_telemetry::recent::{Recent, STEP};
use delaybridge_telemetry::status::Status;
use delaybridge_telemetry::tail::Tail;

/// The name of the client towards Redis.
const CLIENT: &str = "delaybridge-admin";
/// Largest body of a request: forms and lists of ids.
const MAX_BODY: usize = 1 << 20;
/// Memory for large bodies together.
const ROOM: usize = 16 << 20;
/// Looks at a time. Each is a call on Redis, which answers nobody else for a millisecond or two.
const LOOKS: usize = 10;
/// Looks at a time of one caller.
const LOOKS_OF_A_CALLER: usize = 3;
/// Searches at a time, each of another caller.
const SEARCHES: usize = 3;
/// Exports at a time, each of another caller and with some megabytes in memory.
const EXPORTS: usize = 3;
/// Time that changes under way have once the daemon stops.
const GOODBYE: Duration = Duration::from_secs(2);

/// The state that all requests share.
pub struct Admin {
    /// The way to ask for reloads, and to the configuration that runs.
    pub(super) reload: ReloadHandle,
    /// Connections to Redis, and the configuration that they are for.
    session: Mutex<(Arc<Config>, Arc<Session>)>,
    pub(super) access: AdminAccess,
    pub(super) memory: BodyMemory,
    /// Turns of looks: each asks Redis.
    pub(super) looks: Turns,
    /// Turns of looks of callers without a token, so that they take none of the others'.
    pub(super) looks_of_strangers: Turns,
    /// Turns of searches, which take seconds.
    pub(super) searches: Turns,
    /// Turns of exports, which take as long as their client reads.
    pub(super) exports: Turns,
    pub(super) cache: OverviewCache,
    pub(super) status: Status,
    pub(super) metrics: Metrics,
    pub(super) recent: Recent,
    /// The last hour and day of the daemon.
    pub(super) history: HistoryArchive,
    /// The events of single elements.
    pub(super) tail: Tail,
    /// The failed attempts of single elements.
    pub(super) attempts: Attempts,
    pub(super) in_flight: Box<dyn Fn() -> u64 + Send + Sync>,
    /// The address of the listener in the configuration.
    pub(super) listen: String,
    /// The path that a proxy passes on.
    pub(super) base_path: Option<String>,
    pub(super) grafana: GrafanaLinks,
    pub(super) began: Instant,
    /// Changes under way.
    pub(super) changes: TaskTracker,
    pub(super) events: AdminEvents,
    pub(super) stopping: CancellationToken,
}

impl Admin {
    /// The operators' API of a daemon that runs the configuration of the handle, until `stopping`.
    ///
    /// # Errors
    /// The first mistake in the file of tokens.
    pub fn new(
        spec: &AdminSpec,
        reload: ReloadHandle,
        events: &Events,
        stopping: CancellationToken,
    ) -> Result<Admin, String> {
        let config = reload.running();
        let session = Session::start((*config).clone(), CLIENT);
        Ok(Admin {
            reload,
            session: Mutex::new((config, Arc::new(session))),
            access: AdminAccess::new(spec, &events.admin().api)?,
            memory: BodyMemory::new(MAX_BODY, ROOM),
            looks: Turns::new(LOOKS, LOOKS_OF_A_CALLER),
            looks_of_strangers: Turns::new(LOOKS, LOOKS_OF_A_CALLER),
            searches: Turns::new(SEARCHES, 1),
            exports: Turns::new(EXPORTS, 1),
            cache: OverviewCache::default(),
            status: events.status().clone(),
            metrics: events.metrics().clone(),
            recent: Recent::new(events.metrics().clone()),
            history: HistoryArchive::new(events.metrics().clone()),
            tail: events.tail().clone(),
            attempts: events.attempts().clone(),
            in_flight: Box::new(|| 0),
            listen: spec.listen.to_string(),
            base_path: spec.base_path.clone(),
            grafana: spec.grafana.clone().unwrap_or_default(),
            began: Instant::now(),
            changes: TaskTracker::new(),
            events: events.admin(),
            stopping,
        })
    }

    /// Returns the same with a count of the elements that the daemon has in flight.
    pub fn counting(self, in_flight: impl Fn() -> u64 + Send + Sync + 'static) -> Admin {
        Admin { in_flight: Box::new(in_flight), ..self }
    }

    /// Number of tokens, if there is a file of them.
    pub fn tokens(&self) -> Option<usize> {
        self.access.count()
    }

    /// Returns the connections, with the configuration that runs now. Another one has the same Redis: that takes a
    /// restart.
    pub(super) fn session(&self) -> Arc<Session> {
        let running = self.reload.running();
        let mut current = self.session.lock();
        if !Arc::ptr_eq(&current.0, &running) {
            let session = current.1.with((*running).clone());
            *current = (running, Arc::new(session));
            self.cache.forget();
        }
        current.1.clone()
    }

    fn note_history(&self) {
        let config = self.reload.running();
        self.history.note(config.queues.iter().flat_map(|queue| queue.to.iter().map(|to| (&queue.id, &to.sink))));
    }

    /// Notes now and then what was delivered, and each minute for the history; at the end waits for the changes that are under way.
    pub async fn keep(self: Arc<Self>) {
        self.tell_fleet().await;
        let mut minute = Instant::now().after(MINUTE);
        loop {
            // Shutdown takes priority; skipping a sample is harmless.
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => break,
                () = tokio::time::sleep(STEP) => self.recent.sample(),
            }
            self.tell_fleet().await;
            if Instant::now() >= minute {
                self.note_history();
                minute = minute.after(MINUTE);
            }
        }
        self.leave_fleet().await;
        self.changes.close();
        // The rest ends with the process: each step of a change is whole, and the change may be repeated.
        let _ = tokio::time::timeout(GOODBYE, self.changes.wait()).await;
    }
}
