//! The sink against real brokers.

mod artemis;
mod rabbit;
mod scripted;

use std::sync::Arc;
use std::time::Duration;

use crate::{Amqp1Destination, Amqp1Login, Amqp1Sink, Amqp1Spec};
use delaybridge_core::message::{Class, Outcome};
use delaybridge_sink::Destination;

/// A sink that no slow machine makes time out.
fn patient_sink(spec: Amqp1Spec) -> Arc<Amqp1Sink> {
    Arc::new(Amqp1Sink::new(Arc::new(spec), Duration::from_secs(60)))
}

fn spec_on(port: u16) -> Amqp1Spec {
    Amqp1Spec {
        server: ("127.0.0.1".to_owned(), port),
        tls: None,
        login: Amqp1Login::Anonymous,
        hostname: None,
        // A broker that has just started answers its first login late on a busy machine.
        connect_timeout: Duration::from_secs(60),
        heartbeat: Duration::from_secs(10),
        max_unconfirmed: 1000,
        max_links: 32,
    }
}

fn address(address: &str) -> Destination {
    Amqp1Destination { address: address.into(), content_type: None }.into()
}

fn assert_failure(outcome: Outcome, class: Class, code: &str) -> String {
    let failure = outcome.expect_err("the broker refuses it");
    assert_eq!((failure.class, failure.code), (class, code), "{failure}");
    failure.message
}
