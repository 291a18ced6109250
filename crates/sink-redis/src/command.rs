//! Turns an element into the command that delivers it, and interprets the answer. Pure.

use redis::{Cmd, Value};

use crate::{NAME, RedisDestination};
use delaybridge_core::message::{Class, Failure};
use delaybridge_link::Side;
use delaybridge_sink::headers::IdText;
use delaybridge_sink::{Destination, Outbound};

/// The key that a destination is kept under; empty for one that Redis does not have.
pub(super) fn key(destination: &Destination) -> &[u8] {
    destination.of_kind(NAME).map_or(&[], |found: &RedisDestination| found.key().as_bytes())
}

/// The command that delivers this element.
///
/// # Errors
///
/// The element was routed to a destination that Redis does not have.
pub(super) fn command(message: &Outbound) -> Result<Cmd, Failure> {
    let room = message.body.len() + 256;
    match message.destination.of_kind(NAME)? {
        RedisDestination::List { key, push } => {
            let mut command = Cmd::with_capacity(3, room);
            command.arg(match push {
                Side::Left => "LPUSH",
                Side::Right => "RPUSH",
            });
            command.arg(key).arg(message.body.as_ref());
            Ok(command)
        }
        RedisDestination::Stream { key, max_len } => {
            let mut command = Cmd::with_capacity(16 + 2 * message.headers.len(), room);
            command.arg("XADD").arg(key);
            if let Some(max_len) = max_len {
                command.arg("MAXLEN").arg("~").arg(*max_len);
            }
            command.arg("*").arg("payload").arg(message.body.as_ref());
            command.arg("id").arg(IdText::of(&message.id).as_str()).arg("queue").arg(&*message.queue);
            if let Some(due_ms) = message.due_ms {
                command.arg("due_ms").arg(due_ms);
            }
            command.arg("attempt").arg(message.attempt);
            for (name, value) in &message.headers {
                command.arg(&**name).arg(value);
            }
            Ok(command)
        }
    }
}

/// Whether one command pushes many elements to this destination, in their order.
pub(super) fn is_of_many(destination: &Destination) -> bool {
    matches!(destination.of_kind(NAME), Ok(RedisDestination::List { .. }))
}

/// The name of the command, for messages.
pub(super) fn name(destination: &Destination) -> &'static str {
    match destination.of_kind(NAME) {
        Ok(RedisDestination::List { push: Side::Left, .. }) => "LPUSH",
        Ok(RedisDestination::List { push: Side::Right, .. }) => "RPUSH",
        Ok(RedisDestination::Stream { .. }) => "XADD",
        Err(_) => "none",
    }
}

/// Whether an answer that is no error confirms the delivery of `count` elements: a push answers the list's length, an append
/// the entry's id. Anything else confirms nothing.
pub(super) fn confirmed(destination: &Destination, answer: &Value, count: usize) -> Result<(), Failure> {
    match (destination.of_kind(NAME)?, answer) {
        (RedisDestination::List { .. }, Value::Int(length))
            if usize::try_from(*length).is_ok_and(|length| length >= count) =>
        {
            Ok(())
        }
        (RedisDestination::Stream { .. }, Value::BulkString(id)) if !id.is_empty() => Ok(()),
        _ => {
            let text = format!("{} to {destination}: the answer confirms nothing", name(destination));
            Err(Failure::new(Class::Unknown, "unexpected_reply", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{anywhere, outbound};

    fn words(message: &Outbound) -> String {
        let command = command(message).unwrap();
        let words = command.args_iter().map(|arg| match arg {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => unreachable!("no other kind is used"),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn stream(max_len: Option<u64>) -> Destination {
        RedisDestination::Stream { key: "s".into(), max_len }.into()
    }

    #[test]
    fn a_list_gets_the_bare_payload_at_the_chosen_end() {
        let list = |push| Destination::from(RedisDestination::List { key: "l".into(), push });
        assert_eq!(words(&outbound(1, list(Side::Right), "x")), "RPUSH l x");
        assert_eq!(words(&outbound(1, list(Side::Left), "x")), "LPUSH l x");
    }

    #[test]
    fn a_stream_entry_has_its_fields_in_order_and_then_the_headers() {
        let mut message = outbound(1, stream(None), "x");
        let fixed = "payload x id 0000000000000001 queue q due_ms 1000 attempt 1";
        assert_eq!(words(&message), format!("XADD s * {fixed}"));
        message.headers = vec![("tenant".into(), "t 1".to_owned()), ("empty".into(), String::new())];
        assert_eq!(words(&message), format!("XADD s * {fixed} tenant t 1 empty "));
        message.destination = stream(Some(1000));
        message.headers.clear();
        message.due_ms = None;
        assert_eq!(words(&message), "XADD s MAXLEN ~ 1000 * payload x id 0000000000000001 queue q attempt 1");
    }

    #[test]
    fn only_the_answer_of_the_command_confirms() {
        let list = Destination::from(RedisDestination::List { key: "l".into(), push: Side::Right });
        let rows = [
            (&list, Value::Int(2), true),
            (&list, Value::Int(1), false),
            (&list, Value::Int(-1), false),
            (&list, Value::Int(0), false),
            (&list, Value::Okay, false),
            (&list, Value::SimpleString("QUEUED".to_owned()), false),
            (&list, Value::Nil, false),
            (&stream(None), Value::BulkString(b"1-0".to_vec()), true),
            (&stream(None), Value::Nil, false),
            (&stream(None), Value::Int(1), false),
            (&anywhere(), Value::Okay, false),
        ];
        for (destination, answer, ok) in rows {
            let count = if is_of_many(destination) { 2 } else { 1 };
            assert_eq!(confirmed(destination, &answer, count).is_ok(), ok, "{destination} {answer:?}");
        }
    }
}
