//! Which headers of a message go along.

use std::sync::Arc;

use super::*;
use delaybridge_sink::header_rules;

/// A message with these headers; those whose value begins with `#` are no text.
fn carried(headers: &[(&str, &str)]) -> Carried {
    let (others, texts): (Vec<_>, Vec<_>) = headers.iter().partition(|(_, value)| value.starts_with('#'));
    Carried {
        headers: texts
            .into_iter()
            .map(|(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        others: others
            .into_iter()
            .map(|(name, value)| ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes())))
            .collect(),
        ..Carried::default()
    }
}

fn message(of_route: &[(&str, &str)]) -> RouteMessage {
    let headers = of_route.iter().map(|(name, value)| (Arc::from(*name), (*value).to_owned())).collect();
    RouteMessage { body: Bytes::new(), headers }
}

/// What the destination gets, and what is left out: for control, because it is unfit, by the rule.
fn passed(passage: &Passage<'_>, of_route: &[(&str, &str)], of_message: &[(&str, &str)]) -> (String, [u64; 3]) {
    let carried = carried(of_message);
    let mut message = message(of_route);
    let (others, left_out) = passage.add(&carried, &mut message);
    let texts = message.headers.iter().map(|(name, value)| format!("{name}={value}"));
    let others = others.unwrap_or(carried.others);
    let others = others.iter().map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)));
    (texts.chain(others).collect::<Vec<_>>().join(" "), [left_out.control, left_out.unfit, left_out.rule])
}

/// The way to a destination of a sink with a header of its own.
fn passage(rules: &'static HeaderRules) -> Passage<'static> {
    Passage { rules, is_of_sink: &|name| name.eq_ignore_ascii_case("x-api-key"), filter: None, is_event: false }
}

fn to(rules: &'static HeaderRules, of_message: &[(&str, &str)]) -> (String, [u64; 3]) {
    passed(&passage(rules), &[], of_message)
}

#[test]
fn what_steers_the_destination_or_cannot_be_carried_is_left_out_and_counted() {
    let headers = [
        ("tenant", "a"),
        ("Nats-Rollup", "all"),
        ("payload", "other"),
        ("Authorization", "Bearer stolen"),
        ("two words", "b"),
        ("line", "a\r\nb"),
        ("delaybridge-id", "7"),
        ("CC", "#[other]"),
    ];
    let check = |rules, names: &str, left_out: [u64; 3]| {
        let (got, counts) = to(rules, &headers);
        for (name, _) in headers {
            let is_there = got.contains(&format!("{name}="));
            assert_eq!(is_there, names.split(',').any(|known| known == name), "{}: {name}", rules.title);
        }
        assert_eq!(counts, left_out, "{}", rules.title);
    };
    check(&header_rules::KAFKA, "tenant,Nats-Rollup,payload,Authorization,two words,line,CC", [1, 0, 0]);
    check(&header_rules::AMQP, "tenant,Nats-Rollup,payload,Authorization,two words,line", [2, 0, 0]);
    check(&header_rules::NATS, "tenant,payload,Authorization", [2, 3, 0]);
    check(&header_rules::HTTP, "tenant,Nats-Rollup,payload", [2, 3, 0]);
    check(&header_rules::REDIS_STREAM, "tenant,Nats-Rollup,Authorization,two words,line", [2, 1, 0]);
    check(&header_rules::REDIS_LIST, "", [1, 7, 0]);
}

#[test]
fn a_header_of_the_route_or_of_the_sink_is_not_replaced() {
    let passage = passage(&header_rules::KAFKA);
    let of_message = [("Tenant", "b"), ("X-Api-Key", "stolen"), ("n", "7"), ("n", "#7")];
    assert_eq!(passed(&passage, &[("tenant", "a")], &of_message), ("tenant=a n=7 n=#7".to_owned(), [1, 0, 0]));
}

#[test]
fn a_name_is_there_several_times_only_where_the_destination_has_that() {
    let headers = [("a", "1"), ("A", "2"), ("a", "3")];
    assert_eq!(to(&header_rules::KAFKA, &headers), ("a=1 A=2 a=3".to_owned(), [0, 0, 0]));
    assert_eq!(to(&header_rules::NATS, &headers), ("a=1".to_owned(), [0, 2, 0]));
}

#[test]
fn a_route_names_the_headers_that_it_wants() {
    let list = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
    let check = |keep: Option<&[&str]>, drop: &[&str], expected: (&str, [u64; 3])| {
        let filter = HeaderFilter { keep: keep.map(list), drop: list(drop) };
        let passage = Passage { filter: Some(&filter), ..passage(&header_rules::NATS) };
        let headers = [("X-Tenant", "a"), ("x-trace", "b"), ("Nats-TTL", "1s"), ("bytes", "#")];
        assert_eq!(passed(&passage, &[], &headers), (expected.0.to_owned(), expected.1), "{keep:?} {drop:?}");
    };
    check(None, &["x-t*"], ("", [1, 1, 2]));
    check(Some(&["x-tenant"]), &[], ("X-Tenant=a", [0, 0, 3]));
    check(Some(&["x-*"]), &["*trace"], ("X-Tenant=a", [0, 0, 3]));
    check(Some(&["*"]), &[], ("X-Tenant=a x-trace=b", [1, 1, 0]));
    check(None, &["*"], ("", [0, 0, 4]));
}

#[test]
fn the_attributes_of_another_event_are_no_part_of_this_one() {
    let passage = Passage { is_event: true, ..passage(&header_rules::HTTP) };
    let headers = [("ce_id", "x"), ("ce-id", "x"), ("cloudEvents:type", "x"), ("tenant", "a")];
    assert_eq!(passed(&passage, &[("ce_id", "7")], &headers), ("ce_id=7 tenant=a".to_owned(), [1, 0, 0]));
    let passage = Passage { is_event: false, ..passage };
    assert_eq!(passed(&passage, &[], &headers[..1]), ("ce_id=x".to_owned(), [0, 0, 0]));
}

#[test]
fn headers_beyond_the_room_of_the_destination_are_left_out() {
    let long = "x".repeat(20_000);
    let headers = [("a", long.as_str()), ("b", &long), ("c", "short")];
    let (got, left_out) = to(&header_rules::ROCKETMQ, &headers);
    assert_eq!((got.len(), got.ends_with("c=short"), left_out), (2 + 20_000 + 1 + 7, true, [0, 1, 0]));
    // The client of HTTP panics over more than 24,576.
    let many: Vec<_> = (0..60_000).map(|n| (format!("h{n}"), String::new())).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (got, [control, unfit, rule]) = to(&header_rules::HTTP, &many);
    let count = got.split(' ').count() as u64;
    assert!(count > 1_000 && count < 20_000 && (control, unfit, rule) == (0, 60_000 - count, 0), "{count} {unfit}");
}
