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

/// Many more requests than there are places, to so many URLs that answer nothing.
async fn ask_silent(sink: &Arc<HttpSink>, urls: usize) -> tokio::task::JoinSet<Outcome> {
    let (began, mut begun) = mpsc::channel(1_000);
    let mut silent = tokio::task::JoinSet::new();
    for n in 0..600 {
        let sink = sink.clone();
        let began = began.clone();
        silent.spawn(async move {
            let path = format!("/silent/{}", n % urls);
            let mut delivery = std::pin::pin!(deliver(&sink, &path));
            let over = futures_util::poll!(&mut delivery);
            assert!(over.is_pending(), "{over:?}");
            began.send(()).await.unwrap();
            delivery.await
        });
    }
    for _ in 0..600 {
        begun.recv().await.unwrap();
    }
    silent
}

#[tokio::test]
async fn urls_that_answer_nothing_leave_places_for_those_that_answer() {
    // Three hundred take all places of URLs that nothing is known of: then those that have answered before have places.
    for (urls, is_known) in [(6, false), (20, false), (300, true)] {
        let server = half_silent().await;
        let sink = Arc::new(HttpSink::new(plain(server.port), Duration::from_secs(60)));
        let well = |n: u64| format!("/well/{}", n % 2);
        if is_known {
            assert_eq!([deliver(&sink, &well(0)).await, deliver(&sink, &well(1)).await], [Ok(()), Ok(())]);
        }
        let _silent = ask_silent(&sink, urls).await;
        let watch = Stopwatch::start();
        for n in 0..200 {
            assert_eq!(deliver(&sink, &well(n)).await, Ok(()), "beside {urls}");
        }
        watch.assert_within(Duration::from_secs(30), "200 requests to URLs that answer; a time-out takes 60 s");
    }
}

/// Once they are known, they leave places for new ones too.
#[tokio::test]
async fn urls_that_are_known_to_answer_nothing_leave_places_for_new_ones() {
    let server = half_silent().await;
    let sink = Arc::new(HttpSink::new(plain(server.port), Duration::from_secs(5)));
    let known = ask_silent(&sink, 40).await.join_all().await;
    let asked = known.iter().filter(|outcome| outcome.as_ref().is_err_and(|failure| failure.code == "timeout")).count();
    assert!(asked >= 40, "{asked}");
    let _silent = ask_silent(&sink, 40).await;
    let watch = Stopwatch::start();
    for n in 0..100 {
        assert_eq!(deliver(&sink, &format!("/new/{n}")).await, Ok(()));
    }
    watch.assert_within(Duration::from_secs(4), "100 requests to new URLs; a time-out takes 5 s");
}

/// The status has said that the URL takes elements, also where the body comes to no end.
#[tokio::test]
async fn a_success_whose_body_never_ends_shows_that_the_url_answers() {
    let server = Raw::start(|mut talk| async move {
        if talk.request().await {
            talk.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
            talk.drain().await;
        }
    })
    .await;
    let sink = impatient(plain(server.port));
    assert_eq!(deliver(&sink, "/").await, Ok(()));
    // Each takes its whole time.
    let outcomes = join_all((0..20).map(|_| deliver(&sink, "/"))).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
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
            // Nobody has asked the URL: it waits by itself, and for a while.
            _ => {
                assert!(failure.is_unsent() && failure.about == About::Message, "{failure}");
                assert_eq!(failure.class, Class::Backpressure, "{failure}");
                assert!(failure.wait.is_some_and(|wait| wait <= Duration::from_secs(30)), "{:?}", failure.wait);
            }
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

/// It was busy once, and has refused everything since: it is not busy.
#[tokio::test]
async fn a_host_that_answers_and_is_not_busy_is_asked_without_a_pace() {
    let server = Server::start().await;
    let sink = sink(server.spec());
    server.answer("/busy", 503, &[]);
    server.answer_all(404);
    assert_eq!(failure(&sink, "/busy").await.code, "http_503");
    let mut refused = 0;
    while refused < 10 {
        match failure(&sink, &format!("/{refused}")).await {
            failure if failure.is_unsent() => tokio::time::sleep(Duration::from_millis(20)).await,
            failure => {
                assert_eq!(failure.code, "http_404");
                refused += 1;
            }
        }
    }
    let before = server.answered();
    join_all((0..500).map(|n| {
        let sink = &sink;
        async move { failure(sink, &format!("/{n}")).await }
    }))
    .await;
    assert_eq!(server.answered() - before, 500, "each is asked for itself");
    // Busy again, it has a pace again.
    assert_eq!(failure(&sink, "/busy").await.code, "http_503");
    let failures = join_all((0..500).map(|n| {
        let sink = &sink;
        async move { failure(sink, &format!("/{n}")).await }
    }))
    .await;
    assert!(failures.iter().any(Failure::is_unsent));
}
