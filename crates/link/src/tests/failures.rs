//! Tests of a link whose server dies, falls silent or closes the connection.

use brokers::Stopwatch;

use super::*;

#[tokio::test]
async fn a_killed_and_restarted_server_is_connected_again() {
    let mut server = TestServer::start();
    let script = Script::new("one", "return 1");
    let link = start_with(server.endpoint(), vec![script.clone()]);
    let conn = ready(&link).await;
    server.kill();
    soon("the old connection to end", conn.gone()).await;
    let mut state = link.state();
    let away = state.wait_for(|state| matches!(state, LinkState::Connecting { last_error: Some(_), .. }));
    soon("the outage to be reported", away).await.unwrap();
    assert!(link.current().is_none());
    assert!(matches!(conn.query::<Value>(&redis::cmd("PING")).await, Err(LinkError::NotSent { .. })));
    server.restart();
    let conn = ready(&link).await;
    assert_eq!(conn.epoch(), 2);
    let known: Vec<i64> = conn.query(redis::cmd("SCRIPT").arg("EXISTS").arg(script.sha1())).await.unwrap();
    assert_eq!(known, [1], "scripts are loaded again");
}

#[tokio::test]
async fn a_link_waits_for_a_server_that_is_not_there_yet() {
    let mut server = TestServer::start();
    server.kill();
    let link = start(server.endpoint());
    let mut state = link.state();
    let failed = state.wait_for(|state| matches!(state, LinkState::Connecting { last_error: Some(_), .. }));
    soon("a failed attempt", failed).await.unwrap();
    server.restart();
    assert_eq!(ready(&link).await.epoch(), 1);
}

#[tokio::test]
async fn a_silent_server_is_noticed_and_comes_back() {
    let server = TestServer::start();
    let mut endpoint = server.endpoint();
    endpoint.command_timeout = Duration::from_millis(500);
    endpoint.connect_timeout = Duration::from_millis(500);
    let link = start(endpoint);
    let conn = ready(&link).await;
    server.freeze();
    soon("the silence to be noticed", conn.gone()).await;
    let mut state = link.state();
    let failed = state.wait_for(|state| matches!(state, LinkState::Connecting { last_error: Some(_), .. }));
    let state = soon("a failed attempt", failed).await.unwrap().clone();
    let LinkState::Connecting { last_error: Some(error), .. } = state else { unreachable!("waited for exactly this") };
    assert_eq!(error.kind, ConnectErrorKind::Timeout, "{error}");
    server.thaw();
    assert!(ready(&link).await.epoch() > 1);
}

#[tokio::test]
async fn a_call_on_a_silent_server_ends_when_the_connection_is_replaced() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    let mut admin = server.admin().await;
    run(&mut admin, "CLIENT PAUSE 3000").await;
    let begun = Stopwatch::start();
    let get = redis::cmd("GET").arg("k").take();
    let hold = redis::cmd("GET").arg("k2").take();
    let answers = tokio::join!(conn.query::<Value>(&get), conn.query::<Value>(&hold), async {
        conn.report_broken();
    });
    assert!(matches!(answers.0, Err(LinkError::Unknown { .. })), "{answers:?}");
    assert!(matches!(answers.1, Err(LinkError::Unknown { .. })), "{answers:?}");
    // Not only at the deadline of the command.
    begun.assert_within(Duration::from_millis(2_500), "the end of a call on a replaced connection");
}

#[tokio::test]
async fn a_pause_of_the_server_times_calls_out_and_is_survived() {
    let server = TestServer::start();
    let mut endpoint = server.endpoint();
    endpoint.command_timeout = Duration::from_millis(300);
    let link = start(endpoint);
    let conn = ready(&link).await;
    run(&mut server.admin().await, "CLIENT PAUSE 1500").await;
    let answer = conn.query::<Value>(redis::cmd("SET").arg("k").arg("v")).await;
    assert!(matches!(answer, Err(LinkError::Unknown { .. })), "{answer:?}");
    eventually("the server to answer again", async || {
        let conn = ready(&link).await;
        conn.query::<Value>(redis::cmd("SET").arg("k").arg("v")).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_killed_client_connects_again() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let mut admin = server.admin().await;
    for epoch in 1..=3 {
        let conn = ready(&link).await;
        assert_eq!(conn.epoch(), epoch);
        run(&mut admin, "CLIENT KILL TYPE normal SKIPME yes").await;
        soon("the old connection to end", conn.gone()).await;
    }
    ready(&link).await;
}

#[tokio::test]
async fn a_master_that_becomes_a_replica_is_left_until_it_is_promoted_again() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    let mut admin = server.admin().await;
    run(&mut admin, "REPLICAOF 127.0.0.1 1").await;
    let answer = conn.query::<Value>(redis::cmd("SET").arg("k").arg("v")).await;
    assert_eq!(answer.unwrap_err().code(), Some("READONLY"));
    let mut state = link.state();
    let replica = state.wait_for(|state| {
        matches!(state, LinkState::Connecting { last_error: Some(error), .. } if error.kind == ConnectErrorKind::Replica)
    });
    soon("the replica to be refused", replica).await.unwrap();
    run(&mut admin, "REPLICAOF NO ONE").await;
    let conn = ready(&link).await;
    assert!(conn.query::<Value>(redis::cmd("SET").arg("k").arg("v")).await.is_ok());
}

#[tokio::test]
async fn a_report_on_an_old_connection_changes_nothing() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let old = ready(&link).await;
    old.report_broken();
    soon("the old connection to end", old.gone()).await;
    let new = ready(&link).await;
    old.report_broken();
    for _ in 0..20 {
        let _: Value = new.query(&redis::cmd("PING")).await.unwrap();
    }
    assert!(new.is_alive());
}

#[tokio::test]
async fn a_connection_with_large_buffers_is_replaced_when_it_is_idle() {
    let server = TestServer::start();
    let (heartbeat, keeps_buffers) = (Duration::from_millis(50), Duration::from_millis(200));
    let options = LinkOptions { heartbeat, keeps_buffers, ..LinkOptions::default() };
    let link = Link::start(Arc::new(server.endpoint()), options);
    let large = vec![b'x'; 9 << 20];
    let set = redis::cmd("SET").arg("k").arg(&large[..]).take();
    let get = redis::cmd("GET").arg("k").take();
    let small = redis::cmd("SET").arg("s").arg("small").take();
    for (command, is_large) in [(&set, true), (&get, true), (&small, false)] {
        let conn = ready(&link).await;
        conn.query::<Value>(command).await.expect("an answer");
        if is_large {
            soon("the connection to be replaced", conn.gone()).await;
            let next = ready(&link).await;
            assert_eq!(next.query::<i64>(redis::cmd("STRLEN").arg("k")).await.expect("an answer"), 9 << 20);
        } else {
            tokio::time::sleep(5 * keeps_buffers).await;
            assert!(conn.is_alive());
        }
    }
}
