//! Each row of the table of statuses, redirects, and `Retry-After` in both of its forms.

use super::server::Server;
use super::*;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::About;

#[tokio::test]
async fn every_status_has_its_class() {
    use Class::{Ambiguous, Backpressure, MessagePermanent, TargetPermanent, Unknown};
    let rows = [
        (300, TargetPermanent, "http_3xx", About::Target),
        (304, TargetPermanent, "http_3xx", About::Target),
        (399, TargetPermanent, "http_3xx", About::Target),
        (400, MessagePermanent, "http_400", About::Message),
        (401, TargetPermanent, "http_401", About::Account),
        (402, Unknown, "http_4xx", About::Target),
        (403, TargetPermanent, "http_403", About::Target),
        (404, TargetPermanent, "http_404", About::Target),
        (405, TargetPermanent, "http_405", About::Target),
        (406, Unknown, "http_4xx", About::Target),
        (408, Backpressure, "http_408", About::Target),
        (409, Unknown, "http_4xx", About::Target),
        (410, TargetPermanent, "http_410", About::Target),
        (413, MessagePermanent, "http_413", About::Message),
        (415, MessagePermanent, "http_415", About::Message),
        (418, Unknown, "http_4xx", About::Target),
        (422, MessagePermanent, "http_422", About::Message),
        (425, Backpressure, "http_425", About::Target),
        (429, Backpressure, "http_429", About::Target),
        (499, Unknown, "http_4xx", About::Target),
        (500, Ambiguous, "http_500", About::Target),
        (501, Ambiguous, "http_5xx", About::Target),
        (502, Ambiguous, "http_502", About::Target),
        (503, Backpressure, "http_503", About::Target),
        (504, Ambiguous, "http_504", About::Target),
        (507, Ambiguous, "http_5xx", About::Target),
        (599, Ambiguous, "http_5xx", About::Target),
        (600, Unknown, "http_other", About::Target),
        (999, Unknown, "http_other", About::Target),
    ];
    let server = Server::start().await;
    let sink = sink(server.spec());
    // A host that works is asked without a pace.
    assert_eq!(deliver(&sink, "/").await, Ok(()));
    for (status, class, code, about) in rows {
        let path = format!("/{status}?token=geheim");
        server.answer(&path, status, &[]);
        let failure = failure(&sink, &path).await;
        assert_failed(&failure, class, code, &format!("answered {status}"));
        assert_eq!(failure.about, about, "{failure}");
        for secret in ["geheim", "a secret of the server", "body"] {
            assert!(!failure.message.contains(secret), "{failure}");
        }
    }
    for status in [200, 201, 202, 204, 207, 299] {
        let path = format!("/{status}");
        server.answer(&path, status, &[]);
        assert_eq!(deliver(&sink, &path).await, Ok(()), "{status}");
    }
    assert_eq!(server.connections(), 1, "a refusal does not cost the connection");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_says_where_it_points() {
    let server = Server::start().await;
    let sink = sink(server.spec());
    let own = format!("http://localhost:{}/hook?token=other", server.port);
    let rows = [
        ("https://geheim:word@elsewhere.example/login?next=geheim", "it points to https://elsewhere.example, and"),
        ("http://elsewhere.example:8080/", "it points to http://elsewhere.example:8080, and"),
        ("/hook/?x=geheim", "the same path with a `/` at its end"),
        ("/hook", "the same path, and"),
        (own.as_str(), "the same path, and"),
        ("/geheim", "another path of the same server"),
    ];
    for status in [301, 302, 303, 307, 308] {
        for (location, words) in rows {
            server.answer("/hook?token=geheim", status, &[("location", location)]);
            let failure = failure(&sink, "/hook?token=geheim").await;
            assert_failed(&failure, Class::TargetPermanent, "http_3xx", words);
            assert!(failure.message.contains("redirects are not followed"), "{failure}");
            assert!(!failure.message.contains("geheim") && !failure.message.contains("token"), "{failure}");
        }
    }
    for nowhere in [&[][..], &[("location", "::not a url::")]] {
        server.answer("/hook", 302, nowhere);
        let failure = failure(&sink, "/hook").await;
        assert_failed(&failure, Class::TargetPermanent, "http_3xx", "does not say where to");
    }
    assert!(server.seen().is_empty(), "nothing was followed");
}

#[tokio::test]
async fn a_pause_is_obeyed_without_a_request_and_holds_for_its_url() {
    for status in [408, 425, 429, 503] {
        let server = Server::start().await;
        let sink = sink(server.spec());
        server.answer("/busy", status, &[("retry-after", "3600")]);
        let failure = failure(&sink, "/busy").await;
        assert_eq!((failure.class, failure.about), (Class::Backpressure, About::Target), "{failure}");
        assert_eq!(failure.wait, Some(Duration::from_secs(3600)));
        // No URL of the host works, as far as is known: it is not probed either.
        let probed = sink.probe().expect("it has a question").await.expect_err("the host asked for a pause");
        assert_failed(&probed, Class::Backpressure, "retry_after", "asked to wait 3600 s more");
        server.answer("/busy", 200, &[]);
        for _ in 0..20 {
            assert_eq!(deliver(&sink, "/free").await, Ok(()), "another URL");
            let paused = super::failure(&sink, "/busy").await;
            assert_failed(&paused, Class::Backpressure, "retry_after", "asked to wait 3600 s more");
            assert_eq!(paused.about, About::Target);
        }
        assert!(sink.probe().expect("it has a question").await.is_ok(), "one of its URLs works");
        assert_eq!(server.seen().iter().filter(|seen| seen.path == "/busy").count(), 0);
    }
}

#[tokio::test]
async fn a_pause_ends_after_its_time() {
    let server = Server::start().await;
    let sink = sink(server.spec());
    server.answer("/busy", 503, &[("retry-after", "1")]);
    let begun = Instant::now();
    assert_eq!(failure(&sink, "/busy").await.code, "http_503");
    server.answer("/busy", 200, &[]);
    while let Err(failure) = deliver(&sink, "/busy").await {
        assert_eq!((failure.class, failure.code), (Class::Backpressure, "retry_after"), "{failure}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// `Idempotency-Key` of a request that is still being processed.
#[tokio::test]
async fn a_conflict_about_a_repeated_key_is_the_message_s_alone_and_waits() {
    let server = Server::start().await;
    let sink = sink(server.spec());
    for (headers, wait) in [(&[][..], None), (&[("retry-after", "7")], Some(Duration::from_secs(7)))] {
        server.answer("/orders", 409, headers);
        let again = Outbound { attempt: 2, ..outbound(7, to("/orders"), "body") };
        let failure = sink.deliver(again).await.unwrap_err();
        assert_failed(&failure, Class::Backpressure, "http_409", "an earlier copy");
        assert_eq!((failure.about, failure.wait), (About::Message, wait));
        // The first request with a key conflicts with something else.
        let first = super::failure(&sink, "/orders").await;
        assert_failed(&first, Class::Unknown, "http_4xx", "answered 409");
    }
    // Nothing else waits for it.
    server.answer("/orders", 200, &[]);
    assert_eq!(deliver(&sink, "/orders").await, Ok(()));
}

#[tokio::test]
async fn a_pause_until_a_date_is_measured_by_the_server_s_clock() {
    let server = Server::start().await;
    let sink = sink(server.spec());
    // The server's year is not ours.
    let dates = [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")];
    server.answer("/busy", 503, &dates);
    let failure = failure(&sink, "/busy").await;
    assert_failed(&failure, Class::Backpressure, "http_503", "answered 503 Service Unavailable");
    let paused = super::failure(&sink, "/busy").await;
    assert_failed(&paused, Class::Backpressure, "retry_after", "asked to wait 60 s more");
}

#[tokio::test]
async fn a_pause_that_makes_no_sense_is_none() {
    let server = Server::start().await;
    let sink = sink(server.spec());
    for nonsense in ["soon", "-1", "", "0", "1.5", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        server.answer("/busy", 429, &[("retry-after", nonsense)]);
        let message = Outbound { now_ms: 1_790_000_000_000, ..outbound(1, to("/busy"), "x") };
        let failure = sink.deliver(message).await.unwrap_err();
        assert_failed(&failure, Class::Backpressure, "http_429", "delivery resumes after");
        assert_eq!(deliver(&sink, "/free").await, Ok(()), "{nonsense}");
    }
    // Other statuses do not pause anything.
    server.answer("/broken", 500, &[("retry-after", "100")]);
    assert_eq!(failure(&sink, "/broken").await.class, Class::Ambiguous);
    assert_eq!(deliver(&sink, "/free").await, Ok(()));
    // A mistaken one is bounded.
    server.answer("/busy", 429, &[("retry-after", "99999999999999999999999")]);
    assert_eq!(failure(&sink, "/busy").await.code, "http_429");
    let paused = failure(&sink, "/busy").await;
    assert_failed(&paused, Class::Backpressure, "retry_after", "asked to wait 3600 s more");
}
