//! SIGTERM, SIGINT and SIGHUP with elements in flight.

use redis::AsyncCommands;
use rustix::process::Signal;

use super::*;
use harness::oracle::read_stream;
use harness::{Daemon, Mode, Proxy};

/// Starts a daemon with a sink that does not answer, and `count` elements in flight.
async fn stuck(server: &RedisServer, shutdown_timeout: &str, count: usize) -> (Daemon, Proxy, RedissonQueue, Oracle) {
    let mut redis = server.client().await;
    let proxy = Proxy::start(server.port()).await;
    let sink = format!("url: {}, connect_timeout: 60s, command_timeout: 60s, stream: {OUT}, timeout: 60s", proxy.url());
    let yaml = format!("shutdown_timeout: {shutdown_timeout}\n{}", yaml(server, &sink, "lease: 90s"));
    let daemon = Daemon::start(&yaml).await;
    proxy.set_mode(Mode::Freeze);
    let (queue, _, oracle) = offer_due(&mut redis, count).await;
    wait_in_flight(&mut redis, &queue, count).await;
    (daemon, proxy, queue, oracle)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_in_flight_to_a_stuck_sink_are_released_at_sigterm_and_wait_for_no_lease() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let (mut first, proxy, queue, oracle) = stuck(&server, "20s", 1000).await;
    first.signal(Signal::TERM);
    let code = first.wait_exit(PATIENCE).await;
    let last_line = first.log().all().pop().unwrap_or_default();
    println!("exit code {code}; {last_line}");
    assert!(code == 0 || code == 3, "exit code {code}");
    assert!(in_flight_by_owner(&mut redis, &queue).await.is_empty(), "left under a lease");
    assert_eq!(redis.zcard::<_, usize>(queue.bridge_key("retry")).await.unwrap(), 1000, "released, all of them");
    assert!(!first.log().contain("leftovers"), "{last_line}");

    // The lease is 90 s and the test waits less: an element that waited for its lease would be missing.
    proxy.set_mode(Mode::Pass);
    let mut second = Daemon::start(&yaml(&server, &format!("stream: {OUT}, timeout: 60s"), "lease: 90s")).await;
    wait_settled(&mut redis, &queue).await;
    let report = oracle.judge(&read_stream(&mut redis, OUT).await);
    println!("{report}");
    report.assert_complete(1000);
    assert_eq!(second.metric("delaybridge_leases_expired_total").await, 0.0);
    assert_settled(&mut redis, &queue, 0).await;
    assert_eq!(second.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_slow_sink_answers_during_the_drain_is_settled() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let (mut daemon, proxy, queue, oracle) = stuck(&server, "60s", 1000).await;
    daemon.signal(Signal::TERM);
    eventually("the drain to begin", PATIENCE, async || {
        if daemon.log().contain("stopping: nothing new is claimed") { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    let answer = daemon.get("/readyz").await.expect("the probes answer during the drain");
    assert_eq!(answer.status, 503, "{}", answer.body);
    // Due now and unclaimed: nothing new is claimed (R6).
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now, "too late for this daemon").await;
    proxy.set_mode(Mode::Pass);
    assert_eq!(daemon.wait_exit(PATIENCE).await, 0);
    oracle.judge(&read_stream(&mut redis, OUT).await).assert_complete(0);
    assert!(in_flight_by_owner(&mut redis, &queue).await.is_empty());
    assert_eq!(redis.zcard::<_, usize>(queue.bridge_key("retry")).await.unwrap(), 0);
    assert_eq!(redis.zcard::<_, usize>(&queue.timeouts).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_drain_reports_its_progress_and_a_later_signal_ends_it_at_once() {
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let (mut daemon, _proxy, queue, _) = stuck(&server, "600s", 10).await;
    daemon.expect_log("another signal to stop: exiting now");
    assert!(daemon.reload().await, "the file has no difference");
    assert_eq!(daemon.get("/readyz").await.expect("it still answers").status, 200);
    daemon.signal(Signal::TERM);
    let progress = eventually("two lines about the progress", PATIENCE, async || {
        let lines: Vec<String> =
            daemon.log().all().into_iter().filter(|line| line.contains("still draining")).collect();
        if lines.len() >= 2 { Ok(lines) } else { Err(format!("{lines:?}")) }
    })
    .await;
    println!("{}", progress.join("\n"));
    assert!(progress.iter().all(|line| line.contains("q: 10")), "the line names the busy queues: {progress:?}");
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait_exit(PATIENCE).await, 3);
    let last = daemon.log().all().pop().unwrap_or_default();
    assert!(last.contains("exiting now") && last.contains("q: 10"), "it says what is left: {last}");
    assert_eq!(queue.in_flight(&redis).await.unwrap(), 10, "left to their leases");
}

/// Waits until the log has a line with this text.
async fn logged(daemon: &Daemon, text: &str) {
    eventually(text, PATIENCE, async || {
        if daemon.log().contain(text) { Ok(()) } else { Err(format!("{:?}", daemon.log().all().last())) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_is_asked_for_twice_is_one_stop_and_cuts_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let (mut daemon, proxy, queue, oracle) = stuck(&server, "60s", 1000).await;
    // As GNU `timeout` does it, and with others that mean nothing here.
    daemon.signal(Signal::USR1);
    logged(&daemon, "SIGUSR1").await;
    daemon.signal(Signal::TERM);
    logged(&daemon, "stopping: nothing new is claimed").await;
    daemon.signal(Signal::INT);
    logged(&daemon, "another signal to stop within 2 s of the first").await;
    daemon.signal(Signal::USR2);
    logged(&daemon, "SIGUSR2").await;
    proxy.set_mode(Mode::Pass);
    assert_eq!(daemon.wait_exit(PATIENCE).await, 0);
    oracle.judge(&read_stream(&mut redis, OUT).await).assert_complete(0);
    assert!(in_flight_by_owner(&mut redis, &queue).await.is_empty());
    assert_eq!(redis.zcard::<_, usize>(queue.bridge_key("retry")).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_before_the_configuration_is_read_are_handled() {
    let server = RedisServer::start().await;
    let mut daemon = Daemon::spawn_held(&yaml(&server, &format!("stream: {OUT}"), "lease: 90s"));
    // It waits for its configuration: each of these would end a process that does not catch it.
    for signal in [Signal::HUP, Signal::USR2, Signal::USR1] {
        daemon.signal(signal);
    }
    logged(&daemon, "SIGUSR1").await;
    daemon.signal(Signal::TERM);
    daemon.release();
    assert_eq!(daemon.wait_exit(PATIENCE).await, 0, "it starts, and stops cleanly");
}
