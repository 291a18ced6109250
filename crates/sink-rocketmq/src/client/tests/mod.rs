//! The sink against real brokers of RocketMQ, versions 4 and 5.

pub(super) mod cluster;
mod contract;
mod logins;
mod outages;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use super::RocketMqSink;
use crate::{RocketMqDestination, RocketMqSpec};
use delaybridge_core::message::{Class, Outcome};
use delaybridge_sink::Destination;

/// A sink for tests that wait for its time-out.
fn impatient_sink(spec: RocketMqSpec) -> Arc<RocketMqSink> {
    Arc::new(RocketMqSink::new(Arc::new(spec), Duration::from_secs(2)))
}

/// A sink that no slow machine makes time out.
fn patient_sink(spec: RocketMqSpec) -> Arc<RocketMqSink> {
    Arc::new(RocketMqSink::new(Arc::new(spec), Duration::from_secs(60)))
}

/// Messages of a topic, for any queue.
fn topic(topic: &str) -> Destination {
    RocketMqDestination { topic: topic.into(), tags: None, sharding_key: None, keys: None }.into()
}

/// Messages of a topic, for the queue of a key.
fn keyed(topic: &str, key: &str) -> Destination {
    RocketMqDestination { topic: topic.into(), tags: None, sharding_key: Some(key.into()), keys: None }.into()
}

fn assert_failure(outcome: Outcome, class: Class, code: &str) -> String {
    let failure = outcome.expect_err("the broker refuses it");
    assert_eq!((failure.class, failure.code), (class, code), "{failure}");
    failure.message
}
