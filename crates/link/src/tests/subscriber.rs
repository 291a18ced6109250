//! Tests of the subscription against a real server.

use super::*;

fn channels(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

async fn next(events: &mut tokio::sync::mpsc::Receiver<SubscriberEvent>) -> SubscriberEvent {
    soon("an event of the subscription", events.recv()).await.expect("the subscriber is alive")
}

fn message(channel: &str, payload: &'static [u8]) -> SubscriberEvent {
    SubscriberEvent::Message { channel: channel.into(), payload: bytes::Bytes::from_static(payload) }
}

#[tokio::test]
async fn messages_of_all_channels_arrive_after_the_word_to_look_at_everything() {
    let server = TestServer::start();
    let names: Vec<Arc<str>> = (0..1000).map(|n| format!("channel:{{{n}}}").into()).collect();
    let (subscriber, mut events) = Subscriber::start(Arc::new(server.endpoint()), names);
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    let mut admin = server.admin().await;
    run(&mut admin, "PUBLISH channel:{0} 1").await;
    run(&mut admin, "PUBLISH channel:{999} 2").await;
    assert_eq!(next(&mut events).await, message("channel:{0}", b"1"));
    assert_eq!(next(&mut events).await, message("channel:{999}", b"2"));
    subscriber.close().await;
    assert_eq!(events.recv().await, None);
}

#[tokio::test]
async fn a_killed_subscription_comes_back_and_asks_for_a_look() {
    let server = TestServer::start();
    let (_subscriber, mut events) = Subscriber::start(Arc::new(server.endpoint()), channels(&["a", "b"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    let mut admin = server.admin().await;
    for _ in 0..3 {
        run(&mut admin, "CLIENT KILL TYPE pubsub").await;
        assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    }
    run(&mut admin, "PUBLISH b x").await;
    assert_eq!(next(&mut events).await, message("b", b"x"));
}

#[tokio::test]
async fn further_channels_are_heard_on_the_same_connection_and_others_no_more() {
    let server = TestServer::start();
    let (subscriber, mut events) = Subscriber::start(Arc::new(server.endpoint()), channels(&["a", "b"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    let mut admin = server.admin().await;
    subscriber.listen_to(channels(&["c", "b"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::More(channels(&["c"])));
    for (channel, payload) in [("a", "1"), ("b", "2"), ("c", "3")] {
        run(&mut admin, &format!("PUBLISH {channel} {payload}")).await;
    }
    assert_eq!(next(&mut events).await, message("b", b"2"));
    assert_eq!(next(&mut events).await, message("c", b"3"));
    // A new connection subscribes to the channels that were requested last.
    run(&mut admin, "CLIENT KILL TYPE pubsub").await;
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    run(&mut admin, "PUBLISH a 4").await;
    run(&mut admin, "PUBLISH c 5").await;
    assert_eq!(next(&mut events).await, message("c", b"5"));
}

#[tokio::test]
async fn a_restarted_server_is_subscribed_again() {
    let mut server = TestServer::start();
    let (_subscriber, mut events) = Subscriber::start(Arc::new(server.endpoint()), channels(&["a"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    server.kill();
    server.restart();
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
}

#[tokio::test]
async fn a_silent_server_is_left_and_subscribed_again() {
    let server = TestServer::start();
    let mut endpoint = server.endpoint();
    (endpoint.command_timeout, endpoint.connect_timeout) = (Duration::from_millis(300), Duration::from_millis(300));
    let (subscriber, mut events) = Subscriber::start(Arc::new(endpoint), channels(&["a"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    server.freeze();
    let mut state = subscriber.state();
    let lost = state.wait_for(|state| matches!(state, SubscriberState::Connecting { .. }));
    soon("the silence to be noticed", lost).await.unwrap();
    server.thaw();
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
}

#[tokio::test]
async fn a_slow_receiver_is_asked_to_check_everything() {
    let server = TestServer::start();
    let (_subscriber, mut events) = Subscriber::start(Arc::new(server.endpoint()), channels(&["a"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    let mut admin = server.admin().await;
    let mut flood = redis::pipe();
    for _ in 0..5000 {
        flood.cmd("PUBLISH").arg("a").arg("x");
    }
    let _: Vec<i64> = flood.query_async(&mut admin).await.unwrap();
    eventually("the buffer to be full", async || events.len() == events.max_capacity()).await;
    // More than fits: when the second flood is answered, the first has been passed on.
    let _: Vec<i64> = flood.query_async(&mut admin).await.unwrap();
    let mut messages = 0;
    while let SubscriberEvent::Message { .. } = next(&mut events).await {
        messages += 1;
    }
    assert!((1024..10_000).contains(&messages), "{messages}");
}

#[tokio::test]
async fn a_channel_without_the_right_to_it_silences_no_other() {
    let server = TestServer::start();
    let mut admin = server.admin().await;
    run(&mut admin, "ACL SETUSER u on >p ~* +@all resetchannels &a &b").await;
    let endpoint = Arc::new(server.endpoint_as(Some("u"), "p"));
    let (subscriber, mut events) = Subscriber::start(endpoint, channels(&["a", "forbidden"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
    // The same on an existing connection.
    subscriber.listen_to(channels(&["a", "b", "forbidden", "forbidden:too"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::More(channels(&["b"])));
    for (channel, payload) in [("forbidden", "1"), ("a", "2")] {
        run(&mut admin, &format!("PUBLISH {channel} {payload}")).await;
    }
    assert_eq!(next(&mut events).await, message("a", b"2"));
    // A right that is granted later is noticed without a new connection.
    run(&mut admin, "ACL SETUSER u &forbidden").await;
    assert_eq!(next(&mut events).await, SubscriberEvent::More(channels(&["forbidden"])));
    run(&mut admin, "PUBLISH forbidden 3").await;
    assert_eq!(next(&mut events).await, message("forbidden", b"3"));
}

#[tokio::test]
async fn a_user_without_the_right_to_subscribe_gets_an_error() {
    let server = TestServer::start();
    run(&mut server.admin().await, "ACL SETUSER u on >p ~* +@all resetchannels").await;
    let (subscriber, _events) = Subscriber::start(Arc::new(server.endpoint_as(Some("u"), "p")), channels(&["a"]));
    let mut state = subscriber.state();
    let failed = state.wait_for(|state| matches!(state, SubscriberState::Connecting { last_error: Some(_) }));
    let state = soon("a failed attempt", failed).await.unwrap().clone();
    let SubscriberState::Connecting { last_error: Some(error) } = state else {
        unreachable!("waited for exactly this")
    };
    assert_eq!(error.kind, ConnectErrorKind::Permission, "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_reported() {
    let server = TestServer::with(&["--requirepass", "right"]);
    for endpoint in [server.endpoint_as(None, "wrong"), server.endpoint()] {
        let (subscriber, _events) = Subscriber::start(Arc::new(endpoint), channels(&["a"]));
        let mut state = subscriber.state();
        let failed = state.wait_for(|state| matches!(state, SubscriberState::Connecting { last_error: Some(_) }));
        let state = soon("a failed attempt", failed).await.unwrap().clone();
        let SubscriberState::Connecting { last_error: Some(error) } = state else {
            unreachable!("waited for exactly this")
        };
        assert_eq!(error.kind, ConnectErrorKind::Auth, "{error}");
    }
    let (_subscriber, mut events) = Subscriber::start(Arc::new(server.endpoint_as(None, "right")), channels(&["a"]));
    assert_eq!(next(&mut events).await, SubscriberEvent::Subscribed);
}
