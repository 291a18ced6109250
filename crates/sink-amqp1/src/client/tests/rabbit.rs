//! The sink against RabbitMQ 3 with its plugin for AMQP 1.0.

use std::sync::Arc;
use std::time::Duration;

use brokers::{Rabbit, RabbitOptions};
use secrecy::SecretString;

use super::{address, assert_failure, patient_sink, spec_on};
use crate::{Amqp1Login, Amqp1Spec};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Class;
use delaybridge_settings::{Secret, TlsFiles};
use delaybridge_sink::Sink;
use delaybridge_testing::sink::outbound;

/// A node of a test's own, with the quorum queue `orders`.
struct RabbitServer(Arc<Rabbit>);

impl RabbitServer {
    async fn start(plugins: &[&str], tls: bool) -> RabbitServer {
        let queues = r#"{"queues": [{"name": "orders", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {"x-queue-type": "quorum"}}],"#;
        let definitions = Rabbit::DEFINITIONS.replacen('{', queues, 1);
        let plugins = plugins.iter().map(|&plugin| plugin.to_owned()).collect();
        let options = RabbitOptions { definitions: Some(definitions), plugins, tls, ..RabbitOptions::default() };
        let rabbit = tokio::task::spawn_blocking(move || Rabbit::start_with(options)).await.unwrap().unwrap();
        RabbitServer(Arc::new(rabbit))
    }

    async fn does<T: Send + 'static>(&self, what: impl FnOnce(&Rabbit) -> T + Send + 'static) -> T {
        let rabbit = self.0.clone();
        tokio::task::spawn_blocking(move || what(&rabbit)).await.unwrap()
    }

    fn spec(&self, user: &str) -> Amqp1Spec {
        let password = Secret::Literal(SecretString::from(user.to_owned()));
        let login = Amqp1Login::Plain { username: user.to_owned(), password };
        Amqp1Spec { login, ..spec_on(self.0.port()) }
    }

    /// Waits until the node, which counts its messages every few seconds, has so many of them.
    async fn until_ready(&self, expected: u64) {
        let ready = |rabbit: &Rabbit| rabbit.queues("/").unwrap().iter().map(|queue| queue.ready).sum::<u64>();
        let until = Instant::now().after(Duration::from_secs(30));
        while self.does(ready).await != expected {
            assert!(Instant::now() < until, "not {expected} messages: {}", self.does(ready).await);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

const PLUGIN: &str = "rabbitmq_amqp1_0";

#[tokio::test]
async fn messages_arrive_and_what_is_refused_concerns_its_address_alone() {
    let server = RabbitServer::start(&[PLUGIN], true).await;
    let sink = patient_sink(server.spec("guest"));
    sink.deliver(outbound(1, address("/amq/queue/orders"), "x".repeat(300_000))).await.unwrap();
    let missing = sink.deliver(outbound(2, address("/exchange/missing"), "x"));
    let others = async {
        for n in 3..23 {
            sink.deliver(outbound(n, address("/amq/queue/orders"), "x")).await.unwrap();
        }
    };
    let (missing, ()) = tokio::join!(missing, others);
    println!("{}", assert_failure(missing, Class::TargetPermanent, "amqp1_not_found"));
    assert_failure(
        sink.check(&[address("/exchange/missing")]).await.map(drop),
        Class::TargetPermanent,
        "amqp1_not_found",
    );
    sink.check(&[address("/amq/queue/orders")]).await.unwrap();
    sink.probe().unwrap().await.unwrap();
    // The plugin confirms what no queue takes. The only defence is to say so.
    for nowhere in ["/exchange/amq.direct/nowhere", "/amq/queue/missing"] {
        sink.deliver(outbound(100, address(nowhere), "x")).await.unwrap();
    }
    let found = sink.drawbacks(&[address("/amq/queue/orders")]).await;
    assert!(found.len() == 1 && found[0].contains("RabbitMQ 3 confirms messages that no queue takes"), "{found:?}");
    server.until_ready(21).await;
    // A user without the right to write.
    let limited = patient_sink(server.spec("limited")).deliver(outbound(1, address("/amq/queue/orders"), "x")).await;
    println!("{}", assert_failure(limited, Class::TargetPermanent, "amqp1_denied"));
    let wrong = Amqp1Spec { server: ("127.0.0.1".to_owned(), server.0.port()), ..server.spec("nobody") };
    println!(
        "{}",
        assert_failure(patient_sink(wrong).check(&[]).await.map(drop), Class::TargetPermanent, "amqp1_auth")
    );
    // TLS, on the other port.
    let files = TlsFiles { ca_file: Some(server.0.certificates().ca.clone()), client: None, ..TlsFiles::default() };
    let encrypted =
        Amqp1Spec { server: ("localhost".to_owned(), server.0.tls_port()), tls: Some(files), ..server.spec("guest") };
    // On a busy machine RabbitMQ 3 sometimes answers no login over TLS; a sink connects again after its time-out.
    let secure = patient_sink(Amqp1Spec { connect_timeout: Duration::from_secs(10), ..encrypted.clone() });
    let until = tokio::time::Instant::now() + Duration::from_secs(120);
    while let Err(failure) = secure.deliver(outbound(9, address("/amq/queue/orders"), "x")).await {
        assert!(failure.code == "connect_timeout" && tokio::time::Instant::now() < until, "{failure}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let untrusted = Amqp1Spec { tls: Some(TlsFiles::default()), ..encrypted };
    assert_failure(patient_sink(untrusted).check(&[]).await.map(drop), Class::TargetPermanent, "tls");
}

#[tokio::test]
async fn a_port_that_speaks_another_protocol_is_named() {
    let server = RabbitServer::start(&[], false).await;
    let other = patient_sink(server.spec("guest")).check(&[]).await;
    let text = assert_failure(other.map(drop), Class::TargetPermanent, "amqp1_protocol");
    println!("{text}");
}
