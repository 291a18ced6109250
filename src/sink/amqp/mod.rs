//! The `amqp` sink.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Sink;
use crate::config::AmqpSpec;
use crate::message::{Class, Destination, Failure, Outbound, Outcome};

/// Delivers to amqp.
#[derive(Debug)]
pub struct AmqpSink {
    spec: Arc<AmqpSpec>,
    timeout: Duration,
}

impl AmqpSink {
    /// A sink that answers within `timeout`.
    pub fn new(spec: Arc<AmqpSpec>, timeout: Duration) -> AmqpSink {
        AmqpSink { spec, timeout }
    }
}

impl Sink for AmqpSink {
    fn kind(&self) -> &'static str {
        "amqp"
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        async move { Err(super::wrong_destination("amqp", &message.destination)) }.boxed()
    }

    fn check<'a>(&'a self, _: &'a [Destination]) -> BoxFuture<'a, Result<(), Failure>> {
        async { Err(Failure::new(Class::TargetPermanent, "unfinished", format!("{:?}", self.spec))) }.boxed()
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}
