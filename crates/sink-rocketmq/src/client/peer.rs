//! A server as connections that replace each other: the name servers, of which one is used at a time, or a broker.
//!
//! Batches are handed over as calls, beside the questions of checks: a connection takes both in their order. A call waits only while
//! no attempt to connect has failed yet; it comes back unsent then, and another broker may take its messages.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::call::{AskEnd, MessageBatch, RemotingCall, SendEnd, Unanswered};
use super::connect::{RemotingConnection, ServerKind, connect};
use super::serving;
use crate::wire::frame::RemotingRequest;
use crate::{RocketMqSpec, errors};
use delaybridge_core::message::{Class, Failure};
use delaybridge_dial::ReadBudget;
use delaybridge_settings::url::host_with_port;
use delaybridge_sink::reconnect::{Intake, Reconnects, ServiceEnd, run};

/// Calls that wait for the connection.
const CALLS: usize = 32;

/// The addresses of a server of which one is used.
#[derive(Debug, Clone)]
struct PeerServers {
    kind: ServerKind,
    addresses: Vec<String>,
    /// The question by which a server shows that it is there.
    sign_of_life: RemotingRequest,
}

/// A server, from the side that asks.
#[derive(Debug)]
pub(super) struct RemotingPeer {
    calls: mpsc::Sender<RemotingCall>,
    stop: CancellationToken,
    sign_of_life: RemotingRequest,
}

impl Drop for RemotingPeer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl RemotingPeer {
    pub(super) fn name_servers(spec: &Arc<RocketMqSpec>, timeout: Duration, reads: &Arc<ReadBudget>) -> RemotingPeer {
        let addresses = spec.name_servers.iter().map(|(host, port)| host_with_port(host, *port)).collect();
        RemotingPeer::of(spec, (timeout, reads), ServerKind::NameServer, addresses)
    }

    pub(super) fn broker(
        spec: &Arc<RocketMqSpec>,
        timeout: Duration,
        reads: &Arc<ReadBudget>,
        address: &str,
    ) -> RemotingPeer {
        RemotingPeer::of(spec, (timeout, reads), ServerKind::Broker, vec![address.to_owned()])
    }

    fn of(
        spec: &Arc<RocketMqSpec>,
        (timeout, reads): (Duration, &Arc<ReadBudget>),
        kind: ServerKind,
        addresses: Vec<String>,
    ) -> RemotingPeer {
        let sign_of_life = kind.sign_of_life(&spec.group);
        let (calls, taken) = mpsc::channel(CALLS);
        let (_none, items) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let servers = PeerServers { kind, addresses, sign_of_life: sign_of_life.clone() };
        let connections = PeerConnections { spec: spec.clone(), timeout, reads: reads.clone(), servers, turn: 0 };
        let intake = Intake { items, asks: taken, closed: true };
        tokio::spawn(run(connections, intake, stop.clone(), fastrand::f64));
        RemotingPeer { calls, stop, sign_of_life }
    }

    /// Asks a question. The future is not bound to this value.
    pub(super) fn ask(&self, request: RemotingRequest) -> impl Future<Output = AskEnd> + Send + use<> {
        let calls = self.calls.clone();
        async move {
            let closed = || Failure::new(Class::Transient, "closed", "ask the server: the sink is closed");
            let (reply, answer) = oneshot::channel();
            calls.send(RemotingCall::Ask(request, reply)).await.map_err(|_| closed())?;
            answer.await.map_err(|_| closed())?
        }
    }

    /// Asks whether it is there. The future is not bound to this value.
    pub(super) fn is_there(&self) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let asking = self.ask(self.sign_of_life.clone());
        async move {
            match asking.await? {
                answer if answer.code == 0 => Ok(()),
                answer => Err(errors::of_ask("ask the broker for a sign of life", &answer)),
            }
        }
    }

    /// Returns the way to send messages. It is not bound to this value.
    pub(super) fn sender(&self) -> PeerSender {
        PeerSender(self.calls.clone())
    }
}

/// The way to send messages to a server.
pub(super) struct PeerSender(mpsc::Sender<RemotingCall>);

impl PeerSender {
    /// Sends a batch. `None` if the connection's task has ended with it: its elements have their answers then.
    pub(super) async fn send(&self, batch: MessageBatch) -> Option<SendEnd> {
        let (reply, answer) = oneshot::channel();
        if let Err(mpsc::error::SendError(RemotingCall::Send(batch, _))) =
            self.0.send(RemotingCall::Send(batch, reply)).await
        {
            let failure = Failure::new(Class::Transient, Failure::NOT_SENT, "send to the broker: it is used no more");
            return Some(SendEnd { batch, answer: Err(Unanswered::NotSent(failure)) });
        }
        answer.await.ok()
    }
}

struct PeerConnections {
    spec: Arc<RocketMqSpec>,
    timeout: Duration,
    /// The budget of all connections of the sink.
    reads: Arc<ReadBudget>,
    servers: PeerServers,
    /// The address that is tried first.
    turn: usize,
}

impl Reconnects for PeerConnections {
    type Connection = RemotingConnection;
    type Question = RemotingCall;

    async fn connect(&mut self) -> Result<RemotingConnection, Failure> {
        let PeerServers { kind, addresses, sign_of_life } = &self.servers;
        let mut failures = Vec::new();
        for step in 0..addresses.len() {
            let place = (self.turn + step) % addresses.len();
            match connect(&self.spec, (*kind, sign_of_life), &addresses[place]).await {
                Ok(connection) => {
                    self.turn = place;
                    return Ok(connection);
                }
                Err(failure) => {
                    tracing::debug!(%failure, "cannot connect");
                    failures.push(failure);
                }
            }
        }
        // What passes by itself hides what a person has to fix, so that a wrong secret is not reported while another server is away.
        let found = failures.iter().position(|failure| failure.class != Class::TargetPermanent).unwrap_or(0);
        let none = || Failure::new(Class::TargetPermanent, "settings", "connect to RocketMQ: there is no server");
        Err(if failures.is_empty() { none() } else { failures.swap_remove(found) })
    }

    async fn serve(
        &mut self,
        connection: RemotingConnection,
        intake: &mut Intake<RemotingCall>,
        stop: &CancellationToken,
    ) -> ServiceEnd {
        let times = (self.timeout, &self.servers.sign_of_life);
        let end = serving::run(&self.spec, times, self.reads.clone(), connection, &mut intake.asks, stop).await;
        if let ServiceEnd::Lost(why) = &end {
            let server = &self.servers.addresses[self.turn];
            tracing::debug!(server, why, "lost the connection to RocketMQ");
        }
        end
    }

    fn refuse(call: RemotingCall, failure: Failure) {
        call.refuse(failure);
    }
}
