//! Conditions: compiled and tested twice, by the daemon and by the few lines below.

use delaybridge_core::condition::Condition;
use delaybridge_core::message::{Identity, MessageId};
use delaybridge_core::template::{ElementInfo, Filler};
use delaybridge_model::Payload;
use redisson_codecs::bytes::Bytes;
use redisson_codecs::{Codec, decode};
use serde_json::{Map, Value, json};

use super::*;

const NAMES: [&str; 5] = ["a", "b", "c", "x-y", "none"];

fn scalar(random: &mut Rng) -> Value {
    match random.u8(..4) {
        0 => Value::Null,
        1 => json!(random.bool()),
        2 => json!(random.i64(-3..3)),
        _ => json!(random.choice(["", "a", "ab", "ü'\"\\"]).unwrap()),
    }
}

/// A literal as a condition spells it. A number may have zeros that mean nothing.
fn spelled(random: &mut Rng, value: &Value) -> String {
    match value {
        Value::String(text) => {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\'', "\\'");
            let quote = random.choice(["\"", "'"]).unwrap();
            format!("{quote}{escaped}{quote}")
        }
        Value::Number(number) => format!("{number}{}", random.choice(["", ".0", "e0", ".00e+0"]).unwrap()),
        other => other.to_string(),
    }
}

fn equal(left: &Value, right: &Value) -> bool {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left == right,
        _ => !left.is_object() && left == right,
    }
}

fn less(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(left), Value::String(right)) => left < right,
        _ => left.as_i64().zip(right.as_i64()).is_some_and(|(left, right)| left < right),
    }
}

/// A condition, and whether it holds for these fields.
fn condition(random: &mut Rng, fields: &Map<String, Value>, depth: usize) -> (String, bool) {
    let name = random.choice(NAMES).unwrap();
    let field = format!("payload.{name}");
    let value = fields.get(name);
    match random.u8(..if depth == 0 { 5 } else { 8 }) {
        0 => (field, value == Some(&json!(true))),
        1 => (format!("exists({field})"), value.is_some()),
        2 => {
            let prefix = random.choice(["", "a", "ü"]).unwrap();
            let holds = value.and_then(Value::as_str).is_some_and(|text| text.starts_with(prefix));
            (format!("starts_with( {field},'{prefix}' )"), holds)
        }
        3 => {
            let list: Vec<Value> = (0..random.usize(1..4)).map(|_| scalar(random)).collect();
            let texts: Vec<String> = list.iter().map(|literal| spelled(random, literal)).collect();
            let holds = value.is_some_and(|value| list.iter().any(|literal| equal(value, literal)));
            (format!("{field} in [{}]", texts.join(",")), holds)
        }
        4 => {
            let sign = random.choice(["==", "!=", "<", "<=", ">", ">="]).unwrap();
            let other_name = random.choice(NAMES).unwrap();
            let (right, other) = if random.bool() {
                (format!("payload.{other_name}"), fields.get(other_name).cloned())
            } else {
                let literal = match (sign, scalar(random)) {
                    ("==" | "!=", literal) => literal,
                    (_, Value::Null | Value::Bool(_)) => json!(1),
                    (_, literal) => literal,
                };
                (spelled(random, &literal), Some(literal))
            };
            let holds = value.zip(other.as_ref()).is_some_and(|(left, right)| match sign {
                "==" => equal(left, right),
                "!=" => !equal(left, right),
                "<" => less(left, right),
                "<=" => less(left, right) || equal(left, right) && (left.is_number() || left.is_string()),
                ">" => less(right, left),
                _ => less(right, left) || equal(left, right) && (left.is_number() || left.is_string()),
            });
            (format!("{field}{sign}{right}"), holds)
        }
        5 => {
            let (text, holds) = condition(random, fields, depth - 1);
            (format!("not ({text})"), !holds)
        }
        both => {
            let ((left, l), (right, r)) = (condition(random, fields, depth - 1), condition(random, fields, depth - 1));
            let (word, holds) = if both == 6 { ("and", l && r) } else { ("or", l || r) };
            (format!("({left}) {word} ({right})"), holds)
        }
    }
}

#[test]
fn a_condition_holds_as_its_parts_say() {
    let id = Identity::from(MessageId([7; 8]));
    let element = ElementInfo { id: &id, queue: "q", due_ms: Some(5), attempt: 3, topic: None, carried: None };
    let mut seen = [0; 2];
    fuzz("conditions", |random| {
        let mut fields = Map::new();
        for name in &NAMES[..4] {
            let value = if random.u8(..8) == 0 { json!({ "k": 1 }) } else { scalar(random) };
            fields.insert((*name).to_owned(), value);
        }
        let text = Bytes::from(Value::Object(fields.clone()).to_string());
        let payload = Payload(decode(Codec::Json, &text).expect("JSON of serde_json"));
        let (source, expected) = condition(random, &fields, 3);
        let condition = match Condition::compile(&source) {
            Ok(condition) => condition,
            Err(error) => {
                assert!(source.len() > Condition::LONGEST, "{source}: {error}");
                return;
            }
        };
        assert_eq!(condition.holds(&Filler::new(&element, &payload, None)), expected, "{source} with {fields:?}");
        seen[usize::from(expected)] += 1;
    });
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

/// Every text is a condition, or an error with a column.
#[test]
fn any_text_is_a_condition_or_an_error() {
    fuzz("condition texts", |random| {
        let parts = [
            "payload",
            ".a",
            "(",
            ")",
            "[",
            "]",
            ",",
            " ",
            "not ",
            " and ",
            " or ",
            "in",
            "exists",
            "==",
            "<",
            "=",
            "1",
            "-",
            "e",
            "'",
            "\"",
            "\\",
            "ü",
            "true",
            "null",
            "attempt",
            "${",
            "starts_with",
        ];
        let text: String = (0..random.usize(..16)).map(|_| *random.choice(&parts).unwrap()).collect();
        match Condition::compile(&text) {
            Ok(condition) => assert_eq!(condition.source(), text),
            Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column), "{text}: {error}"),
        }
    });
}
