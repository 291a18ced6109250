//! Tests of servers that let nobody in, or refuse what is no write.

use std::net::UdpSocket;

use super::*;

#[tokio::test]
async fn a_server_without_room_for_another_client_says_so() {
    let server = TestServer::with(&["--maxclients", "1"]);
    let room = server.admin().await;
    for _ in 0..12 {
        let error = refused(server.endpoint()).await;
        assert_eq!(error.kind, ConnectErrorKind::Refused, "{error}");
        assert!(error.message.contains("raise `maxclients`"), "{error}");
        assert!(error.message.contains("(ERR max number of clients reached)"), "{error}");
    }
    let (subscriber, _events) = Subscriber::start(Arc::new(server.endpoint()), vec!["a".into()]);
    let mut state = subscriber.state();
    let failed = state.wait_for(|state| matches!(state, SubscriberState::Connecting { last_error: Some(_) }));
    let SubscriberState::Connecting { last_error: Some(error) } =
        soon("a failed attempt", failed).await.unwrap().clone()
    else {
        unreachable!("waited for exactly this")
    };
    assert!(error.message.contains("max number of clients reached"), "{error}");
    subscriber.close().await;
    drop(room);
    ready(&start(server.endpoint())).await;
}

#[tokio::test]
async fn a_server_in_protected_mode_says_so() {
    let server = TestServer::with(&["--bind", "*", "--protected-mode", "yes"]);
    // The address that this machine has towards others: nothing is sent there.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("198.51.100.1:9").expect("a network beside the loopback one");
    let host = socket.local_addr().unwrap().ip().to_string();
    for _ in 0..12 {
        let error = refused(RedisEndpoint { host: host.clone(), ..server.endpoint() }).await;
        assert_eq!(error.kind, ConnectErrorKind::Refused, "{error}");
        assert!(error.message.contains("only clients of its own machine"), "{error}");
        assert!(error.message.contains("(DENIED Redis is running in protected mode"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_save_is_connected_to_and_read() {
    let server = TestServer::with(&["--save", "3600 1", "--enable-protected-configs", "yes"]);
    let mut admin = server.admin().await;
    let (_subscriber, mut events) = Subscriber::start(Arc::new(server.endpoint()), vec!["a".into()]);
    assert_eq!(soon("the subscription", events.recv()).await, Some(SubscriberEvent::Subscribed));
    let before: String =
        redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("PUBSUB").query_async(&mut admin).await.unwrap();
    // No file can have this name.
    run(&mut admin, "CONFIG SET dbfilename .").await;
    run(&mut admin, "BGSAVE").await;
    eventually("the snapshot to fail", async || {
        let info: String = redis::cmd("INFO").arg("persistence").query_async(&mut server.admin().await).await.unwrap();
        info.contains("rdb_last_bgsave_status:err")
    })
    .await;
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    assert_eq!(conn.query::<Value>(&redis::cmd("PING")).await.unwrap_err().code(), Some("MISCONF"));
    let _: String = conn.query(redis::cmd("INFO").arg("memory")).await.unwrap();
    // Heartbeats of both connections are refused meanwhile.
    eventually("refused heartbeats", async || {
        let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut server.admin().await).await.unwrap();
        let ping = info.lines().find(|line| line.starts_with("cmdstat_ping:")).unwrap_or_default();
        let refused = ping.split("rejected_calls=").nth(1).and_then(|rest| rest.split(',').next());
        refused.and_then(|count| count.parse::<u32>().ok()).is_some_and(|count| count >= 30)
    })
    .await;
    let id = |list: &str| list.split(' ').next().unwrap_or_default().to_owned();
    let after: String =
        redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("PUBSUB").query_async(&mut admin).await.unwrap();
    assert_eq!(id(&before), id(&after), "the subscription is the same");
    assert!(conn.is_alive());
}
