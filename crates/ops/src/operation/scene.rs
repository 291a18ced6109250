//! What an operation works on: a configuration, the connections to its Redis, and the person who asks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::element::AtDaemon;
use crate::error::Error;
use crate::forecast::Rate;
use crate::jobs::{Jobs, no_jobs};
use crate::named_daemon::NamedDaemon;
use crate::note::on_behalf_of;
use crate::operations::{ListQueues, ListTopics, TopicPage};
use crate::overview::{Here, Hold, Overview, SinkList};
use crate::progress::{Progress, ProgressWatch, Until, Unwatched};
use crate::queue_state::place;
use crate::session::{Queue, Session, find};
use delaybridge_core::message::Identity;
use delaybridge_model::Config;
use delaybridge_model::role::AccessRole;

/// The time that a daemon searches for one element in a request: less than the 10 s after which it gives up on a request that only reads.
const SEARCH_TIME: Duration = Duration::from_secs(8);

/// The knowledge of a running daemon that is not in Redis.
pub trait LiveState: Send + Sync {
    /// The reason why it claims nothing from a queue, if it does not.
    fn held(&self, queue: &str) -> Option<Hold>;

    /// Returns a page of queues, with what it knows of them.
    fn queues<'a>(&'a self, which: &'a ListQueues) -> BoxFuture<'a, Result<Overview, Error>>;

    /// Returns a page of topics.
    fn topics<'a>(&'a self, which: &'a ListTopics) -> BoxFuture<'a, Result<TopicPage, Error>>;

    /// Returns its state and its recent work at a queue.
    fn here(&self, queue: &str) -> Here;

    /// Returns the settings of a queue that are in effect.
    fn settings(&self, queue: &Queue) -> Value;

    /// Returns the settings in effect, without secrets.
    fn configuration(&self) -> Map<String, Value>;

    /// Returns the sinks.
    fn sink_list(&self) -> SinkList;

    /// Returns the knowledge about an element and its queue.
    fn of_element(&self, queue: &Queue, id: &Identity) -> AtDaemon;

    /// Returns the rate at which it delivers a queue that is behind.
    fn rate(&self, queue: &Queue) -> Rate;

    /// Counts elements of a queue that an operator has changed.
    fn count(&self, queue: &Queue, act: OperatorAct, elements: u64);
}

/// An operator's change of an element, as metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorAct {
    /// Made a dead letter.
    Killed,
    /// Removed by its id.
    Cancelled,
    /// Removed as a dead letter, by `dead purge`.
    Purged,
    /// A dead letter that is to be delivered again.
    Redriven,
}

/// The surroundings of an operation, on the command line or inside of a daemon.
pub struct Scene {
    config: Arc<Config>,
    beside: Beside,
    /// Whether the caller has a role for a queue or a topic.
    may: MayDo,
    /// The caller: the owner of a token, or the user and the host.
    by: String,
    /// Reads a file of the person, or standard input.
    input: Input,
    /// Whoever waits for an operation that runs in one go.
    watch: Mutex<Box<dyn ProgressWatch>>,
    /// The connections, once they are needed: a mistake in an argument is reported without Redis.
    session: OnceCell<Arc<Session>>,
}

/// Reads the text with this name from a file of the person, or from standard input where there is none.
pub type Input = fn(&str, Option<&Path>) -> Result<Bytes, Error>;

/// Whether somebody has a role for a queue or a topic.
type MayDo = Box<dyn Fn(AccessRole, &str) -> bool + Send + Sync>;

fn no_input(what: &str, _: Option<&Path>) -> Result<Bytes, Error> {
    Err(Error::invalid(format!("read the {what}: a daemon reads no files of a person")))
}

/// The daemon that knows more than Redis.
enum Beside {
    /// The one that the configuration names.
    Named(NamedDaemon),
    /// This process.
    Inside(Arc<dyn LiveState>),
}

impl Scene {
    /// Returns the surroundings of a command, for this person, and with the daemon that its configuration names.
    pub fn of_command(config: Config, by: String, daemon: NamedDaemon) -> Scene {
        Scene::of(Arc::new(config), by, Beside::Named(daemon), Box::new(|_, _| true), OnceCell::new())
    }

    fn of(config: Arc<Config>, by: String, beside: Beside, may: MayDo, session: OnceCell<Arc<Session>>) -> Scene {
        Scene { config, beside, may, by, input: no_input, watch: Mutex::new(Box::new(Unwatched)), session }
    }

    /// Returns the same with a reader of the person's files.
    pub fn with_input(self, input: Input) -> Scene {
        Scene { input, ..self }
    }

    /// Returns the same with somebody who waits for the operation, and may end it.
    pub fn with_watch(self, watch: impl ProgressWatch + 'static) -> Scene {
        self.show(watch);
        self
    }

    /// Sets who watches the operations that follow.
    pub(super) fn show(&self, watch: impl ProgressWatch + 'static) {
        *self.watch.lock() = Box::new(watch);
    }

    /// Returns whoever waits for the search for one element: on the command line a person, of a daemon a client, for some seconds.
    pub(crate) fn patience(&self) -> Box<dyn ProgressWatch + '_> {
        match &self.beside {
            Beside::Named(_) => Box::new(self),
            Beside::Inside(_) => Box::new(Until::after(SEARCH_TIME)),
        }
    }

    /// Reads a file of the person, or standard input; `what` names what is in it.
    ///
    /// # Errors
    ///
    /// When it cannot be read, and in a daemon.
    pub(crate) fn input(&self, what: &str, file: Option<&Path>) -> Result<Bytes, Error> {
        (self.input)(what, file)
    }

    /// The surroundings of a request to a daemon, with its connections and its configuration, for this caller.
    pub fn in_daemon(
        config: Arc<Config>,
        session: Arc<Session>,
        live: Arc<dyn LiveState>,
        by: String,
        may: impl Fn(AccessRole, &str) -> bool + Send + Sync + 'static,
    ) -> Scene {
        Scene::of(config, by, Beside::Inside(live), Box::new(may), OnceCell::new_with(Some(session)))
    }

    /// Returns whether the caller may view this queue.
    pub fn views(&self, queue: &str) -> bool {
        (self.may)(AccessRole::Viewer, queue)
    }

    /// Returns whether the caller may see payloads of this queue or topic.
    pub(crate) fn reads(&self, name: &str) -> bool {
        (self.may)(AccessRole::Reader, name)
    }

    /// Returns the daemon that the configuration names, outside of a daemon.
    pub(crate) fn named_daemon(&self) -> Option<&NamedDaemon> {
        match &self.beside {
            Beside::Named(daemon) => Some(daemon),
            Beside::Inside(_) => None,
        }
    }

    /// Returns the knowledge of this process, inside of a daemon.
    pub fn live(&self) -> Option<&dyn LiveState> {
        match &self.beside {
            Beside::Named(_) => None,
            Beside::Inside(live) => Some(&**live),
        }
    }

    /// Counts a change of elements, inside of a daemon. A command that works on Redis has no metrics.
    pub(crate) fn count(&self, queue: &Queue, act: OperatorAct, elements: usize) {
        if let Some(live) = self.live().filter(|_| elements > 0) {
            live.count(queue, act, elements as u64);
        }
    }

    /// The reason why the daemon claims nothing from a queue, if it does not and can be asked.
    pub(crate) async fn held(&self, queue: &Queue) -> Option<Hold> {
        match &self.beside {
            Beside::Named(named) => {
                named.ask(queue.id(), &place(queue), |daemon| daemon.hold(queue.id())).await.flatten()
            }
            Beside::Inside(live) => live.held(queue.id()),
        }
    }

    /// Returns a queue, with a connection to its server.
    ///
    /// # Errors
    ///
    /// When the configuration has none of this name, and when no connection can be made.
    pub async fn queue(&self, id: &str) -> Result<Queue, Error> {
        let spec = find(&self.config, id)?;
        self.session().await?.queue(spec).await
    }

    /// Returns the job queue.
    ///
    /// # Errors
    ///
    /// When the configuration has none, and when no connection can be made.
    pub async fn jobs(&self) -> Result<Jobs, Error> {
        match (&self.beside, self.session.get()) {
            (Beside::Inside(_), Some(session)) => session.jobs().ok_or_else(no_jobs),
            _ => Jobs::open(&self.config).await,
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the name that others see: that of the person whom the request names, with the caller's own.
    pub fn by(&self, person: Option<&str>) -> String {
        on_behalf_of(&self.by, person)
    }

    /// Returns the connections, if they were needed.
    pub(super) fn opened(&self) -> Option<&Session> {
        self.session.get().map(|session| &**session)
    }

    /// Returns the connections.
    pub async fn session(&self) -> Result<&Session, Error> {
        let open = async || Session::open((*self.config).clone(), &self.by).await.map(Arc::new);
        self.session.get_or_try_init(open).await.map(|session| &**session)
    }
}

impl ProgressWatch for &Scene {
    fn at(&mut self, step: Progress) {
        self.watch.lock().at(step);
    }

    fn is_stopped(&self) -> bool {
        self.watch.lock().is_stopped()
    }
}
