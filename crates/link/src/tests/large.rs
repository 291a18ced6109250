//! Large arguments: what a server gets, and what a connection keeps.

use bytes::Bytes;

use super::*;

const SIZE: usize = 9 << 20;

fn body(seed: u8) -> Bytes {
    let mut body = vec![seed; SIZE];
    body[..4].copy_from_slice(b"\r\n$1");
    body.into()
}

#[tokio::test]
async fn large_arguments_arrive_among_other_commands_and_leave_no_large_buffers() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    let script = Script::new("push", "return redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2], ARGV[3])");
    let mut large = LargeArgs::default();
    let mut pipeline = redis::pipe();
    for seed in 1..=3 {
        let mut push = redis::cmd("RPUSH").arg("commands").arg("before").take();
        large.add(&mut push, &body(seed));
        push.arg("after");
        pipeline.add_command(push).cmd("INCR").arg("count");
    }
    let args = [Bytes::from("first"), body(4), Bytes::from("last")];
    let ping = redis::cmd("PING");
    let pings = async {
        for _ in 0..100 {
            conn.query::<String>(&ping).await.unwrap();
        }
    };
    let (pushed, ran, ()) = tokio::join!(conn.pipeline(&pipeline), conn.script(&script, &["script"], &args), pings);
    assert!(pushed.unwrap().iter().all(Result::is_ok));
    assert_eq!(ran.unwrap(), Value::Int(3));
    assert!(!conn.was_large(), "the buffers of the connection are large");
    let get = async |key: &str, place: usize| -> Vec<u8> {
        conn.query(redis::cmd("LINDEX").arg(key).arg(place)).await.unwrap()
    };
    for seed in 1..=3 {
        assert!(get("commands", 3 * seed - 2).await == body(seed as u8), "{seed} was altered");
        assert_eq!(get("commands", 3 * seed - 1).await, b"after");
    }
    assert!(get("script", 1).await == body(4));
    assert_eq!(get("script", 2).await, b"last");
    assert_eq!(conn.query::<usize>(redis::cmd("GET").arg("count")).await.unwrap(), 3);
}

#[tokio::test]
async fn a_large_command_that_nobody_waits_for_is_not_sent() {
    let server = TestServer::start();
    let link = start(server.endpoint());
    let conn = ready(&link).await;
    let mut command = redis::cmd("SET").arg("k").take();
    LargeArgs::default().add(&mut command, &body(1));
    let answer = conn.query::<Value>(&command).await.unwrap_err();
    assert!(matches!(answer, LinkError::Unknown { .. }), "{answer:?}");
    soon("the connection to end", conn.gone()).await;
    let next = ready(&link).await;
    assert!(!next.query::<bool>(redis::cmd("EXISTS").arg("k")).await.unwrap());
}
