//! Payloads: the bytes of an element behind its head.

use serde_json::{Value, json};

use super::offers::HOUR;
use crate::bench::{Bench, Check, Opening, Stop};
use crate::statements::{E8, E10, E11};

pub const TEXTS: Check = Check { name: "texts", about: &[E10], run: texts };

const SPECIAL: [&str; 12] = [
    "",
    " ",
    "\0",
    "a\0b\0",
    "\u{feff}bom",
    "line\nline\r\n\ttab",
    "\"quoted\" \\ 'and' %d %s {0} ${x}",
    "ümlaut é",
    "订单 заказ",
    "😀👨‍👩‍👧 \u{10ffff}",
    "\u{7f}\u{80}\u{2028}",
    "{\"orderId\":4711}",
];

fn texts(bench: &mut Bench) -> Result<(), Stop> {
    let mut values: Vec<String> = SPECIAL.iter().map(|text| (*text).to_owned()).collect();
    for _ in 0..30 {
        let length = bench.rng.usize(0..300);
        values.push((0..length).map(|_| bench.rng.char(..)).collect());
    }
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    for value in &values {
        bench.offer(json!({"value": value, "delay_ms": HOUR}))?;
    }
    let seen = bench.look(&queue)?;
    for (at, value) in values.iter().enumerate() {
        let payload = seen.listed.get(at).map(|element| bench.payload(element));
        let right = payload.as_deref() == Some(value.as_bytes());
        bench.require(E10, right, || {
            let found = payload.map_or_else(|| "nothing".to_owned(), |payload| shown(&payload));
            format!("offered the text {}; the payload is {found}", shown(value.as_bytes()))
        });
    }
    Ok(())
}

pub const JSON: Check = Check { name: "JSON values", about: &[E11], run: jsons };

fn jsons(bench: &mut Bench) -> Result<(), Stop> {
    let values = [
        json!({"orderId": 4711, "items": [1, 2.5, -3], "note": "ü 😀 \u{0}\u{1f} \"\\", "none": null, "ok": true}),
        json!({}),
        json!([]),
        json!([[[[]]], {"a": {"b": {"c": []}}}]),
        json!("a text"),
        json!(""),
        json!(0),
        json!(-1.5),
        json!(9_007_199_254_740_991_i64),
        json!(null),
        json!(false),
        json!({"\u{0}": "zero in a name", "": "no name"}),
    ];
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening { json: true, ..Opening::default() })?;
    for value in &values {
        bench.offer(json!({"value": value, "delay_ms": HOUR}))?;
    }
    let seen = bench.look(&queue)?;
    for (at, value) in values.iter().enumerate() {
        let payload = seen.listed.get(at).map(|element| bench.payload(element)).unwrap_or_default();
        let read = serde_json::from_slice::<Value>(&payload);
        let right = read.as_ref().is_ok_and(|read| same(read, value));
        bench.require(E11, right, || format!("offered {value}; the payload is {}", shown(&payload)));
    }
    Ok(())
}

/// Returns whether two values are the same to a reader of JSON: `1.0` is `1`, and fields have no order.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

pub const LARGE: Check = Check { name: "10 MB", about: &[E8], run: large };

fn large(bench: &mut Bench) -> Result<(), Stop> {
    let queue = bench.queue("%")?;
    bench.open(&queue, Opening::default())?;
    // Not all of one kind: a limit on a length may count characters.
    let part = "0123456789abcde\u{0}ü😀";
    let text = part.repeat(bench.large / part.len() + 1);
    bench.offer(json!({"value": text, "delay_ms": HOUR}))?;
    let seen = bench.look(&queue)?;
    let payload = seen.listed.first().map(|element| bench.payload(element)).unwrap_or_default();
    bench.require(E8, payload == text.as_bytes(), || {
        format!("offered a text of {} bytes; the payload has {} bytes, or others", text.len(), payload.len())
    });
    Ok(())
}

/// Returns the bytes, for a report: a text in quotes, cut.
fn shown(bytes: &[u8]) -> String {
    let text = format!("{:?}", String::from_utf8_lossy(bytes));
    if text.chars().count() > 80 { text.chars().take(80).collect::<String>() + "..." } else { text }
}
