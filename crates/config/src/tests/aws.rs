//! SQS and SNS sinks: queues and topics, their region and server, groups of FIFO.
#![cfg(feature = "aws")]

use super::*;
use delaybridge_sink_aws::AwsSpec;

const QUEUE: &str = "queue_url: 'https://sqs.eu-west-1.amazonaws.com/1/orders'";
const FIFO: &str = "queue_url: 'https://sqs.eu-west-1.amazonaws.com/1/orders.fifo'";

/// A file whose queue `mails` goes to a sink of this kind with these keys.
fn file(kind: &str, sink: &str, route: &str) -> String {
    GOOD.replace("stdout: {}", &format!("{kind}: {{ {sink} }}"))
        .replace("      - sink: out", &format!("      - {{ sink: out{route} }}"))
}

fn spec(kind: &str, sink: &str) -> AwsSpec {
    let config = load(&file(kind, sink, "")).unwrap_or_else(|errors| panic!("{errors}")).config;
    let spec = config.sinks.iter().find(|sink| &*sink.name == "out").unwrap();
    let settings: &dyn std::any::Any = &*spec.connector;
    settings.downcast_ref::<AwsSpec>().unwrap().clone()
}

#[test]
fn what_is_left_out_of_a_sink_of_sqs_has_the_documented_default() {
    let Loaded { config, warnings, .. } = load(&file("sqs", QUEUE, "")).unwrap();
    assert_eq!(lines(&warnings), [""; 0]);
    let shown = describe(&config);
    let expected = "    sqs:\n      endpoint: https://sqs.eu-west-1.amazonaws.com\n      region: eu-west-1\n      connect_timeout: 5s\n      \
                    max_concurrency: 16\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn region_and_server_are_those_of_the_queue_or_the_topic_unless_they_are_written() {
    let read = |kind: &str, sink: &str| {
        let spec = spec(kind, sink);
        (spec.origin.to_string(), spec.login.region)
    };
    let of = |origin: &str, region: &str| (origin.to_owned(), region.to_owned());
    assert_eq!(read("sqs", QUEUE), of("https://sqs.eu-west-1.amazonaws.com", "eu-west-1"));
    let old = "queue_url: 'https://eu-west-1.queue.amazonaws.com/1/orders'";
    assert_eq!(read("sqs", old), of("https://sqs.eu-west-1.amazonaws.com", "eu-west-1"));
    let local = "queue_url: 'http://127.0.0.1:9324/000000000000/q', region: us-east-1";
    assert_eq!(read("sqs", local), of("http://127.0.0.1:9324", "us-east-1"));
    let endpoint = format!("{QUEUE}, endpoint: 'https://vpce-1.sqs.eu-west-1.vpce.amazonaws.com'");
    assert_eq!(read("sqs", &endpoint), of("https://vpce-1.sqs.eu-west-1.vpce.amazonaws.com", "eu-west-1"));
    let topic = "topic_arn: 'arn:aws:sns:eu-west-2:1:orders'";
    assert_eq!(read("sns", topic), of("https://sns.eu-west-2.amazonaws.com", "eu-west-2"));
    let china = "topic_arn: 'arn:aws-cn:sns:cn-north-1:1:orders'";
    assert_eq!(read("sns", china), of("https://sns.cn-north-1.amazonaws.com.cn", "cn-north-1"));
}

#[test]
fn a_queue_is_a_url_and_a_topic_an_arn() {
    let sink = |kind: &str, sink: &str, expected: &[&str]| check_words(&file(kind, sink, ""), expected);
    let no_queue = "queues.mails.to[0]: no destination: sink `out` names no `queue_url`";
    sink("sqs", "region: eu-west-1", &[no_queue]);
    sink("sqs", "queue_url: orders, region: eu-west-1", &["sinks.out.sqs.queue_url: the URL has no scheme"]);
    let nothing = ["sinks.out.sqs: `region` is missing", "sinks.out.sqs.queue_url: the URL names no queue"];
    sink("sqs", "queue_url: 'https://h/'", &nothing);
    sink("sqs", "queue_url: 'http://h/1/q'", &["sinks.out.sqs: `region` is missing | write `region: eu-west-1`"]);
    sink("sqs", "queue_url: 'http://h/1/q', region: europe", &["sinks.out.sqs.region: it is no region of AWS"]);
    sink("sqs", &format!("{QUEUE}, endpoint: 'https://h/x'"), &["sinks.out.sqs.endpoint: an endpoint has no path"]);
    let tls = format!("{QUEUE}, endpoint: 'http://h', tls: {{}}");
    sink("sqs", &tls, &["sinks.out.sqs.tls: there is `tls`, and the endpoint begins with `http://`"]);
    check_doubts(
        &file("sqs", "queue_url: 'http://h/1/q', region: eu-west-1", ""),
        &["sinks.out.sqs: without `https://` the network sees the messages, and their signatures"],
    );
    sink("sns", "topic_arn: orders, region: eu-west-1", &["sinks.out.sns.topic_arn: it is no ARN of a topic"]);
    sink("sqs", &format!("{QUEUE}, topic_arn: x"), &["sinks.out.sqs.topic_arn: unknown key"]);
}

#[test]
fn a_route_has_a_queue_of_its_own_in_the_region_of_its_sink() {
    let route = |route: &str, expected: &[&str]| check_words(&file("sqs", QUEUE, route), expected);
    route(
        ", queue_url: 'https://sqs.us-east-1.amazonaws.com/1/x'",
        &["queues.mails.to[0].queue_url: it is in another region than its sink, `eu-west-1`"],
    );
    route(", topic_arn: x", &["queues.mails.to[0].topic_arn: `topic_arn` means nothing to a sink of kind sqs"]);
    let header = "queues.mails.to[0].headers.delaybridge-id: every message has `delaybridge-id` already";
    route(", headers: { delaybridge-id: x }", &[header]);
    load(&file("sqs", QUEUE, ", queue_url: 'https://sqs.eu-west-1.amazonaws.com/1/x'")).unwrap();
}

#[test]
fn an_order_by_key_has_the_group_as_its_key() {
    let ordered = |sink: &str| file("sqs", sink, "").replace("codec: json", "codec: json\n    order: key");
    load(&ordered(&format!("{FIFO}, group_id: '${{payload.customer}}'"))).unwrap_or_else(|errors| panic!("{errors}"));
    let without = ordered(FIFO);
    let errors = load(&without).err().map(|errors| errors.to_string()).unwrap_or_default();
    assert!(errors.contains("`order: key` needs a key") && errors.contains("`group_id`"), "{errors}");
    let own = ordered(FIFO).replace("order: key", "order: key\n    order_key: '${payload.customer}'");
    let config = load(&own).unwrap_or_else(|errors| panic!("{errors}")).config;
    let mails = config.queues.iter().find(|queue| &*queue.id == "mails").unwrap();
    assert_eq!(mails.to[0].target.keys()["group_id"], "${payload.customer}", "the group is the key of the order");
    let unfit = format!("{FIFO}, group_id: 'a b'");
    check_words(&file("sqs", &unfit, ""), &["sinks.out.sqs.group_id: the result has a character other than"]);
}
