//! Questions to the name servers: the route of a topic, and whether there is any broker.

use futures_util::FutureExt;

use super::call::AskEnd;
use super::peer::RemotingPeer;
use crate::wire::frame::RemotingRequest;
use crate::wire::route::{self, TopicRoute};
use crate::wire::{NotRemoting, code};
use crate::{codes, errors};
use delaybridge_core::message::Failure;

/// The code of a name server that knows no such topic.
const NO_TOPIC: i64 = 17;

pub(super) type RouteAnswer = Result<TopicRoute, Failure>;

/// Asks for the route of a topic. The future is not bound to the name servers.
pub(super) fn find(name_servers: &RemotingPeer, topic: &str) -> impl Future<Output = RouteAnswer> + Send + use<> {
    let attempt = format!("ask the name server for topic {topic}");
    let fields = [("topic", topic.to_owned()), ("acceptStandardJsonOnly", "true".to_owned())].into();
    let request = RemotingRequest { code: code::ROUTE, fields, ..RemotingRequest::default() };
    let first = name_servers.ask(request.clone());
    let again = name_servers.ask(request);
    let brokers = has_brokers(name_servers);
    async move { answered(&attempt, first, brokers, again).await }
}

/// Decides by the first answer, and by another one if the name server knows no such topic. It forgets the topics of brokers that are
/// away: without any broker, that says nothing. With one, it may have registered since the first answer.
async fn answered(
    attempt: &str,
    first: impl Future<Output = AskEnd>,
    brokers: impl Future<Output = Result<(), Failure>>,
    again: impl Future<Output = AskEnd>,
) -> RouteAnswer {
    let mut answer = first.await?;
    if answer.code == NO_TOPIC {
        brokers.await?;
        answer = again.await?;
    }
    match answer.code {
        0 => TopicRoute::read(&answer.body).map_err(|why| unreadable(attempt, why)),
        _ => Err(errors::of_ask(attempt, &answer)),
    }
}

/// Asks whether the name servers know any broker. The future asks when it is awaited.
pub(super) fn has_brokers(name_servers: &RemotingPeer) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
    const ATTEMPT: &str = "ask the name server for brokers";
    let asking = name_servers.ask(RemotingRequest { code: code::CLUSTER, ..RemotingRequest::default() });
    asking.map(|answer| {
        let answer = answer?;
        match answer.code {
            0 => {
                if route::has_brokers(&answer.body).map_err(|why| unreadable(ATTEMPT, why))? {
                    Ok(())
                } else {
                    Err(errors::no_broker(ATTEMPT))
                }
            }
            _ => Err(errors::of_ask(ATTEMPT, &answer)),
        }
    })
}

fn unreadable(attempt: &str, NotRemoting(why): NotRemoting) -> Failure {
    codes::ERROR.failure(format!("{attempt}: it answered with {why}: see its log"))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use bytes::Bytes;

    use super::*;
    use crate::wire::frame::RemotingAnswer;
    use delaybridge_core::message::Class;

    fn answer(code: i64) -> AskEnd {
        Ok(RemotingAnswer { code, remark: String::new(), body: Bytes::from_static(b"{}") })
    }

    #[tokio::test]
    async fn a_topic_is_missing_if_brokers_are_there_and_it_is_asked_for_once_more() {
        let check = async |brokers: Result<(), Failure>, again: i64, expected: Result<(), Class>| {
            let end = answered("ask", ready(answer(NO_TOPIC)), ready(brokers), ready(answer(again))).await;
            assert_eq!(end.map(drop).map_err(|failure| failure.class), expected, "{again}");
        };
        check(Err(errors::no_broker("ask")), NO_TOPIC, Err(Class::Transient)).await;
        check(Ok(()), NO_TOPIC, Err(Class::TargetPermanent)).await;
        // A broker has registered between the two questions.
        check(Ok(()), 0, Ok(())).await;
    }
}
