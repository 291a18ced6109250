//! Turns an element into the command that delivers it, and interprets the answer. Pure.

use redis::{Cmd, Value};

use crate::once::once;
use crate::target::{NAME, RedisDestination};
use delaybridge_core::message::{Class, Failure};
use delaybridge_link::{Argument, KeyPrefix, LargeArgs, Side};
use delaybridge_sink::headers::IdText;
use delaybridge_sink::{Destination, Outbound};

/// Returns the key that a destination is kept under; empty for one that Redis does not have.
pub(super) fn key(destination: &Destination) -> &[u8] {
    destination.of_kind(NAME).map_or(&[], |found: &RedisDestination| found.key().as_bytes())
}

/// Builds the command that delivers this element: a script that writes it once, if it has a mark. The mark's key has
/// this prefix. The body is in the command, or in `large`.
pub(super) fn command(message: &Outbound, prefix: &KeyPrefix, large: &mut LargeArgs) -> Result<Cmd, Failure> {
    let write = write(message, large)?;
    match &message.mark {
        Some(mark) => Ok(once(mark, prefix, message.destination.of_kind::<RedisDestination>(NAME)?.key(), &write)),
        None => Ok(write),
    }
}

fn write(message: &Outbound, large: &mut LargeArgs) -> Result<Cmd, Failure> {
    let room = message.body.size() + 256;
    match message.destination.of_kind(NAME)? {
        RedisDestination::List { key, push } => {
            let mut command = Cmd::with_capacity(3, room);
            command.arg(match push {
                Side::Left => "LPUSH",
                Side::Right => "RPUSH",
            });
            command.arg(key);
            large.add(&mut command, &message.body);
            Ok(command)
        }
        RedisDestination::Stream { key, max_len } => {
            let mut command = Cmd::with_capacity(2 + entry_len(message, *max_len), room);
            command.arg("XADD").arg(key);
            add_entry(&mut command, message, *max_len, large);
            Ok(command)
        }
    }
}

/// Builds the call of the script with this hash that adds elements of one stream to it, in their order.
pub(super) fn entries(sha1: &str, messages: &[Outbound], large: &mut LargeArgs) -> Result<Cmd, Failure> {
    let room = messages.iter().map(|message| message.body.size() + 256).sum();
    let mut command = Cmd::with_capacity(4 + 16 * messages.len(), room);
    command.arg("EVALSHA").arg(sha1).arg(1).arg(messages.first().map_or(&[][..], |first| key(&first.destination)));
    for message in messages {
        let RedisDestination::Stream { max_len, .. } = message.destination.of_kind(NAME)? else {
            return Err(unconfirmed(&message.destination));
        };
        command.arg(entry_len(message, *max_len));
        add_entry(&mut command, message, *max_len, large);
    }
    Ok(command)
}

/// Returns the number of arguments of [`add_entry`].
fn entry_len(message: &Outbound, max_len: Option<u64>) -> usize {
    9 + if max_len.is_some() { 3 } else { 0 } + if message.due_ms.is_some() { 2 } else { 0 } + 2 * message.headers.len()
}

/// Adds what follows the key in the `XADD` of an element.
fn add_entry(command: &mut Cmd, message: &Outbound, max_len: Option<u64>, large: &mut LargeArgs) {
    if let Some(max_len) = max_len {
        command.arg("MAXLEN").arg("~").arg(max_len);
    }
    command.arg("*").arg("payload");
    large.add(command, &message.body);
    command.arg("id").arg(IdText::of(&message.id).as_str()).arg("queue").arg(&*message.queue);
    if let Some(due_ms) = message.due_ms {
        command.arg("due_ms").arg(due_ms);
    }
    command.arg("attempt").arg(message.attempt);
    for (name, value) in &message.headers {
        command.arg(&**name).arg(value);
    }
}

/// Returns whether one command pushes this element and others to the same destination, in their order.
pub(super) fn is_of_many(message: &Outbound) -> bool {
    message.mark.is_none() && matches!(message.destination.of_kind(NAME), Ok(RedisDestination::List { .. }))
}

fn name(destination: &Destination) -> &'static str {
    match destination.of_kind(NAME) {
        Ok(RedisDestination::List { push: Side::Left, .. }) => "LPUSH",
        Ok(RedisDestination::List { push: Side::Right, .. }) => "RPUSH",
        Ok(RedisDestination::Stream { .. }) => "XADD",
        Err(_) => "none",
    }
}

/// Checks that an answer that is no error confirms the delivery of `count` elements: a push answers the list's
/// length, an append the entry's id. Anything else confirms nothing.
pub(super) fn confirmed(destination: &Destination, answer: &Value, count: usize) -> Result<(), Failure> {
    match (destination.of_kind(NAME)?, answer) {
        (RedisDestination::List { .. }, Value::Int(length))
            if usize::try_from(*length).is_ok_and(|length| length >= count) =>
        {
            Ok(())
        }
        (RedisDestination::Stream { .. }, Value::BulkString(id)) if !id.is_empty() => Ok(()),
        _ => Err(unconfirmed(destination)),
    }
}

/// Builds the failure of a delivery with an answer that confirms nothing.
pub(super) fn unconfirmed(destination: &Destination) -> Failure {
    let text = format!("{}: the answer confirms nothing", attempt(destination));
    Failure::new(Class::Unknown, "unexpected_reply", text)
}

/// Returns the delivery to this destination, for messages.
pub(super) fn attempt(destination: &Destination) -> String {
    format!("{} to {destination}", name(destination))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{anywhere, outbound};

    fn words(message: &Outbound) -> String {
        text(&command(message, &KeyPrefix::default(), &mut LargeArgs::default()).unwrap())
    }

    fn text(command: &Cmd) -> String {
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
    fn a_script_gets_each_entry_behind_the_number_of_its_arguments() {
        let mut rows = [outbound(1, stream(None), "x"), outbound(2, stream(Some(9)), "y")];
        rows[0].headers = vec![("tenant".into(), "t".to_owned())];
        rows[1].due_ms = None;
        let of_each = rows.iter().map(|message| {
            let words = words(message);
            let arguments: Vec<_> = words.split(' ').skip(2).collect();
            format!("{} {}", arguments.len(), arguments.join(" "))
        });
        let expected = format!("EVALSHA hash 1 s {}", of_each.collect::<Vec<_>>().join(" "));
        assert_eq!(text(&entries("hash", &rows, &mut LargeArgs::default()).unwrap()), expected);
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
            let count = if is_of_many(&outbound(1, destination.clone(), "x")) { 2 } else { 1 };
            assert_eq!(confirmed(destination, &answer, count).is_ok(), ok, "{destination} {answer:?}");
        }
    }
}
