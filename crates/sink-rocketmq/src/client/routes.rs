//! Questions to the name servers: the route of a topic, and whether there is any broker.

use futures_util::FutureExt;

use super::peer::RemotingPeer;
use crate::errors;
use crate::wire::frame::RemotingRequest;
use crate::wire::route::{self, TopicRoute};
use crate::wire::{NotRemoting, code};
use delaybridge_core::message::{Class, Failure};

/// The code of a name server that knows no such topic.
const NO_TOPIC: i64 = 17;

/// The route of a topic, or why it is not known.
pub(super) type RouteAnswer = Result<TopicRoute, Failure>;

/// Asks for the route of a topic. The future is not bound to the name servers.
pub(super) fn find(name_servers: &RemotingPeer, topic: &str) -> impl Future<Output = RouteAnswer> + Send + use<> {
    let attempt = format!("ask the name server for topic {topic}");
    let fields = [("topic", topic.to_owned()), ("acceptStandardJsonOnly", "true".to_owned())].into();
    let asking = name_servers.ask(RemotingRequest { code: code::ROUTE, fields, ..RemotingRequest::default() });
    let brokers = has_brokers(name_servers);
    async move {
        let answer = asking.await?;
        match answer.code {
            0 => TopicRoute::read(&answer.body).map_err(|why| unreadable(&attempt, why)),
            NO_TOPIC => {
                // A name server forgets the topics of brokers that are away: without any broker, that says nothing.
                brokers.await?;
                Err(errors::of_ask(&attempt, &answer))
            }
            _ => Err(errors::of_ask(&attempt, &answer)),
        }
    }
}

/// Asks whether the name servers know any broker. The future asks when it is awaited.
pub(super) fn has_brokers(name_servers: &RemotingPeer) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
    const ATTEMPT: &str = "ask the name server for brokers";
    let asking = name_servers.ask(RemotingRequest { code: code::CLUSTER, ..RemotingRequest::default() });
    asking.map(|answer| {
        let answer = answer?;
        match answer.code {
            0 => match route::has_brokers(&answer.body).map_err(|why| unreadable(ATTEMPT, why))? {
                true => Ok(()),
                false => Err(errors::no_broker(ATTEMPT)),
            },
            _ => Err(errors::of_ask(ATTEMPT, &answer)),
        }
    })
}

fn unreadable(attempt: &str, NotRemoting(why): NotRemoting) -> Failure {
    Failure::new(Class::Unknown, "rocketmq_error", format!("{attempt}: it answered with {why}: see its log"))
}
