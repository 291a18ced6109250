//! The task behind a link: it connects, watches and replaces the connection.
//!
//! It decides about the connection only. It does not repeat commands, because only their senders know whether that is
//! safe.

use std::sync::Arc;
use std::time::Duration;

use delaybridge_core::log;
use futures_util::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::conn::{Conn, Reports};
use super::connect::connect;
use super::endpoint::RedisEndpoint;
use super::error::{ConnectError, LinkError};
use super::locator::{Locator, News};
use super::options::LinkOptions;
use super::state::LinkState;
use super::wait::wait_after;
use delaybridge_core::clock::Instant;

/// Upper bound of any wait while the server is unreachable.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Upper bound of any wait while a person has to fix something: failed logins fill the server's ACL log.
const MAX_WAIT_FOR_A_PERSON: Duration = Duration::from_secs(10);
/// Minimum life of a stable connection. A shorter one counts as a failed attempt, so that a server that accepts and
/// drops connections is not hammered.
const STABLE_AFTER: Duration = Duration::from_secs(2);

pub(super) struct Supervisor {
    locator: Locator,
    options: LinkOptions,
    stop: CancellationToken,
    state: watch::Sender<LinkState>,
    current: watch::Sender<Option<Conn>>,
    reports: Arc<Reports>,
    epoch: u64,
    /// Number of consecutive failed attempts.
    failures: u32,
}

/// The reason why a watch over a connection ended.
enum Ended {
    /// The link is closed.
    Stopped,
    /// The connection is unusable, for this reason.
    Lost(String),
    /// Another server is the master now.
    Left,
    /// The connection is replaced to give the memory of a large element back.
    Large,
}

impl Supervisor {
    pub(super) fn new(
        locator: Locator,
        options: LinkOptions,
        stop: CancellationToken,
    ) -> (Self, watch::Receiver<LinkState>, watch::Receiver<Option<Conn>>) {
        let (state, state_seen) = watch::channel(LinkState::Connecting { since: Instant::now(), last_error: None });
        let (current, current_seen) = watch::channel(None);
        let reports = Arc::new(Reports::default());
        (
            Supervisor { locator, options, stop, state, current, reports, epoch: 0, failures: 0 },
            state_seen,
            current_seen,
        )
    }

    /// Runs until the link is closed.
    pub(super) async fn run(mut self) {
        while let Some((server, conn)) = self.connected().await {
            let since = Instant::now();
            let mut news = self.locator.news();
            // Biased: a server that is no longer the master is left even if it answers. Both only wait.
            let ended = tokio::select! {
                biased;
                () = self.locator.left(&server) => Ended::Left,
                ended = self.watch(&conn) => ended,
            };
            self.current.send_replace(None);
            conn.retire();
            self.state.send_replace(LinkState::Connecting { since: Instant::now(), last_error: None });
            match ended {
                Ended::Stopped => break,
                Ended::Left => {
                    log::debug!(redis = %conn.address(), "left this Redis: another server is the master");
                    continue;
                }
                Ended::Large => {
                    log::debug!(redis = %conn.address(), "replacing a connection after a large element");
                    continue;
                }
                Ended::Lost(reason) => {
                    log::debug!(redis = %conn.address(), %reason, "lost the connection to Redis");
                }
            }
            if since.elapsed() >= STABLE_AFTER {
                self.failures = 0;
            } else {
                self.failures = self.failures.saturating_add(1);
                let wait = wait_after(self.failures, MAX_WAIT);
                if !self.pause(wait, &mut news).await {
                    break;
                }
            }
        }
    }

    /// Tries until there is a connection; returns `None` when the link is closed.
    async fn connected(&mut self) -> Option<(Arc<RedisEndpoint>, Conn)> {
        loop {
            // Subscribed before the attempt: a change during it is a reason for the next attempt.
            let mut news = self.locator.news();
            let options = &self.options;
            // Unbiased; an abandoned attempt only closes its socket.
            let attempt = tokio::select! {
                attempt = self.locator.first(|server| async move { connect(&server, options).await }.boxed()) => attempt,
                () = self.stop.cancelled() => return None,
            };
            match attempt {
                Ok((server, (wire, info))) => {
                    self.epoch += 1;
                    let (address, info): (Arc<str>, _) = (server.address().into(), Arc::new(info));
                    let conn = Conn::new(
                        self.epoch,
                        address.clone(),
                        info.clone(),
                        server.command_timeout,
                        wire,
                        self.reports.clone(),
                    );
                    log::debug!(
                        redis = %address, version = %info.version, epoch = self.epoch, "connected to Redis"
                    );
                    // The connection first, so that a caller that sees the state Up finds it.
                    self.current.send_replace(Some(conn.clone()));
                    self.state.send_replace(LinkState::Up { epoch: self.epoch, address, info });
                    return Some((server, conn));
                }
                Err(error) => {
                    self.failures = self.failures.saturating_add(1);
                    let max = if error.kind.needs_a_person() { MAX_WAIT_FOR_A_PERSON } else { MAX_WAIT };
                    self.failed(error);
                    if !self.pause(wait_after(self.failures, max), &mut news).await {
                        return None;
                    }
                }
            }
        }
    }

    /// Publishes why there is no connection; logged once for each reason.
    fn failed(&self, error: ConnectError) {
        self.state.send_modify(|state| {
            let since = match state {
                LinkState::Connecting { since, last_error } => {
                    if last_error.as_deref() == Some(&error) {
                        return;
                    }
                    *since
                }
                LinkState::Up { .. } => Instant::now(),
            };
            log::debug!("{error}");
            *state = LinkState::Connecting { since, last_error: Some(Arc::new(error)) };
        });
    }

    /// Watches a connection until it is lost or the link is closed.
    async fn watch(&self, conn: &Conn) -> Ended {
        let ping = redis::cmd("PING");
        let mut was_large = None;
        loop {
            // Biased: stop first, because a flood of reports must not delay the end. All branches only wait.
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ended::Stopped,
                () = conn.gone() => return Ended::Lost("the connection broke".to_owned()),
                () = self.reports.wait() => {}
                () = tokio::time::sleep(self.options.heartbeat) => {}
            }
            if !conn.is_alive() {
                return Ended::Lost("the connection broke".to_owned());
            }
            if self.reports.is_broken(conn.epoch()) {
                return Ended::Lost("a command's answer showed that it has to be replaced".to_owned());
            }
            if conn.was_large() {
                was_large = Some(Instant::now());
            }
            // Between two calls, so that no answer is lost.
            let is_time = was_large.is_some_and(|at: Instant| at.elapsed() >= self.options.keeps_buffers);
            if is_time && conn.retire_if_idle() {
                return Ended::Large;
            }
            let answer = tokio::select! {
                biased;
                answer = conn.query::<redis::Value>(&ping) => answer,
                () = self.stop.cancelled() => return Ended::Stopped,
            };
            match answer {
                // An error reply is a sign of life; one that means another server was reported by the call itself.
                Ok(_) | Err(LinkError::Server { .. } | LinkError::Malformed(_)) => {}
                Err(error @ (LinkError::NotSent { .. } | LinkError::Unknown { .. })) => {
                    return Ended::Lost(format!("heartbeat: {error}"));
                }
            }
        }
    }

    /// Waits for the time, or until the locator reports a change; returns false if the link was closed.
    async fn pause(&mut self, wait: Duration, news: &mut News) -> bool {
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = news.next() => {
                // The failures were those of another server; this one may take a moment to become the master.
                self.failures = 0;
                true
            }
            () = self.stop.cancelled() => false,
        }
    }
}
