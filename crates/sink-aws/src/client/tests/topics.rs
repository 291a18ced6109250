//! Topics of moto: what arrives in a queue that subscribes, signatures and rights, and the credentials of a role.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use brokers::Moto;
use form_urlencoded::byte_serialize;

use super::{destination, patient_sink, with_more, write_whole};
use crate::{AwsService, AwsSink, AwsSpec};
use delaybridge_aws::{AwsLogin, AwsLoginSpec, AwsVariables, XmlElement};
use delaybridge_core::message::Class;
use delaybridge_sink::{Destination, HeaderRules, Sink, header_rules};
use delaybridge_testing::sink::{ReceivedMessage, Rig, outbound};
use delaybridge_testing::sink_contract_tests;

struct Server(Arc<Moto>);

impl Server {
    async fn start_strict(after: u32) -> Server {
        let start = move || Moto::start_strict(after).unwrap();
        Server(Arc::new(tokio::task::spawn_blocking(start).await.unwrap()))
    }

    /// The server of all tests that need no rights.
    async fn shared() -> Server {
        static SHARED: OnceLock<Arc<Moto>> = OnceLock::new();
        let start = || SHARED.get_or_init(|| Arc::new(Moto::start().unwrap())).clone();
        Server(tokio::task::spawn_blocking(start).await.unwrap())
    }

    async fn ask(&self, service: &'static str, action: &'static str, parameters: &[(&str, &str)]) -> XmlElement {
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let form: String = parameters.iter().map(|(name, value)| format!("&{name}={}", encoded(value))).collect();
        let server = self.0.clone();
        let asked = tokio::task::spawn_blocking(move || server.ask(service, action, &form));
        XmlElement::read(&asked.await.unwrap().unwrap()).unwrap()
    }

    fn spec(&self, key: &str, secret: &str) -> AwsSpec {
        let spec = super::spec(AwsService::Sns, self.0.port(), self.0.folder());
        let file = self.0.folder().join(format!("{key}-{secret}").replace('/', "_"));
        write_whole(&file, &format!("[default]\naws_access_key_id={key}\naws_secret_access_key={secret}\n"));
        AwsSpec { login: AwsLoginSpec { credentials_file: Some(file), ..spec.login }, ..spec }
    }

    /// Makes a topic, and a queue that gets what is published there. Returns their addresses.
    async fn topic(&self, name: &str) -> (String, String) {
        let made = self.ask("sns", "CreateTopic", &[("Name", name)]).await;
        let topic = made.find("TopicArn").unwrap().text.clone();
        let queue = self.ask("sqs", "CreateQueue", &[("QueueName", name)]).await.find("QueueUrl").unwrap().text.clone();
        let arn = format!("arn:aws:sqs:eu-west-1:123456789012:{name}");
        let raw = [("Attributes.entry.1.key", "RawMessageDelivery"), ("Attributes.entry.1.value", "true")];
        let subscription = [("TopicArn", topic.as_str()), ("Protocol", "sqs"), ("Endpoint", &arn), raw[0], raw[1]];
        self.ask("sns", "Subscribe", &subscription).await;
        (topic, queue)
    }

    /// Takes everything out of a queue: bodies and attributes.
    async fn take(&self, queue: &str) -> Vec<(Vec<u8>, Vec<(String, String)>)> {
        let mut found = Vec::new();
        loop {
            let most = [("QueueUrl", queue), ("MaxNumberOfMessages", "10"), ("MessageAttributeName.1", "All")];
            let answer = self.ask("sqs", "ReceiveMessage", &most).await;
            let messages = &answer.child("ReceiveMessageResult").unwrap().children;
            if messages.is_empty() {
                return found;
            }
            for message in messages {
                let text = |name| message.text_of(name).unwrap();
                let attributes = message.children.iter().filter(|child| child.name == "MessageAttribute");
                let value = |of: &XmlElement| of.find("StringValue").unwrap().text.clone();
                let attributes: Vec<_> =
                    attributes.map(|of| (of.text_of("Name").unwrap().to_owned(), value(of))).collect();
                let encoding = attributes.iter().find(|(name, _)| name == "delaybridge-encoding");
                let body = match encoding.map(|(_, value)| value.as_str()) {
                    None => message.child("Body").unwrap().text.clone().into_bytes(),
                    Some("base64") => STANDARD.decode(text("Body")).unwrap(),
                    Some(_) => Vec::new(),
                };
                found.push((body, attributes));
                self.ask("sqs", "DeleteMessage", &[("QueueUrl", queue), ("ReceiptHandle", text("ReceiptHandle"))])
                    .await;
            }
        }
    }
}

/// A topic, and a queue that gets what is published there.
struct SnsRig {
    server: Server,
    topic: String,
    queue: String,
}

impl SnsRig {
    async fn new(name: &str) -> SnsRig {
        let server = Server::shared().await;
        let (topic, queue) = server.topic(name).await;
        SnsRig { server, topic, queue }
    }

    fn spec(&self) -> AwsSpec {
        self.server.spec("AKIATEST", "geheim")
    }
}

impl Rig for SnsRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(AwsSink::new(self.spec(), timeout))
    }

    fn destination(&self) -> Destination {
        destination(AwsService::Sns, &self.topic, None)
    }

    fn refusing(&self) -> Destination {
        destination(AwsService::Sns, "arn:aws:sns:eu-west-1:123456789012:nobody", None)
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn batch(&self) -> u64 {
        60
    }

    fn largest(&self) -> usize {
        // SNS takes 256 KiB with the attributes and in base64.
        150 << 10
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        self.server.take(&self.queue).await.into_iter().map(|(body, _)| body).collect()
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::AWS
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let messages = self.server.take(&self.queue).await.into_iter();
        messages.map(|(body, attributes)| (body, with_more(attributes))).collect()
    }

    async fn outage(&mut self) {
        unreachable!("moto forgets everything when it ends: the clauses of outages are tried with SQS");
    }

    async fn recover(&mut self) {}

    async fn stall(&mut self) {}

    async fn resume(&mut self) {}
}

mod contract {
    use super::*;

    sink_contract_tests! { SnsRig::new(std::thread::current().name().unwrap().rsplit(':').next().unwrap()).await,
        confirms_what_has_arrived,
        a_refused_element_is_the_only_one_that_fails,
        bodies_arrive_byte_for_byte,
        a_closed_sink_takes_nothing_more,
        a_batch_has_an_answer_for_each_place,
        stale_elements_of_a_batch_are_not_sent,
        an_element_for_another_kind_fails_alone,
        headers_pass_as_the_table_says,
    }
}

#[tokio::test]
async fn a_message_carries_what_is_known_of_the_element() {
    let rig = SnsRig::new("carries").await;
    let mut message = outbound(0xab, rig.destination(), "a <b> & \"ü\"");
    message.headers = vec![("tenant".into(), "t 1".to_owned())];
    patient_sink(rig.spec()).deliver(message).await.unwrap();
    let (body, attributes) = rig.server.take(&rig.queue).await.pop().unwrap();
    assert_eq!(String::from_utf8_lossy(&body), "a <b> & \"ü\"");
    let value = |name: &str| attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    assert_eq!((value("delaybridge-id"), value("tenant")), (Some("00000000000000ab"), Some("t 1")));
}

#[tokio::test]
async fn a_signature_that_another_program_checks_is_accepted_and_a_wrong_one_holds() {
    // Users, a key, a right, a topic: these are taken without a signature. moto asks for a right of its own for a batch.
    let server = Server::start_strict(5).await;
    for user in ["publisher", "nobody"] {
        server.ask("iam", "CreateUser", &[("UserName", user)]).await;
    }
    let key = server.ask("iam", "CreateAccessKey", &[("UserName", "publisher")]).await;
    let id = &key.find("AccessKeyId").unwrap().text;
    let secret = &key.find("SecretAccessKey").unwrap().text;
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["sns:Publish","sns:PublishBatch"],"Resource":"*"}]}"#;
    let policy = [("UserName", "publisher"), ("PolicyName", "p"), ("PolicyDocument", policy)];
    server.ask("iam", "PutUserPolicy", &policy).await;
    let topic = server.ask("sns", "CreateTopic", &[("Name", "t")]).await.find("TopicArn").unwrap().text.clone();
    let publish = async |id: &str, secret: &str| {
        let sink = patient_sink(server.spec(id, secret));
        sink.deliver(outbound(1, destination(AwsService::Sns, &topic, None), "x")).await
    };
    publish(id, secret).await.unwrap();
    let wrong = publish(id, "wrong").await.unwrap_err();
    assert_eq!((wrong.class, wrong.code), (Class::TargetPermanent, "credentials_refused"), "{wrong}");
    let stranger = publish("AKIANOBODY", "wrong").await.unwrap_err();
    assert_eq!((stranger.class, stranger.code), (Class::TargetPermanent, "credentials_refused"), "{stranger}");
    // To look is another right.
    let sink = patient_sink(server.spec(id, secret));
    let denied = sink.check(&[destination(AwsService::Sns, &topic, None)]).await.unwrap_err();
    assert_eq!((denied.class, denied.code), (Class::TargetPermanent, "aws_denied"), "{denied}");
}

#[tokio::test]
async fn the_credentials_of_a_role_come_from_sts() {
    let server = Server::shared().await;
    let url = format!("http://127.0.0.1:{}", server.0.port());
    let spec = AwsLoginSpec {
        region: "eu-west-1".to_owned(),
        role_arn: Some("arn:aws:iam::123456789012:role/publisher".to_owned()),
        ..AwsLoginSpec::default()
    };
    let own = [("AWS_ACCESS_KEY_ID", "AKIATEST"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_ENDPOINT_URL_STS", &*url)];
    let credentials = AwsLogin::new(&spec, AwsVariables::of(&own)).current().await.unwrap();
    assert!(credentials.key_id().starts_with("ASIA"), "{credentials:?}");
    assert!(credentials.left().is_some_and(|left| left > Duration::from_secs(3000)), "{credentials:?}");
    let token = server.0.folder().join("token");
    std::fs::write(&token, "e30.e30.e30").unwrap();
    let pod = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod"),
        ("AWS_ENDPOINT_URL_STS", &*url),
    ];
    let credentials = AwsLogin::new(&AwsLoginSpec { role_arn: None, ..spec }, AwsVariables::of(&pod)).current().await;
    assert!(credentials.unwrap().key_id().starts_with("ASIA"));
}

#[tokio::test]
async fn a_look_finds_a_topic() {
    let rig = SnsRig::new("looked").await;
    let places = [rig.destination()];
    let sink = patient_sink(rig.spec());
    assert_eq!(sink.check(&places).await, Ok(Vec::new()));
    assert_eq!(sink.drawbacks(&places).await, [""; 0]);
    let failure = sink.check(&[rig.refusing()]).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "aws_no_target"), "{failure}");
}
