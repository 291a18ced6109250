//! The rows of the failure table that break the broker, or stop it for all clients.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::session::AmqpSession;
use super::super::supervisor::ConnectionState;
use super::*;
use delaybridge_testing::sink::outbound;

/// Delivers over and over until it is stopped; `confirmed` says whether one was confirmed.
async fn deliver_until_stopped(sink: &AmqpSink, queue: &str, confirmed: &AtomicBool, stop: &AtomicBool) -> Vec<Told> {
    let mut told = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let first = told.len() as u64;
        let batch = (first..first + 20).map(|n| sink.deliver(outbound(n, destination("", queue), format!("{n}"))));
        for outcome in join_all(batch).await {
            let doubts = usize::from(matches!(&outcome, Err(failure) if failure.class == Class::Ambiguous));
            confirmed.fetch_or(outcome.is_ok(), Ordering::Relaxed);
            told.push(Told { outcome, doubts });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    told
}

async fn queue_on(node: &Node) -> String {
    let queue = node.name("queue");
    node.admin().await.queue(&queue, &[]).await;
    queue
}

async fn is_blocked(sink: &AmqpSink) {
    let mut state = sink.state.clone();
    let blocked = state.wait_for(|state| matches!(state, ConnectionState::Up { blocked: Some(_), .. }));
    let _ = tokio::time::timeout(super::rabbit::PATIENCE, blocked).await.expect("the connection is blocked");
}

/// Until the alarm is over, elements are refused at once; then they are delivered.
async fn an_alarm_is_backpressure(node: &Node, alarm: Trouble, sink: &AmqpSink, queue: &str, word: &str) {
    // The broker blocks a connection when it publishes: the first ones are sent, and wait in vain.
    eventually("the connection to be blocked", async || {
        // One may be confirmed before the broker's parts have heard of the alarm.
        let Err(failure) = sink.deliver(outbound(1, destination("", queue), "x")).await else { return false };
        assert!(matches!(failure.class, Class::Backpressure | Class::Ambiguous), "{failure}");
        failure.class == Class::Backpressure
    })
    .await;
    let sent = node.admin().await.length(queue).await;
    for n in 2..12 {
        let outcome = sink.deliver(outbound(n, destination("", queue), "x")).await;
        let said = assert_failure(outcome, Class::Backpressure, "connection_blocked");
        assert!(said.contains(word), "{said}");
    }
    assert_eq!(node.admin().await.length(queue).await, sent);
    alarm.over().await;
    deliver_in_the_end(sink, outbound(20, destination("", queue), "x")).await;
}

#[tokio::test]
async fn an_alarm_of_memory_or_disk_is_backpressure_and_ends_by_itself() {
    let node = Node::alone().await;
    let queue = queue_on(&node).await;
    for word in ["memory", "disk"] {
        let sink = impatient_sink(node.spec());
        deliver_in_the_end(&sink, outbound(0, destination("", &queue), "x")).await;
        let alarm = if word == "memory" { node.memory_alarm().await } else { node.disk_alarm().await };
        an_alarm_is_backpressure(&node, alarm, &sink, &queue, word).await;
        sink.close().await;
    }
}

#[tokio::test]
async fn messages_outstanding_at_an_alarm_are_confirmed_after_it() {
    let node = Node::alone().await;
    let queue = queue_on(&node).await;
    let sink = patient_sink(node.spec());
    sink.deliver(outbound(0, destination("", &queue), "x")).await.unwrap();
    let alarm = node.memory_alarm().await;
    let waiting = sink.deliver(outbound(1, destination("", &queue), "x"));
    let over = async {
        is_blocked(&sink).await;
        alarm.over().await;
    };
    tokio::join!(waiting, over).0.unwrap();
}

#[tokio::test]
async fn what_the_client_could_not_send_in_time_is_never_sent() {
    const BODY: usize = 900_000;
    let node = Node::alone().await;
    let admin = node.admin().await;
    let queue = queue_on(&node).await;
    // Heartbeats are not what ends the connection here.
    let sink = AmqpSink::new(Arc::new(node.spec()), Duration::from_secs(5));
    deliver_in_the_end(&sink, outbound(0, destination("", &queue), "first")).await;
    let frozen = node.freeze().await;
    let bodies = (1..40).map(|n| outbound(n, destination("", &queue), vec![b'x'; BODY]));
    let outcomes = join_all(bodies.map(|message| sink.deliver(message))).await;
    let mut sent = 0;
    for outcome in outcomes {
        let failure = outcome.unwrap_err();
        match failure.class {
            Class::Ambiguous => sent += 1,
            _ => assert_failure(Err(failure), Class::Transient, Failure::NOT_SENT.as_str()).clear(),
        }
    }
    // More than the sockets hold, and no more than the window allows.
    assert!((15..=(16 << 20) / BODY + 1).contains(&sent), "{sent} were outstanding");
    eventually("the connection to be given up", async || sink.state.borrow().session().is_none()).await;
    frozen.over().await;
    deliver_in_the_end(&sink, outbound(40, destination("", &queue), "last")).await;
    let arrived = admin.drain(&queue).await.len() - 2;
    assert!(arrived < sent, "{arrived} of {sent} arrived");
}

#[tokio::test]
async fn connections_closed_by_the_operator_lose_nothing() {
    let node = Node::alone().await;
    let queue = queue_on(&node).await;
    let sink = patient_sink(node.spec());
    let [confirmed, stop] = [const { AtomicBool::new(false) }; 2];
    let closing = async {
        eventually("one to be confirmed", async || confirmed.load(Ordering::Relaxed)).await;
        node.does(|rabbit| rabbit.close_all_connections("by the operator")).await.unwrap();
        stop.store(true, Ordering::Relaxed);
    };
    let (mut told, ()) = tokio::join!(deliver_until_stopped(&sink, &queue, &confirmed, &stop), closing);
    for failure in told.iter().filter_map(|told| told.outcome.as_ref().err()) {
        assert!(matches!(failure.class, Class::Ambiguous | Class::Transient), "{failure}");
    }
    let n = told.len() as u64;
    sink.deliver(outbound(n, destination("", &queue), format!("{n}"))).await.unwrap();
    told.push(Told { outcome: Ok(()), doubts: 0 });
    assert_true(&told, &counts(&node.admin().await, &queue).await);
}

#[tokio::test]
async fn a_broker_that_falls_silent_is_given_up_after_two_heartbeats() {
    let node = Node::alone().await;
    let queue = queue_on(&node).await;
    let sink = patient_sink(AmqpSpec { heartbeat: Duration::from_secs(1), ..node.spec() });
    deliver_in_the_end(&sink, outbound(0, destination("", &queue), "x")).await;
    let frozen = node.freeze().await;
    let outcome = sink.deliver(outbound(1, destination("", &queue), "x")).await;
    frozen.over().await;
    assert_failure(outcome, Class::Ambiguous, "heartbeat");
    deliver_in_the_end(&sink, outbound(2, destination("", &queue), "x")).await;
}

#[tokio::test]
async fn a_broker_that_is_killed_leaves_what_was_sent_in_doubt_and_is_found_again() {
    let node = Node::alone().await;
    let queue = queue_on(&node).await;
    let sink = patient_sink(node.spec());
    sink.deliver(outbound(0, destination("", &queue), "x")).await.unwrap();
    let frozen = node.freeze().await;
    let in_doubt = sink.deliver(outbound(1, destination("", &queue), "x"));
    let kill = async {
        eventually("the worker to take it", async || sink.items.waiting() == 0).await;
        node.kill().await
    };
    let (outcome, dead) = tokio::join!(in_doubt, kill);
    drop(frozen);
    assert_failure(outcome, Class::Ambiguous, "connection_lost");
    let outcome = sink.deliver(outbound(2, destination("", &queue), "x")).await;
    assert_failure(outcome, Class::Transient, "unreachable");
    dead.over().await;
    // RabbitMQ 3.10 was seen to come back without the queue, though that had taken a message before.
    node.admin().await.queue(&queue, &[]).await;
    deliver_in_the_end(&sink, outbound(3, destination("", &queue), "x")).await;
}

#[tokio::test]
async fn a_culprit_among_small_messages_is_found_and_its_neighbours_are_in_doubt_once() {
    let node = Node::alone().await;
    let queue = queue_on(&node).await;
    // It is read when a channel opens.
    let limit = node.limit("max_message_size", 1000).await;
    let sink = patient_sink(node.spec());
    sink.deliver(outbound(1000, destination("", &queue), "1000")).await.unwrap();
    let body = |n: u64| if n == 50 { "x".repeat(1001) } else { n.to_string() };
    let messages = (0..100).map(|n| outbound(n, destination("", &queue), body(n))).collect();
    let told = deliver_all(&sink, messages).await;
    limit.over().await;
    for (n, told) in told.iter().enumerate() {
        if n == 50 {
            assert_failure(told.outcome.clone(), Class::MessagePermanent, "CONTENT_TOO_LARGE");
        } else {
            told.outcome.clone().unwrap();
        }
        assert!(told.doubts <= 1, "{n} was in doubt {} times", told.doubts);
    }
    assert!(told[50].doubts == 1, "it was outstanding together with others");
    assert_true(&told, &counts(&node.admin().await, &queue).await);
}

#[tokio::test]
async fn more_closed_channels_than_a_connection_has_stop_nothing() {
    let node = Node::alone().await;
    let admin = node.admin().await;
    let queue = queue_on(&node).await;
    let missing = node.name("missing");
    let limit = node.limit("channel_max", 4).await;
    let sink = patient_sink(node.spec());
    let mut sessions: Vec<Arc<AmqpSession>> = Vec::new();
    for n in 0..20 {
        sink.deliver(outbound(2 * n, destination("", &queue), format!("{n}"))).await.unwrap();
        let now = sink.state.borrow().session().cloned();
        sessions.extend(now.filter(|now| sessions.iter().all(|session| !Arc::ptr_eq(session, now))));
        let outcome = sink.deliver(outbound(2 * n + 1, destination(&missing, "key"), "x")).await;
        assert_failure(outcome, Class::TargetPermanent, "NOT_FOUND");
    }
    assert!(sessions.len() > 1, "the numbers of one connection were enough");
    assert_eq!(counts(&admin, &queue).await, (0..20).map(|n| (n, 1)).collect());
    sink.close().await;

    // Channels that are really in use are no reason to end the connection.
    let sink = patient_sink(node.spec());
    let exchanges: Vec<String> = (0..4).map(|n| node.name(&format!("e{n}"))).collect();
    for exchange in &exchanges {
        admin.exchange(exchange).await;
        admin.bind(&queue, exchange, "key").await;
        sink.deliver(outbound(1, destination(exchange, "key"), "0")).await.unwrap();
    }
    let outcome = sink.deliver(outbound(1, destination("", &queue), "0")).await;
    let said = assert_failure(outcome, Class::Transient, Failure::NOT_CONNECTED.as_str());
    assert!(said.contains("raise the broker's channel_max"), "{said}");
    sink.deliver(outbound(1, destination(&exchanges[0], "key"), "0")).await.unwrap();
    limit.over().await;
}

#[tokio::test]
async fn a_queue_that_never_answers_holds_up_no_other() {
    let node = Node::alone().await;
    let admin = node.admin().await;
    let exchange = node.name("exchange");
    let stuck = node.name("stuck");
    let well = node.name("well");
    admin.exchange(&exchange).await;
    admin.queue(&stuck, &[("x-queue-type", "quorum")]).await;
    admin.queue(&well, &[]).await;
    admin.bind(&stuck, &exchange, "stuck").await;
    admin.bind(&well, &exchange, "well").await;
    let spec = AmqpSpec { max_unconfirmed: 100, ..node.spec() };
    let sink = AmqpSink::new(Arc::new(spec), Duration::from_secs(20));
    for key in ["well", "stuck"] {
        // The broker's channel makes itself known to a queue at the first message, and would wait for that.
        deliver_in_the_end(&sink, outbound(0, destination(&exchange, key), "x")).await;
    }
    let before = admin.drain(&well).await.len();
    assert!(before > 0);
    let suspended = node.suspend_quorum_queue(&stuck).await;
    let key = |n| if n % 40 == 0 { "stuck" } else { "well" };
    let deliveries = (0..400).map(|n| sink.deliver(outbound(n, destination(&exchange, key(n)), format!("{n}"))));
    let outcomes = join_all(deliveries).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        if n % 40 == 0 {
            assert_failure(outcome, Class::Ambiguous, "timeout");
        } else {
            outcome.unwrap();
        }
    }
    assert_eq!(admin.drain(&well).await.len(), 390);
    suspended.over().await;
    deliver_in_the_end(&sink, outbound(1000, destination(&exchange, "well"), "x")).await;
}

#[tokio::test]
async fn a_broker_that_stops_in_order_is_found_again() {
    let node = Node::alone().await;
    let queue = queue_on(&node).await;
    let sink = patient_sink(node.spec());
    sink.deliver(outbound(0, destination("", &queue), "x")).await.unwrap();
    let stopped = node.stop_app().await;
    let failure = sink.deliver(outbound(1, destination("", &queue), "x")).await.unwrap_err();
    assert!(matches!(failure.class, Class::Ambiguous | Class::Transient), "{failure}");
    stopped.over().await;
    deliver_in_the_end(&sink, outbound(2, destination("", &queue), "x")).await;
    assert!(node.admin().await.drain(&queue).await.len() >= 2);
}
