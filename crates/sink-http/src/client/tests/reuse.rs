//! Connections: kept, bounded, left alone when they end; and elements that wait for one.

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::sleep;

use super::raw::Raw;
use super::server::{Options, Server};
use super::*;
use brokers::Stopwatch;
use delaybridge_core::clock::Instant;

const KEPT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

async fn http2() -> Server {
    Server::tls(&["h2"]).await
}

#[tokio::test]
async fn one_connection_carries_one_request_after_the_other() {
    for server in [Server::start().await, Server::tls(&["http/1.1"]).await, http2().await] {
        let sink = sink(server.spec());
        for _ in 0..50 {
            assert_eq!(deliver(&sink, "/").await, Ok(()));
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_allowed() {
    for server in [Server::start().await, http2().await] {
        let sink = sink(HttpSpec { max_concurrency: 3, ..server.spec() });
        let outcomes = join_all((0..60).map(|_| deliver(&sink, "/"))).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert!(server.busiest() <= 3, "{}", server.busiest());
        assert!(server.connections() <= 3, "{}", server.connections());
    }
}

#[tokio::test]
async fn http2_needs_one_connection_and_keeps_to_its_streams() {
    let server = http2().await;
    let sink = sink(server.spec());
    let outcomes = join_all((0..200).map(|_| deliver(&sink, "/"))).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(server.connections(), 1);
    let few = Server::with(Options { alpn: Some(vec!["h2"]), max_streams: Some(2), ..Options::default() }).await;
    let sink = super::sink(few.spec());
    few.stall(true);
    let mut waiting: Vec<_> = (0..20).map(|_| deliver(&sink, "/").boxed()).collect();
    let all = join_all(waiting.iter_mut());
    assert!(tokio::time::timeout(Duration::from_millis(300), all).await.is_err());
    // Those that have no stream have not been sent, and are not sent when nothing waits for them any more.
    drop(waiting);
    few.stall(false);
    sleep(Duration::from_millis(200)).await;
    assert!(few.busiest() <= 2, "{}", few.busiest());
    assert!(few.seen().len() <= 2, "{:?}", few.seen());
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_nothing() {
    let server = Raw::saying_once(KEPT).await;
    let sink = sink(plain(server.port));
    for n in 1..=20 {
        assert_eq!(deliver(&sink, "/").await, Ok(()));
        assert_eq!((server.requests(), server.connections()), (n, n));
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_connection_that_closes_at_any_moment_makes_no_false_success() {
    let server = Raw::saying_once(KEPT).await;
    let sink = sink(plain(server.port));
    let mut confirmed = 0;
    for _ in 0..300 {
        match deliver(&sink, "/").await {
            Ok(()) => confirmed += 1,
            Err(failure) => assert!(matches!(failure.class, Class::Ambiguous | Class::Transient), "{failure}"),
        }
    }
    // Every answer of the server is for one element.
    assert!(confirmed <= server.requests() && confirmed > 0, "{confirmed} of {}", server.requests());
}

#[tokio::test]
async fn a_server_that_keeps_no_connection_is_served() {
    for answer in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\nuntil the end",
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    ] {
        let server = Raw::saying_once(answer).await;
        let sink = sink(plain(server.port));
        for _ in 0..3 {
            assert_eq!(deliver(&sink, "/").await, Ok(()), "{answer}");
        }
        assert_eq!((server.requests(), server.connections()), (3, 3));
    }
}

#[tokio::test]
async fn after_a_time_out_nothing_is_sent_on_the_same_connection() {
    for server in [Server::start().await, http2().await] {
        let sink = impatient(server.spec());
        assert_eq!(deliver(&sink, "/").await, Ok(()));
        server.stall(true);
        assert_failed(&failure(&sink, "/").await, Class::Ambiguous, "timeout", "no answer");
        server.stall(false);
        assert_eq!(deliver(&sink, "/").await, Ok(()));
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn an_element_with_an_expired_lease_is_not_sent() {
    let server = Server::start().await;
    let sink = sink(HttpSpec { max_concurrency: 1, ..server.spec() });
    let stale = Outbound { send_before: Instant::now(), ..outbound(1, to("/"), "stale") };
    assert!(sink.deliver(stale).await.unwrap_err().is_stale());
    server.stall(true);
    let soon = Instant::now().after(Duration::from_millis(100));
    let waiting = Outbound { send_before: soon, ..outbound(2, to("/"), "waiting") };
    let release = async {
        sleep(Duration::from_millis(300)).await;
        server.stall(false);
    };
    let (first, second, ()) = tokio::join!(deliver(&sink, "/"), sink.deliver(waiting), release);
    assert_eq!(first, Ok(()));
    assert!(second.unwrap_err().is_stale());
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn an_element_that_waited_in_vain_or_was_dropped_is_not_sent() {
    let server = Server::start().await;
    let sink = impatient(HttpSpec { max_concurrency: 1, ..server.spec() });
    server.stall(true);
    let dropped = deliver(&sink, "/dropped").boxed();
    let (first, second, third) = tokio::join!(
        deliver(&sink, "/first"),
        deliver(&sink, "/second"),
        tokio::time::timeout(Duration::from_millis(100), dropped)
    );
    assert!(third.is_err());
    assert_failed(&first.unwrap_err(), Class::Ambiguous, "timeout", "no answer within");
    let second = second.unwrap_err();
    assert_failed(&second, Class::Transient, Failure::NOT_SENT.as_str(), "not sent within");
    assert!(second.is_unsent());
    server.stall(false);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(server.seen().iter().filter(|seen| seen.path != "/first").count(), 0);
}

#[tokio::test]
async fn a_closed_sink_sends_nothing() {
    let server = Server::start().await;
    let sink = sink(server.spec());
    assert_eq!(deliver(&sink, "/").await, Ok(()));
    let begun = Stopwatch::start();
    sink.close().await;
    begun.assert_within(Duration::from_secs(2), "the close beside an idle connection");
    assert_failed(&failure(&sink, "/").await, Class::Transient, "closed", "the sink is closed");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn nobody_at_the_port_is_an_outage() {
    let mut server = Server::start().await;
    server.stop();
    let gone = sink(server.spec());
    let refused = failure(&gone, "/").await;
    assert_failed(&refused, Class::Transient, Failure::NOT_CONNECTED.as_str(), "connect to http://localhost:");
    assert!(gone.check(&[]).await.unwrap_err().is_unsent());
    let origin = HttpOrigin { host: "nothing.invalid".to_owned(), ..server.spec().origin };
    let unknown = failure(&sink(HttpSpec { origin, ..server.spec() }), "/").await;
    assert_failed(&unknown, Class::Transient, Failure::NOT_CONNECTED.as_str(), "connect to http://nothing.invalid:");
}
