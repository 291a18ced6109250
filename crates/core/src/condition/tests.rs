//! Values, types, precedence and mistakes of conditions.

use std::cmp::Ordering;

use serde_json::Value;

use super::*;
use crate::message::{Identity, MessageId};
use crate::template::{ElementInfo, Fields, NoFields};

const PAYLOAD: &str = r#"{
    "amount": 100.50, "big": 18446744073709551617, "region": "eu", "vip": true, "off": false, "none": null, "text": "7",
    "zero": 0, "items": [{"sku": "a-1"}, 2], "@class": "com.example.Order", "order-id": "ü'\"\\", "empty": ""
}"#;

fn holds_with(payload: &dyn Fields, due_ms: Option<i64>, text: &str) -> bool {
    let id = Identity::from(MessageId([7; 8]));
    let element = ElementInfo { id: &id, queue: "orders", due_ms, attempt: 3, topic: None, carried: None };
    Condition::compile(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .holds(&Filler::new(&element, payload, None))
}

#[test]
fn conditions_compare_fields_with_literals_and_fields() {
    let payload: Value = PAYLOAD.parse().expect("JSON");
    let check = |text: &str, expected: bool| assert_eq!(holds_with(&payload, Some(1_000), text), expected, "{text}");
    // Numbers.
    check("payload.amount > 100", true);
    check("payload.amount == 100.5", true);
    check("payload.amount == 1005e-1", true);
    check("payload.amount <= 100.4999999999999999999", false);
    check("100 < payload.amount", true);
    check("payload.big == 18446744073709551617", true);
    check("payload.big == 18446744073709551616", false);
    check("payload.zero == -0.0e5", true);
    check("payload.zero >= -1", true);
    check("due_ms == 1000", true);
    check("payload.amount < due_ms", true);
    // Texts.
    check("payload.region == \"eu\"", true);
    check("payload.region != 'eu'", false);
    check("payload.region < 'f'", true);
    check("payload.empty == ''", true);
    check("starts_with(payload.items.0.sku, 'a-')", true);
    check("starts_with(payload.items.0.sku, 'b')", false);
    check("starts_with(payload.amount, '1')", false);
    check("payload.@class == 'com.example.Order'", true);
    check(r#"payload.order-id == 'ü\'"\\'"#, true);
    check("queue == 'orders' and id == '0707070707070707'", true);
    // Lists.
    check("payload.region in ['us', 'eu']", true);
    check("payload.region in ['us']", false);
    check("payload.amount in [1, 'eu', 100.5, null]", true);
    check("payload.none in [null]", true);
    check("not payload.region in ['us']", true);
    // Flags and nulls.
    check("payload.vip", true);
    check("payload.off", false);
    check("not payload.off", true);
    check("payload.region", false);
    check("payload.off == false", true);
    check("payload.vip != payload.off", true);
    check("payload.none == null", true);
    check("payload.amount != null", true);
    // Different types are unequal, and in no order.
    check("payload.text == 7", false);
    check("payload.text != 7", true);
    check("payload.text > 6", false);
    check("payload.text <= 8", false);
    check("payload.items == payload.items", false);
    check("payload.items != 1", true);
    check("payload.vip < payload.amount", false);
    check("payload.off <= payload.vip", false);
    check("payload.off <= payload.off", false);
    check("payload.none >= payload.none", false);
}

#[test]
fn a_comparison_with_a_missing_field_does_not_hold() {
    let payload: Value = PAYLOAD.parse().expect("JSON");
    let check = |payload: &dyn Fields, text: &str, expected: bool| {
        assert_eq!(holds_with(payload, None, text), expected, "{text}");
    };
    for text in [
        "payload.x == 1",
        "payload.x != 1",
        "payload.x < 1",
        "payload.x >= 1",
        "payload.x == null",
        "payload.x != null",
        "payload.x in [null, 1]",
        "payload.x == payload.x",
        "payload.items.01 == 2",
        "payload.region.x == 1",
        "payload.x",
        "exists(payload.x)",
        "starts_with(payload.x, '')",
        "topic == 'a'",
        "due_ms > 0",
        "due_ms != 0",
    ] {
        check(&payload, text, false);
        check(&payload, &format!("not {text}"), true);
    }
    for text in ["exists(payload.none)", "exists(payload.items)", "exists(payload)", "exists(payload.items.1)"] {
        check(&payload, text, true);
    }
    // A payload that cannot be read has no fields.
    check(&NoFields, "payload.amount > 100", false);
    check(&NoFields, "exists(payload)", false);
    let plain = Value::from("refund");
    check(&plain, "payload == 'refund'", true);
    check(&plain, "exists(payload.x)", false);
}

#[test]
fn and_binds_before_or_and_not_before_both() {
    let payload = serde_json::json!({ "t": true, "f": false });
    let check = |text: &str, expected: bool| {
        let text = text.replace('t', "payload.t").replace('f', "payload.f").replace('|', "or").replace('&', "and");
        assert_eq!(holds_with(&payload, None, &text.replace('!', "not ")), expected, "{text}");
    };
    check("t | f & f", true);
    check("(t | f) & f", false);
    check("f & f | t", true);
    check("!f & f", false);
    check("!(f & f)", true);
    check("! !t", true);
    check("!t | t", true);
    check("f | f | t", true);
    check("t & t & f", false);
}

#[test]
fn a_mistake_is_shown_with_its_column() {
    let check = |text: &str, expected: &str| {
        let error = Condition::compile(text).expect_err(text).to_string();
        assert_eq!(error, expected, "{text}");
    };
    check("", "column 1: a field, a text or a number is expected, not the end");
    check("  ", "column 3: a field, a text or a number is expected, not the end");
    check("payload.a = 1", "column 11: `=` is written `==` here");
    check("payload.a == 1 && payload.b", "column 16: `&&` is written `and` here");
    check("!payload.a", "column 1: `!` is written `not` here");
    check("${payload.a} == 1", "column 1: `${` is written `payload.NAME, without `${` and `}`` here");
    check("payload.a == 'x", "column 14: the text has no closing `'`");
    check(r"payload.a == '\n'", "column 14: a backslash stands before a quote or a backslash only");
    check("payload.a == 1 2", "column 16: `and`, `or` or the end is expected, not `2`");
    check(
        "ü == 1",
        "column 1: `ü` is no field of an element: there are id, queue, due_ms, topic, payload, payload.NAME",
    );
    check(
        "'ü' == x",
        "column 8: `x` is no field of an element: there are id, queue, due_ms, topic, payload, payload.NAME",
    );
    check("payload. == 1", "column 1: a name behind each point is expected, not `payload.`");
    check(
        "attempt > 1",
        "column 1: `attempt` changes from one attempt to the next, and the destinations of an element must not",
    );
    check("payload.a == 01", "column 14: `01` is no number");
    check("payload.a == 1x", "column 14: `1x` is no number");
    check("payload.a % 2", "column 11: `%` means nothing here");
    check("(payload.a", "column 11: `)` is expected, not the end");
    check("payload.a in 'x'", "column 14: `[` is expected, not a text");
    check("payload.a in []", "column 15: a field, a text or a number is expected, not `]`");
    check("payload.a in [1, id]", "column 20: a list of texts and numbers, without fields, is expected, not `]`");
    check("payload.a not in [1]", "column 11: `and`, `or` or the end is expected, not `not`");
    check("1 == 1", "column 3: the comparison names no field");
    check("true", "column 5: a relation, as `==`, is expected, not the end");
    check("id", "column 1: the field is never `true`: compare it with something");
    let types = "the two are of different types for every element; texts have quotes, numbers have none";
    check("due_ms == '5'", &format!("column 8: {types}"));
    check("id < 5", &format!("column 4: {types}"));
    check("payload.a < true", "column 11: `true`, `false` and `null` have no order: use `==`");
    check("starts_with(due_ms, '1')", "column 13: `due_ms` is a number, and no text");
    check("starts_with(payload.a, 1)", "column 24: a text in quotes is expected, not `1`");
    check("exists(1)", "column 8: a field is expected, not `1`");
}

#[test]
fn length_and_depth_are_bounded() {
    let nested = |depth: usize| format!("{}payload.a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Condition::compile(&nested(Condition::DEEPEST)).is_ok());
    let error = Condition::compile(&nested(Condition::DEEPEST + 1)).unwrap_err();
    assert_eq!(error, ConditionError { column: Condition::DEEPEST + 1, mistake: Mistake::Deep });
    assert!(Condition::compile(&format!("{}payload.a", "not ".repeat(Condition::DEEPEST + 1))).is_err());
    // One after the other is not deep.
    assert!(Condition::compile(&vec!["not (payload.a)"; 50].join(" and ")).is_ok());
    let long = format!("payload.a == '{}'", "x".repeat(Condition::LONGEST - 15));
    assert_eq!(long.len(), Condition::LONGEST);
    assert!(Condition::compile(&long).is_ok());
    assert_eq!(Condition::compile(&format!("{long} ")).unwrap_err().mistake, Mistake::Long);
}

#[test]
fn numbers_are_compared_by_all_of_their_digits() {
    let check = |left: &str, expected: Ordering, right: &str| {
        assert_eq!(number::compare(left, right), expected, "{left} {right}");
        assert_eq!(number::compare(right, left), expected.reverse(), "{right} {left}");
    };
    check("0", Ordering::Equal, "-0.00e7");
    check("10", Ordering::Equal, "1e1");
    check("10", Ordering::Equal, "1.000e+1");
    check("0.05", Ordering::Equal, "5e-2");
    check("0.05", Ordering::Less, "0.5");
    check("9", Ordering::Less, "10");
    check("-9", Ordering::Greater, "-10");
    check("-1", Ordering::Less, "0");
    check("0", Ordering::Less, "0.00000000000000000000000001");
    check("9007199254740992", Ordering::Less, "9007199254740993");
    check("1.1", Ordering::Greater, "1.09999999999999999999999999999999");
    check("120", Ordering::Greater, "12");
    check("1e400", Ordering::Greater, "1e399");
    check("-1e400", Ordering::Less, "-1e399");
    check("1e99999999999999999999", Ordering::Greater, "1e400");
    check("1e-99999999999999999999", Ordering::Less, "1e-400");
    check("0e99999999999999999999", Ordering::Equal, "0");
    check("12.5", Ordering::Equal, "12.50");
}

/// By another way to compare: whole numbers of the same scale.
#[test]
fn random_numbers_are_in_the_order_of_their_values() {
    let mut random = fastrand::Rng::with_seed(32);
    let mut one = || {
        let value = random.i64(-2_000..2_000);
        let places = random.u32(..4);
        let digits = format!("{:0width$}", value.unsigned_abs(), width = places as usize + 1);
        let (whole, part) = digits.split_at(digits.len() - places as usize);
        let point = if part.is_empty() { "" } else { "." };
        let shift = random.i32(-2..3);
        let zeros = "0".repeat(if part.is_empty() { 0 } else { random.usize(..2) });
        let text = format!("{}{whole}{point}{part}{zeros}e{shift}", if value < 0 { "-" } else { "" });
        (text, i128::from(value) * 10_i128.pow((5 + shift - places as i32) as u32))
    };
    for _ in 0..20_000 {
        let ((left, left_value), (right, right_value)) = (one(), one());
        assert_eq!(number::compare(&left, &right), left_value.cmp(&right_value), "{left} {right}");
    }
}
