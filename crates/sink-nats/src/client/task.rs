//! The servers of a cluster as connections that replace each other.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connect::{NatsConnection, connect};
use super::session;
use super::waiting::NatsQuestion;
use crate::NatsSpec;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::reconnect::{Intake, Reconnects, ServiceEnd};

/// The servers of a cluster, one of which is connected to.
pub(super) struct NatsServers {
    spec: Arc<NatsSpec>,
    timeout: Duration,
    /// The place in the list at which the next round begins.
    next: usize,
}

impl NatsServers {
    /// Creates the servers of this cluster; deliveries answer within `timeout`.
    pub(super) fn new(spec: Arc<NatsSpec>, timeout: Duration) -> NatsServers {
        NatsServers { spec, timeout, next: 0 }
    }

    fn advance(&mut self) {
        self.next = (self.next + 1) % self.spec.servers.len().max(1);
    }
}

impl Reconnects for NatsServers {
    type Connection = NatsConnection;
    type Question = NatsQuestion;

    /// Tries each server once.
    async fn connect(&mut self) -> Result<NatsConnection, Failure> {
        let mut worst: Option<Failure> = None;
        for _ in 0..self.spec.servers.len().max(1) {
            match connect(&self.spec, self.next).await {
                Ok(connection) => return Ok(connection),
                // A temporary problem is reported rather than one that a person must fix: another server may recover soon.
                Err(failure) => {
                    if worst.as_ref().is_none_or(|worst| worst.class == Class::TargetPermanent) {
                        worst = Some(failure);
                    }
                }
            }
            self.advance();
        }
        let failure = worst
            .unwrap_or_else(|| Failure::new(Class::TargetPermanent, "settings", "connect to NATS: no server is given"));
        tracing::debug!(%failure, "cannot connect to NATS");
        Err(failure)
    }

    async fn serve(
        &mut self,
        connection: NatsConnection,
        intake: &mut Intake<NatsQuestion>,
        stop: &CancellationToken,
    ) -> ServiceEnd {
        let address = connection.address.clone();
        let end = session::run(&self.spec, self.timeout, connection, intake, stop).await;
        if let ServiceEnd::Lost(why) = &end {
            tracing::debug!(server = address, why, "lost the connection to the NATS server");
            // Another server of the cluster is likelier to be well than the one that has just gone.
            self.advance();
        }
        end
    }

    fn refuse(question: NatsQuestion, failure: Failure) {
        let _ = question.reply.send(Err(failure));
    }
}
