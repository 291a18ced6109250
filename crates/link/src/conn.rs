//! A connection for callers: commands, pipelines and scripts, each with a deadline.
//!
//! It does not reconnect, and repeats nothing except a script that the server did not have.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, RedisResult, Value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::connect::Wire;
use super::error::{LinkError, NoAnswer};
use super::gate::Gate;
use super::info::ServerInfo;
use super::large::{Argument, LargeArgs};
use super::script::Script;
use delaybridge_core::clock::Instant;

/// The callers' reports to the supervisor.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The newest epoch that was reported as broken.
    broken: AtomicU64,
    /// Requests a check of the connection.
    look: Notify,
}

impl Reports {
    /// Returns whether this epoch was reported as broken.
    pub(super) fn is_broken(&self, epoch: u64) -> bool {
        self.broken.load(Ordering::Acquire) >= epoch
    }

    /// Waits until a caller requests a check. Cancel safe.
    pub(super) async fn wait(&self) {
        self.look.notified().await;
    }
}

/// The way of commands that a node refuses because another one has their slot. A new value is made for each use of a
/// connection.
pub(super) trait Route: Send + Sync {
    /// Returns whether a command was sent on.
    fn has_led_on(&self) -> bool;

    /// Returns whether the error redirects to another node. An error that makes the map doubtful requests a new one.
    fn leads_on(&self, error: &LinkError) -> bool;

    /// Sends a command on that `from` has refused with this error.
    ///
    /// # Errors
    ///
    /// Returns the error of the node that answered last; [`LinkError::NotSent`] if a node could not be connected, or if
    /// it is too late.
    fn follow<'a>(
        &'a self,
        from: &'a Conn,
        command: &'a Cmd,
        error: LinkError,
        send_before: Option<Instant>,
    ) -> BoxFuture<'a, Result<Value, LinkError>>;

    /// Sends a command to every node of the map: to masters in use on their connections, to the others on connections
    /// that are kept for the next question. For read-only commands: a node whose kept connection has ended is asked
    /// again.
    fn ask_all<'a>(&'a self, words: &'static str, command: &'a Cmd) -> BoxFuture<'a, Result<Vec<Value>, LinkError>>;

    /// Returns all current connections, for commands that every node needs.
    fn everywhere(&self) -> Vec<Conn>;
}

/// A connection that was up when it was returned. Cheap to clone; all clones end together when the supervisor replaces
/// the connection.
#[derive(Clone)]
pub struct Conn {
    inner: Arc<Inner>,
    /// The route for commands that the server refuses because another one has their slot.
    route: Option<Arc<dyn Route>>,
}

struct Inner {
    epoch: u64,
    address: Arc<str>,
    info: Arc<ServerInfo>,
    command_timeout: Duration,
    /// Taken when the connection is replaced, so that no forgotten clone keeps the socket open.
    wire: Mutex<Option<Wire>>,
    gate: Arc<Gate>,
    /// Cancelled when the connection is replaced, which ends every wait for it.
    gone: CancellationToken,
    /// Calls without an answer.
    calls: AtomicUsize,
    reports: Arc<Reports>,
}

impl Conn {
    pub(super) fn new(
        epoch: u64,
        address: Arc<str>,
        info: Arc<ServerInfo>,
        command_timeout: Duration,
        wire: Wire,
        reports: Arc<Reports>,
    ) -> Conn {
        let gate = wire.gate.clone();
        let gone = CancellationToken::new();
        let wire = Mutex::new(Some(wire));
        let calls = AtomicUsize::new(0);
        let inner = Inner { epoch, address, info, command_timeout, wire, gate, gone, calls, reports };
        Conn { inner: Arc::new(inner), route: None }
    }

    /// Sets a route for commands whose slot has moved to another node.
    pub(super) fn in_cluster(self, route: Arc<dyn Route>) -> Conn {
        Conn { route: Some(route), ..self }
    }

    /// Returns whether both are the same connection to the same server.
    pub(super) fn is_same(&self, other: &Conn) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns whether a command on this value was answered by another node.
    pub(super) fn was_redirected(&self) -> bool {
        self.route.as_ref().is_some_and(|route| route.has_led_on())
    }

    /// Returns the number of this connection on its link, starting at 1.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Returns `host:port/db`.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// Returns the host of the address.
    pub(super) fn host(&self) -> &str {
        let address = self.address();
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the server's information at connect.
    pub fn info(&self) -> &Arc<ServerInfo> {
        &self.inner.info
    }

    /// Returns the time-out of a call.
    pub fn command_timeout(&self) -> Duration {
        self.inner.command_timeout
    }

    /// Returns whether the connection is not known to be broken and was not replaced.
    pub fn is_alive(&self) -> bool {
        !self.inner.gone.is_cancelled()
    }

    /// Waits until the connection is broken or was replaced. Cancel safe.
    pub async fn gone(&self) {
        self.inner.gone.cancelled().await;
    }

    /// Asks the supervisor to replace this connection. A report about an older connection changes nothing.
    pub fn report_broken(&self) {
        self.inner.reports.broken.fetch_max(self.inner.epoch, Ordering::AcqRel);
        self.inner.reports.look.notify_one();
    }

    /// Sends one command and converts its reply.
    ///
    /// # Errors
    ///
    /// Returns a [`LinkError`]; the command was executed at most once.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LinkError> {
        let value = self.call(async |connection| connection.send_packed_command(command).await).await?;
        let value = match (self.checked(value), &self.route) {
            (Err(error), Some(route)) if route.leads_on(&error) => route.follow(self, command, error, None).await?,
            (answer, _) => answer?,
        };
        T::from_redis_value(value).map_err(|error| LinkError::Malformed(error.to_string()))
    }

    /// Sends all commands of a pipeline at once; returns one result for each, in order.
    ///
    /// # Errors
    ///
    /// The outer error concerns all commands alike: for [`LinkError::Unknown`] some, all or none of them ran. It is
    /// never [`LinkError::Server`], because error replies belong to single commands. Atomic pipelines (`MULTI`) are not
    /// supported.
    pub async fn pipeline(&self, pipeline: &Pipeline) -> Result<Vec<Result<Value, LinkError>>, LinkError> {
        let mut answers = self.exchange(pipeline).await?;
        if self.route.is_some() {
            Box::pin(self.send_on(pipeline, &mut answers, None)).await;
        }
        Ok(answers)
    }

    async fn exchange(&self, pipeline: &Pipeline) -> Result<Vec<Result<Value, LinkError>>, LinkError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let count = pipeline.len();
        let values = self.call(async |connection| connection.send_packed_commands(pipeline, 0, count).await).await?;
        Ok(values.into_iter().map(|value| self.checked(value)).collect())
    }

    /// Sends those commands of a pipeline on that were refused because their slot has moved: one by one, in order. A
    /// command for which there is no connection keeps its refusal.
    async fn send_on(
        &self,
        pipeline: &Pipeline,
        answers: &mut [Result<Value, LinkError>],
        send_before: Option<Instant>,
    ) {
        let Some(route) = &self.route else { return };
        for (command, answer) in pipeline.cmd_iter().zip(answers) {
            if let Err(error) = answer
                && route.leads_on(error)
            {
                match route.follow(self, command, error.clone(), send_before).await {
                    Err(LinkError::NotSent { .. }) => {}
                    other => *answer = other,
                }
            }
        }
    }

    /// Sends a pipeline as [`pipeline`](Conn::pipeline) does, but not after `send_before`. If the client library or a
    /// full socket delays it for longer, the connection is closed instead.
    ///
    /// # Errors
    ///
    /// As for [`pipeline`](Conn::pipeline).
    pub async fn pipeline_before(
        &self,
        send_before: Instant,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, LinkError>>, LinkError> {
        let pass = self.inner.gate.enter(send_before);
        let mut answers = self.exchange(pipeline).await?;
        pass.answered();
        if self.route.is_some() {
            Box::pin(self.send_on(pipeline, &mut answers, Some(send_before))).await;
        }
        Ok(answers)
    }

    /// Runs a script by its hash. A script that the server does not have did not run; it is loaded and sent again.
    ///
    /// # Errors
    ///
    /// Returns a [`LinkError`]; the script was executed at most once.
    pub async fn script(
        &self,
        script: &Script,
        keys: &[impl AsRef<[u8]>],
        args: &[impl Argument],
    ) -> Result<Value, LinkError> {
        let mut large = LargeArgs::default();
        let command = script.command(keys, args, &mut large);
        match self.query::<Value>(&command).await {
            Err(LinkError::Server { code: "NOSCRIPT", .. }) => {
                self.load(script).await?;
                self.query(&command).await
            }
            other => other,
        }
    }

    /// Loads a script into the server's cache, for callers that send it in a pipeline and got `NOSCRIPT`.
    ///
    /// # Errors
    ///
    /// [`LinkError`].
    pub async fn load(&self, script: &Script) -> Result<(), LinkError> {
        if let Some(route) = &self.route {
            // The node that lacks it may be the one that the script was sent on to.
            for conn in route.everywhere() {
                let loaded = conn.query::<String>(redis::cmd("SCRIPT").arg("LOAD").arg(script.text())).await;
                if conn.address() == self.address() {
                    loaded?;
                }
            }
            return Ok(());
        }
        self.query::<String>(redis::cmd("SCRIPT").arg("LOAD").arg(script.text())).await.map(drop)
    }

    /// Sends a command to all nodes of the cluster, replicas included, or to the one server. `words` is the command
    /// without arguments, for errors.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them does not answer, or answers with an error.
    pub async fn everywhere(&self, words: &'static str, command: &Cmd) -> Result<Vec<Value>, LinkError> {
        match &self.route {
            Some(route) => route.ask_all(words, command).await,
            None => Ok(vec![self.query(command).await?]),
        }
    }

    /// Ends all calls and closes the socket, even if clones remain.
    pub(super) fn retire(&self) {
        self.inner.gone.cancel();
        let wire = self.inner.wire.lock().take();
        drop(wire);
    }

    /// Returns whether an element has made its buffers large, since this was last asked.
    pub(super) fn was_large(&self) -> bool {
        self.inner.wire.lock().as_ref().is_some_and(Wire::was_large)
    }

    /// Ends the connection if no call waits for an answer. A call that comes at the same time waits, or is not sent.
    pub(super) fn retire_if_idle(&self) -> bool {
        let mut wire = self.inner.wire.lock();
        if self.inner.calls.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let taken = wire.take();
        drop(wire);
        self.inner.gone.cancel();
        drop(taken);
        true
    }

    /// Runs one exchange with the deadline; stops waiting when the connection is replaced.
    async fn call<R>(
        &self,
        exchange: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<R>,
    ) -> Result<R, LinkError> {
        let inner = &*self.inner;
        // Counted under the lock: see `retire_if_idle`.
        let begun = inner.wire.lock().as_ref().map(|wire| (wire.connection.clone(), Call::begin(&inner.calls)));
        let Some((mut connection, _call)) = begun else {
            return Err(LinkError::NotSent { address: inner.address.clone() });
        };
        // Biased: a reply that has arrived is not discarded because the connection ended after it. Dropping the
        // exchange is safe: the client library keeps its position among the replies.
        let answer = tokio::select! {
            biased;
            answer = tokio::time::timeout(inner.command_timeout, exchange(&mut connection)) => answer,
            () = inner.gone.cancelled() => {
                return Err(self.unknown(NoAnswer::Broken("it was replaced".to_owned())));
            }
        };
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failed(error)),
            Err(_elapsed) => {
                // Slow or silent? Lets the heartbeat find out now, not in a second.
                inner.reports.look.notify_one();
                Err(self.unknown(NoAnswer::TimedOut(inner.command_timeout)))
            }
        }
    }

    /// Handles an error that is not a reply: the transport is no longer usable.
    fn failed(&self, error: redis::RedisError) -> LinkError {
        // The client library's own time-outs are off, so any error here broke the stream or its framing; going on would
        // risk pairing replies with the wrong commands.
        self.retire();
        self.report_broken();
        self.unknown(NoAnswer::Broken(error.to_string()))
    }

    fn unknown(&self, reason: NoAnswer) -> LinkError {
        LinkError::Unknown { address: self.inner.address.clone(), reason }
    }

    /// Separates error replies from values; reports the connection as broken if the reply shows that it is.
    fn checked(&self, value: Value) -> Result<Value, LinkError> {
        let Value::ServerError(error) = value else { return Ok(value) };
        let error = LinkError::server(&error);
        if error.code().is_some_and(means_another_server) {
            self.report_broken();
        }
        Err(error)
    }
}

/// A call without an answer.
struct Call<'a>(&'a AtomicUsize);

impl Call<'_> {
    fn begin(calls: &AtomicUsize) -> Call<'_> {
        calls.fetch_add(1, Ordering::Relaxed);
        Call(calls)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether an error reply means that the connection must be replaced: the master has moved, or the login is no
/// longer valid.
fn means_another_server(code: &'static str) -> bool {
    matches!(code, "READONLY" | "LOADING" | "MASTERDOWN" | "NOAUTH")
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conn({} epoch {}{})", self.address(), self.epoch(), if self.is_alive() { "" } else { " gone" })
    }
}
