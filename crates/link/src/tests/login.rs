//! Tests of the login, and of the messages when it fails.

use super::*;
use delaybridge_settings::Secret;

fn check(error: &ConnectError, kind: ConnectErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind, kind, "{text}");
    assert!(text.starts_with("connect to Redis "), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    assert!(!text.contains("s3cret"), "the password is shown: {text}");
}

#[tokio::test]
async fn a_wrong_login_says_what_to_do() {
    let server = TestServer::with(&["--requirepass", "right"]);
    let at = format!("127.0.0.1:{}/0", server.port());
    let error = refused(server.endpoint_as(None, "s3cret")).await;
    check(&error, ConnectErrorKind::Auth, &[&at, "password of user `default` is wrong", "password_file", "WRONGPASS"]);
    let error = refused(server.endpoint_as(Some("nobody"), "s3cret")).await;
    check(&error, ConnectErrorKind::Auth, &["user `nobody`", "username"]);
    let error = refused(server.endpoint()).await;
    check(&error, ConnectErrorKind::Auth, &["asks for a password", "NOAUTH"]);
    let link = start(server.endpoint_as(None, "right"));
    ready(&link).await;
}

/// Redis closes the connection of a client that sends more than 16 KiB before it is logged in.
#[tokio::test]
async fn a_wrong_login_says_what_to_do_whatever_is_sent_behind_it() {
    let server = TestServer::with(&["--requirepass", "right"]);
    let large = || vec![Script::new("large", format!("return 1 -- {}", "x".repeat(20_000)))];
    let error = refused_on(&start_with(server.endpoint_as(None, "s3cret"), large())).await;
    check(&error, ConnectErrorKind::Auth, &["password of user `default` is wrong", "WRONGPASS"]);
    let error = refused_on(&start_with(server.endpoint(), large())).await;
    check(&error, ConnectErrorKind::Auth, &["asks for a password", "NOAUTH"]);
    ready(&start_with(server.endpoint_as(None, "right"), large())).await;
}

#[tokio::test]
async fn a_password_for_a_server_without_one_says_so() {
    let server = TestServer::start();
    let error = refused(server.endpoint_as(None, "s3cret")).await;
    check(&error, ConnectErrorKind::Auth, &["the server has none"]);
}

#[tokio::test]
async fn a_user_without_rights_learns_which() {
    let server = TestServer::start();
    run(&mut server.admin().await, "ACL SETUSER u on >p ~* +@connection").await;
    let error = refused(server.endpoint_as(Some("u"), "p")).await;
    check(&error, ConnectErrorKind::Permission, &["user `u` may not run INFO", "ACL SETUSER u +info"]);
}

#[tokio::test]
async fn a_database_out_of_range_is_named() {
    let server = TestServer::start();
    let error = refused(RedisEndpoint { database: 99, ..server.endpoint() }).await;
    check(&error, ConnectErrorKind::Database, &["database 99", "databases"]);
    let link = start(RedisEndpoint { database: 3, ..server.endpoint() });
    let conn = ready(&link).await;
    let _: Value = conn.query(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
    let clients: String = conn.query(redis::cmd("CLIENT").arg("INFO")).await.unwrap();
    assert!(clients.contains(" db=3 "), "{clients}");
}

#[tokio::test]
async fn a_missing_name_and_a_closed_port_are_distinguished() {
    let mut server = TestServer::start();
    let endpoint = server.endpoint();
    let error = refused(RedisEndpoint { host: "no-such-host.invalid".to_owned(), ..endpoint.clone() }).await;
    check(&error, ConnectErrorKind::Name, &["no-such-host.invalid", "look up the host name"]);
    server.kill();
    let error = refused(endpoint).await;
    check(&error, ConnectErrorKind::Unreachable, &["the connection was refused"]);
}

/// Starts a peer that answers every request with these bytes, for servers that cannot be started here.
async fn peer(answer: String) -> (u16, tokio::task::JoinHandle<()>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = socket.read(&mut request).await;
            let _ = socket.write_all(answer.as_bytes()).await;
            // Kept open until the client disconnects, so that the client sees the answer.
            while socket.read(&mut request).await.is_ok_and(|count| count > 0) {}
        }
    });
    (port, task)
}

#[tokio::test]
async fn a_peer_of_the_wrong_kind_or_age_or_state_is_reported() {
    let server = |info: &str| {
        let answer = format!("${}\r\n{info}\r\n", info.len()).repeat(3);
        format!("+PONG\r\n+OK\r\n{answer}")
    };
    let old = server("redis_version:5.0.14\r\nrole:master\r\n");
    let dragonfly = server("redis_version:7.4.0\r\ndragonfly_version:df-v1.36.0\r\nrole:master\r\n");
    let keydb = server("redis_version:6.3.4\r\nrole:active-replica\r\n");
    let loading = "-LOADING Redis is loading the dataset in memory\r\n".repeat(6);
    let denied = "-DENIED Redis is running in protected mode\r\n".repeat(6);
    let rows = [
        ("HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(), ConnectErrorKind::Server, "does not speak the Redis protocol"),
        (old, ConnectErrorKind::TooOld, "Redis 5.0.14, 6.2 or newer is needed"),
        (dragonfly, ConnectErrorKind::Unsupported, "the server is Dragonfly, which is not supported: the clock"),
        (keydb, ConnectErrorKind::Unsupported, "KeyDB with active replicas, which is not supported: two servers"),
        (loading, ConnectErrorKind::Loading, "loading its data"),
        (denied, ConnectErrorKind::Refused, "protected mode"),
    ];
    let endpoint = TestServer::start().endpoint();
    for (answer, kind, words) in rows {
        let (port, peer) = peer(answer).await;
        let error = refused(RedisEndpoint { port, ..endpoint.clone() }).await;
        check(&error, kind, &[words]);
        peer.abort();
    }
}

#[tokio::test]
async fn a_rotated_password_file_is_read_again() {
    let server = TestServer::with(&["--requirepass", "first"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    std::fs::write(&path, "first\n").unwrap();
    let link = start(RedisEndpoint { password: Some(Secret::File(path.clone())), ..server.endpoint() });
    let conn = ready(&link).await;
    let _: Value = conn.query(redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("second")).await.unwrap();
    conn.report_broken();
    let mut state = link.state();
    let failed = state.wait_for(|state| matches!(state, LinkState::Connecting { last_error: Some(_), .. }));
    soon("the old password to be refused", failed).await.unwrap();
    std::fs::write(&path, "second\n").unwrap();
    assert_eq!(ready(&link).await.epoch(), 2);
}

#[tokio::test]
async fn a_missing_password_file_is_named() {
    let server = TestServer::start();
    let password = Some(Secret::File("/nonexistent/password".into()));
    let error = refused(RedisEndpoint { password, ..server.endpoint() }).await;
    check(&error, ConnectErrorKind::Secret, &["read password_file /nonexistent/password", "check that it exists"]);
}

/// The server's clock comes with `INFO`, so no right to `TIME` is needed, which some services refuse.
#[tokio::test]
async fn a_user_without_the_right_to_time_learns_the_servers_clock() {
    let server = TestServer::start();
    run(&mut server.admin().await, "ACL SETUSER u on >p ~* +@connection +info -time").await;
    let link = start(server.endpoint_as(Some("u"), "p"));
    let conn = ready(&link).await;
    let refused = conn.query::<Value>(&redis::cmd("TIME")).await.unwrap_err();
    assert_eq!(refused.code(), Some("NOPERM"));
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query_async(&mut server.admin().await).await.unwrap();
    let known = conn.info().now_ms.expect("the clock of the server");
    assert!((known - seconds * 1_000).abs() < 60_000, "{known} ms, and {seconds} s later");
}

#[tokio::test]
async fn a_server_is_reached_by_its_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("redis.sock");
    let server = TestServer::with(&["--unixsocket", path.to_str().unwrap()]);
    let endpoint = RedisEndpoint { socket: Some(path.clone()), port: 1, database: 3, ..server.endpoint() };
    let conn_to = format!("unix:{}?db=3", path.display());
    let link = start(endpoint.clone());
    let conn = ready(&link).await;
    assert_eq!(conn.address(), conn_to);
    let clients: String = conn.query(redis::cmd("CLIENT").arg("INFO")).await.unwrap();
    assert!(clients.contains(&format!(" addr={}:0 ", path.display())) && clients.contains(" db=3 "), "{clients}");
    let (_subscriber, mut events) = Subscriber::start(Arc::new(endpoint.clone()), vec!["a".into()]);
    assert_eq!(soon("the subscription", events.recv()).await, Some(SubscriberEvent::Subscribed));
    let missing = refused(RedisEndpoint { socket: Some(dir.path().join("other")), ..endpoint }).await;
    check(&missing, ConnectErrorKind::Unreachable, &["open the socket", "/other", "check the path"]);
}
