//! SIGKILL with elements in flight: nothing is lost, and not more is duplicated than was in flight.

use std::time::{Duration, Instant};

use redis::AsyncCommands;

use super::*;
use harness::oracle::read_stream;
use harness::turn::heavy;
use harness::{Daemon, Mode, Proxy};

const KILLS: usize = 30;
const ELEMENTS: usize = 20_000;
const LEASE: Duration = Duration::from_secs(4);
/// Number of kills after which all leases expire, so that the elements in flight are claimed, and killed, again.
const ROUND: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn thirty_kills_during_twenty_thousand_deliveries_lose_nothing() {
    let _turn = heavy().await;
    let seed = fastrand::u64(..);
    let mut rng = fastrand::Rng::with_seed(seed);
    println!("seed {seed}");
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let (queue, _, oracle) = offer_due(&mut redis, ELEMENTS).await;
    let yaml = yaml(&server, &format!("stream: {OUT}, timeout: 3s"), "lease: 4s, max_in_flight: 250");

    let started = Instant::now();
    let mut owners = Owners::default();
    let mut at_the_kills = Vec::new();
    let mut lives = Vec::new();
    for kill in 1..=KILLS {
        let born = Instant::now();
        let mut daemon = Daemon::spawn(&yaml);
        // Killed by progress instead of time: so the thirty lives share the deliveries on any machine.
        let before: usize = redis.xlen(OUT).await.unwrap();
        let until = before + rng.usize(1..ELEMENTS / KILLS);
        eventually("the next deliveries", PATIENCE, async || {
            match redis.xlen::<_, usize>(OUT).await.map_err(|e| e.to_string())? {
                delivered if delivered >= until => Ok(()),
                delivered => Err(format!("{delivered} delivered, wanted {until}")),
            }
        })
        .await;
        daemon.kill();
        lives.push(born.elapsed());
        at_the_kills.push(owners.of_the_killed(&mut redis, &queue).await);
        if kill % ROUND == 0 {
            wait_leases_over(&mut redis, &queue).await;
        }
    }
    let mut last = Daemon::start(&yaml).await;
    wait_settled(&mut redis, &queue).await;
    let took = started.elapsed();

    let report = oracle.judge(&read_stream(&mut redis, OUT).await);
    let in_flight: usize = at_the_kills.iter().sum();
    let expired = last.metric("delaybridge_leases_expired_total").await;
    lives.sort();
    println!(
        "{report}; {KILLS} kills in {took:?} with a lease of {LEASE:?} that expired after every {ROUND}; a daemon lived {:?} to {:?}, median {:?}; in flight \
         at the kills {at_the_kills:?}, together {in_flight}; the last daemon claimed {expired} expired ones",
        lives[0],
        lives[KILLS - 1],
        lives[KILLS / 2],
    );
    report.assert_complete(in_flight);
    assert_settled(&mut redis, &queue, 0).await;
    assert!(in_flight > 0, "no kill met anything in flight: the test shows nothing");
    assert_eq!(last.stop().await, 0);
}

async fn wait_leases_over(redis: &mut MultiplexedConnection, queue: &RedissonQueue) {
    eventually("all leases to expire", PATIENCE, async || {
        let now = redis_now_ms(redis).await;
        match queue.claims(redis).await.iter().filter(|(_, until, _)| *until >= now).count() {
            0 => Ok(()),
            count => Err(format!("{count} claims under a lease")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_daemon_had_in_flight_is_delivered_after_its_lease_and_counted() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let proxy = Proxy::start(server.port()).await;
    let (queue, _, oracle) = offer_due(&mut redis, 500).await;
    proxy.set_mode(Mode::Freeze);
    let through_proxy = format!("url: {}, stream: {OUT}, timeout: 3s", proxy.url());
    let mut first = Daemon::spawn(&yaml(&server, &through_proxy, "lease: 4s"));
    wait_in_flight(&mut redis, &queue, 500).await;
    first.kill();
    let first_deadline = queue.claims(&redis).await.iter().map(|(_, until, _)| *until).min().unwrap();

    let mut second = Daemon::start(&yaml(&server, &format!("stream: {OUT}, timeout: 60s"), "lease: 90s")).await;
    wait_settled(&mut redis, &queue).await;
    let deliveries = read_stream(&mut redis, OUT).await;
    oracle.judge(&deliveries).assert_complete(0);
    let arrived = deliveries.iter().filter_map(|delivery| delivery.arrived_ms);
    let earliest = arrived.clone().min().unwrap();
    let latest = arrived.max().unwrap();
    assert!(earliest >= first_deadline, "delivered {} ms before the lease was over", first_deadline - earliest);
    println!("500 recovered by expiry, the last {} ms after the first lease expired", latest - first_deadline);

    let metrics = second.metrics().await;
    for name in ["leases_expired_total", "possible_duplicates_total", "delivered_messages_total"] {
        assert_eq!(metrics.sum(&format!("delaybridge_{name}{{queue=\"q\"}}")), 500.0, "{name}");
    }
    assert_eq!(metrics.sum("delaybridge_claimed_messages_total{from=\"expired\"}"), 500.0);
    assert_settled(&mut redis, &queue, 0).await;
    assert_eq!(second.stop().await, 0);
}
