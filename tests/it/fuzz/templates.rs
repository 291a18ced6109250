//! Templates: compiled, and filled twice, by the daemon and by the few lines below.

use delaybridge_core::message::{Identity, MessageId};
use delaybridge_core::template::{ElementInfo, Filler, Template};
use delaybridge_model::Payload;
use redisson_codecs::bytes::Bytes;
use redisson_codecs::{Codec, decode};
use serde_json::{Value, json};

use super::*;

const STEPS: [&str; 6] = ["a", "b", "0", "1", "01", "ü"];

fn value(random: &mut Rng, depth: usize) -> Value {
    match random.u8(..if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.bool()),
        2 => json!(random.i64(..)),
        3 => json!(f64::from(random.i32(..)) / 8.0),
        4 => json!(random.choice(["", "text", "${id}", "ü\n\"", "}"]).unwrap()),
        5 => (0..random.usize(..3)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let fields =
                (0..random.usize(..4)).map(|_| (random.choice(STEPS).unwrap().to_owned(), value(random, depth - 1)));
            Value::Object(fields.collect())
        }
    }
}

/// The value at the path, as text.
fn looked_up(value: &Value, path: &[&str]) -> Option<String> {
    let mut at = value;
    for step in path {
        at = match at {
            Value::Array(items) => items.iter().enumerate().find(|(n, _)| n.to_string() == **step)?.1,
            Value::Object(fields) => fields.iter().find(|(name, _)| name == step)?.1,
            _ => return None,
        };
    }
    match at {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(at.to_string()),
        _ => None,
    }
}

/// The daemon fills a template as the lines above do, and never treats a payload's text as a template.
#[test]
fn a_template_is_filled_with_what_the_payload_has() {
    let id = Identity::from(MessageId([7; 8]));
    let element = ElementInfo { id: &id, queue: "q", due_ms: Some(5), attempt: 3, topic: None, carried: None };
    fuzz("templates", |random| {
        let value = value(random, 3);
        let text = Bytes::from(value.to_string());
        let payload = Payload(decode(Codec::Json, &text).expect("JSON of serde_json"));
        let mut source = String::new();
        let mut expected = Some(String::new());
        for _ in 0..random.usize(1..5) {
            let (hole, filled) = match random.u8(..5) {
                0 => ("${queue}".to_owned(), Some("q".to_owned())),
                1 => ("${attempt}".to_owned(), Some("3".to_owned())),
                2 => ("$${x}".to_owned(), Some("${x}".to_owned())),
                3 => {
                    let words = random.choice(["-", "ü$", "a}b", "$", "{"]).unwrap();
                    (words.to_owned(), Some(words.to_owned()))
                }
                _ => {
                    let path: Vec<&str> = (0..random.usize(..4)).map(|_| random.choice(STEPS).unwrap()).collect();
                    let path_text = path.iter().map(|step| format!(".{step}")).collect::<String>();
                    let found = looked_up(&value, &path);
                    if random.bool() {
                        (format!("${{payload{path_text}:-none}}"), found.or(Some("none".to_owned())))
                    } else {
                        (format!("${{payload{path_text}}}"), found)
                    }
                }
            };
            // A literal `$` before a placeholder would be another text.
            if hole.starts_with('$') && source.ends_with('$') {
                source.push(' ');
                expected = expected.map(|text| text + " ");
            }
            source += &hole;
            expected = expected.zip(filled).map(|(text, more)| text + &more);
        }
        if source.contains("${") && source.ends_with('{') {
            source.push(' ');
            expected = expected.map(|text| text + " ");
        }
        let Ok(template) = Template::compile(&source) else { return };
        let filled = Filler::new(&element, &payload, None).text(&template, &"topic").ok();
        assert_eq!(filled, expected, "{source} with {value}");
    });
}

/// Every text is a template, or an error with a position.
#[test]
fn any_text_is_a_template_or_an_error() {
    fuzz("template texts", |random| {
        let parts = ["${", "}", "$", "payload", ".", ":-", "id", "a", "ü", " ", "$${", "due_ms", "queue"];
        let text: String = (0..random.usize(..12)).map(|_| *random.choice(&parts).unwrap()).collect();
        match Template::compile(&text) {
            Ok(template) => assert_eq!(template.source(), text),
            Err(error) => assert!(!error.to_string().is_empty() && text.contains("${"), "{text}: {error}"),
        }
    });
}
