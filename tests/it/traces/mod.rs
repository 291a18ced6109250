//! Traces of elements: the requests to a collector over both protocols, the context for the sink, and no effect on
//! elements of a collector that refuses or is away.

mod collector;
mod wire;

use serde_json::json;

use self::collector::Collector;
use self::wire::{Span, spans};
use crate::delivery::PATIENCE;
use harness::{Daemon, RedisServer, eventually};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn yaml(server: &RedisServer, hook: u16, tracing: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\ntracing: {{ otlp: {{ {tracing} }} }}\n\
         sinks: {{ hook: {{ http: {{ url: 'http://127.0.0.1:{hook}/due' }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, codec: json, \
         to: [{{ sink: hook, headers: {{ traceparent: '${{payload.trace:-}}' }} }}] }} }}\n",
        server.url()
    )
}

fn offer(daemon: &Daemon, payload: &str) {
    let output = harness::daemon::cli(daemon.config(), &["offer", "q", "--delay", "0s", "--payload", payload]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn hooked(hook: &Collector, number: usize) -> Vec<Option<String>> {
    eventually("the webhook's requests", PATIENCE, async || {
        let all = hook.received();
        let posts = all.iter().filter(|request| request.path == "/due");
        let traces: Vec<_> = posts.map(|request| request.headers.get("traceparent").cloned()).collect();
        if traces.len() == number { Ok(traces) } else { Err(format!("{} requests", traces.len())) }
    })
    .await
}

async fn gathered(collector: &Collector, grpc: bool, number: usize) -> Vec<Span> {
    eventually("the spans", PATIENCE, async || {
        let all: Vec<Span> = collector.received().iter().flat_map(|request| spans(&request.body, grpc)).collect();
        if all.len() >= number { Ok(all) } else { Err(format!("{} spans", all.len())) }
    })
    .await
}

#[tokio::test]
async fn a_collector_gets_the_spans_of_every_element_and_the_sink_its_context() {
    let server = RedisServer::start().await;
    for grpc in [true, false] {
        let hook = Collector::start(false, &[]).await;
        let collector = Collector::start(grpc, &[]).await;
        let protocol = if grpc { "grpc" } else { "http" };
        let tracing = format!("endpoint: 'http://127.0.0.1:{}', protocol: {protocol}, sample: 1", collector.port);
        let mut daemon = Daemon::start(&yaml(&server, hook.port, &tracing)).await;
        offer(&daemon, &json!({ "trace": PARENT }).to_string());
        offer(&daemon, &json!({ "trace": PARENT.replace("-01", "-00") }).to_string());
        offer(&daemon, "{}");
        let passed: Vec<_> = hooked(&hook, 3).await.into_iter().map(|header| header.expect("a trace")).collect();
        let spans = gathered(&collector, grpc, 10).await;
        assert_eq!(spans.len(), 10, "the second element is not sampled by its producer: {spans:?}");
        let request = &collector.received()[0];
        let (path, kind) = if grpc {
            ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", "application/grpc")
        } else {
            ("/v1/traces", "application/x-protobuf")
        };
        assert_eq!((request.path.as_str(), request.headers["content-type"].as_str()), (path, kind));

        let roots: Vec<_> = spans.iter().filter(|span| span.name == "q process").collect();
        let theirs =
            roots.iter().find(|span| span.parent == "00f067aa0ba902b7").expect("a span of the producer's trace");
        assert_eq!(theirs.trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        let own = roots.iter().find(|span| span.parent.is_empty()).expect("a trace of its own");
        assert_ne!(own.trace, theirs.trace);
        for root in roots {
            assert_eq!(root.attributes["delaybridge.queue"], "q");
            assert_eq!(root.attributes["delaybridge.verdict"], "confirm");
            assert_eq!(root.attributes["delaybridge.attempt"], "1");
            assert!(
                root.attributes["delaybridge.due_ms"].parse::<i64>().is_ok_and(|due_ms| due_ms > 1_700_000_000_000)
            );
            assert!(root.attributes.contains_key("delaybridge.lateness_ms"), "{root:?}");
            let parts: Vec<_> = spans.iter().filter(|span| span.parent == root.id).collect();
            let names: Vec<_> = parts.iter().map(|span| span.name.as_str()).collect();
            assert_eq!(names, ["claim", "decode", "deliver hook", "settle"]);
            assert!(parts.iter().all(|part| root.from <= part.from && part.to <= root.to && part.trace == root.trace));
            // The webhook received the span of its delivery.
            let context = format!("00-{}-{}-01", root.trace, parts[2].id);
            assert!(passed.contains(&context), "{context} in {passed:?}");
        }
        assert!(passed.contains(&PARENT.replace("-01", "-00")), "{passed:?}");
        assert_eq!(daemon.stop().await, 0);
    }
}

#[tokio::test]
async fn what_a_collector_refuses_for_now_is_sent_again_and_delays_no_element() {
    let server = RedisServer::start().await;
    // UNAVAILABLE, and a success.
    let hook = Collector::start(false, &[]).await;
    let collector = Collector::start(true, &[14]).await;
    let tracing = format!("endpoint: 'http://127.0.0.1:{}', sample: 1", collector.port);
    let mut daemon = Daemon::start(&yaml(&server, hook.port, &tracing)).await;
    daemon.expect_log("send spans to the collector of traces");
    offer(&daemon, "{}");
    hooked(&hook, 1).await;
    let spans = gathered(&collector, true, 10).await;
    assert_eq!((spans.len(), &spans[..5]), (10, &spans[5..]), "the same request, once more");
    eventually("the counter", PATIENCE, async || {
        let sent = daemon.metric("delaybridge_trace_spans_total{outcome=\"sent\"}").await;
        if sent == 5.0 { Ok(()) } else { Err(format!("{sent} spans sent")) }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn without_a_collector_elements_are_delivered_and_the_end_does_not_wait() {
    let server = RedisServer::start().await;
    let hook = Collector::start(false, &[]).await;
    let nowhere = harness::ports::free_port();
    let tracing = format!("endpoint: 'http://127.0.0.1:{nowhere}', sample: 1");
    let mut daemon = Daemon::start(&yaml(&server, hook.port, &tracing)).await;
    daemon.expect_log("send spans to the collector of traces");
    offer(&daemon, "{}");
    hooked(&hook, 1).await;
    assert_eq!(daemon.stop().await, 0);
}
