//! What Artemis answers, row by row.

use std::time::Duration;

use super::super::{address, assert_failure, patient_sink};
use super::ArtemisServer;
use crate::Amqp1Sink;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{About, Class};
use delaybridge_sink::{Answers, Outbound, Sink};
use delaybridge_testing::sink::outbound;

#[tokio::test]
async fn a_message_arrives_with_its_id_and_properties() {
    let server = ArtemisServer::start(&["orders"], "").await;
    let sink = patient_sink(server.spec());
    let mut message = outbound(0xab, address("orders"), "body");
    message.headers = vec![("tenant".into(), "größe 1".to_owned()), ("content-type".into(), "text/plain".to_owned())];
    sink.deliver(message).await.unwrap();
    let stored = server.stored("orders").await;
    assert_eq!((stored.len(), stored[0].body.as_slice(), stored[0].durable), (1, &b"body"[..], true));
    assert_eq!((stored[0].id.as_str(), stored[0].content_type.as_str()), ("00000000000000ab", "text/plain"));
    let expected = [
        ("delaybridge-attempt", "1"),
        ("delaybridge-due-ms", "1000"),
        ("delaybridge-id", "00000000000000ab"),
        ("delaybridge-queue", "q"),
        ("tenant", "größe 1"),
    ];
    assert_eq!(stored[0].properties, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn an_address_that_is_missing_waits_for_a_person_and_no_other_does() {
    let server = ArtemisServer::start(&["orders"], "").await;
    let sink = patient_sink(server.spec());
    let lost = sink.deliver(outbound(1, address("missing"), "x")).await.unwrap_err();
    assert_eq!(
        (lost.class, lost.code, lost.about),
        (Class::TargetPermanent, "amqp1_not_found", About::Target),
        "{lost}"
    );
    sink.deliver(outbound(2, address("orders"), "x")).await.unwrap();
    let checked = sink.check(&[address("orders"), address("missing")]).await.unwrap_err();
    assert_eq!((checked.class, checked.code), (Class::TargetPermanent, "amqp1_not_found"), "{checked}");
    server.does(|artemis| artemis.create("missing").unwrap()).await;
    sink.deliver(outbound(1, address("missing"), "x")).await.unwrap();
    sink.check(&[address("orders"), address("missing")]).await.unwrap();
    assert_eq!(sink.drawbacks(&[address("orders")]).await, [""; 0]);
    sink.check(&[]).await.unwrap();
    sink.probe().unwrap().await.unwrap();
    sink.close().await;
}

#[tokio::test]
async fn an_address_that_is_deleted_waits_for_a_person() {
    let server = ArtemisServer::start(&["orders"], "").await;
    let sink = patient_sink(server.spec());
    sink.deliver(outbound(1, address("orders"), "x")).await.unwrap();
    server.does(|artemis| artemis.delete("orders").unwrap()).await;
    // The link is still there: the broker says no more than that it failed.
    let failed = sink.deliver(outbound(2, address("orders"), "x")).await;
    assert_failure(failed, Class::Transient, "amqp1_unavailable");
    let gone = sink.deliver(outbound(2, address("orders"), "x")).await.unwrap_err();
    assert_eq!((gone.class, gone.code), (Class::TargetPermanent, "amqp1_not_found"), "{gone}");
}

#[tokio::test]
async fn a_user_without_the_right_waits_for_a_person() {
    let server = ArtemisServer::start(&["orders", "denied.x"], "").await;
    let sink = patient_sink(server.spec());
    let denied = sink.deliver(outbound(1, address("denied.x"), "x")).await;
    let text = assert_failure(denied, Class::TargetPermanent, "amqp1_denied");
    println!("{text}");
    sink.deliver(outbound(2, address("orders"), "x")).await.unwrap();
    sink.check(&[address("denied.x")]).await.unwrap_err();
}

#[tokio::test]
async fn an_address_without_credit_is_backpressure_and_takes_messages_again() {
    let server = ArtemisServer::start(&["orders", "full.block"], "amqpCredits=10;amqpLowCredits=3").await;
    let sink = patient_sink(server.spec());
    let body = "x".repeat(1000);
    let mut taken = 0;
    let mut failure = None;
    for n in 0..200 {
        match sink.deliver(outbound(n, address("full.block"), &body)).await {
            Ok(()) => taken += 1,
            Err(found) => {
                failure = Some(found);
                break;
            }
        }
    }
    let failure = failure.expect("the address is full");
    println!("{taken} taken, then {failure}");
    assert_eq!((failure.class, failure.code, failure.about), (Class::Backpressure, "amqp1_no_credit", About::Target));
    sink.deliver(outbound(1000, address("orders"), "x")).await.unwrap();
    let found = sink.drawbacks(&[address("full.block")]).await;
    assert!(found.len() == 1 && found[0].contains("takes no messages now"), "{found:?}");
    server.does(|artemis| artemis.purge("full.block").unwrap()).await;
    takes_again(&sink, "full.block").await;
}

/// Delivers once the address is no longer full: the broker counts removed messages some time after it has removed them.
async fn takes_again(sink: &Amqp1Sink, full: &str) {
    let until = Instant::now().after(Duration::from_secs(60));
    while let Err(failure) = sink.deliver(outbound(1001, address(full), "x")).await {
        assert_eq!(failure.class, Class::Backpressure, "{failure}");
        assert!(Instant::now() < until, "still not delivered: {failure}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_address_that_refuses_when_it_is_full_is_backpressure() {
    let server = ArtemisServer::start(&["full.fail"], "").await;
    let sink = patient_sink(server.spec());
    let body = "x".repeat(1000);
    let mut failure = None;
    for n in 0..200 {
        failure = sink.deliver(outbound(n, address("full.fail"), &body)).await.err();
        if failure.is_some() {
            break;
        }
    }
    let failure = failure.expect("the address is full");
    assert_eq!((failure.class, failure.code), (Class::Backpressure, "amqp1_full"), "{failure}");
    server.does(|artemis| artemis.purge("full.fail").unwrap()).await;
    takes_again(&sink, "full.fail").await;
}

#[tokio::test]
async fn a_large_message_arrives_in_parts() {
    let server = ArtemisServer::start(&["orders"], "maxFrameSize=1024").await;
    let sink = patient_sink(server.spec());
    let bodies: Vec<String> = (1..=5).map(|n| n.to_string().repeat(n * 100_000)).collect();
    for (n, body) in bodies.iter().enumerate() {
        sink.deliver(outbound(n as u64, address("orders"), body)).await.unwrap();
    }
    let stored = server.bodies("orders").await;
    assert!(stored.iter().map(Vec::as_slice).eq(bodies.iter().map(String::as_bytes)));
}

#[tokio::test]
async fn more_addresses_than_links_take_turns_or_share_the_anonymous_terminus() {
    let names: Vec<&'static str> = (0..12).map(|n| &*format!("a{n}").leak()).collect();
    let server = ArtemisServer::start(&names, "").await;
    let mut spec = server.spec();
    spec.max_links = 3;
    let sink = patient_sink(spec);
    let batch = (0..240_u64).map(|n| outbound(n, address(names[n as usize % 12]), n.to_string())).collect();
    let answers = Answers::new(240);
    sink.deliver_all(batch, &answers).await;
    assert_eq!(answers.take().confirmed.len(), 240);
    let mut named = 0;
    for (place, name) in names.iter().enumerate() {
        let stored = server.messages(name).await;
        let expected: Vec<_> = (0..20).map(|round| (round * 12 + place).to_string().into_bytes()).collect();
        assert_eq!(stored.iter().map(|message| message.body.clone()).collect::<Vec<_>>(), expected, "{name}");
        named += stored.iter().filter(|message| message.to == *name).count();
    }
    println!("{named} of 240 over the anonymous terminus");
    assert!(named > 0);
    // What does not exist is not known before the message, there.
    let missing = sink.deliver(outbound(1000, address("missing"), "x")).await.unwrap_err();
    println!("{missing}");
    assert_eq!(missing.class, Class::TargetPermanent, "{missing}");
}

#[tokio::test]
async fn many_at_once_are_confirmed_one_by_one() {
    let server = ArtemisServer::start(&["orders"], "").await;
    let sink = patient_sink(server.spec());
    for round in 0..5_u64 {
        let begun = tokio::time::Instant::now();
        let deliveries =
            (0..2000).map(|n| until_taken(&sink, outbound(round * 2000 + n, address("orders"), "x".repeat(200))));
        futures_util::future::join_all(deliveries).await;
        println!("2000 in {:?}", begun.elapsed());
    }
    assert_eq!(server.bodies("orders").await.len(), 10_000);
}

/// Delivers an element, again and again while the broker gives no credit: on a busy machine it is silent for seconds, and nothing was
/// sent.
async fn until_taken(sink: &Amqp1Sink, message: Outbound) {
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while let Err(failure) = sink.deliver(message.clone()).await {
        assert_eq!(failure.class, Class::Backpressure, "{failure}");
        assert!(tokio::time::Instant::now() < until, "{failure}");
        // As the pipeline does: the broker needs the processor that an attempt at once would take.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
