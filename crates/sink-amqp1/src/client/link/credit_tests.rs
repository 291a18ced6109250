//! The wait for credit, in paused time.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::{Instant, advance};

use super::{Amqp1Link, LinkEnd, LinkLimits};
use crate::client::frames::PeerFlow;
use crate::{Amqp1Destination, NAME};
use delaybridge_core::message::Class;
use delaybridge_sink::output::FrameOutput;
use delaybridge_sink::worker_queue::WorkerQueue;
use delaybridge_sink::{Answered, Answers};
use delaybridge_testing::sink::outbound;

const PATIENCE: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(60);

/// An attached link on which elements wait.
struct Waiting {
    link: Amqp1Link,
    output: FrameOutput,
    answers: Answers,
    granted: u32,
}

impl Waiting {
    async fn of(count: u64) -> Waiting {
        let limits = LinkLimits { max_frame: 65_536, timeout: TIMEOUT, patience: PATIENCE, accepts_unroutable: false };
        let mut link = Amqp1Link::begin(LinkEnd::Address("a".into()), 0, "name", limits, &mut BytesMut::new());
        link.begun(1000);
        link.attached(true, 0);
        let (queue, mut items) = WorkerQueue::new(NAME, 10 * TIMEOUT, 100);
        let destination = Amqp1Destination { address: "a".into(), content_type: None };
        let batch = (0..count).map(|n| outbound(n, destination.clone().into(), "x")).collect();
        let answers = Answers::new(count as usize);
        let queue = Arc::new(queue);
        let its = answers.clone();
        tokio::spawn(async move { queue.deliver_all(batch, &its).await });
        for _ in 0..count {
            link.put(items.recv().await.unwrap(), Instant::now());
        }
        Waiting { link, output: FrameOutput::default(), answers, granted: 0 }
    }

    /// The broker lets one more element come; time passes, and the link is looked at meanwhile, as the connection does it.
    async fn grant_and_pass(&mut self, credit: u32, time: Duration) -> Answered {
        self.granted += credit;
        let left = self.granted - self.link.delivery_count;
        if credit > 0 {
            let credit = Some((self.link.delivery_count, left));
            let flow = PeerFlow { next_incoming: None, incoming_window: 1000, credit, drain: false, echo: false };
            self.link.flow(flow, &mut self.output.bytes);
            self.link.send(&mut self.output, usize::MAX);
        }
        let until = Instant::now() + time;
        while Instant::now() < until {
            advance(Duration::from_millis(250)).await;
            self.link.look(Instant::now(), &self.output).unwrap();
        }
        self.answers.take()
    }
}

fn failures(answered: &Answered) -> Vec<(Class, &'static str, bool)> {
    let says = |text: &str| text.contains("grants no credit");
    answered.failed.iter().map(|(_, failure)| (failure.class, failure.code, says(&failure.message))).collect()
}

#[tokio::test(start_paused = true)]
async fn elements_wait_as_long_as_credit_comes_and_then_for_the_patience() {
    let mut waiting = Waiting::of(5).await;
    for sent in 1..=3 {
        let answered = waiting.grant_and_pass(1, Duration::from_secs(4)).await;
        assert!(answered.is_empty(), "{answered:?}");
        assert_eq!((waiting.link.flights.open(), waiting.link.waiting()), (sent, 5 - sent));
    }
    // Four seconds have passed since the last credit.
    let answered = waiting.grant_and_pass(0, Duration::from_millis(750)).await;
    assert!(answered.is_empty(), "{answered:?}");
    let answered = waiting.grant_and_pass(0, Duration::from_millis(500)).await;
    assert_eq!(failures(&answered), [(Class::Backpressure, "amqp1_no_credit", true); 2]);
}

#[tokio::test(start_paused = true)]
async fn an_element_whose_turn_does_not_come_is_given_back_with_time_left_for_an_answer() {
    let mut waiting = Waiting::of(20).await;
    for sent in 1..=10 {
        let answered = waiting.grant_and_pass(1, Duration::from_millis(2750)).await;
        assert!(answered.is_empty(), "{sent}: {answered:?}");
    }
    let answered = waiting.grant_and_pass(1, Duration::from_secs(3)).await;
    assert_eq!(failures(&answered), [(Class::Backpressure, "amqp1_no_credit", false); 9]);
    assert_eq!(waiting.link.flights.open(), 11);
}

/// A broker that is short of memory or disk closes the window of a session, and leaves the credit of its links.
#[tokio::test(start_paused = true)]
async fn a_closed_window_is_no_credit() {
    let mut waiting = Waiting::of(3).await;
    let flow = PeerFlow { next_incoming: None, incoming_window: 0, credit: Some((0, 100)), drain: false, echo: false };
    waiting.link.flow(flow, &mut waiting.output.bytes);
    waiting.link.send(&mut waiting.output, usize::MAX);
    let answered = waiting.grant_and_pass(0, Duration::from_millis(4750)).await;
    assert!(answered.is_empty() && waiting.link.is_dry(Instant::now()), "{answered:?}");
    let answered = waiting.grant_and_pass(0, Duration::from_millis(500)).await;
    assert_eq!(failures(&answered), [(Class::Backpressure, "amqp1_no_credit", true); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_link_with_slow_credit_is_not_dry() {
    let mut waiting = Waiting::of(20).await;
    for _ in 0..10 {
        waiting.grant_and_pass(1, Duration::from_millis(750)).await;
        assert!(!waiting.link.is_dry(Instant::now()));
    }
    waiting.grant_and_pass(0, Duration::from_millis(250)).await;
    assert!(waiting.link.is_dry(Instant::now()));
}
