//! The clause about headers that messages of inputs bring along.

use super::{PATIENT, Rig, outbound};
use delaybridge_sink::HeaderFate;

/// A message as a consumer sees it: its body, and all of its headers, those that the sink writes too.
pub type ReceivedMessage = (Vec<u8>, Vec<(String, String)>);

/// Headers of messages from elsewhere: plain ones, such as one protocol has and another has not, and those that steer a destination.
/// No two have the same name.
const ODD: [(&str, &str); 42] = [
    ("tenant", "a"),
    ("X-Tenant", "größe"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("no-value", ""),
    ("", "no name"),
    ("two words", "a"),
    ("a:b", "a"),
    ("a=b", "a"),
    ("größe", "a"),
    ("name\r\nwith: lines", "a"),
    ("lines", "a\r\nNats-Rollup: all\r\n\r\nb"),
    ("zero", "a\0b"),
    ("ends", "a\u{1}DELAY\u{2}b"),
    ("no-character", "a\u{fffe}\u{ffff}b"),
    ("Nats-Rollup", "all"),
    ("Nats-Expected-Stream", "another"),
    ("Nats-TTL", "1s"),
    ("KV-Operation", "PURGE"),
    ("Status", "404"),
    ("payload", "another"),
    ("id", "another"),
    ("queue", "another"),
    ("attempt", "77"),
    ("Authorization", "Bearer stolen"),
    ("Host", "another.example"),
    ("Content-Length", "1"),
    ("Transfer-Encoding", "chunked"),
    ("Connection", "close"),
    ("Cookie", "session=stolen"),
    ("X_Forwarded_For", "127.0.0.1"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("If-Match", "\"1\""),
    ("CC", "another"),
    ("x-death", "another"),
    ("x-opt-delivery-delay", "3600000"),
    ("_AMQ_SCHED_DELIVERY", "32503680000000"),
    ("_AMQ_DUPL_ID", "seen"),
    ("DELAY", "18"),
    ("TIMER_DELAY_SEC", "3600"),
    ("AWS.x", "a"),
    ("delaybridge-id", "another"),
    ("x-delay", "3600000"),
];

/// Each header that the kind's row of the table lets pass arrives as it is, and each other one is left out. The messages arrive at once,
/// and no message that was there before goes away.
pub async fn headers_pass_as_the_table_says(mut rig: impl Rig) {
    let sink = rig.sink(PATIENT).await;
    let rules = rig.header_rules();
    let long = ["x".repeat(255), "y".repeat(256)];
    let mut odd: Vec<(&str, &str)> = ODD.to_vec();
    odd.extend(long.iter().map(|name| (name.as_str(), "long")));
    let passes = |(name, value): &(&str, &str)| rules.fate(name, Some(value)) == HeaderFate::Passes;
    let sent = |(name, value): &(&str, &str)| ((*name).into(), (*value).to_owned());
    // Each in a message of its own, then all in one.
    let all: Vec<Vec<_>> = odd.iter().map(|header| vec![*header]).chain([odd.clone()]).collect();
    for (n, headers) in (0..).zip(&all) {
        let mut message = outbound(n, rig.destination(), format!("body-{n}"));
        message.headers = headers.iter().filter(|header| passes(header)).map(sent).collect();
        sink.deliver(message).await.unwrap_or_else(|failure| panic!("{}: {headers:?}: {failure}", rules.title));
    }
    let received = rig.received_with_headers().await;
    assert_eq!(received.len(), all.len(), "{}: {received:?}", rules.title);
    for (n, headers) in all.iter().enumerate() {
        let body = format!("body-{n}").into_bytes();
        let (_, found) = received.iter().find(|(known, _)| *known == body).expect("each has arrived");
        for header in headers {
            let is_it = |(name, value): &&(String, String)| name.eq_ignore_ascii_case(header.0) && value == header.1;
            let expected = usize::from(passes(header));
            assert_eq!(found.iter().filter(is_it).count(), expected, "{}: {header:?} of {found:?}", rules.title);
        }
    }
    sink.close().await;
}
