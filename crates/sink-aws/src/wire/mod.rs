//! Requests and answers of both services. Pure.

pub(super) mod answer;
pub(super) mod message;
mod sns;
mod sqs;

pub(super) use self::answer::is_accepted;
pub(super) use self::message::WireRequest;
use super::service::AwsService;
use answer::{BatchAnswer, PlaceAnswer};
use delaybridge_http_client::HttpAnswer;
use message::WireMessage;

pub(super) fn send(service: AwsService, place: &str, messages: &[WireMessage<'_>]) -> WireRequest {
    match service {
        AwsService::Sqs => sqs::send(place, messages),
        AwsService::Sns => sns::send(place, messages),
    }
}

/// Reads the answer to a request with so many messages.
pub(super) fn sent(service: AwsService, answer: &HttpAnswer, count: usize) -> BatchAnswer {
    match service {
        AwsService::Sqs => sqs::sent(answer, count),
        AwsService::Sns => sns::sent(answer, count),
    }
}

/// Returns the request for the settings of a queue or a topic.
pub(super) fn look(service: AwsService, place: &str) -> WireRequest {
    match service {
        AwsService::Sqs => sqs::look(place),
        AwsService::Sns => sns::look(place),
    }
}

/// Reads the settings in an answer.
pub(super) fn looked(service: AwsService, answer: &HttpAnswer) -> PlaceAnswer {
    match service {
        AwsService::Sqs => sqs::looked(answer),
        AwsService::Sns => sns::looked(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with one message that was taken, the first.
    const ANSWERS: [(AwsService, &str); 2] = [
        (
            AwsService::Sqs,
            r#"{"Successful":[{"Id":"0","MessageId":"m"}],"Failed":[{"Id":"1","Code":"c","SenderFault":true}],"Attributes":{"a":"b"}}"#,
        ),
        (
            AwsService::Sns,
            "<?xml version=\"1.0\"?><R x=\"y\"><PublishBatchResult><Failed><member><Id>1</Id><Code>c&amp;</Code></member></Failed><Successful>\
             <member><Id>0</Id><MessageId>m</MessageId></member></Successful></PublishBatchResult><!-- c --><Error/></R>",
        ),
    ];

    #[test]
    fn a_damaged_answer_is_read_or_says_nothing() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let (service, text) = ANSWERS[random.usize(..2)];
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                match random.u8(..4) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at + 1),
                    2 => bytes.swap(0, at),
                    _ => bytes.extend_from_within(at..),
                }
            }
            let status = [200, 400, 503][random.usize(..3)];
            let answer = HttpAnswer { status, headers: hyper::HeaderMap::new(), body: bytes.into() };
            looked(service, &answer);
            match sent(service, &answer, 3) {
                BatchAnswer::Each(each) => assert!(status == 200 && each.len() == 3),
                BatchAnswer::Refused(..) => assert_ne!(status, 200),
            }
        }
    }
}
