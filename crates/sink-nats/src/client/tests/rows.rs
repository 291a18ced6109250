//! What a real server answers, row by row.

use brokers::NatsOptions;
use serde_json::json;

use super::server::{Server, subject};
use super::{assert_failure, impatient_sink, patient_sink};
use delaybridge_core::message::{About, Class};
use delaybridge_sink::{Answers, Outbound, Sink};
use delaybridge_testing::sink::outbound;

#[tokio::test]
async fn a_message_arrives_with_its_id_and_headers() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    let sink = patient_sink(server.spec());
    let mut message = outbound(0xab, subject("orders.eu"), "body");
    message.headers = vec![("tenant".into(), "größe 1".to_owned())];
    sink.deliver(message).await.unwrap();
    let stored = server.stored("S").await;
    assert_eq!((stored.len(), stored[0].subject.as_str(), stored[0].body.as_slice()), (1, "orders.eu", &b"body"[..]));
    let expected = [
        "delaybridge-id: 00000000000000ab",
        "delaybridge-queue: q",
        "delaybridge-due-ms: 1000",
        "delaybridge-attempt: 1",
        "tenant: größe 1",
    ];
    assert!(stored[0].header[0].starts_with("Nats-Msg-Id: 00000000000000ab-1000-"), "{:?}", stored[0].header);
    assert_eq!(stored[0].header[1..], expected);
}

#[tokio::test]
async fn what_is_sent_again_within_the_window_is_confirmed_and_not_there_twice() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    let sink = patient_sink(server.spec());
    let answers = Answers::new(4);
    let batch = [1, 2, 1, 1].map(|id| outbound(id, subject("orders.eu"), id.to_string()));
    sink.deliver_all(batch.to_vec(), &answers).await;
    let answered = answers.take();
    assert_eq!((answered.confirmed.len(), answered.known), (4, 2), "{answered:?}");
    assert_eq!(server.bodies("S").await, [b"1", b"2"]);
}

#[tokio::test]
async fn what_only_has_the_same_id_is_not_taken_for_a_repeat() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    let sink = patient_sink(server.spec());
    let first = outbound(1, subject("orders.eu"), "first");
    // Another route of the queue into the same stream, another due time, and another queue.
    let others = [
        outbound(1, subject("orders.us"), "route"),
        Outbound { due_ms: Some(2000), ..outbound(1, subject("orders.eu"), "time") },
        Outbound { queue: "p".into(), ..outbound(1, subject("orders.eu"), "queue") },
    ];
    sink.deliver(first).await.unwrap();
    for other in others {
        sink.deliver(other).await.unwrap();
    }
    assert_eq!(server.bodies("S").await, [&b"first"[..], b"route", b"time", b"queue"]);
}

#[tokio::test]
async fn drawbacks_of_a_stream_are_found() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    server.stream("T", "short", "\"max_msgs\": 10").await;
    let sink = patient_sink(server.spec());
    assert_eq!(sink.drawbacks(&[subject("orders.eu"), subject("orders.us")]).await, [""; 0]);
    let found = sink.drawbacks(&[subject("orders.eu"), subject("short")]).await;
    assert!(found.len() == 1 && found[0].contains("stream T drops its oldest messages at max_msgs"), "{found:?}");
}

#[tokio::test]
async fn a_subject_without_a_stream_waits_for_a_person_and_no_other_does() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    let sink = patient_sink(server.spec());
    let lost = sink.deliver(outbound(1, subject("nobody"), "x")).await.unwrap_err();
    assert_eq!(
        (lost.class, lost.code, lost.about),
        (Class::TargetPermanent, "nats_no_stream", About::Target),
        "{lost}"
    );
    sink.deliver(outbound(2, subject("orders.eu"), "x")).await.unwrap();
    let checked = sink.check(&[subject("orders.eu"), subject("nobody")]).await.unwrap_err();
    assert_eq!((checked.class, checked.code), (Class::TargetPermanent, "nats_no_stream"), "{checked}");
    server.stream("T", "nobody", "").await;
    sink.deliver(outbound(1, subject("nobody"), "x")).await.unwrap();
    sink.check(&[subject("orders.eu"), subject("nobody")]).await.unwrap();
}

#[tokio::test]
async fn a_large_message_is_the_messages_fault() {
    let config = "max_payload: 2000\n".to_owned();
    let server = Server::start_with(NatsOptions { config, ..NatsOptions::default() }).await;
    server.stream("S", "small", "\"max_msg_size\": 500").await;
    let sink = patient_sink(server.spec());
    let to_stream = sink.deliver(outbound(1, subject("small"), "x".repeat(600))).await;
    let text = assert_failure(to_stream, Class::MessagePermanent, "nats_too_large");
    assert!(text.contains("10054"), "{text}");
    let to_server = sink.deliver(outbound(2, subject("small"), "x".repeat(2000))).await;
    let text = assert_failure(to_server, Class::MessagePermanent, "nats_too_large");
    assert!(text.contains("the server takes 2000"), "{text}");
    // Neither has ended the connection.
    sink.deliver(outbound(3, subject("small"), "x")).await.unwrap();
    assert_eq!(server.bodies("S").await, [b"x".to_vec()]);
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_the_messages_fault() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    let sink = patient_sink(server.spec());
    let mut message = outbound(1, subject("orders.eu"), "x");
    message.headers = vec![("a".into(), "x\r\nNats-Rollup: all".to_owned())];
    assert_failure(sink.deliver(message.clone()).await, Class::MessagePermanent, "nats_bad_header");
    message.headers = vec![("a".into(), "x".repeat(70_000))];
    assert_failure(sink.deliver(message).await, Class::MessagePermanent, "nats_headers_too_large");
    assert!(server.bodies("S").await.is_empty());
}

#[tokio::test]
async fn a_full_stream_takes_messages_again_when_there_is_room() {
    let server = Server::start().await;
    server.stream("S", "full", "\"max_msgs\": 1, \"discard\": \"new\"").await;
    let sink = patient_sink(server.spec());
    sink.deliver(outbound(1, subject("full"), "1")).await.unwrap();
    let full = sink.deliver(outbound(2, subject("full"), "2")).await;
    assert_failure(full, Class::Backpressure, "nats_stream_full");
    server.ask("STREAM.PURGE.S".to_owned(), json!({})).await.unwrap();
    sink.deliver(outbound(2, subject("full"), "2")).await.unwrap();
    assert_eq!(server.bodies("S").await, [b"2".to_vec()]);
}

#[tokio::test]
async fn a_sealed_stream_waits_for_a_person() {
    let server = Server::start().await;
    server.stream("S", "sealed", "").await;
    let mut config = server.ask("STREAM.INFO.S".to_owned(), json!({})).await.unwrap()["config"].clone();
    config["sealed"] = json!(true);
    server.ask("STREAM.UPDATE.S".to_owned(), config).await.unwrap();
    let sink = patient_sink(server.spec());
    let sealed = sink.deliver(outbound(1, subject("sealed"), "x")).await;
    assert_failure(sealed, Class::TargetPermanent, "nats_sealed");
}

#[tokio::test]
async fn a_stream_that_never_answers_is_told_from_a_silent_server() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    server.stream("T", "mute", "\"no_ack\": true").await;
    let sink = impatient_sink(server.spec());
    let mute = sink.deliver(outbound(1, subject("mute"), "x"));
    let others = async {
        for n in 2..20 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            sink.deliver(outbound(n, subject("orders.eu"), "x")).await.unwrap();
        }
    };
    let (mute, ()) = tokio::join!(mute, others);
    let failure = mute.unwrap_err();
    assert_eq!((failure.class, failure.code, failure.about), (Class::Ambiguous, "timeout", About::Target), "{failure}");
    sink.deliver(outbound(21, subject("orders.eu"), "x")).await.unwrap();
}

#[tokio::test]
async fn an_answer_of_another_program_confirms_nothing() {
    let server = Server::start().await;
    let sink = patient_sink(server.spec());
    // The time of the server itself: an API that answers, and no stream.
    let failure = sink.deliver(outbound(1, subject("$JS.API.INFO"), "")).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::Unknown, "nats_error"), "{failure}");
}
