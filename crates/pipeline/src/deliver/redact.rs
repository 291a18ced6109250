//! What is shown of a destination and of a failure where payloads must not be: logs, and the probes, which anyone may ask.
//! Words that came out of a payload are replaced by the template that they filled. Dead letters keep the words.

use delaybridge_core::message::Failure;
use delaybridge_sink::{Destination, Target};

/// Returns the name of a destination, as it may be shown.
pub fn name(destination: &Destination, target: &dyn Target) -> String {
    replaced(&destination.to_string(), &target.chosen(destination))
}

/// Redacts a failure of what went to this destination.
pub fn redacted(failure: &Failure, destination: &Destination, target: &dyn Target) -> Failure {
    let chosen = target.chosen(destination);
    if chosen.is_empty() {
        return failure.clone();
    }
    let shown = Failure::new(failure.class, failure.code, replaced(&failure.message, &chosen));
    Failure { about: failure.about, sent: failure.sent, ..shown }
}

/// Replaces each filled text, the longest first, wherever it is not a part of a longer word: sinks and brokers quote
/// names in their own ways.
fn replaced(text: &str, chosen: &[(&str, &str)]) -> String {
    let mut chosen: Vec<_> = chosen.iter().filter(|(filled, _)| !filled.is_empty()).collect();
    chosen.sort_by_key(|(filled, _)| std::cmp::Reverse(filled.len()));
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let is_word = |c: char| c.is_alphanumeric();
    'text: while let Some(first) = rest.chars().next() {
        let inside = shown.chars().next_back().is_some_and(is_word);
        for (filled, template) in &chosen {
            let joined = inside && filled.starts_with(is_word);
            if let Some(behind) = rest.strip_prefix(filled)
                && !joined
                && !(filled.ends_with(is_word) && behind.starts_with(is_word))
            {
                shown.push_str(template);
                rest = behind;
                continue 'text;
            }
            // A message that was cut in the middle of the text.
            if text.len() + 4 > Failure::MESSAGE_MAX && filled.starts_with(rest) {
                shown.push_str(template);
                break 'text;
            }
        }
        shown.push(first);
        rest = &rest[first.len_utf8()..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_payload_give_way_to_the_template() {
        let check = |text: &str, chosen: &[(&str, &str)], expected: &str| {
            assert_eq!(replaced(text, chosen), expected, "{text}");
        };
        let topic: &[(&str, &str)] = &[("orders.ann", "orders.${payload.name}")];
        check("send to topic orders.ann: timed out", topic, "send to topic orders.${payload.name}: timed out");
        check("no exchange 'orders.ann' here", topic, "no exchange 'orders.${payload.name}' here");
        check("orders.anna", topic, "orders.anna");
        let both: &[(&str, &str)] = &[("a", "${payload.a}"), ("a.b", "${payload.a}.${payload.b}")];
        check("exchange a, routing key a.b", both, "exchange ${payload.a}, routing key ${payload.a}.${payload.b}");
        check("a name", &[("", "${payload.x:-}")], "a name");
        check("topic \u{fc}\u{fc} of \u{fc}", &[("\u{fc}\u{fc}", "T")], "topic T of \u{fc}");
    }

    #[test]
    fn a_filled_text_that_was_cut_gives_way_too() {
        let key = "k".repeat(2_000);
        let failure =
            Failure::new(delaybridge_core::message::Class::Unknown, "x", format!("push to list {key}: refused"));
        assert_eq!(replaced(&failure.message, &[(&key, "${payload}")]), "push to list ${payload}");
    }
}
