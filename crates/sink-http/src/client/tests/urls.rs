//! URLs of one host beside each other: what one costs the others.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::mpsc;

use super::raw::Raw;
use super::server::Server;
use super::*;
use brokers::Stopwatch;

/// A server of which the paths `/silent/N` answer nothing, and all others at once.
async fn half_silent() -> Raw {
    Raw::start(|mut talk| async move {
        while let Some(path) = talk.path().await {
            if path.starts_with("/silent") {
                return std::future::pending().await;
            }
            talk.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        }
    })
    .await
}

#[tokio::test]
async fn urls_that_answer_nothing_leave_places_for_those_that_answer() {
    let server = half_silent().await;
    let sink = Arc::new(HttpSink::new(plain(server.port), Duration::from_secs(60)));
    // Many more than there are places, before the first one to a URL that answers.
    let (began, mut begun) = mpsc::channel(1_000);
    let _silent: Vec<_> = (0..600)
        .map(|n| {
            let (sink, began) = (sink.clone(), began.clone());
            let task = tokio::spawn(async move {
                let path = format!("/silent/{}", n % 6);
                let delivery = deliver(&sink, &path);
                let mut delivery = std::pin::pin!(delivery);
                let over = futures_util::poll!(&mut delivery);
                assert!(over.is_pending(), "{over:?}");
                began.send(()).await.unwrap();
                delivery.await
            });
            tokio_util::task::AbortOnDropHandle::new(task)
        })
        .collect();
    for _ in 0..600 {
        begun.recv().await.unwrap();
    }
    let watch = Stopwatch::start();
    for n in 0..200 {
        assert_eq!(deliver(&sink, &format!("/well/{}", n % 2)).await, Ok(()));
    }
    watch.assert_within(Duration::from_secs(30), "200 requests to URLs that answer; a time-out takes 60 s");
}

/// A URL that worked and answers nothing any more.
#[tokio::test]
async fn a_url_that_stops_to_answer_leaves_places_for_others() {
    let server = Server::start().await;
    let sink = Arc::new(HttpSink::new(server.spec(), Duration::from_secs(60)));
    for path in ["/a", "/b"] {
        assert_eq!(deliver(&sink, path).await, Ok(()));
    }
    server.stall_path("/a", true);
    let mut waiting = tokio::task::JoinSet::new();
    for n in 0..200 {
        let sink = sink.clone();
        waiting.spawn(async move { deliver(&sink, "/a").await });
        // The first ones are without an answer for a while when the others come.
        if n == 4 {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
    let watch = Stopwatch::start();
    for _ in 0..100 {
        assert_eq!(deliver(&sink, "/b").await, Ok(()));
    }
    watch.assert_within(Duration::from_secs(30), "100 requests to a URL that answers; a time-out takes 60 s");
    assert!(server.busiest() < 10, "{}", server.busiest());
    // It has all places again when it answers.
    server.stall_path("/a", false);
    while let Some(outcome) = waiting.join_next().await {
        assert_eq!(outcome.unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn a_host_of_which_all_urls_are_busy_is_asked_in_a_pace() {
    let server = Server::start().await;
    server.answer_all(503);
    let sink = sink(server.spec());
    let watch = Stopwatch::start();
    let outcomes = join_all((0..5_000).map(|n| {
        let sink = &sink;
        async move { deliver(sink, &format!("/{n}")).await }
    }))
    .await;
    let asked = server.answered();
    let allowed = 64 + 50 * (watch.elapsed().as_secs() + 1);
    assert!(asked as u64 <= allowed, "{asked} requests in {:?}", watch.elapsed());
    for outcome in outcomes {
        let failure = outcome.unwrap_err();
        match failure.code {
            "http_503" => assert_eq!(failure.class, Class::Backpressure),
            _ => assert!(failure.is_unsent() && failure.class == Class::Transient, "{failure}"),
        }
    }
    // One that takes something ends it.
    server.answer("/well", 200, &[]);
    while deliver(&sink, "/well").await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = server.answered();
    join_all((0..500).map(|n| {
        let sink = &sink;
        async move { deliver(sink, &format!("/{n}")).await }
    }))
    .await;
    assert_eq!(server.answered() - before, 500, "each is asked for itself");
}
