//! Tests of the link against a real redis-server.

mod failures;
mod large;
mod login;
mod refusals;
mod subscriber;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::rights::command::{RPUSH, XADD};
use super::rights::{Grant, Pattern};
use super::test_server::{TestServer, eventually, soon};
use super::*;
use crate::RedisEndpoint;

fn start(endpoint: RedisEndpoint) -> Link {
    start_with(endpoint, Vec::new())
}

fn start_with(endpoint: RedisEndpoint, scripts: Vec<Script>) -> Link {
    let options = LinkOptions { scripts, heartbeat: Duration::from_millis(100), ..LinkOptions::default() };
    Link::start(Arc::new(endpoint), options)
}

/// Waits until an attempt to connect has failed; returns the error.
async fn refused(endpoint: RedisEndpoint) -> ConnectError {
    refused_on(&start(endpoint)).await
}

/// The same for this link.
async fn refused_on(link: &Link) -> ConnectError {
    let mut state = link.state();
    let failed = state.wait_for(|state| matches!(state, LinkState::Connecting { last_error: Some(_), .. }));
    let LinkState::Connecting { last_error: Some(error), .. } = soon("a failed attempt", failed).await.unwrap().clone()
    else {
        unreachable!("waited for exactly this")
    };
    assert!(link.current().is_none());
    (*error).clone()
}

async fn ready(link: &Link) -> Conn {
    soon("the link to be up", link.ready()).await
}

#[tokio::test]
async fn a_link_comes_up_and_reports_the_server() {
    let server = TestServer::with(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    assert_eq!((conn.epoch(), conn.address()), (1, format!("127.0.0.1:{}/0", server.port()).as_str()));
    assert!(conn.info().version >= Version::parse("6.2").unwrap());
    assert_eq!((conn.info().role, conn.info().maxmemory, conn.info().evicts()), (Role::Master, 64 << 20, true));
    let clients: String = conn.query(redis::cmd("CLIENT").arg("LIST")).await.unwrap();
    assert!(clients.contains("name=delaybridge"), "{clients}");
    link.close().await;
    assert!(matches!(conn.query::<Value>(&redis::cmd("PING")).await, Err(LinkError::NotSent { .. })));
    assert!(link.current().is_none());
}

#[tokio::test]
async fn the_connection_ends_with_the_last_handle() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    drop(link);
    soon("the connection to end", conn.gone()).await;
    let mut admin = server.admin().await;
    eventually("the socket to be closed", async || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut admin).await.unwrap();
        !clients.contains("name=delaybridge")
    })
    .await;
}

#[tokio::test]
async fn each_command_of_a_pipeline_has_its_own_answer() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    let mut pipeline = redis::pipe();
    pipeline.cmd("SET").arg("k").arg("v").cmd("LPUSH").arg("k").arg("x").cmd("GET").arg("k");
    let answers = conn.pipeline(&pipeline).await.unwrap();
    assert!(matches!(answers[0], Ok(Value::Okay)));
    assert_eq!(answers[1].as_ref().unwrap_err().code(), Some("WRONGTYPE"));
    assert!(matches!(&answers[2], Ok(Value::BulkString(value)) if value == b"v"));
    assert!(conn.pipeline(&redis::pipe()).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_answer_of_another_type_is_no_success() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let answer = ready(&link).await.query::<i64>(redis::cmd("SET").arg("k").arg("v")).await;
    assert!(matches!(answer, Err(LinkError::Malformed(_))), "{answer:?}");
}

#[tokio::test]
async fn a_script_that_the_server_lost_is_loaded_and_runs_once() {
    let server = TestServer::start();
    let script = Script::new("count", "return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let link = start_with(server.endpoint(), vec![script.clone()]);
    let conn = ready(&link).await;
    let known: Vec<i64> = conn.query(redis::cmd("SCRIPT").arg("EXISTS").arg(script.sha1())).await.unwrap();
    assert_eq!(known, [1], "loaded at connect");
    let _: Value = conn.query(redis::cmd("SCRIPT").arg("FLUSH")).await.unwrap();
    assert_eq!(conn.script(&script, &["k"], &["2"]).await.unwrap(), Value::Int(2));
    assert_eq!(conn.script(&script, &["k"], &["3"]).await.unwrap(), Value::Int(5));
}

#[tokio::test]
async fn an_error_inside_a_script_has_the_code_of_the_command() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    let _: Value = conn.query(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
    let push = Script::new("push", "return redis.call('RPUSH', KEYS[1], ARGV[1])");
    assert_eq!(conn.script(&push, &["k"], &["x"]).await.unwrap_err().code(), Some("WRONGTYPE"));
    let _: Value = conn.query(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await.unwrap();
    assert_eq!(conn.script(&push, &["list"], &["x"]).await.unwrap_err().code(), Some("OOM"));
}

#[tokio::test]
async fn missing_rights_are_reported_where_the_server_can() {
    let server = TestServer::start();
    let mut admin = server.admin().await;
    let acl = "ACL SETUSER u on >p ~list +@connection +info +acl|whoami +acl|dryrun +rpush";
    run(&mut admin, acl).await;
    let link = start(server.endpoint_as(Some("u"), "p"));
    let conn = ready(&link).await;
    let on = |key: &'static str, command| Grant::on([Pattern::exact(key)], [command]);
    let grants = [on("list", RPUSH), on("list", XADD), on("other", RPUSH)];
    let missing = missing_rights(&conn, &grants).await.unwrap().unwrap();
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].words.contains("xadd") && missing[1].words.contains("other"), "{missing:?}");
    run(&mut admin, "ACL SETUSER u -acl|dryrun").await;
    assert_eq!(missing_rights(&conn, &grants).await.unwrap().map(|m| m.len()), None);
    let push = Script::new("push", "return redis.call('LPUSH', KEYS[1], ARGV[1])");
    run(&mut admin, "ACL SETUSER u +evalsha +script|load").await;
    assert_eq!(conn.script(&push, &["list"], &["x"]).await.unwrap_err().code(), Some("NOPERM"));
}

/// Runs a command given as words.
async fn run(connection: &mut redis::aio::MultiplexedConnection, words: &str) {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    let _: Value = command.query_async(connection).await.unwrap();
}
