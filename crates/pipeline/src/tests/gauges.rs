//! How often the gauges of a queue are read, alone and beside other daemons.

use super::rest::Many;
use super::*;
use delaybridge_testing::memory::Op;

const QUEUES: usize = 400;

impl Many {
    /// Readings of the gauges of a queue within a time.
    async fn readings(&self, time: Duration) -> u64 {
        let before = self.server.calls(Op::Stats);
        tokio::time::sleep(time).await;
        self.server.calls(Op::Stats) - before
    }

    /// The number of queues whose gauges show one scheduled element.
    fn shown(&self) -> usize {
        let text = self.events.metrics().render().expect("it renders");
        let scheduled = |line: &&str| line.contains("queue_messages{") && line.ends_with("state=\"scheduled\"} 1");
        text.lines().filter(scheduled).count()
    }
}

#[tokio::test(start_paused = true)]
async fn many_daemons_share_the_readings_of_the_gauges_and_each_sees_every_queue_within_a_minute() {
    let sink = sink();
    let many = Many::start(QUEUES, &sink, |_| ());
    many.until_rest().await;
    let turns = |readings: u64| readings as f64 / QUEUES as f64;
    assert!((10.0..=14.0).contains(&turns(many.readings(MINUTE).await)), "each queue at each reading");

    // Of 4,000 queues in all a thousand are read at each reading.
    many.server.set_daemons(10);
    many.readings(10 * SECOND).await;
    let some = turns(many.readings(MINUTE).await);
    assert!((2.5..=3.5).contains(&some), "{some}");

    // Of 40,000 too, if each queue could wait for more than a minute.
    many.server.set_daemons(100);
    many.readings(10 * SECOND).await;
    (0..QUEUES).for_each(|queue| many.offer_in(queue, 10 * HOUR, 1));
    let some = turns(many.readings(MINUTE + 6 * SECOND).await);
    assert!((1.0..=1.2).contains(&some), "{some}");
    assert_eq!(many.shown(), QUEUES);

    // After an outage the daemon reads all of them itself.
    many.server.set_up(false);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(many.shown(), 0);
    many.server.set_up(true);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(many.shown(), QUEUES);
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_not_passed_over_where_others_have_more_daemons() {
    let sink = sink();
    let many = Many::start(QUEUES, &sink, |_| ());
    many.until_rest().await;
    many.readings(10 * SECOND).await;
    (0..QUEUES).for_each(|queue| many.offer_in(queue, 10 * HOUR, 1));
    // Two readings of a half and a quarter of the queues in turns.
    for daemons in [5, 10, 5, 10, 5, 10] {
        many.server.set_daemons(daemons);
        many.readings(5 * SECOND).await;
    }
    assert_eq!(many.shown(), QUEUES);
    many.stop().await;
}
