//! Opens channels, although the library uses up their numbers.
//!
//! The library never opens a channel again under a number that the broker has closed once: it answers with the error of
//! that time, sends nothing, and keeps the number. So an error of the broker in answer to an opening means the next
//! number, and when they are used up, only another connection has channels.

use std::time::Duration;

use lapin::{Channel, ErrorKind};
use tokio::time::timeout;

use super::session::AmqpSession;
use crate::errors;
use delaybridge_core::message::Failure;

/// Opens a channel. The session is given up, and not up any more, if it can never open one again. An error costs no
/// element an attempt.
pub(crate) async fn open(session: &AmqpSession, time: Duration) -> Result<Channel, Failure> {
    match timeout(time, unused(session)).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => Err(errors::no_channel(&explain(&error, session))),
        // No reason to give it up: a broker that is slow, or has blocked the connection, answers in the end.
        Err(_) => Err(errors::no_channel(&format!("no answer within {time:?}"))),
    }
}

async fn unused(session: &AmqpSession) -> lapin::Result<Channel> {
    loop {
        match session.connection.create_channel().await {
            Err(error) if matches!(error.kind(), ErrorKind::ProtocolError(_)) && session.is_up() => {
                // Ends: a number that was used up counts as one in use, and of those there are not more than the limit.
                session.note_used_up();
            }
            Err(error) if matches!(error.kind(), ErrorKind::ChannelsLimitReached) && session.has_used_up() => {
                session.give_up();
                return Err(error);
            }
            result => return result,
        }
    }
}

fn explain(error: &lapin::Error, session: &AmqpSession) -> String {
    match error.kind() {
        ErrorKind::ChannelsLimitReached => {
            let max = session.connection.configuration().channel_max();
            format!("all {max} of the connection are in use: raise the broker's channel_max")
        }
        _ => error.to_string(),
    }
}
