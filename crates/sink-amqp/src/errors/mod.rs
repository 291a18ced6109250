//! The class of every failure of an AMQP broker; one row a code, each tested.
//!
//! A code without a row is `Unknown`: retried, counted, never a success. The texts are the broker's own and name
//! exchanges, queues and users, never a payload.
//!
//! A failure names its subject: the sink, the exchange or the route. The pipeline asks the queue's templates whether the
//! payload chose it.

use lapin::ErrorKind;

use super::codes;
use delaybridge_core::message::{About, Class, Failure};
use delaybridge_sink::ErrorRow;

/// Reply codes of the protocol that the sink acts upon.
pub(super) const ACCESS_REFUSED: u16 = 403;
pub(super) const NOT_FOUND: u16 = 404;
pub(super) const RESOURCE_LOCKED: u16 = 405;
pub(super) const PRECONDITION_FAILED: u16 = 406;

/// The scope of a failure of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Message,
    /// Every message to the exchange with the same routing key.
    Route,
    /// Every message to the exchange.
    Exchange,
    /// Everything on the channel, for no reason that is known to be the message's or the exchange's.
    Channel,
    Connection,
}

/// Returns the row of a reply code, if it is known.
fn reply(code: u16) -> Option<ErrorRow> {
    Some(match code {
        311 => codes::CONTENT_TOO_LARGE,
        312 => codes::NO_ROUTE,
        313 => codes::NO_CONSUMERS,
        320 => codes::CONNECTION_FORCED,
        402 => codes::INVALID_PATH,
        ACCESS_REFUSED => codes::ACCESS_REFUSED,
        NOT_FOUND => codes::NOT_FOUND,
        RESOURCE_LOCKED => codes::RESOURCE_LOCKED,
        PRECONDITION_FAILED => codes::PRECONDITION_FAILED,
        501 => codes::FRAME_ERROR,
        502 => codes::SYNTAX_ERROR,
        503 => codes::COMMAND_INVALID,
        504 => codes::CHANNEL_ERROR,
        505 => codes::UNEXPECTED_FRAME,
        506 => codes::RESOURCE_ERROR,
        530 => codes::NOT_ALLOWED,
        540 => codes::NOT_IMPLEMENTED,
        541 => codes::INTERNAL_ERROR,
        _ => return None,
    })
}

/// Returns the name of a reply code, safe as a metric label.
pub(super) fn name(code: u16) -> &'static str {
    reply(code).map_or("OTHER", |row| row.code)
}

/// The error that caused the failed answers of a channel.
#[derive(Clone, Debug)]
pub(super) struct ChannelError {
    /// The broker's reply code, if it gave one.
    code: Option<u16>,
    /// Stable code of ours.
    label: &'static str,
    text: String,
    scope: Scope,
}

impl ChannelError {
    pub(super) fn of(error: &lapin::Error) -> ChannelError {
        match error.kind() {
            ErrorKind::ProtocolError(error) => {
                let code = error.get_id();
                let scope = match code {
                    311 | PRECONDITION_FAILED => Scope::Message,
                    // A right of RabbitMQ's that depends on the routing key; only its text shows it.
                    ACCESS_REFUSED if error.get_message().as_str().contains("access to topic '") => Scope::Route,
                    ACCESS_REFUSED | NOT_FOUND | RESOURCE_LOCKED => Scope::Exchange,
                    _ if matches!(error.kind(), lapin::protocol::AMQPErrorKind::Soft(_)) => Scope::Channel,
                    _ => Scope::Connection,
                };
                ChannelError { code: Some(code), label: name(code), text: error.get_message().to_string(), scope }
            }
            ErrorKind::MissingHeartbeatError => {
                ChannelError::connection(codes::HEARTBEAT.code, "the broker is silent".to_owned())
            }
            ErrorKind::IOError(error) => ChannelError::connection("connection_lost", error.to_string()),
            // What the library says of a channel or connection that it closed itself.
            ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidChannel(_) => ChannelError {
                code: None,
                label: codes::CHANNEL_CLOSED.code,
                text: error.to_string(),
                scope: Scope::Channel,
            },
            _ => ChannelError::connection("connection_lost", error.to_string()),
        }
    }

    pub(super) fn connection(label: &'static str, text: String) -> ChannelError {
        ChannelError { code: None, label, text, scope: Scope::Connection }
    }

    /// Builds the error of a channel that we give up ourselves.
    pub(super) fn channel(label: &'static str, text: &str) -> ChannelError {
        ChannelError { code: None, label, text: text.to_owned(), scope: Scope::Channel }
    }

    /// Returns whether the channel ended because an answer was late: the oldest message is the one.
    pub(super) fn is_late(&self) -> bool {
        self.code.is_none() && self.label == "timeout"
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns whether it is the broker's answer to one message, and the end of the channel only for that.
    pub(super) fn is_about_one(&self) -> bool {
        self.code.is_some() && self.scope != Scope::Connection
    }

    /// Returns whether that message would do the same again while its neighbours are well, so that it has to be found.
    pub(super) fn has_a_culprit(&self) -> bool {
        self.is_about_one() && self.scope != Scope::Exchange
    }

    /// Returns whether it has more information than the other one: the broker's message is preferred to the library's.
    pub(super) fn beats(&self, other: &ChannelError) -> bool {
        self.code.is_some() && other.code.is_none()
    }

    /// Builds the failure of a message that was alone on the channel when the error came, so that the error is about
    /// it.
    pub(super) fn alone(&self, attempt: &str) -> Failure {
        let Some(code) = self.code.filter(|_| self.scope != Scope::Connection) else { return self.in_doubt(attempt) };
        let said = format!("{attempt}: the broker answered {}", self.said());
        let is_size = code == PRECONDITION_FAILED && self.text.contains("message size");
        let row = if is_size { Some(codes::CONTENT_TOO_LARGE) } else { reply(code) };
        match (row, self.scope) {
            (None, _) | (_, Scope::Channel | Scope::Connection) => Failure::new(Class::Unknown, self.label, said),
            (Some(row), Scope::Message) => row.with_cure(said),
            (Some(row), Scope::Exchange) => row.with_cure(said).about(About::Target),
            (Some(row), Scope::Route) => row.with_cure(said).about(About::Route),
        }
    }

    /// Builds the failure of a message that was sent; the error leaves its outcome open.
    pub(super) fn in_doubt(&self, attempt: &str) -> Failure {
        Failure::new(Class::Ambiguous, self.label, format!("{attempt}: no confirmation: {}", self.said()))
    }

    fn said(&self) -> String {
        match self.code {
            // The broker's texts open with the name of the code.
            Some(code) if !self.text.starts_with(self.label) => format!("{code} {}: {}", self.label, self.text),
            Some(code) => format!("{code} {}", self.text),
            None => self.text.clone(),
        }
    }
}

/// Builds the failure of a message that came back.
pub(super) fn returned(attempt: &str, code: u16, text: &str) -> Failure {
    let said = format!("{attempt}: the broker sent it back: {code} {text}");
    match code {
        312 => codes::NO_ROUTE.with_cure(said).about(About::Route),
        // Only asked for by a flag that is never set.
        _ => Failure::new(Class::Unknown, name(code), said).about(About::Route),
    }
}

/// Builds the failure of a message that the broker refused: a queue is full and set to refuse, or could not store it.
pub(super) fn nacked(attempt: &str) -> Failure {
    let text = format!("{attempt}: the broker refused it (nack): a queue is full, or could not store it");
    codes::NACK.failure(text).about(About::Route)
}

/// Builds the failure while the broker accepts nothing from any client until an alarm is over.
pub(super) fn blocked(attempt: &str, reason: &str) -> Failure {
    let text = format!("{attempt}: the broker has blocked the connection: {reason}");
    codes::CONNECTION_BLOCKED.failure(text)
}

/// Builds the failure of a connection on which no channel can be opened.
pub(super) fn no_channel(text: &str) -> Failure {
    Failure::new(Class::Transient, Failure::NOT_CONNECTED, format!("open a channel: {text}"))
}

/// Builds the failure of a message on a channel on which an earlier one has no answer.
pub(super) fn behind(attempt: &str) -> Failure {
    let text = format!("{attempt}: no confirmation: another message on the channel has no answer");
    Failure::new(Class::Ambiguous, Failure::BEHIND, text)
}

/// Builds the failure of a route that goes aside, while only the others have their connection.
pub(super) fn not_aside(failure: &Failure) -> Failure {
    Failure::new(Class::Transient, Failure::NOT_SENT, failure.message.clone()).about(About::Route)
}

/// Builds the failure of an element for whose exchange more elements wait than the sink keeps.
pub(super) fn crowded(attempt: &str) -> Failure {
    Failure::new(Class::Backpressure, "queue_full", format!("{attempt}: too many elements wait in the sink"))
}

#[cfg(test)]
mod tests;
