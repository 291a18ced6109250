//! What every command that talks to Redis begins with: the configuration, one connection, the queue that is meant.

use std::sync::Arc;

use super::{Failed, Global, load, show};
use crate::config::{Config, QueueSpec, RedisEndpoint};
use crate::link::{Conn, ConnectError, Link, LinkError, LinkOptions, LinkState};
use crate::source::redisson::{Redisson, SourceError};

/// A command's view of the world.
pub(super) struct Session {
    pub(super) config: Config,
    pub(super) conn: Conn,
    /// Keeps the connection.
    _link: Link,
}

/// One queue of the configuration.
pub(super) struct Queue {
    pub(super) spec: Arc<QueueSpec>,
    pub(super) redisson: Redisson,
}

impl Session {
    /// Reads the configuration and connects; one attempt, because a person is waiting.
    pub(super) async fn open(global: &Global) -> Result<Session, Failed> {
        let config = load(global)?.config;
        Session::of(config).await
    }

    pub(super) async fn of(config: Config) -> Result<Session, Failed> {
        let link = link(&config.redis);
        let conn = first(&link).await.map_err(|error| Failed::runtime(error.to_string()))?;
        Ok(Session { config, conn, _link: link })
    }

    /// The queue with this id.
    pub(super) fn queue(&self, id: &str) -> Result<Queue, Failed> {
        find(&self.config, id).map(Queue::of)
    }

    /// Reads the configuration, finds the queue and connects, in this order: a misspelt queue is told without Redis.
    pub(super) async fn on_queue(global: &Global, id: &str) -> Result<(Session, Queue), Failed> {
        let config = load(global)?.config;
        find(&config, id)?;
        let session = Session::of(config).await?;
        let queue = session.queue(id)?;
        Ok((session, queue))
    }
}

impl Queue {
    pub(super) fn of(spec: Arc<QueueSpec>) -> Queue {
        // The command line claims nothing, so it owns nothing: zeros.
        let redisson = Redisson::new(&spec.name, [0; 8], spec.consume_delayed, spec.consume_ready, spec.list_cleanup);
        Queue { spec, redisson }
    }
}

fn find(config: &Config, id: &str) -> Result<Arc<QueueSpec>, Failed> {
    if let Some(spec) = config.queues.iter().find(|spec| &*spec.id == id) {
        return Ok(spec.clone());
    }
    let attempt = format!("find queue `{id}`: the configuration has no queue with this id");
    if let Some(spec) = config.queues.iter().find(|spec| &*spec.name == id) {
        return Err(Failed::usage(format!("{attempt}; `{id}` is the name in Redis of the queue `{}`", spec.id)));
    }
    let names = || config.queues.iter().map(|spec| &*spec.id);
    Err(Failed::usage(match show::similar(id, names()).as_slice() {
        [] => format!("{attempt}; it has: {}", names().collect::<Vec<_>>().join(", ")),
        near => format!("{attempt}; did you mean `{}`?", near.join("` or `")),
    }))
}

/// A link under the command line's name.
pub(super) fn link(endpoint: &Arc<RedisEndpoint>) -> Link {
    let options = LinkOptions { client_name: "delaybridge-cli".to_owned(), ..LinkOptions::default() };
    Link::start(endpoint.clone(), options)
}

/// The link's first connection; whatever goes wrong is told, not waited for.
pub(super) async fn first(link: &Link) -> Result<Conn, Arc<ConnectError>> {
    let mut state = link.state();
    loop {
        // Marked as seen before the connection is looked at: a change in between wakes the wait below at once. An attempt
        // ends by itself after `connect_timeout`.
        let failed = match &*state.borrow_and_update() {
            LinkState::Connecting { last_error, .. } => last_error.clone(),
            LinkState::Up { .. } => None,
        };
        if let Some(conn) = link.current() {
            return Ok(conn);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Puts what was attempted in front of an error of the source.
pub(super) fn attempted(what: &str) -> impl Fn(SourceError) -> Failed {
    move |error| Failed::runtime(format!("{what}: {}", explained(&error)))
}

/// What happened, and what to do where that is known.
pub(super) fn explained(error: &SourceError) -> String {
    let help = match error {
        SourceError::Link(LinkError::Unknown { .. }) => "; check the server and try again",
        SourceError::Link(LinkError::Server { code: "NOPERM", .. }) => {
            "; `check --live` lists the rights that are missing"
        }
        SourceError::Link(LinkError::Server { code: "WRONGKEY" | "WRONGTYPE", .. }) => {
            "; is `source.redisson.name` the name of the queue? Another program's key was left as it is"
        }
        _ => "",
    };
    format!("{error}{help}")
}

/// Whether the command may have run although there is no answer.
pub(super) fn may_have_run(error: &SourceError) -> bool {
    matches!(error, SourceError::Link(LinkError::Unknown { .. }))
}
