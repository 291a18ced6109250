//! A write that leaves a mark, so that a later attempt does not repeat it (`duplicates: look`). Pure.
//!
//! The mark is a key of its own in the slot of the destination, and disappears by itself after [`LIFETIME`].

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};

use delaybridge_link::{KeyPrefix, Script, hashed, slot};
use delaybridge_sink::{DeliveryMark, Suspicion};

/// The time for which a destination remembers what was written there: longer than most attempts of an element are apart.
pub(super) const LIFETIME: Duration = Duration::from_secs(300);

/// The status that the script answers if the element was written before.
const THERE: &str = "THERE";

/// The script that writes.
pub(super) static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new("once", include_str!("scripts/once.lua")));

/// Returns the command that runs this write, whose first argument is `key`, unless an earlier attempt has.
pub(super) fn once(mark: &DeliveryMark, prefix: &KeyPrefix, key: &str, write: &Cmd) -> Cmd {
    let words: Vec<&[u8]> = write
        .args_iter()
        .filter_map(|arg| match arg {
            redis::Arg::Simple(bytes) => Some(bytes),
            _ => None,
        })
        .collect();
    let room = words.iter().map(|word| word.len()).sum::<usize>() + 256;
    let suspect = match mark.suspicion {
        Suspicion::Nothing => String::new(),
        Suspicion::Attempt(attempt) => attempt.to_string(),
        Suspicion::Anyone => "*".to_owned(),
    };
    let mut command = Cmd::with_capacity(9 + words.len(), room);
    command.arg("EVALSHA").arg(SCRIPT.sha1()).arg(2).arg(key).arg(name(mark, prefix, key));
    command.arg(suspect).arg(mark.attempt.to_string()).arg(LIFETIME.as_millis() as u64);
    for (n, word) in words.into_iter().enumerate() {
        if n != 1 {
            command.arg(word);
        }
    }
    command
}

/// Returns the key of the mark.
fn name(mark: &DeliveryMark, prefix: &KeyPrefix, key: &str) -> String {
    format!("{}{{{}}}:{:032x}", prefix.name(delaybridge_sink::MARKS), tag(key), mark.element)
}

/// Returns a text that has the slot of a key when it stands in braces. What decides the slot of the key does, unless a
/// brace ends it: then a number is found.
fn tag(key: &str) -> Cow<'_, str> {
    let tag = hashed(key);
    let fits = |text: &str| slot(text.as_bytes()) == slot(tag.as_bytes());
    if tag.contains('}') {
        (0_u32..).map(|n| n.to_string()).find(|text| fits(text)).map_or(tag.into(), Cow::from)
    } else {
        tag.into()
    }
}

/// Returns whether the script answers that the element was written before.
pub(super) fn was_there(answer: &Value) -> bool {
    matches!(answer, Value::SimpleString(status) if status == THERE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_sink::AttemptId;

    #[test]
    fn the_mark_has_the_slot_of_its_destination() {
        let mark = DeliveryMark { element: 7, attempt: AttemptId(1), suspicion: Suspicion::Nothing, since_ms: 0 };
        for key in ["orders", "{eu}:orders", "orders:{eu}:ready", "{}orders", "a{b", "a}b", "{}}"] {
            assert_eq!(slot(name(&mark, &KeyPrefix::default(), key).as_bytes()), slot(key.as_bytes()), "{key}");
        }
    }
}
