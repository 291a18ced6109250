//! Answers that a server of tests does not give: throttled, failed in part, credentials that have expired, no answer at all.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::{destination, patient_sink, spec};
use crate::{AwsService, AwsSink};
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{Answers, Outbound, Sink};
use delaybridge_testing::sink::outbound;

const PLACE: &str = "https://sqs.eu-west-1.amazonaws.com/1/orders";
const TOPIC: &str = "arn:aws:sns:eu-west-1:1:orders";

/// A status with a body; without a status the connection is closed.
type Script = &'static [(u16, &'static str)];

/// A server that gives one answer after the other, and then confirms everything.
struct Scripted {
    sink: Arc<AwsSink>,
    service: AwsService,
    /// The requests: head and body.
    seen: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Scripted {
    async fn start(service: AwsService, script: Script) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(service, listener.local_addr().unwrap().port(), folder.path());
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let answers = Arc::new(Mutex::new(script.iter().copied().collect::<VecDeque<_>>()));
        let kept = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(service, stream, answers.clone(), kept.clone()));
            }
        });
        Scripted { sink: patient_sink(spec), service, seen, _folder: folder }
    }

    fn message(&self, n: u64) -> Outbound {
        let place = if self.service == AwsService::Sqs { PLACE } else { TOPIC };
        outbound(n, destination(self.service, place, None), format!("body-{n}"))
    }

    /// The failures of so many elements that are sent together, by their places.
    async fn failures(&self, count: u64) -> Vec<(usize, Failure)> {
        let answers = Answers::new(count as usize);
        self.sink.deliver_all((0..count).map(|n| self.message(n)).collect(), &answers).await;
        let mut answered = answers.take();
        assert_eq!(answered.confirmed.len() + answered.failed.len(), count as usize);
        answered.failed.sort_by_key(|(place, _)| *place);
        answered.failed
    }
}

/// Answers the requests of a connection; keeps what was asked.
pub(super) async fn serve(
    service: AwsService,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answers: Arc<Mutex<VecDeque<(u16, &'static str)>>>,
    seen: Arc<Mutex<Vec<String>>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.trim().parse().ok()?;
            }
            head.push_str(&line);
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).ok()?;
        let scripted = answers.lock().pop_front();
        let (status, answer) = match scripted {
            Some((0, _)) => return None,
            Some((status, answer)) => (status, answer.to_owned()),
            None => (200, confirmed(service, &body)),
        };
        seen.lock().push(head + &body);
        let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
        stream.write_all(text.as_bytes()).await.ok()?;
    }
}

/// An answer that confirms each message of a request.
fn confirmed(service: AwsService, body: &str) -> String {
    match service {
        AwsService::Sqs => {
            let ids = (0..10).filter(|n| body.contains(&format!("\"Id\":\"{n}\"")));
            let entries: Vec<_> = ids.map(|n| format!(r#"{{"Id":"{n}","MessageId":"m"}}"#)).collect();
            format!(r#"{{"Successful":[{}]}}"#, entries.join(","))
        }
        AwsService::Sns => {
            let ids = (0..10).filter(|n| body.contains(&format!(".Id={n}&")));
            let members: String =
                ids.map(|n| format!("<member><Id>{n}</Id><MessageId>m</MessageId></member>")).collect();
            format!("<R><PublishBatchResult><Successful>{members}</Successful></PublishBatchResult></R>")
        }
    }
}

const EXPIRED: (u16, &str) = (403, r#"{"__type":"x#ExpiredTokenException","message":"geheim"}"#);

#[tokio::test]
async fn each_entry_of_an_answer_is_one_elements() {
    let answer = r#"{"Successful":[{"Id":"0","MessageId":"m"}],"Failed":[
        {"Id":"1","Code":"InvalidMessageContents","SenderFault":true},
        {"Id":"2","Code":"InternalError","SenderFault":false},
        {"Id":"3","Code":"KmsThrottled","SenderFault":true}]}"#;
    let answer: Script = Box::leak(Box::new([(200, answer)]));
    let scripted = Scripted::start(AwsService::Sqs, answer).await;
    let failed = scripted.failures(5).await;
    let classes: Vec<_> = failed.iter().map(|(place, failure)| (*place, failure.class, failure.code)).collect();
    let expected = [
        (1, Class::MessagePermanent, "aws_refused"),
        (2, Class::Transient, "aws_internal"),
        (3, Class::Backpressure, "aws_throttled"),
        (4, Class::Unknown, "aws_error"),
    ];
    assert_eq!(classes, expected);
}

#[tokio::test]
async fn the_refusal_of_a_whole_request_is_that_of_each() {
    let rows: [(Script, Class, &str); 5] = [
        (&[(400, r#"{"__type":"x#ThrottlingException"}"#)], Class::Backpressure, "aws_throttled"),
        (&[(503, "busy")], Class::Ambiguous, "aws_internal"),
        (&[(400, r#"{"__type":"x#QueueDoesNotExist"}"#)], Class::TargetPermanent, "aws_no_target"),
        (&[(500, "")], Class::Ambiguous, "aws_error"),
        (&[(0, "")], Class::Ambiguous, "connection_lost"),
    ];
    for (script, class, code) in rows {
        let scripted = Scripted::start(AwsService::Sqs, script).await;
        let failed = scripted.failures(3).await;
        assert!(
            failed.len() == 3 && failed.iter().all(|(_, failure)| (failure.class, failure.code) == (class, code)),
            "{failed:?}"
        );
        assert_eq!(scripted.failures(3).await, [], "the next request is another");
    }
}

#[tokio::test]
async fn one_message_that_spoils_a_request_fails_alone() {
    let wrong = (400, r#"{"__type":"x#InvalidParameterValue"}"#);
    let script: Script = Box::leak(Box::new([wrong, (200, r#"{"Successful":[{"Id":"0","MessageId":"m"}]}"#), wrong]));
    let scripted = Scripted::start(AwsService::Sqs, script).await;
    let failed = scripted.failures(3).await;
    let classes: Vec<_> = failed.iter().map(|(place, failure)| (*place, failure.class)).collect();
    assert_eq!(classes, [(1, Class::MessagePermanent)]);
    assert_eq!(scripted.seen.lock().len(), 4, "all together, then each by itself");
}

#[tokio::test]
async fn expired_credentials_are_replaced_once_and_then_hold() {
    let scripted = Scripted::start(AwsService::Sqs, &[EXPIRED]).await;
    assert_eq!(scripted.failures(2).await, [], "others were found");
    let scripted = Scripted::start(AwsService::Sqs, &[EXPIRED, EXPIRED]).await;
    let failed = scripted.failures(1).await;
    assert_eq!((failed[0].1.class, failed[0].1.code), (Class::TargetPermanent, "credentials_refused"));
    assert!(!failed[0].1.message.contains("geheim"), "{}", failed[0].1);
}

#[tokio::test]
async fn a_request_is_signed_and_has_ten_messages_at_most() {
    let scripted = Scripted::start(AwsService::Sqs, &[]).await;
    assert_eq!(scripted.failures(25).await, []);
    let seen = scripted.seen.lock();
    let sizes: Vec<_> = seen.iter().map(|request| request.matches("\"Id\":").count()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 25);
    assert!(sizes.iter().all(|size| *size <= 10) && sizes.len() == 3, "{sizes:?}");
    let head = &seen[0];
    assert!(
        head.contains("authorization: AWS4-HMAC-SHA256 Credential=AKIATEST/")
            && head.contains("/eu-west-1/sqs/aws4_request")
    );
    assert!(head.contains("x-amz-target: AmazonSQS.SendMessageBatch") && !head.contains("geheim"));
}

#[tokio::test]
async fn sns_has_the_same_classes() {
    let failed = "<R><PublishBatchResult><Failed><member><Id>1</Id><Code>InvalidParameter</Code><SenderFault>true</SenderFault></member>\
                  </Failed><Successful><member><Id>0</Id><MessageId>m</MessageId></member></Successful></PublishBatchResult></R>";
    let gone = "<ErrorResponse><Error><Type>Sender</Type><Code>NotFound</Code></Error></ErrorResponse>";
    let script: Script = Box::leak(Box::new([(200, failed), (404, gone)]));
    let scripted = Scripted::start(AwsService::Sns, script).await;
    let first = scripted.failures(2).await;
    assert_eq!((first[0].0, first[0].1.class), (1, Class::MessagePermanent));
    let second = scripted.failures(1).await;
    assert_eq!((second[0].1.class, second[0].1.code), (Class::TargetPermanent, "aws_no_target"));
    assert_eq!(scripted.failures(12).await, []);
    let seen = scripted.seen.lock();
    assert!(seen[0].contains("Action=PublishBatch&") && seen[0].contains("/eu-west-1/sns/aws4_request"), "{}", seen[0]);
}
