//! Sinks: one folder a kind, one trait, one contract suite that all of them pass.
//!
//! A sink turns an [`Outbound`] into an [`Outcome`]. It knows nothing of claims, retries, leases or metrics: it answers
//! truthfully, once, for each element, and the pipeline decides.

#[cfg(feature = "amqp")]
pub mod amqp;
#[doc(hidden)]
pub mod fake;
mod handoff;
#[cfg(any(feature = "kafka", feature = "amqp"))]
mod headers;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod redis;
pub mod stdout;

#[cfg(test)]
pub(crate) mod contract;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::config::{SinkKind, SinkSpec};
use crate::link::{Link, LinkOptions};
use crate::message::{Class, Destination, Failure, Outbound, Outcome};

/// A place that elements are delivered to.
///
/// The contract, tested for every kind by the suite in `contract.rs`:
///
/// - `Ok(())` means that the destination has taken the element. Everything else is a [`Failure`]: a code that the
///   sink's table does not know is [`Class::Unknown`](crate::message::Class::Unknown), never a success.
/// - `deliver` answers within [`timeout`](Sink::timeout). An element whose fate is not known by then is
///   [`Class::Ambiguous`](crate::message::Class::Ambiguous) if a byte of it may have been sent, else `Transient`.
/// - Dropping the future abandons the element: whether it arrived is unknown to the caller, and no other element
///   suffers from it.
/// - One element's failure is not its neighbours'.
/// - Many calls run at once; the sink batches and bounds them by itself.
pub trait Sink: Send + Sync + 'static {
    /// The kind as written in the configuration (`redis`, `stdout`).
    fn kind(&self) -> &'static str;

    /// The longest that [`deliver`](Sink::deliver) takes; the lease of a queue is longer.
    fn timeout(&self) -> Duration;

    /// Delivers one element.
    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome>;

    /// Connects, authenticates and asks whether delivery to these destinations could work now, without delivering
    /// anything (`check --live`).
    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<(), Failure>>;

    /// Ends when the sink can never deliver again because a task of its own has ended by a defect. Cancel safe.
    fn ended(&self) -> BoxFuture<'_, ()>;

    /// Flushes what is buffered and closes; called once, after the last `deliver` has answered.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Builds the sink that the configuration describes. A Redis sink without a server of its own uses `source_link`.
pub fn build(spec: &SinkSpec, source_link: &Link) -> Arc<dyn Sink> {
    match &spec.kind {
        SinkKind::Redis { endpoint: None } => Arc::new(redis::RedisSink::on_shared(source_link.clone(), spec.timeout)),
        SinkKind::Redis { endpoint: Some(endpoint) } => {
            let link = Link::start(endpoint.clone(), LinkOptions::default());
            Arc::new(redis::RedisSink::on_own(link, spec.timeout))
        }
        SinkKind::Stdout => Arc::new(stdout::StdoutSink::on_stdout(spec.timeout)),
        #[cfg(feature = "kafka")]
        SinkKind::Kafka(kafka) => Arc::new(kafka::KafkaSink::new(kafka.clone(), spec.timeout)),
        #[cfg(feature = "amqp")]
        SinkKind::Amqp(amqp) => Arc::new(amqp::AmqpSink::new(amqp.clone(), spec.timeout)),
        // The configuration check refuses a kind that this binary was built without.
        #[cfg(not(all(feature = "kafka", feature = "amqp")))]
        _ => unreachable!("a sink of a kind that is not in this binary"),
    }
}

/// Whether the client that [`build`] would start takes its settings. Connects nowhere.
///
/// # Errors
/// What it does not take, as the client says it.
pub fn validate(spec: &SinkSpec) -> Result<(), Failure> {
    match &spec.kind {
        #[cfg(feature = "kafka")]
        SinkKind::Kafka(kafka) => kafka::validate(kafka, spec.timeout)
            .map_err(|problem| Failure::new(Class::TargetPermanent, "settings", problem)),
        _ => Ok(()),
    }
}

/// The answer to an element that was routed to a sink of another kind: the configuration check refuses that, so it is
/// a defect, and nothing can be delivered until it is mended.
fn wrong_destination(kind: &str, destination: &Destination) -> Failure {
    Failure::new(
        Class::TargetPermanent,
        "wrong_destination",
        format!("deliver to sink of kind {kind}: it has no {destination}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::test_server::{TestServer, soon};

    #[tokio::test]
    async fn a_redis_sink_without_a_server_of_its_own_uses_the_link_of_the_source() {
        let (source, own) = (TestServer::start(), TestServer::start());
        let link = Link::start(Arc::new(source.endpoint()), LinkOptions::default());
        let destination = Destination::RedisList { key: "l".into(), push: crate::message::Side::Right };
        let spec = |kind| SinkSpec { name: "s".into(), kind, timeout: Duration::from_secs(5), max_rate: None };
        for (endpoint, server) in [(None, &source), (Some(Arc::new(own.endpoint())), &own)] {
            let sink = build(&spec(SinkKind::Redis { endpoint }), &link);
            assert_eq!((sink.kind(), sink.timeout()), ("redis", Duration::from_secs(5)));
            sink.deliver(contract::outbound(1, destination.clone(), "x")).await.unwrap();
            let length: u64 = ::redis::cmd("LLEN").arg("l").query_async(&mut server.admin().await).await.unwrap();
            assert_eq!(length, 1);
            sink.close().await;
        }
        soon("the link of the source to be left up", link.ready()).await;
        assert_eq!(build(&spec(SinkKind::Stdout), &link).kind(), "stdout");
    }
}
