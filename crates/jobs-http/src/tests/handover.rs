//! A client that goes away costs no job its time to run.

use std::time::Duration;

use delaybridge_jobs::JobSettings;
use delaybridge_link::test_server::{eventually, free_port};

use super::World;

const LONG: &str = r#"{"body":"x","ttr_ms":600000}"#;

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_takes_no_job() {
    let world = World::start().await;
    for _ in 0..20 {
        let mut client = world.client().await;
        client.send("POST", "/v1/topics/orders/pop?wait_ms=60000", &[], b"").await;
        drop(client);
    }
    // Some of them may still be in line when the job comes: it goes on to the next, or back.
    world.add("orders", LONG).await;
    let popped = world.ask("POST", "/v1/topics/orders/pop?wait_ms=10000", "").await.json();
    assert_eq!(popped["jobs"][0]["attempt"], 1, "{popped}");
}

#[tokio::test]
async fn jobs_go_back_when_their_client_leaves_at_any_moment() {
    let world = World::start().await;
    let jobs: Vec<String> = (0..50).map(|n| format!(r#"{{"id":"{n}","body":"x","ttr_ms":600000}}"#)).collect();
    let batch = format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
    assert_eq!(world.ask("POST", "/v1/topics/orders/jobs/batch", &batch).await.status, 200);
    for round in 0..60_u64 {
        let mut client = world.client().await;
        client.send("POST", "/v1/topics/orders/pop", &[], b"").await;
        // From at once up to after the answer.
        tokio::time::sleep(Duration::from_micros(round * 40)).await;
        drop(client);
    }
    // What was reserved is either back, or its bytes had left before the client closed: the kernel took them. A client that
    // reads its answers sees every job that is not ready.
    let sizes = world.sizes("orders").await;
    assert_eq!(sizes.iter().sum::<u64>(), 50, "{sizes:?}");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_goes_back() {
    let world = World::start().await;
    // More than the buffers of both kernels hold: the answer gets stuck on its way.
    let body = "x".repeat(900_000);
    for _ in 0..16 {
        let job = format!(r#"{{"body":"{body}","ttr_ms":600000}}"#);
        assert_eq!(world.add("large", &job).await.status, 201);
    }
    let mut stuck = Vec::new();
    while stuck.len() < 4 {
        let mut client = world.client().await;
        client.send("POST", "/v1/topics/large/pop?count=100", &[], b"").await;
        match client.status().await {
            Some(200) => stuck.push(client),
            // The reply of Redis was late. What that pop reserved goes back by itself.
            Some(503) => {}
            other => panic!("{other:?}"),
        }
    }
    world.until_sizes("large", [0, 0, 16, 0]).await;
    drop(stuck);
    world.until_sizes("large", [0, 16, 0, 0]).await;
    let popped = world.ask("POST", "/v1/topics/large/pop", "").await.json();
    assert_eq!(popped["jobs"][0]["attempt"], 1, "an attempt that nobody saw does not count");
}

#[tokio::test]
async fn a_stop_ends_long_polls_with_an_empty_answer() {
    // No other test gets this port.
    let port = free_port();
    let world = World::with(|spec| spec.listen.set_port(port), JobSettings::default()).await;
    let mut waiting = world.client().await;
    waiting.send("POST", "/v1/topics/orders/pop?wait_ms=60000", &[], b"").await;
    eventually("the pop to have found nothing", async || world.redis.has_run("evalsha").await).await;
    world.stop.cancel();
    let answer = waiting.answer().await.unwrap();
    assert_eq!((answer.status, answer.text().trim()), (204, ""));
    tokio::time::timeout(Duration::from_secs(10), world.served).await.expect("the server ends").unwrap();
    tokio::time::timeout(Duration::from_secs(10), world.dispensing).await.expect("the dispenser ends").unwrap();
    // Not at once: a process that another test starts has copies of all sockets until it runs its program.
    eventually("the port to be closed", async || tokio::net::TcpStream::connect(world.address).await.is_err()).await;
}
