//! The forecast of a queue's gauges, beside what comes true.

use super::rest::Many;
use super::*;

const FORECAST: &str = "delaybridge_queue_forecast_lateness_seconds{queue=\"q0\"}";

impl Many {
    /// The gauge of the forecast; `None` where it is not shown.
    fn forecast(&self) -> Option<f64> {
        let text = self.events.metrics().render().expect("it renders");
        text.lines().find_map(|line| line.strip_prefix(FORECAST)?.trim().parse().ok())
    }

    fn offer_burst(&self, numbers: std::ops::Range<u64>, delay: Duration) {
        numbers.for_each(|n| self.offer_in(0, delay, n));
    }

    async fn until_delivered(&self, sink: &FakeSink, all: usize) -> i64 {
        while sink.taken().len() < all {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let taken = sink.taken();
        self.server.now_ms() - taken[all - 1].due_ms.expect("a due time")
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_announced_as_late_as_it_comes() {
    let sink = sink();
    let many = Many::start(1, &sink, |spec| spec.max_rate = Some(Box::new(20.0)));
    many.offer_burst(0..600, 2 * MINUTE);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(many.forecast(), None, "a queue that was never behind has no rate");
    let late = many.until_delivered(&sink, 600).await;
    assert!((28_000..32_000).contains(&late), "{late} ms");
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(many.forecast(), Some(0.0), "nothing is ahead");

    // The hour has room for seventy thousand; the minute of the burst has not.
    many.offer_burst(2_000..3_200, 15 * MINUTE);
    many.offer_burst(5_000..5_600, 65 * MINUTE);
    tokio::time::sleep(10 * SECOND).await;
    let announced = many.forecast().expect("the rate is known");
    assert!((58.0..63.0).contains(&announced), "{announced} s");
    let late = many.until_delivered(&sink, 1_800).await as f64 / 1_000.0;
    assert!((announced - late).abs() < 2.0, "announced {announced} s, found {late} s");
    tokio::time::sleep(10 * SECOND).await;
    let announced = many.forecast().expect("the rate is known");
    assert!((28.0..32.0).contains(&announced), "what is an hour ahead is seen now: {announced} s");
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_falls_due_behind_a_backlog_is_late_by_the_backlog() {
    let sink = sink();
    let many = Many::start(1, &sink, |spec| spec.max_rate = Some(Box::new(20.0)));
    many.offer_burst(0..2_000, Duration::ZERO);
    many.offer_burst(2_000..2_010, 50 * SECOND);
    tokio::time::sleep(30 * SECOND).await;
    // A hundred seconds of work, of which fifty are left then.
    let announced = many.forecast().expect("the rate is known");
    assert!((45.0..56.0).contains(&announced), "{announced} s");
    let late = many.until_delivered(&sink, 2_010).await as f64 / 1_000.0;
    assert!((announced - late).abs() < 5.0, "announced {announced} s, found {late} s");
    many.stop().await;
}
