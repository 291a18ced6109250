//! Sends commands on that a node has refused because another node serves the slot.
//!
//! Such an error precedes the first effect of a command or script, so it was certainly not executed. Commands without a
//! reply are never resent.
//!
//! `ASKING` and its command are one write. Entries of a pipeline are sent on one by one, in their order. A slot on the move
//! refuses scripts with several keys (`TRYAGAIN`) until it has moved; the queue waits with the reason `slot_migrating` and
//! counts no attempt. Leases are extended meanwhile, because that takes one key, and again before the next claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::{Cmd, Pipeline, Value};

use super::redirect::Redirect;
use super::shared::Shared;
use crate::address::Address;
use crate::conn::{Conn, Route};
use crate::connect::ask_and_stay;
use crate::error::{ConnectErrorKind, LinkError};
use delaybridge_core::clock::Instant;

/// Maximum number of nodes that one command is sent on to: a map that is changing may be wrong twice.
const HOPS: usize = 4;
/// Longest wait for the connection to a node that was not in use.
const PATIENCE: Duration = Duration::from_millis(500);

/// A connection's handle on its cluster, which sends redirected commands on.
pub(super) struct ClusterRoute {
    cluster: Arc<Shared>,
    /// Whether a command was sent on.
    led_on: AtomicBool,
}

impl Route for ClusterRoute {
    fn has_led_on(&self) -> bool {
        self.led_on.load(Ordering::Relaxed)
    }

    fn leads_on(&self, error: &LinkError) -> bool {
        match error.code() {
            Some("MOVED" | "ASK") => true,
            Some("CLUSTERDOWN" | "READONLY" | "MASTERDOWN") => {
                self.cluster.refresh.notify_one();
                false
            }
            _ => false,
        }
    }

    fn follow<'a>(
        &'a self,
        from: &'a Conn,
        command: &'a Cmd,
        error: LinkError,
        send_before: Option<Instant>,
    ) -> BoxFuture<'a, Result<Value, LinkError>> {
        self.send_on(from, command, error, send_before).boxed()
    }

    fn ask_all<'a>(&'a self, words: &'static str, command: &'a Cmd) -> BoxFuture<'a, Result<Vec<Value>, LinkError>> {
        self.ask_nodes(words, command).boxed()
    }

    fn everywhere(&self) -> Vec<Conn> {
        self.cluster.map.read().nodes.values().filter_map(|node| node.current()).collect()
    }
}

impl ClusterRoute {
    /// Returns a route that nothing was sent on.
    pub(super) fn new(cluster: &Arc<Shared>) -> Arc<ClusterRoute> {
        Arc::new(ClusterRoute { cluster: cluster.clone(), led_on: AtomicBool::new(false) })
    }

    async fn send_on(
        &self,
        from: &Conn,
        command: &Cmd,
        error: LinkError,
        send_before: Option<Instant>,
    ) -> Result<Value, LinkError> {
        self.led_on.store(true, Ordering::Relaxed);
        let mut error = error;
        let mut asked = from.host().to_owned();
        for _ in 0..HOPS {
            let Some(way) = Redirect::of(&error, &asked) else { break };
            if let Redirect::Moved(slot, to) = &way {
                self.cluster.moved(*slot, to);
            }
            let not_sent = || LinkError::NotSent { address: self.cluster.target.node(way.to()).address().into() };
            let conn = self.connected(way.to()).await.ok_or_else(not_sent)?;
            if send_before.is_some_and(|send_before| Instant::now() >= send_before) {
                return Err(not_sent());
            }
            let mut pipeline = Pipeline::with_capacity(2);
            if matches!(way, Redirect::Ask(_)) {
                // In one write with the command; otherwise a command of another caller in between would consume it.
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(command.clone());
            let answers = match send_before {
                Some(send_before) => conn.pipeline_before(send_before, &pipeline).await?,
                None => conn.pipeline(&pipeline).await?,
            };
            match answers.into_iter().last() {
                Some(Err(next)) if self.leads_on(&next) => {
                    error = next;
                    asked = way.to().host.to_string();
                }
                Some(answer) => return answer,
                None => return Err(LinkError::Malformed("no answer to a command".to_owned())),
            }
        }
        Err(error)
    }

    /// Returns the connection to a node, which is made if necessary.
    async fn connected(&self, at: &Address) -> Option<Conn> {
        let node = {
            let mut map = self.cluster.map.write();
            // A new map may drop the node while the command is in progress: only the second one closes its connection.
            map.idle.remove(at);
            self.cluster.node_at(&mut map, at)
        };
        match node.current() {
            Some(conn) => Some(conn),
            None => tokio::time::timeout(PATIENCE, node.link.ready()).await.ok(),
        }
    }

    async fn ask_nodes(&self, words: &'static str, command: &Cmd) -> Result<Vec<Value>, LinkError> {
        let nodes: Vec<Address> = self.cluster.map.read().slots.nodes().cloned().collect();
        self.cluster.asking.lock().retain(|at, _| nodes.contains(at));
        let asked = nodes.iter().map(async |at| {
            let known = self.cluster.map.read().nodes.get(at).and_then(|node| node.current());
            match known {
                Some(conn) => conn.query(command).await,
                None => self.ask_aside(at, words, command).await,
            }
        });
        futures_util::future::try_join_all(asked).await
    }

    async fn ask_aside(&self, at: &Address, words: &'static str, command: &Cmd) -> Result<Value, LinkError> {
        // Removed while in use: a question that is dropped takes its connection along.
        let kept = self.cluster.asking.lock().remove(at);
        let endpoint = self.cluster.target.node(at);
        let answered = match kept {
            Some(mut asking) => asking.ask(words, command).await.map(|answer| (answer, asking)).ok(),
            None => None,
        };
        let answered = match answered {
            Some(answered) => Ok(answered),
            None => ask_and_stay(&endpoint, words, command).await,
        };
        let (answer, asking) = answered.map_err(|error| match error.kind {
            ConnectErrorKind::Permission => LinkError::Server { code: "NOPERM", message: error.message },
            _ => LinkError::NotSent { address: endpoint.address().into() },
        })?;
        self.cluster.asking.lock().insert(at.clone(), asking);
        Ok(answer)
    }
}
