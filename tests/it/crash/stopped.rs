//! A daemon that is suspended for longer than its lease, and one that is not.

use std::collections::HashSet;
use std::time::Instant;

use rustix::process::Signal;

use super::*;
use harness::oracle::read_stream;
use harness::turn::heavy;
use harness::{Daemon, Mode, Proxy};

/// Number of elements, and below the size of each in bytes. The sink passes eight pipelines of 1 MiB to its client at
/// once: more than a socket takes whose other end reads nothing. So at the stop some elements are in the socket, some
/// in the client, and some before it.
const ELEMENTS: usize = 4_000;
const SIZE: usize = 4_096;
/// Maximum number of elements in eight pipelines.
const HANDED_OVER: usize = 8 * ((1 << 20) / SIZE);

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_was_stopped_past_its_lease_changes_and_sends_nothing_any_more() {
    let _turn = heavy().await;
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let slow_a = Proxy::start(server.port()).await;
    let slow_b = Proxy::start(server.port()).await;
    // A stream for each daemon, to see which one sent an element.
    let sink = |proxy: &Proxy, stream: &str, timeout: &str| {
        format!(
            "url: {}, connect_timeout: 60s, command_timeout: 60s, stream: {stream}, timeout: {timeout}",
            proxy.url()
        )
    };
    let mut a = Daemon::start(&yaml(
        &server,
        &sink(&slow_a, "a", "9s"),
        "lease: 12s, max_in_flight: 4000, max_in_flight_bytes: 64MiB",
    ))
    .await;
    a.expect_log("not sent: the process stalled")
        .expect_log("elements dropped here, not sent")
        .expect_log("verdicts refused")
        .expect_log("leases lost");
    // For the daemon its messages had no answer within the time-out, because it was suspended.
    a.expect_log("sink down");
    slow_a.set_mode(Mode::Freeze);
    let (queue, elements, _) = offer_due_of(&mut redis, ELEMENTS, SIZE).await;
    wait_in_flight(&mut redis, &queue, ELEMENTS).await;
    // A claim with an unread reply at the stop would be a lost one: neither sent nor dropped.
    eventually("the daemon to have read every claim's reply", PATIENCE, async || {
        match a.metrics().await.sum("delaybridge_claimed_messages_total") {
            count if count == ELEMENTS as f64 => Ok(()),
            count => Err(format!("{count} claimed")),
        }
    })
    .await;
    // The proxy reads nothing, so the sent messages are in the sockets: more than a sign of life, or a few messages.
    eventually("the sockets to be full", PATIENCE, async || match queued(slow_a.port()) {
        bytes @ 100_000.. => Ok(bytes),
        bytes => Err(format!("{bytes} bytes")),
    })
    .await;
    a.signal(Signal::STOP);
    // The signal takes a moment to stop every thread.
    eventually("the daemon to be stopped", PATIENCE, async || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", a.pid())).map_err(|e| e.to_string())?;
        if stat.contains(") T ") { Ok(()) } else { Err(stat) }
    })
    .await;
    let stopped = Instant::now();
    // Messages sent before the stop arrive during the stop; that cannot be undone.
    slow_a.set_mode(Mode::Pass);

    let mut b = Daemon::start(&yaml(
        &server,
        &sink(&slow_b, "b", "60s"),
        "lease: 90s, max_in_flight: 4000, max_in_flight_bytes: 64MiB",
    ))
    .await;
    // Its messages arrive, but it gets no answers: a full socket would be given up after ten seconds.
    slow_b.set_mode(Mode::Mute);
    let all_of_a = in_flight_by_owner(&mut redis, &queue).await;
    assert_eq!(all_of_a.len(), 1, "one owner so far");
    eventually("the other daemon to take over", PATIENCE, async || {
        let owners = in_flight_by_owner(&mut redis, &queue).await;
        let others: usize = owners.iter().filter(|(owner, _)| !all_of_a.contains_key(*owner)).map(|(_, n)| n).sum();
        if others == ELEMENTS { Ok(()) } else { Err(format!("{others} taken over")) }
    })
    .await;
    let counted = "delaybridge_leases_expired_total";
    eventually("the other daemon to have counted them", PATIENCE, async || match b.metric(counted).await {
        count if count == ELEMENTS as f64 => Ok(()),
        count => Err(format!("{count} leases expired")),
    })
    .await;
    let members = members(&mut redis, &queue).await;
    let sent_before = ids(&mut redis, "a").await;
    println!("stopped for {:?}; {} were on the wire before", stopped.elapsed(), sent_before.len());
    assert!(
        !sent_before.is_empty() && sent_before.len() < ELEMENTS,
        "the stop came too early or too late to show much"
    );

    a.signal(Signal::CONT);
    eventually("the woken daemon to give up all that it had", PATIENCE, async || {
        let (verdicts, drops) = a.metrics().await.given_up();
        let seen = format!("{verdicts} verdicts and {drops} drops");
        if verdicts + drops == ELEMENTS as f64 { Ok(()) } else { Err(seen) }
    })
    .await;
    let (verdicts, drops) = a.metrics().await.given_up();
    println!("{verdicts} stale verdicts, {drops} stale drops");
    // Elements in the client at the stop may count as sent for the sink, but were not.
    let least = sent_before.len() as f64;
    let most = HANDED_OVER as f64;
    assert!(
        (least..=most).contains(&verdicts),
        "{verdicts} were handed to the client, {least} of them arrived, {most} fit"
    );
    assert_eq!(self::members(&mut redis, &queue).await, members, "what the other took over was changed");
    let sent_by_a = ids(&mut redis, "a").await;
    let distinct = |ids: &[String]| ids.iter().collect::<HashSet<_>>().len();
    println!("{} before, {} now", distinct(&sent_before), distinct(&sent_by_a));
    assert_eq!(sent_by_a.len(), sent_before.len(), "it sent something on a stale lease, or twice");
    assert_eq!(b.metric("delaybridge_delivered_messages_total").await, 0.0, "the other one is still held up");

    slow_b.set_mode(Mode::Pass);
    wait_settled(&mut redis, &queue).await;
    let mut oracle = Oracle::new();
    oracle.offered(&elements);
    oracle.judge(&read_stream(&mut redis, "b").await).assert_complete(0);
    assert_eq!(ids(&mut redis, "a").await.len(), sent_before.len());
    assert_settled(&mut redis, &queue, 0).await;
    assert_eq!(b.metric("delaybridge_stale_acks_total").await, 0.0);

    // The resumed daemon works again.
    b.stop().await;
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now, "after it all").await;
    eventually("the woken daemon to deliver again", PATIENCE, async || {
        let count = ids(&mut redis, "a").await.len();
        if count == sent_before.len() + 1 { Ok(()) } else { Err(count.to_string()) }
    })
    .await;
    assert_eq!(a.stop().await, 0);
}

/// Number of bytes in the sockets to and from this port.
fn queued(port: u16) -> usize {
    let of_line = |line: &str| -> Option<usize> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_port = |at: usize| -> Option<bool> {
            Some(u16::from_str_radix(fields.get(at)?.split_once(':')?.1, 16).ok()? == port)
        };
        let queues = fields.get(4)?.split(':').filter_map(|bytes| usize::from_str_radix(bytes, 16).ok());
        (is_port(1)? || is_port(2)?).then(|| queues.sum())
    };
    std::fs::read_to_string("/proc/net/tcp").expect("read the sockets").lines().filter_map(of_line).sum()
}

/// The members in flight, each with the name of its claim.
async fn members(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> HashSet<(String, Vec<u8>)> {
    let of_claim =
        |(name, _, members): (String, i64, Vec<Vec<u8>>)| members.into_iter().map(move |m| (name.clone(), m));
    queue.claims(redis).await.into_iter().flat_map(of_claim).collect()
}

async fn ids(redis: &mut MultiplexedConnection, stream: &str) -> Vec<String> {
    read_stream(redis, stream).await.into_iter().filter_map(|delivery| delivery.id).collect()
}
