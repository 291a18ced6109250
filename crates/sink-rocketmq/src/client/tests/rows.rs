//! Answers of real brokers, and messages as other clients read them.

use brokers::RocketMqOptions;

use super::cluster::{Cluster, spec_on};
use super::{assert_failure, impatient_sink, keyed, patient_sink, topic};
use crate::{RocketMqDestination, RocketMqSpec};
use delaybridge_core::message::Class;
use delaybridge_sink::{Answers, Destination, Sink};
use delaybridge_testing::sink::outbound;

#[tokio::test]
async fn a_message_is_what_the_java_client_reads() {
    for cluster in [Cluster::shared().await, Cluster::shared_four().await] {
        let name = cluster.topic(1).await;
        let sink = patient_sink(cluster.spec());
        let destination: Destination = RocketMqDestination {
            topic: name.as_str().into(),
            tags: Some("paid".into()),
            sharding_key: Some("customer-3".into()),
            keys: Some("A-7 A-8".into()),
        }
        .into();
        // Alone, and in a batch.
        let mut alone = outbound(0xab, destination.clone(), "alone");
        alone.headers = vec![("tenant".into(), "größe".to_owned())];
        sink.deliver(alone).await.unwrap();
        let batch = vec![outbound(1, topic(&name), "one"), outbound(2, destination, "two")];
        let answers = Answers::new(2);
        sink.deliver_all(batch, &answers).await;
        assert_eq!(answers.take().failed, Vec::new());
        let read = name.clone();
        let mut read = cluster.does(move |cluster| cluster.read(&read, 3).unwrap()).await;
        read.sort_by(|one, other| one.0.body.cmp(&other.0.body));
        let shown: Vec<_> = read
            .iter()
            .map(|(message, tags, keys)| (String::from_utf8_lossy(&message.body).into_owned(), &**tags, &**keys))
            .collect();
        let expected = [
            ("alone".to_owned(), "paid", "A-7 A-8"),
            ("one".to_owned(), "null", "0000000000000001"),
            ("two".to_owned(), "paid", "A-7 A-8"),
        ];
        assert_eq!(shown, expected);
        let message = &read[0].0;
        let property = |name| message.property(name);
        assert_eq!(property("tenant"), Some("größe"));
        assert_eq!(
            (property("delaybridge-id"), property("delaybridge-due-ms")),
            (Some("00000000000000ab"), Some("1000"))
        );
        assert_eq!((property("__SHARDINGKEY"), property("delaybridge-attempt")), (Some("customer-3"), Some("1")));
        sink.close().await;
    }
}

#[tokio::test]
async fn a_key_has_one_queue_and_others_take_turns() {
    let cluster = Cluster::shared().await;
    let name = cluster.topic(4).await;
    let sink = patient_sink(cluster.spec());
    for number in 0..8 {
        sink.deliver(outbound(number, keyed(&name, "order-1"), "keyed")).await.unwrap();
        sink.deliver(outbound(number, topic(&name), "any")).await.unwrap();
    }
    let messages = cluster.messages(&name).await;
    let queues = |body: &str| {
        let mut queues: Vec<_> =
            messages.iter().filter(|message| message.body == body.as_bytes()).map(|message| message.queue).collect();
        queues.dedup();
        queues
    };
    // Math.abs("order-1".hashCode() % 4).
    assert_eq!((queues("keyed"), queues("any")), (vec![1_207_111_310 % 4], vec![0, 1, 2, 3]));
}

#[tokio::test]
async fn a_topic_that_is_missing_or_read_only_is_held() {
    for cluster in [Cluster::shared().await, Cluster::shared_four().await] {
        let sink = patient_sink(cluster.spec());
        let outcome = sink.deliver(outbound(1, topic("missing"), "x")).await;
        let message = assert_failure(outcome, Class::TargetPermanent, "rocketmq_no_topic");
        assert!(message.starts_with("ask the name server for topic missing"), "{message}");
        let failure = sink.check(&[topic("missing")]).await.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "rocketmq_no_topic"));
        let name = cluster.topic(1).await;
        assert_eq!(sink.check(&[topic(&name)]).await, Ok(Vec::new()));
        assert_eq!(sink.check(&[]).await, Ok(Vec::new()));
    }
    let sink = patient_sink(Cluster::shared().await.spec());
    let outcome = sink.deliver(outbound(1, topic("readonly"), "x")).await;
    assert_failure(outcome, Class::TargetPermanent, "rocketmq_denied");
}

#[tokio::test]
async fn a_message_that_is_too_large_costs_no_other() {
    let options = RocketMqOptions {
        brokers: vec![("a".to_owned(), "maxMessageSize=100000".to_owned())],
        ..RocketMqOptions::default()
    };
    let cluster = Cluster::start(options).await;
    let sink = patient_sink(cluster.spec());
    let outcome = sink.deliver(outbound(1, topic("orders"), "x".repeat(200_000))).await;
    assert_failure(outcome, Class::MessagePermanent, "rocketmq_illegal");
    // Together they are larger than the broker takes, and one is by itself.
    let bodies = [90_000, 30_000, 150_000, 10];
    let batch = (0..).zip(bodies).map(|(id, size)| outbound(id, keyed("orders", "k"), "y".repeat(size))).collect();
    let answers = Answers::new(4);
    sink.deliver_all(batch, &answers).await;
    let answered = answers.take();
    let failed: Vec<_> = answered.failed.iter().map(|(place, failure)| (*place, failure.code)).collect();
    assert_eq!(failed, [(2, "rocketmq_illegal")]);
    let sizes: Vec<_> = cluster.bodies("orders").await.iter().map(Vec::len).collect();
    assert_eq!(sizes, [90_000, 30_000, 10], "in their order");
    let headers = vec![("h".into(), "v".repeat(31_000))];
    let outcome = sink.deliver(delaybridge_sink::Outbound { headers, ..outbound(1, topic("orders"), "x") }).await;
    assert_failure(outcome, Class::MessagePermanent, "rocketmq_unfit");
}

#[tokio::test]
async fn a_port_that_speaks_something_else_is_said() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    };
    let sink = impatient_sink(spec_on(port));
    let outcome = tokio::select! {
        outcome = sink.deliver(outbound(1, topic("orders"), "x")) => outcome,
        () = server => unreachable!(),
    };
    assert_failure(outcome, Class::TargetPermanent, "rocketmq_protocol");
}

#[tokio::test]
async fn a_name_server_that_does_not_answer_is_named() {
    const ANSWER: &str = r#"{"code":0,"flag":1,"opaque":0,"language":"JAVA","version":0}"#;
    // One that is silent from the beginning, and one that is after the first question.
    for answers in [false, true] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = async {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                if answers {
                    let header = ANSWER.len() as u32;
                    let all = ANSWER.len() as u32 + 4;
                    let frame = [&all.to_be_bytes()[..], &header.to_be_bytes(), ANSWER.as_bytes()].concat();
                    tokio::io::AsyncReadExt::read_u8(&mut stream).await.unwrap();
                    tokio::io::AsyncWriteExt::write_all(&mut stream, &frame).await.unwrap();
                }
                open.push(stream);
            }
        };
        let spec = RocketMqSpec { connect_timeout: std::time::Duration::from_millis(500), ..spec_on(port) };
        let sink = impatient_sink(spec);
        let about = [topic("orders")];
        let failure = tokio::select! {
            checked = sink.check(&about) => checked.unwrap_err(),
            () = server => unreachable!(),
        };
        assert!(failure.message.contains(&format!("RocketMQ name server 127.0.0.1:{port}: ")), "{failure}");
    }
}
