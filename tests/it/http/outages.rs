//! A receiver that disappears, closes connections, or fails, while elements fall due.

use super::*;
use crate::faults::rig::{metric, pass, readyz, tolerate_stalls};

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_goes_away_and_fails_loses_nothing() {
    for alpn in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let server = RedisServer::start().await;
        let mut receiver = Receiver::start(alpn).await;
        let mut daemon = Daemon::start(&yaml(&server, &receiver, "", "")).await;
        tolerate_stalls(&mut daemon);
        let mut oracle = Oracle::new();
        offer(&server, &mut oracle, "before", 500, Duration::from_secs(1)).await;
        all(&receiver, &oracle).await;

        offer(&server, &mut oracle, "gone", 1_000, Duration::from_secs(4)).await;
        pass(Duration::from_millis(500)).await;
        receiver.stop().await;
        metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
        readyz(&daemon, 503, "\"down\"").await;
        pass(Duration::from_secs(4)).await;
        receiver.listen().await;
        judge("gone for some seconds", &daemon, &server, &receiver, &oracle).await;

        offer(&server, &mut oracle, "cut", 1_000, Duration::from_secs(2)).await;
        for _ in 0..5 {
            pass(Duration::from_millis(400)).await;
            receiver.stop().await;
            receiver.listen().await;
        }
        judge("cut off five times", &daemon, &server, &receiver, &oracle).await;

        receiver.answer("/orders", 500, None);
        offer(&server, &mut oracle, "failing", 500, Duration::from_secs(1)).await;
        metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
        receiver.answer("/orders", 201, None);
        judge("answered 500 for a while", &daemon, &server, &receiver, &oracle).await;
        metric(&daemon, "delaybridge_sink_up", |up| up == 1.0).await;
    }
}
