//! The `kafka` sink.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Sink;
use crate::config::KafkaSpec;
use crate::message::{Class, Destination, Failure, Outbound, Outcome};

/// Delivers to kafka.
#[derive(Debug)]
pub struct KafkaSink {
    spec: Arc<KafkaSpec>,
    timeout: Duration,
}

impl KafkaSink {
    /// A sink that answers within `timeout`.
    pub fn new(spec: Arc<KafkaSpec>, timeout: Duration) -> KafkaSink {
        KafkaSink { spec, timeout }
    }
}

impl Sink for KafkaSink {
    fn kind(&self) -> &'static str {
        "kafka"
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        async move { Err(super::wrong_destination("kafka", &message.destination)) }.boxed()
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
