//! Servers that break the rules: nothing they do is a success, and what may have arrived is ambiguous.

use std::future::pending;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::raw::Raw;
use super::*;
use brokers::Stopwatch;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What the sink says of a server that answers one request of each connection with this and closes it.
async fn after(answer: &'static str) -> Outcome {
    let server = Raw::saying_once(answer).await;
    let outcome = deliver(&sink(plain(server.port)), "/").await;
    assert_eq!(server.requests(), 1, "no request is repeated: {outcome:?}");
    outcome
}

#[tokio::test]
async fn a_connection_that_is_closed_without_an_answer_is_ambiguous() {
    let failure = after("").await.unwrap_err();
    assert_failed(&failure, Class::Ambiguous, "connection_lost", "closed before the answer");
    let failure = after("HTTP/1.1 200 OK\r\nContent-").await.unwrap_err();
    assert_failed(&failure, Class::Ambiguous, "connection_lost", "closed before the answer");
}

#[tokio::test]
async fn a_half_closed_connection_is_ambiguous() {
    let server = Raw::start(|mut talk| async move {
        talk.request().await;
        talk.finish().await;
    })
    .await;
    let failure = failure(&sink(plain(server.port)), "/").await;
    assert_failed(&failure, Class::Ambiguous, "connection_lost", "closed before the answer");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_connection_that_is_closed_before_anything_is_read_is_no_success() {
    let server = Raw::start(|_talk| async {}).await;
    let failure = failure(&sink(plain(server.port)), "/").await;
    // Whether bytes left before the end was noticed depends on the moment.
    assert!(matches!(failure.class, Class::Ambiguous | Class::Transient), "{failure}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_success_that_breaks_off_is_ambiguous() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        "HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n",
    ] {
        let failure = after(answer).await.unwrap_err();
        assert_failed(&failure, Class::Ambiguous, "http_truncated", "within the answer");
    }
}

#[tokio::test]
async fn a_refusal_that_breaks_off_is_a_refusal() {
    let failure = after("HTTP/1.1 422 Nope\r\nContent-Length: 100\r\n\r\nhalf").await.unwrap_err();
    assert_failed(&failure, Class::MessagePermanent, "http_422", "answered 422");
}

#[tokio::test]
async fn what_is_not_http_is_ambiguous_and_not_quoted() {
    for answer in ["SSH-2.0-OpenSSH_9.2\r\n", "HTTP/9.9 200 OK\r\n\r\n", "{}\r\n\r\n", "220 mail ESMTP\r\n"] {
        let failure = after(answer).await.unwrap_err();
        assert_failed(&failure, Class::Ambiguous, "http_garbage", "is not HTTP");
        assert!(!failure.message.contains("SSH") && !failure.message.contains("mail"), "{failure}");
    }
}

/// Nothing can be smuggled to a client that keeps no header and reads no body: what other clients take is taken.
#[tokio::test]
async fn a_success_with_an_odd_head_is_a_success() {
    let many: String = (0..200).map(|n| format!("X-{n}: {n}\r\n")).collect();
    let odd = [
        "X-Folded: one\r\n two\r\n",
        "X-Space : one\r\n",
        "X Space: one\r\n",
        ": no name\r\n",
        "no colon\r\n",
        "X-Control: a\u{1}b\r\n",
        "X-\u{fc}: one\r\n",
        "Content-Length: 2\r\n",
        &many,
    ];
    for headers in odd {
        let answer: &'static str = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 2\r\n\r\nok").leak();
        assert_eq!(after(answer).await, Ok(()), "{headers:?}");
    }
}

/// Else the same element would get the same answer for ever.
#[tokio::test]
async fn a_head_that_cannot_be_read_counts_as_an_attempt() {
    for answer in [
        "HTTP/1.1 twohundred\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
    ] {
        let failure = after(answer).await.unwrap_err();
        assert_failed(&failure, Class::Unknown, "http_unreadable", "cannot be read");
        assert!(!failure.message.contains("two"), "{failure}");
    }
}

#[tokio::test]
async fn a_slow_answer_is_waited_for_and_a_missing_one_is_not() {
    let server = Raw::start(|mut talk| async move {
        talk.request().await;
        match talk.number {
            0 => sleep(Duration::from_millis(300)).await,
            _ => pending().await,
        }
        // Else the next request could go there before the client sees its end.
        talk.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").await;
    })
    .await;
    let sink = impatient(plain(server.port));
    assert_eq!(deliver(&sink, "/").await, Ok(()));
    let begun = Stopwatch::start();
    let failure = failure(&sink, "/").await;
    assert_failed(&failure, Class::Ambiguous, "timeout", "no answer within 600ms");
    begun.assert_within(Duration::from_secs(3), "the time-out of 600 ms");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_read_for_a_while_only() {
    let server = Raw::start(|mut talk| async move {
        talk.request().await;
        match talk.number {
            // Endless, and fast.
            0 => {
                talk.say("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n").await;
                let much = "x".repeat(64 << 10);
                for _ in 0..1000 {
                    talk.say(&much).await;
                }
            }
            // Silent in the middle.
            1 => talk.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await,
            _ => talk.say("HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\nhalf").await,
        }
        pending().await
    })
    .await;
    let sink = impatient(plain(server.port));
    assert_eq!(deliver(&sink, "/").await, Ok(()), "the server has said that it took it");
    assert_eq!(deliver(&sink, "/").await, Ok(()), "it has said so again");
    let refused = failure(&sink, "/").await;
    assert_failed(&refused, Class::MessagePermanent, "http_400", "answered 400");
}

#[tokio::test]
async fn a_head_that_never_ends_is_not_read() {
    let server = Raw::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\nSet-Cookie: ").await;
        let much = "x".repeat(64 << 10);
        for _ in 0..1000 {
            talk.say(&much).await;
        }
        pending().await
    })
    .await;
    let failure = failure(&sink(plain(server.port)), "/").await;
    assert_failed(&failure, Class::Unknown, "http_unreadable", "cannot be read");
}

#[tokio::test]
async fn the_body_of_a_success_is_waited_for_only_where_that_is_asked_for() {
    let server = Raw::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
        pending().await
    })
    .await;
    // The time-out is beyond the time for a body, and before it.
    for timeout in [Duration::from_secs(60), Duration::from_millis(600)] {
        let sink = HttpSink::new(plain(server.port), timeout);
        let begun = Stopwatch::start();
        assert_eq!(deliver(&sink, "/").await, Ok(()), "{timeout:?}");
        begun.assert_within(Duration::from_secs(20), "the five seconds for a body");
        assert_eq!(server.requests(), server.connections(), "such a connection is not used again");
    }
    let patient = impatient(HttpSpec { read_body: true, ..plain(server.port) });
    assert_failed(&failure(&patient, "/").await, Class::Ambiguous, "timeout", "no answer within");
}

#[tokio::test]
async fn an_early_refusal_of_a_large_body_is_heard() {
    let server = Raw::start(|mut talk| async move {
        talk.head().await;
        talk.say("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
        talk.drain().await;
    })
    .await;
    let sink = sink(plain(server.port));
    let large = Outbound { body: vec![b'x'; 16 << 20].into(), ..outbound(1, to("/"), "") };
    let failure = sink.deliver(large).await.unwrap_err();
    assert_failed(&failure, Class::MessagePermanent, "http_413", "answered 413");
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_ambiguous() {
    let server = Raw::start(|talk| async move {
        let _open = talk;
        pending().await
    })
    .await;
    let large = Outbound { body: vec![b'x'; 64 << 20].into(), ..outbound(1, to("/"), "") };
    let failure = impatient(plain(server.port)).deliver(large).await.unwrap_err();
    assert_failed(&failure, Class::Ambiguous, "timeout", "no answer within");
}

#[tokio::test]
async fn hints_before_the_answer_are_not_the_answer() {
    let hints = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    let then_ok: &'static str = format!("{hints}{OK}").leak();
    assert_eq!(after(then_ok).await, Ok(()));
    let failure = after(hints).await.unwrap_err();
    assert_failed(&failure, Class::Ambiguous, "connection_lost", "before the answer");
    let switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    let failure = after(switched).await.unwrap_err();
    assert!(matches!(failure.class, Class::Unknown | Class::Ambiguous), "{failure}");
}

/// Each of many connections sends interim answers as fast as it can.
#[tokio::test]
async fn interim_answers_without_end_end_the_connection() {
    let server = Raw::start(|mut talk| async move {
        talk.request().await;
        let much = "HTTP/1.1 100 Continue\r\n\r\n".repeat(2_000);
        while talk.says(&much).await {}
    })
    .await;
    let sink = HttpSink::new(plain(server.port), Duration::from_secs(60));
    let begun = Stopwatch::start();
    let outcomes = join_all((0..64).map(|n| {
        let sink = &sink;
        async move { deliver(sink, &format!("/{n}")).await }
    }))
    .await;
    begun.assert_within(Duration::from_secs(30), "the end of each connection; a time-out takes 60 s");
    for outcome in outcomes {
        assert_failed(&outcome.unwrap_err(), Class::Ambiguous, "connection_lost", "more than 8 interim answers");
    }
    // As many as anybody sends are none too many.
    let few: &'static str = format!("{}{OK}", "HTTP/1.1 102 Processing\r\n\r\n".repeat(8)).leak();
    assert_eq!(after(few).await, Ok(()));
}

#[tokio::test]
async fn an_answer_too_many_answers_nothing() {
    // Two answers to the first request, and silence after that.
    let server = Raw::start(|mut talk| async move {
        talk.request().await;
        if talk.number == 0 {
            talk.say(&OK.repeat(2)).await;
        }
        talk.request().await;
        pending().await
    })
    .await;
    let sink = impatient(plain(server.port));
    assert_eq!(deliver(&sink, "/").await, Ok(()));
    let failure = failure(&sink, "/").await;
    assert!(matches!(failure.class, Class::Ambiguous | Class::Transient), "{failure}");
}
