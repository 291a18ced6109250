//! What all operations have in common.

use std::time::Duration;

use bytes::Bytes;
use percent_encoding::percent_decode_str;

use super::*;
use crate::dead::Filter;
use crate::operation::{Remote, RequestFields, Route};
use crate::time::{Length, Moment};

/// Reads the request that a client sends as a daemon does.
fn received<O: Remote>(sent: &O) -> O {
    let (method, target, body) = RequestFields::request(sent).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut fields = RequestFields::default();
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let parts = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let is_it = |route: &&Route| {
        let both = [parts(route.path), parts(path)];
        let fits = |(own, part): (&String, &String)| own.starts_with('{') || own == part;
        route.method == method && both[0].len() == both[1].len() && both[0].iter().zip(&both[1]).all(fits)
    };
    let route = O::ROUTES.iter().find(is_it).unwrap();
    for (own, part) in parts(route.path).iter().zip(parts(path)) {
        if let Some(name) = own.strip_prefix('{') {
            fields.add_text(name.trim_end_matches('}'), &decoded(&part));
        }
    }
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        fields.add_text(name, &decoded(value));
    }
    fields.add_body(body).unwrap();
    fields.read().unwrap()
}

fn check<O: Remote>(sent: O, target: &str, body: &str) {
    let (method, path, bytes) = RequestFields::request(&sent).unwrap();
    assert_eq!((format!("{method} {path}"), bytes), (target.to_owned(), Bytes::copy_from_slice(body.as_bytes())));
    let (sent, read) = (serde_json::to_value(&sent).unwrap(), serde_json::to_value(received(&sent)).unwrap());
    assert_eq!(sent, read, "{target}");
}

#[test]
fn a_daemon_reads_what_a_client_sends() {
    let queue = || "a/../b?x".to_owned();
    let path = "/v1/queues/a%2F%2E%2E%2Fb%3Fx";
    let [id, why] = ["7 8", "it's\n{}"].map(str::to_owned);
    check(
        Pause {
            queue: Some(queue()),
            why: why.clone(),
            by: Some("ann".to_owned()),
            length: Some(Length(Duration::from_secs(5_400))),
            ..Pause::default()
        },
        &format!("POST {path}/pause"),
        r#"{"why":"it's\n{}","by":"ann","for":"1h 30m"}"#,
    );
    let until = Some(Moment(1_801_386_000_000));
    check(
        Pause { sink: Some("k".to_owned()), why: "x".to_owned(), until, ..Pause::default() },
        "POST /v1/sinks/k/pause",
        r#"{"why":"x","until_ms":1801386000000}"#,
    );
    check(Resume { queue: None, sink: Some("k".to_owned()) }, "POST /v1/sinks/k/resume", "{}");
    check(RunNow { queue: queue(), id: id.clone(), due: None }, &format!("POST {path}/elements/7%208/run-now"), "{}");
    check(
        Reschedule { queue: queue(), id: id.clone(), due: Some(Moment(7)), after: None, at: until },
        &format!("POST {path}/elements/7%208/reschedule"),
        r#"{"due_ms":7,"at_ms":1801386000000}"#,
    );
    check(Cancel { queue: queue(), id: id.clone(), due: None }, &format!("DELETE {path}/elements/7%208"), "");
    let due = Some(Moment(7));
    check(Cancel { queue: queue(), id: id.clone(), due }, &format!("DELETE {path}/elements/7%208?due_ms=7"), "");
    check(
        Kill { queue: queue(), id: id.clone(), due: None, why, by: None },
        &format!("POST {path}/elements/7%208/kill"),
        r#"{"why":"it's\n{}"}"#,
    );
    check(Why { queue: queue(), id, due }, &format!("GET {path}/elements/7%208/why?due_ms=7"), "");
    let hour = Length(Duration::from_secs(3_600));
    check(
        MakeForecast { queue: queue(), until: DAY, step: hour, rate: Some(0.5) },
        &format!("GET {path}/forecast?until=1day&step=1h&rate=0%2E5"),
        "",
    );
    check(Audit { queue: Some(queue()), limit: 5 }, "GET /v1/audit?queue=a%2F%2E%2E%2Fb%3Fx&limit=5", "");
    check(CountAhead { hours: 12, like: Some("a b".to_owned()) }, "GET /v1/ahead?hours=12&like=a%20b", "");
    check(ListFleet {}, "GET /v1/fleet", "");
    let filter = Filter {
        reason: vec!["expired".to_owned(), "a b".to_owned()],
        newer_than: Some(hour),
        field: vec!["customer.name=A,n&n".parse().unwrap()],
        ..Filter::default()
    };
    check(
        CountDead { queue: queue(), limit: Some(7), filter, ..CountDead::default() },
        &format!(
            "GET {path}/dead/count?limit=7&reason=expired%2Ca%20b&newer_than=1h&field=customer%2Ename%3DA%2Cn%26n"
        ),
        "",
    );
    check(CountDead { queue: queue(), ..CountDead::default() }, &format!("GET {path}/dead/count"), "");
}
