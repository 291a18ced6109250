//! One test of each row of the failure table that leaves the broker as it is.

use lapin::ExchangeKind;

use super::rabbit::{login, spec_on};
use super::*;
use crate::{AmqpArgument, AmqpLogin, AmqpQueue, AmqpTopology};
use delaybridge_core::clock::Instant;
use delaybridge_settings::Secret;
use delaybridge_testing::sink::outbound;

fn queue_of(name: &str) -> Destination {
    destination("", name)
}

#[tokio::test]
async fn a_message_arrives_with_its_properties_and_an_id_of_its_own() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let queue = node.name("queue");
    admin.queue(&queue, &[]).await;
    let sink = patient_sink(node.spec());
    for attempt in 1..=2 {
        let message = Outbound { attempt, ..outbound(7, queue_of(&queue), "body") };
        sink.deliver(message).await.unwrap();
    }
    let taken = admin.drain(&queue).await;
    let ids: Vec<_> = taken.iter().map(|(_, properties)| properties.message_id().clone().unwrap()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    let (body, properties) = &taken[1];
    assert_eq!(
        (body.as_slice(), properties.delivery_mode(), properties.timestamp()),
        (&b"body"[..], &Some(2), &Some(1))
    );
    let headers = properties.headers().as_ref().unwrap().inner();
    assert_eq!(headers["delaybridge-id"].as_long_string().unwrap().to_string(), "0000000000000007");
    assert_eq!(headers["delaybridge-attempt"].as_long_string().unwrap().to_string(), "2");
}

#[tokio::test]
async fn without_mandatory_an_unroutable_message_is_gone_and_confirmed() {
    let node = Node::shared().await;
    let exchange = node.name("exchange");
    node.admin().await.exchange(&exchange).await;
    let strict = patient_sink(node.spec());
    let failure = strict.deliver(outbound(1, destination(&exchange, "nobody"), "x")).await.unwrap_err();
    assert!(failure.about == About::Route && failure.code == "NO_ROUTE", "{failure}");
    let lax = patient_sink(AmqpSpec { mandatory: false, ..node.spec() });
    lax.deliver(outbound(1, destination(&exchange, "nobody"), "x")).await.unwrap();
}

#[tokio::test]
async fn a_full_queue_that_refuses_is_backpressure_and_takes_again_when_it_is_emptied() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let full = [("x-max-length", "2"), ("x-overflow", "reject-publish")];
    let kinds = [full.to_vec(), [&full[..], &[("x-queue-type", "quorum")]].concat()];
    for (n, arguments) in kinds.iter().enumerate() {
        let queue = node.name(&format!("full{n}"));
        admin.queue(&queue, arguments).await;
        let sink = patient_sink(node.spec());
        // A quorum queue finds out late that it is full.
        let mut confirmed = 0;
        let refused = loop {
            assert!(confirmed < 1000, "the queue takes everything");
            match sink.deliver(outbound(confirmed, queue_of(&queue), "x")).await {
                Ok(()) => confirmed += 1,
                Err(failure) => break failure,
            }
        };
        assert_failure(Err(refused), Class::Backpressure, "nack");
        assert_eq!(admin.drain(&queue).await.len() as u64, confirmed);
        deliver_in_the_end(&sink, outbound(11, queue_of(&queue), "x")).await;
    }
}

#[tokio::test]
async fn a_missing_exchange_holds_and_the_others_do_not_notice() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let queue = node.name("queue");
    let missing = node.name("missing");
    admin.queue(&queue, &[]).await;
    let sink = patient_sink(node.spec());
    let to = |n| if n % 2 == 0 { queue_of(&queue) } else { destination(&missing, "key") };
    let outcomes = join_all((0..400).map(|n| sink.deliver(outbound(n, to(n), format!("{n}"))))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        if n % 2 == 0 {
            outcome.unwrap();
        } else {
            let failure = outcome.unwrap_err();
            assert_eq!(failure.about, About::Target, "{failure}");
            assert_failure(Err(failure), Class::TargetPermanent, "NOT_FOUND");
        }
    }
    assert_eq!(admin.drain(&queue).await.len(), 200);
    admin.exchange(&missing).await;
    admin.bind(&queue, &missing, "key").await;
    sink.deliver(outbound(1, destination(&missing, "key"), "x")).await.unwrap();
}

#[tokio::test]
async fn the_first_message_is_given_its_time_from_when_it_was_published() {
    let node = Node::shared().await;
    let missing = node.name("missing");
    let sink = patient_sink(node.spec());
    // Opens the channel, and publishes nothing on it.
    let outcome = sink.deliver(outbound(0, destination(&missing, &"k".repeat(256)), "x")).await;
    assert_failure(outcome, Class::TargetPermanent, "bad_name");
    tokio::time::sleep(super::super::flight::FIRST + Duration::from_millis(100)).await;
    // Together with others, the first one could not be distinguished.
    for outcome in join_all((1..20).map(|n| sink.deliver(outbound(n, destination(&missing, "key"), "x")))).await {
        assert_failure(outcome, Class::TargetPermanent, "NOT_FOUND");
    }
}

#[tokio::test]
async fn an_exchange_that_is_deleted_during_deliveries_loses_nothing_and_holds() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let queue = node.name("queue");
    let exchange = node.name("exchange");
    admin.exchange(&exchange).await;
    admin.queue(&queue, &[]).await;
    admin.bind(&queue, &exchange, "key").await;
    let sink = patient_sink(AmqpSpec { max_unconfirmed: 50, ..node.spec() });
    let messages = (0..3000).map(|n| outbound(n, destination(&exchange, "key"), format!("{n}"))).collect();
    let deliveries = deliver_all(&sink, messages);
    let delete = async {
        eventually("the first to arrive", async || admin.length(&queue).await > 100).await;
        admin.channel.exchange_delete(exchange.as_str().into(), Default::default()).await.unwrap();
    };
    let (told, ()) = tokio::join!(deliveries, delete);
    assert_true(&told, &counts(&admin, &queue).await);
    let refusals: Vec<&Failure> = told.iter().filter_map(|told| told.outcome.as_ref().err()).collect();
    assert!(!refusals.is_empty());
    for failure in refusals {
        // Between the end of its bindings and its own.
        assert!(matches!(failure.code, "NOT_FOUND" | "NO_ROUTE"), "{failure}");
        assert_eq!(failure.class, Class::TargetPermanent, "{failure}");
    }
}

#[tokio::test]
async fn a_refused_topic_concerns_one_key_and_an_internal_exchange_every_element() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let topic = format!("allowed.{}", node.name("t"));
    let internal = format!("allowed.{}", node.name("i"));
    let queue = node.name("queue");
    admin.exchange_of(&topic, ExchangeKind::Topic, false).await;
    admin.exchange_of(&internal, ExchangeKind::Direct, true).await;
    admin.queue(&queue, &[]).await;
    admin.bind(&queue, &topic, "#").await;
    let exchange = topic.clone();
    let rights = move |rabbit: &brokers::Rabbit| {
        rabbit.set_topic_permissions("limited", &exchange, ["^good", ".*"]).unwrap();
    };
    node.does(rights).await;
    let sink = patient_sink(AmqpSpec { login: login("limited", "limited"), ..node.spec() });
    let key = |n: u64| if n % 10 == 9 { "bad" } else { "good" };
    let messages = (0..60).map(|n| outbound(n, destination(&topic, key(n)), format!("{n}"))).collect();
    let told = deliver_all(&sink, messages).await;
    for (n, told) in (0..).zip(&told) {
        if key(n) == "bad" {
            let failure = told.outcome.clone().unwrap_err();
            assert!(failure.about == About::Route && failure.message.contains("access to topic 'bad'"), "{failure}");
            assert_failure(Err(failure), Class::TargetPermanent, "ACCESS_REFUSED");
        } else {
            told.outcome.clone().unwrap();
        }
    }
    assert_true(&told, &counts(&admin, &queue).await);

    let failure = sink.deliver(outbound(1, destination(&internal, "key"), "x")).await.unwrap_err();
    assert_eq!(failure.about, About::Target, "{failure}");
    assert_failure(Err(failure), Class::TargetPermanent, "ACCESS_REFUSED");
}

#[tokio::test]
async fn a_missing_right_holds_for_its_own_exchange_only() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let mine = format!("allowed.{}", node.name("e"));
    let other = node.name("exchange");
    admin.exchange(&mine).await;
    admin.exchange(&other).await;
    let queue = node.name("queue");
    admin.queue(&queue, &[]).await;
    admin.bind(&queue, &mine, "key").await;
    let sink = patient_sink(AmqpSpec { login: login("limited", "limited"), ..node.spec() });
    let to = |n| destination(if n % 2 == 0 { &mine } else { &other }, "key");
    let outcomes = join_all((0..100).map(|n| sink.deliver(outbound(n, to(n), format!("{n}"))))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        if n % 2 == 0 {
            outcome.unwrap();
        } else {
            let failure = outcome.unwrap_err();
            assert!(failure.about == About::Target && failure.message.contains("right to write"), "{failure}");
            assert_failure(Err(failure), Class::TargetPermanent, "ACCESS_REFUSED");
        }
    }
}

#[tokio::test]
async fn a_login_that_cannot_work_holds_and_says_what_to_fix() {
    let node = Node::shared().await;
    let missing = AmqpLogin::Plain { username: "guest".into(), password: Secret::File("/nonexistent/password".into()) };
    let rows = [
        (AmqpSpec { login: login("guest", "s3cret"), ..node.spec() }, "ACCESS_REFUSED", "password_file"),
        (AmqpSpec { vhost: "nowhere".into(), ..node.spec() }, "NOT_ALLOWED", "vhost"),
        (AmqpSpec { login: login("nowhere", "nowhere"), ..node.spec() }, "NOT_ALLOWED", "vhost"),
        (AmqpSpec { login: missing, ..node.spec() }, "secret", "/nonexistent/password"),
    ];
    for (spec, code, words) in rows {
        let sink = patient_sink(spec);
        let said = assert_failure(sink.check(&[]).await.map(drop), Class::TargetPermanent, code);
        assert!(said.contains(words) && !said.contains("s3cret"), "{said}");
        let outcome = sink.deliver(outbound(1, queue_of("q"), "x")).await;
        assert!(!outcome.as_ref().is_err_and(|failure| failure.about != About::Sink), "{outcome:?}");
        assert_failure(outcome, Class::TargetPermanent, code);
        sink.close().await;
    }
}

#[tokio::test]
async fn a_password_file_is_read_again_at_every_connect() {
    let node = Node::shared().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    std::fs::write(&path, "wrong\n").unwrap();
    let login = AmqpLogin::Plain { username: "guest".into(), password: Secret::File(path.clone()) };
    let sink = patient_sink(AmqpSpec { login, ..node.spec() });
    assert_failure(sink.check(&[]).await.map(drop), Class::TargetPermanent, "ACCESS_REFUSED");
    std::fs::write(&path, "guest\n").unwrap();
    eventually("the new password to be used", async || sink.check(&[]).await.is_ok()).await;
}

#[tokio::test]
async fn a_node_that_is_not_there_is_transient_and_another_one_serves() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let queue = node.name("queue");
    admin.queue(&queue, &[]).await;
    // Port 1 refuses connections.
    let alone = patient_sink(spec_on(1));
    let outcome = alone.deliver(outbound(1, queue_of(&queue), "x")).await;
    assert_failure(outcome, Class::Transient, "unreachable");
    let nodes = vec![("127.0.0.1".to_owned(), 1), ("127.0.0.1".to_owned(), node.port())];
    let sink = patient_sink(AmqpSpec { nodes, ..node.spec() });
    sink.deliver(outbound(1, queue_of(&queue), "x")).await.unwrap();
}

#[tokio::test]
async fn a_port_with_another_protocol_is_reported_in_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let spec = AmqpSpec { connect_timeout: Duration::from_millis(300), ..spec_on(port) };
    let said = assert_failure(patient_sink(spec).check(&[]).await.map(drop), Class::Transient, "connect_timeout");
    assert!(said.contains("does not ask for TLS"), "{said}");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_found_and_its_neighbours_are_delivered() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let queue = node.name("queue");
    admin.queue(&queue, &[]).await;
    let sink = patient_sink(AmqpSpec { max_message_size: u64::MAX, ..node.spec() });
    let body = |n: u64| if n == 50 { vec![b'x'; (128 << 20) + 1] } else { n.to_string().into_bytes() };
    let outcomes = join_all((0..100).map(|n| sink.deliver(outbound(n, queue_of(&queue), body(n))))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        if n == 50 {
            assert_failure(outcome, Class::MessagePermanent, "CONTENT_TOO_LARGE");
        } else {
            outcome.unwrap();
        }
    }
    let texts = admin.texts(&queue).await;
    assert_eq!(texts.len(), 99, "each once: a large one goes alone");
}

#[tokio::test]
async fn nothing_is_published_on_a_lease_that_is_over() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let queue = node.name("queue");
    admin.queue(&queue, &[]).await;
    let sink = patient_sink(node.spec());
    let stale = Outbound { send_before: Instant::now(), ..outbound(1, queue_of(&queue), "stale") };
    assert!(sink.deliver(stale).await.unwrap_err().is_stale());
    sink.deliver(outbound(2, queue_of(&queue), "fresh")).await.unwrap();
    assert_eq!(admin.texts(&queue).await, ["fresh"]);
}

#[tokio::test]
async fn topology_is_declared_where_it_is_asked_for_and_looked_for_else() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let exchange = node.name("exchange");
    let queue = node.name("queue");
    let expecting = patient_sink(node.spec());
    let both = [destination(&exchange, "key"), queue_of(&queue)];
    for missing in &both {
        let said = assert_failure(
            expecting.check(std::slice::from_ref(missing)).await.map(drop),
            Class::TargetPermanent,
            "NOT_FOUND",
        );
        assert!(said.contains("declare") && said.starts_with("look for "), "{said}");
    }
    let three = [both[0].clone(), destination(&node.name("another"), "key"), both[1].clone()];
    let said = assert_failure(expecting.check(&three).await.map(drop), Class::TargetPermanent, "NOT_FOUND");
    assert!(said.contains("look for exchanges ") && said.contains(&format!("look for queue {queue}")), "{said}");
    let arguments = vec![
        ("x-queue-type".to_owned(), AmqpArgument::Text("quorum".to_owned())),
        ("x-max-length".to_owned(), AmqpArgument::Number(10)),
        ("x-single-active-consumer".to_owned(), AmqpArgument::Flag(true)),
    ];
    let topology = AmqpTopology {
        exchange: exchange.clone(),
        exchange_kind: "topic".to_owned(),
        durable: true,
        queue: Some(AmqpQueue { name: queue.clone(), arguments, binding_key: "key.#".to_owned() }),
    };
    let spec = Arc::new(AmqpSpec { declare: Some(topology.clone()), ..node.spec() });
    let looking = AmqpSink::to_check(spec.clone(), rabbit::PATIENCE);
    let binding = format!("binding of queue {queue} to exchange {exchange} with key `key.#`");
    let undeclared = [format!("exchange {exchange}"), format!("queue {queue}"), binding.clone()];
    assert_eq!(looking.check(&both).await.unwrap(), undeclared);
    let failure = expecting.check(&both).await.expect_err("a look declares nothing");
    assert!(failure.message.contains(&exchange) && failure.message.contains(&queue), "{failure}");
    let declaring = patient_sink((*spec).clone());
    declaring.check(&both).await.unwrap();
    declaring.deliver(outbound(1, destination(&exchange, "key.a.b"), "x")).await.unwrap();
    assert_eq!(admin.length(&queue).await, 1);
    expecting.check(&both).await.unwrap();
    assert_eq!(looking.check(&both).await.unwrap(), [binding]);
    let other = AmqpTopology { exchange_kind: "fanout".to_owned(), ..topology };
    let clashing = AmqpSpec { declare: Some(other), ..node.spec() };
    for sink in [patient_sink(clashing.clone()), Arc::new(AmqpSink::to_check(Arc::new(clashing), rabbit::PATIENCE))] {
        let said = assert_failure(sink.check(&[]).await.map(drop), Class::TargetPermanent, "PRECONDITION_FAILED");
        assert!(said.contains("declare exchange") && said.contains("other settings"), "{said}");
    }
}

#[tokio::test]
async fn more_exchanges_than_publishers_are_served_in_turn() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let queue = node.name("queue");
    admin.queue(&queue, &[]).await;
    let exchanges: Vec<String> = (0..100).map(|n| node.name(&format!("e{n}"))).collect();
    for exchange in &exchanges {
        admin.exchange(exchange).await;
        admin.bind(&queue, exchange, "key").await;
    }
    let sink = patient_sink(node.spec());
    for (n, exchange) in (0..).zip(exchanges.iter().chain(&exchanges)) {
        sink.deliver(outbound(n, destination(exchange, "key"), "x")).await.unwrap();
    }
    assert_eq!(admin.drain(&queue).await.len(), 200);
    sink.close().await;
}

#[tokio::test]
async fn closing_answers_what_was_handed_over() {
    let node = Node::shared().await;
    let admin = node.admin().await;
    let queue = node.name("queue");
    admin.queue(&queue, &[]).await;
    let sink = patient_sink(node.spec());
    sink.check(&[]).await.unwrap();
    let deliveries: Vec<_> = (0..500)
        .map(|n| {
            let sink = sink.clone();
            let message = outbound(n, queue_of(&queue), "x");
            tokio::spawn(async move { sink.deliver(message).await })
        })
        .collect();
    tokio::task::yield_now().await;
    sink.close().await;
    let mut confirmed = 0;
    for delivery in deliveries {
        match delivery.await.unwrap() {
            Ok(()) => confirmed += 1,
            Err(failure) => assert_eq!((failure.class, failure.code), (Class::Transient, "closed"), "{failure}"),
        }
    }
    assert_eq!(admin.drain(&queue).await.len(), confirmed);
    tokio::time::timeout(Duration::from_secs(10), sink.ended()).await.expect("it has ended");
    let failure: Failure = sink.deliver(outbound(1, queue_of(&queue), "x")).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::Transient, "closed"));
}
