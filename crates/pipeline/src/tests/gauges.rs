//! How often the gauges of a queue are read, alone and beside other daemons.

use super::rest::Many;
use super::*;
use delaybridge_testing::memory::Op;

const QUEUES: usize = 400;

impl Many {
    /// Readings of the gauges of a queue within a time, as a whole or of its size.
    async fn readings(&self, time: Duration) -> u64 {
        let count = || self.server.calls(Op::Stats) + self.server.calls(Op::Sizes);
        let before = count();
        tokio::time::sleep(time).await;
        count() - before
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

    // Of 4,000 queues in all 500 are read at each reading.
    many.server.set_daemons(10);
    many.readings(10 * SECOND).await;
    let some = turns(many.readings(MINUTE).await);
    assert!((1.2..=1.8).contains(&some), "{some}");

    // Of 40,000 too, if each queue could wait for more than a minute.
    many.server.set_daemons(100);
    many.readings(10 * SECOND).await;
    (0..QUEUES).for_each(|queue| many.offer_in(queue, 10 * HOUR, 1));
    let some = turns(many.readings(MINUTE + 6 * SECOND).await);
    // Its size, and as a whole because that has changed.
    assert!((2.0..=2.4).contains(&some), "{some}");
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
async fn of_a_queue_at_rest_only_the_size_is_read_while_it_does_not_change() {
    let sink = sink();
    let many = Many::start(QUEUES, &sink, |_| ());
    many.until_rest().await;
    let whole = async |time: Duration| {
        let before = many.server.calls(Op::Stats);
        tokio::time::sleep(time).await;
        many.server.calls(Op::Stats) - before
    };
    (0..QUEUES).for_each(|queue| many.offer_in(queue, 10 * HOUR, 1));
    whole(MINUTE).await;
    assert_eq!(many.shown(), QUEUES);
    assert_eq!(whole(3 * MINUTE).await, 0);
    // Another element in one of them, which nobody announces.
    many.offer_in(7, 10 * HOUR, 2);
    assert!(whole(6 * SECOND).await <= 2);
    assert_eq!(many.shown(), QUEUES - 1);
    let all = QUEUES as u64;
    let readings = whole(10 * MINUTE).await;
    assert!((all..=all + 2).contains(&readings), "{readings}: each after ten minutes");
    // As the first element comes nearer, what falls due within an hour changes by time alone.
    tokio::time::sleep(9 * HOUR).await;
    let readings = whole(10 * MINUTE).await;
    assert!(readings >= 2 * all, "{readings}");
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
