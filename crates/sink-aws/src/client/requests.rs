//! One request and its answer, and what they say about each element.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::header::{HeaderValue, USER_AGENT};

use super::connections::AwsConnections;
use crate::wire::answer::{BatchAnswer, PlaceAnswer, ServiceError};
use crate::wire::message::WireMessage;
use crate::wire::{self, WireRequest};
use crate::{AwsDestination, AwsSpec, errors};
use delaybridge_aws::{AwsCredentials, AwsLogin, AwsSigner, AwsVariables, unix_now};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_http_client::{ExchangeError, HttpAnswer, HttpConnection, HttpPeer, SendError};
use delaybridge_sink::Outbound;
use delaybridge_sink::worker_queue::WorkItem;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("delaybridge/", env!("CARGO_PKG_VERSION")));
/// Largest answer: that to ten messages has some KB.
const ANSWER: usize = 256 << 10;
/// Connections that are tried while each of them ends before a byte was sent.
const TRIES: usize = 3;

/// The client of a sink: its server, its login.
#[derive(Debug)]
pub(super) struct AwsClient {
    spec: AwsSpec,
    timeout: Duration,
    login: AwsLogin,
    connections: AwsConnections,
}

/// The end of sending several messages.
enum BatchEnd {
    /// The outcome of each, in their order.
    Each(Vec<Outcome>),
    /// The request was refused because of one of its messages.
    OfOne,
}

impl AwsClient {
    pub(super) fn new(spec: AwsSpec, timeout: Duration) -> AwsClient {
        let peer =
            HttpPeer::new(spec.origin.clone(), spec.tls.clone().unwrap_or_default()).with_proxy(spec.proxy.clone());
        // An attempt to connect ends before the delivery that waits for it, so that it can say why it failed.
        let connections = AwsConnections::new(peer, spec.connect_timeout.min(timeout * 4 / 5));
        let login = AwsLogin::new(&spec.login, AwsVariables::of_process());
        AwsClient { spec, timeout, login, connections }
    }

    pub(super) fn spec(&self) -> &AwsSpec {
        &self.spec
    }

    /// Delivers elements for one queue or topic, and answers for each.
    pub(super) async fn deliver(&self, batch: Vec<WorkItem>) {
        let first = batch.first().map(|item| item.message().destination.clone());
        let Some(destination) = first else { return };
        let kind = self.spec.service.kind();
        let destination = match destination.of_kind::<AwsDestination>(kind) {
            Ok(found) if found.service == self.spec.service => found,
            found => {
                let text = format!("deliver to sink of kind {kind}: it has no {destination}");
                let failure = Failure::new(Class::TargetPermanent, "wrong_destination", text);
                let failure = found.err().unwrap_or(failure);
                return batch.into_iter().for_each(|item| item.finish(Err(failure.clone())));
            }
        };
        let (credentials, connection) = match self.ready().await {
            Ok(ready) => ready,
            Err(failure) => return batch.into_iter().for_each(|item| item.finish(Err(failure.clone()))),
        };
        // Asked last: from here on bytes may leave.
        let sent: Vec<WorkItem> = batch.into_iter().filter(WorkItem::may_send).collect();
        let messages: Vec<&Outbound> = sent.iter().map(WorkItem::message).collect();
        if messages.is_empty() {
            return self.connections.keep(connection);
        }
        let place = &destination.place;
        let outcomes = match self.send_all(place, &messages, credentials, Some(connection)).await {
            BatchEnd::Each(outcomes) => outcomes,
            BatchEnd::OfOne => self.one_by_one(place, &messages).await,
        };
        sent.into_iter().zip(outcomes).for_each(|(item, outcome)| item.finish(outcome));
    }

    /// Returns credentials and a connection.
    async fn ready(&self) -> Result<(Arc<AwsCredentials>, HttpConnection), Failure> {
        let credentials = self.login.current().await?;
        Ok((credentials, self.connections.acquire(false).await?))
    }

    /// Sends each message by itself: nothing of the request that they were in was taken.
    async fn one_by_one(&self, place: &str, messages: &[&Outbound]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(messages.len());
        for message in messages {
            let sent = match self.login.current().await {
                Ok(credentials) => self.send_all(place, &[message], credentials, None).await,
                Err(failure) => BatchEnd::Each(vec![Err(failure)]),
            };
            let alone = || Err(errors::unclear(&self.attempt(place)));
            outcomes.push(match sent {
                BatchEnd::Each(mut each) => each.pop().unwrap_or_else(alone),
                BatchEnd::OfOne => alone(),
            });
        }
        outcomes
    }

    fn attempt(&self, place: &str) -> String {
        format!("send to {} {place}", self.spec.service.title())
    }

    async fn send_all(
        &self,
        place: &str,
        messages: &[&Outbound],
        credentials: Arc<AwsCredentials>,
        connection: Option<HttpConnection>,
    ) -> BatchEnd {
        let attempt = self.attempt(place);
        let kind = self.spec.service.kind();
        let wire: Vec<WireMessage<'_>> = messages
            .iter()
            .filter_map(|message| Some(WireMessage::of(message, message.destination.of_kind(kind).ok()?)))
            .collect();
        let request = wire::send(self.spec.service, place, &wire);
        drop(wire);
        let send_before = messages.iter().map(|message| message.send_before).min();
        let all = |failure: Failure| BatchEnd::Each(vec![Err(failure); messages.len()]);
        let answer = match self.exchange(&attempt, &request, credentials, connection, send_before).await {
            Ok(answer) => answer,
            Err(failure) => return all(failure),
        };
        match wire::sent(self.spec.service, &answer, messages.len()) {
            BatchAnswer::Each(each) => BatchEnd::Each(
                each.into_iter()
                    .map(|answer| match answer {
                        Some(Ok(())) => Ok(()),
                        Some(Err(error)) => Err(errors::of_entry(&attempt, &error)),
                        None => Err(errors::unclear(&attempt)),
                    })
                    .collect(),
            ),
            BatchAnswer::Refused(_, error) if messages.len() > 1 && errors::is_of_one(&error) => BatchEnd::OfOne,
            BatchAnswer::Refused(status, error) => all(errors::of_request(&attempt, status, &error)),
        }
    }

    /// Sends a request, and reads its answer. Credentials that are refused are replaced once.
    async fn exchange(
        &self,
        attempt: &str,
        request: &WireRequest,
        credentials: Arc<AwsCredentials>,
        connection: Option<HttpConnection>,
        send_before: Option<Instant>,
    ) -> Result<HttpAnswer, Failure> {
        let answer = self.once(attempt, request, &credentials, connection, send_before).await?;
        if !self.refuses_credentials(&answer) {
            return Ok(answer);
        }
        self.login.forget(&credentials);
        match self.login.current().await {
            Ok(others) => self.once(attempt, request, &others, None, send_before).await,
            Err(_) => Ok(answer),
        }
    }

    fn refuses_credentials(&self, answer: &HttpAnswer) -> bool {
        // Nearly every answer: it is read once, by who asked for it.
        if wire::is_accepted(answer) {
            return false;
        }
        let error: Option<ServiceError> = match wire::sent(self.spec.service, answer, 0) {
            BatchAnswer::Refused(_, error) => Some(error),
            BatchAnswer::Each(_) => None,
        };
        error.is_some_and(|error| errors::is_of_credentials(&error))
    }

    async fn once(
        &self,
        attempt: &str,
        request: &WireRequest,
        credentials: &AwsCredentials,
        mut connection: Option<HttpConnection>,
        send_before: Option<Instant>,
    ) -> Result<HttpAnswer, Failure> {
        for number in 0..TRIES {
            let mut connection = match connection.take() {
                Some(connection) => connection,
                None => self.connections.acquire(number > 0).await?,
            };
            if send_before.is_some_and(|before| Instant::now() >= before) {
                self.connections.keep(connection);
                return Err(Failure::stale());
            }
            let signed = self.signed(attempt, request, credentials)?;
            match tokio::time::timeout(self.timeout, connection.send(signed, ANSWER)).await {
                Ok(Ok(answer)) => {
                    self.connections.keep(connection);
                    return Ok(answer);
                }
                // The connection had ended, without a byte of this request.
                Ok(Err(SendError::NotSent)) => {}
                Ok(Err(SendError::Refused(error))) => {
                    return Err(errors::not_connected(&self.connections.server(), &ExchangeError::NotConnected(error)));
                }
                Ok(Err(SendError::InDoubt(error))) => return Err(errors::in_doubt(attempt, &error)),
                Err(_) => return Err(errors::in_doubt(attempt, &ExchangeError::TimedOut(self.timeout))),
            }
        }
        Err(errors::ended_at_once(&self.connections.server()))
    }

    fn signed(
        &self,
        attempt: &str,
        request: &WireRequest,
        credentials: &AwsCredentials,
    ) -> Result<Request<Full<bytes::Bytes>>, Failure> {
        let service = self.spec.service.kind();
        let region = self.spec.login.region.as_str();
        let signer = AwsSigner { credentials, service, region, at: unix_now() };
        let mut made = Request::post("/").header(USER_AGENT, AGENT);
        for (name, value) in &request.headers {
            made = made.header(*name, *value);
        }
        for (name, value) in signer.headers(&self.connections.host(), &request.headers, &request.body) {
            let mut value = HeaderValue::try_from(value).map_err(|_| errors::unclear(attempt))?;
            value.set_sensitive(name != "x-amz-date");
            made = made.header(name, value);
        }
        made.body(Full::new(request.body.clone())).map_err(|_| errors::unclear(attempt))
    }

    /// Asks for the settings of a queue or a topic.
    pub(super) async fn look(&self, attempt: &str, place: &str) -> Result<Vec<(String, String)>, Failure> {
        let credentials = self.login.current().await?;
        let request = wire::look(self.spec.service, place);
        let answer = self.exchange(attempt, &request, credentials, None, None).await?;
        match wire::looked(self.spec.service, &answer) {
            PlaceAnswer::Settings(settings) => Ok(settings),
            PlaceAnswer::Refused(status, error) => Err(errors::of_request(attempt, status, &error)),
        }
    }

    /// Connects, and finds credentials; sends nothing.
    pub(super) async fn connects(&self) -> Result<(), Failure> {
        self.login.current().await?;
        let connection = self.connections.acquire(true).await?;
        self.connections.keep(connection);
        Ok(())
    }
}
