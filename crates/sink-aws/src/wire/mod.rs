//! Requests and answers of both services. Pure.

pub(super) mod answer;
pub(super) mod message;
mod sns;
mod sqs;

use bytes::Bytes;

use super::service::AwsService;
use answer::{BatchAnswer, PlaceAnswer};
use delaybridge_http_client::HttpAnswer;
use message::WireMessage;

/// A request before it is signed: the headers that are not of the connection, in lower case, and the body.
pub(super) struct WireRequest {
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: Bytes,
}

/// The request that sends these messages to a queue or a topic.
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

/// The request for the settings of a queue or a topic.
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
