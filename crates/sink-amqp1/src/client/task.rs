//! The broker as connections that replace each other.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connect::{Amqp1Connection, connect};
use super::links::Amqp1Question;
use super::serving;
use crate::Amqp1Spec;
use delaybridge_core::message::Failure;
use delaybridge_sink::reconnect::{Intake, Reconnects, ServiceEnd};

/// The broker that a sink delivers to.
pub(super) struct Amqp1Broker {
    pub(super) spec: Arc<Amqp1Spec>,
    pub(super) timeout: Duration,
}

impl Reconnects for Amqp1Broker {
    type Connection = Amqp1Connection;
    type Question = Amqp1Question;

    async fn connect(&mut self) -> Result<Amqp1Connection, Failure> {
        connect(&self.spec).await.inspect_err(|failure| tracing::debug!(%failure, "cannot connect"))
    }

    async fn serve(
        &mut self,
        connection: Amqp1Connection,
        intake: &mut Intake<Amqp1Question>,
        stop: &CancellationToken,
    ) -> ServiceEnd {
        let end = serving::run(&self.spec, self.timeout, connection, intake, stop).await;
        if let ServiceEnd::Lost(why) = &end {
            tracing::debug!(broker = self.spec.shown_address(), why, "lost the connection to the AMQP 1.0 broker");
        }
        end
    }

    fn refuse(question: Amqp1Question, failure: Failure) {
        let _ = question.reply.send(Err(failure));
    }
}
