//! Queues of ElasticMQ: the contract of sinks, standard and FIFO.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use brokers::ElasticMq;
use serde_json::{Value, json};

use super::{destination, patient_sink, with_more};
use crate::{AwsService, AwsSink, AwsSpec};
use delaybridge_core::message::Class;
use delaybridge_sink::{Destination, HeaderRules, Outbound, Sink, header_rules};
use delaybridge_testing::sink::{ReceivedMessage, Rig, outbound};
use delaybridge_testing::sink_contract_tests;

struct Server(Arc<ElasticMq>);

struct Received {
    body: Vec<u8>,
    attributes: Value,
    group: Option<String>,
}

impl Server {
    /// A server of the test's own, which it breaks.
    async fn start() -> Server {
        Server(Arc::new(tokio::task::spawn_blocking(ElasticMq::start).await.unwrap().unwrap()))
    }

    /// The server of all tests that break none.
    async fn shared() -> Server {
        static SHARED: OnceLock<Arc<ElasticMq>> = OnceLock::new();
        let start = || SHARED.get_or_init(|| Arc::new(ElasticMq::start().unwrap())).clone();
        Server(tokio::task::spawn_blocking(start).await.unwrap())
    }

    /// Does something that takes its time.
    async fn does<T: Send + 'static>(&self, what: impl FnOnce(&ElasticMq) -> T + Send + 'static) -> T {
        let server = self.0.clone();
        tokio::task::spawn_blocking(move || what(&server)).await.unwrap()
    }

    async fn ask(&self, action: &'static str, parameters: Value) -> Value {
        let answer = self.does(move |server| server.ask(action, &parameters.to_string())).await;
        serde_json::from_str(&answer.unwrap()).unwrap_or_default()
    }

    /// Makes a queue of a name that no other has.
    async fn queue(&self, suffix: &str) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("orders-{}{suffix}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let attributes = if name.ends_with(".fifo") { json!({ "FifoQueue": "true" }) } else { json!({}) };
        self.ask("CreateQueue", json!({ "QueueName": name, "Attributes": attributes })).await;
        self.0.queue_url(&name)
    }

    async fn take(&self, url: &str) -> Vec<Received> {
        let mut found = Vec::new();
        loop {
            let question = json!({
                "QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 600, "WaitTimeSeconds": 0,
                "MessageAttributeNames": ["All"], "AttributeNames": ["All"],
            });
            let answer = self.ask("ReceiveMessage", question).await;
            let Some(messages) = answer["Messages"].as_array().filter(|messages| !messages.is_empty()) else {
                return found;
            };
            let mut entries = Vec::new();
            for (place, message) in messages.iter().enumerate() {
                entries.push(json!({ "Id": place.to_string(), "ReceiptHandle": message["ReceiptHandle"] }));
                found.push(Received::of(message));
            }
            // Of a group of FIFO nothing more comes before that.
            self.ask("DeleteMessageBatch", json!({ "QueueUrl": url, "Entries": entries })).await;
        }
    }
}

impl Received {
    fn of(message: &Value) -> Received {
        let text = message["Body"].as_str().unwrap();
        let attributes = message["MessageAttributes"].clone();
        let body = match attributes["delaybridge-encoding"]["StringValue"].as_str() {
            None => text.as_bytes().to_vec(),
            Some("empty") => Vec::new(),
            Some("base64") => STANDARD.decode(text).unwrap(),
            Some(other) => panic!("the encoding {other} is not known"),
        };
        let group = message["Attributes"]["MessageGroupId"].as_str().map(str::to_owned);
        Received { body, attributes, group }
    }

    fn texts(&self) -> Vec<(String, String)> {
        let attributes = self.attributes.as_object().into_iter().flatten();
        attributes.map(|(name, value)| (name.clone(), value["StringValue"].as_str().unwrap().to_owned())).collect()
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes[name]["StringValue"].as_str()
    }
}

struct SqsRig {
    server: Server,
    url: String,
    taken: Vec<Vec<u8>>,
}

impl SqsRig {
    /// A queue on a server of its own, which the test breaks.
    async fn new() -> SqsRig {
        SqsRig::on(Server::start().await, "").await
    }

    /// A queue on the server of all.
    async fn shared(suffix: &str) -> SqsRig {
        SqsRig::on(Server::shared().await, suffix).await
    }

    async fn on(server: Server, suffix: &str) -> SqsRig {
        let url = server.queue(suffix).await;
        SqsRig { server, url, taken: Vec::new() }
    }
}

impl Rig for SqsRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(AwsSink::new(spec(&self.server), timeout))
    }

    fn destination(&self) -> Destination {
        destination(AwsService::Sqs, &self.url, None)
    }

    fn refusing(&self) -> Destination {
        destination(AwsService::Sqs, &self.server.0.queue_url("nobody"), None)
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn batch(&self) -> u64 {
        // A file on the disk of a busy machine.
        100
    }

    fn largest(&self) -> usize {
        // SQS takes a megabyte with the attributes and in base64; the file on the disk is slow.
        200 << 10
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        self.taken.extend(self.server.take(&self.url).await.into_iter().map(|message| message.body));
        self.taken.clone()
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::AWS
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let messages = self.server.take(&self.url).await.into_iter();
        messages.map(|message| (message.body.clone(), with_more(message.texts()))).collect()
    }

    async fn outage(&mut self) {
        self.server.does(|server| server.kill()).await;
    }

    async fn recover(&mut self) {
        self.server.does(|server| server.restart().unwrap()).await;
    }

    async fn stall(&mut self) {
        self.server.does(|server| server.freeze()).await;
    }

    async fn resume(&mut self) {
        self.server.does(|server| server.thaw()).await;
    }
}

mod standard {
    use super::*;

    sink_contract_tests! { SqsRig::shared("").await,
        confirms_what_has_arrived,
        a_refused_element_is_the_only_one_that_fails,
        a_thousand_at_once_arrive_once_each,
        bodies_arrive_byte_for_byte,
        a_closed_sink_takes_nothing_more,
        a_batch_has_an_answer_for_each_place,
        batches_arrive_in_the_order_in_which_they_began,
        stale_elements_of_a_batch_are_not_sent,
        an_element_for_another_kind_fails_alone,
        headers_pass_as_the_table_says,
    }
}

mod fifo {
    use super::*;

    sink_contract_tests! { SqsRig::shared(".fifo").await,
        a_refused_element_is_the_only_one_that_fails,
        a_thousand_at_once_arrive_once_each,
        a_batch_has_an_answer_for_each_place,
    }
}

mod broken {
    use super::*;

    sink_contract_tests! { SqsRig::new().await,
        an_outage_fails_deliveries_and_ends,
        a_silent_destination_is_ambiguous_in_time,
        a_dropped_delivery_hurts_no_other,
        an_outage_in_the_middle_of_a_batch_confirms_only_what_arrived,
        a_batch_at_a_silent_destination_is_answered_in_time,
        a_dropped_batch_hurts_no_other,
    }
}

/// The sink's settings for a server.
fn spec(server: &Server) -> AwsSpec {
    super::spec(AwsService::Sqs, server.0.port(), server.0.folder())
}

#[tokio::test]
async fn a_message_carries_what_is_known_of_the_element() {
    let server = Server::shared().await;
    let url = server.queue("").await;
    let sink = patient_sink(spec(&server));
    let mut message = outbound(0xab, destination(AwsService::Sqs, &url, None), "{\"a\":\"ü\"}");
    message.headers = (0..9).map(|n| (format!("h{n}").into(), format!("v{n}"))).collect();
    sink.deliver(message).await.unwrap();
    let found = server.take(&url).await.pop().unwrap();
    assert_eq!((found.body.as_slice(), found.group.as_deref()), ("{\"a\":\"ü\"}".as_bytes(), None));
    assert_eq!(
        (found.attribute("delaybridge-id"), found.attribute("delaybridge-due-ms")),
        (Some("00000000000000ab"), Some("1000"))
    );
    assert_eq!((found.attribute("h4"), found.attribute("h5")), (Some("v4"), None));
    let more: Value = serde_json::from_str(found.attribute("delaybridge-headers").unwrap()).unwrap();
    assert_eq!(more, json!({ "h5": "v5", "h6": "v6", "h7": "v7", "h8": "v8" }));
    sink.close().await;
}

#[tokio::test]
async fn a_fifo_queue_keeps_the_order_of_a_group_and_drops_what_is_sent_again() {
    let server = Server::shared().await;
    let url = server.queue(".fifo").await;
    let sink = patient_sink(spec(&server));
    for n in 0..30 {
        let group = format!("g{}", n % 3);
        let message = outbound(n, destination(AwsService::Sqs, &url, Some(&group)), format!("{n}"));
        sink.deliver(message.clone()).await.unwrap();
        sink.deliver(Outbound { attempt: 2, ..message }).await.unwrap();
    }
    let found = server.take(&url).await;
    assert_eq!(found.len(), 30, "each is there once");
    for group in 0..3_u64 {
        let name = format!("g{group}");
        let of_group = found.iter().filter(|message| message.group.as_deref() == Some(&name));
        let numbers: Vec<u64> =
            of_group.map(|message| String::from_utf8_lossy(&message.body).parse().unwrap()).collect();
        assert_eq!(numbers, (0..10).map(|n| 3 * n + group).collect::<Vec<_>>());
    }
    sink.close().await;
}

#[tokio::test]
async fn a_message_that_is_too_large_fails_alone() {
    let server = Server::shared().await;
    let url = server.queue("").await;
    let sink = patient_sink(spec(&server));
    let to = || destination(AwsService::Sqs, &url, None);
    let small = (0..5).map(|n| outbound(n, to(), "x"));
    let messages: Vec<_> = small.chain([outbound(9, to(), vec![b'x'; (1 << 20) + 1])]).collect();
    let answers = delaybridge_sink::Answers::new(messages.len());
    sink.deliver_all(messages, &answers).await;
    let mut answered = answers.take();
    answered.confirmed.sort_unstable();
    assert_eq!(answered.confirmed, [0, 1, 2, 3, 4]);
    let failure = &answered.failed[0].1;
    assert_eq!((answered.failed.len(), failure.class), (1, Class::MessagePermanent), "{failure}");
    sink.close().await;
}

#[tokio::test]
async fn a_look_finds_a_queue() {
    let server = Server::shared().await;
    let standard = server.queue("").await;
    let fifo = server.queue(".fifo").await;
    let sink = patient_sink(spec(&server));
    let look = async |url: &str| {
        let places = [destination(AwsService::Sqs, url, None)];
        (sink.check(&places).await, sink.drawbacks(&places).await)
    };
    assert_eq!(look(&standard).await, (Ok(Vec::new()), Vec::new()));
    assert_eq!(look(&fifo).await, (Ok(Vec::new()), Vec::new()));
    let failure = look(&server.0.queue_url("nobody")).await.0.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "aws_no_target"), "{failure}");
    assert_eq!(sink.probe().unwrap().await, Ok(()));
    sink.close().await;
}
