//! The sink against a real redis-server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use redis::Value;

use super::target::NAME;
use super::{RedisDestination, RedisSink, RedisSpec};
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_link::Redis;
use delaybridge_link::RedisEndpoint;
use delaybridge_link::Side;
use delaybridge_link::test_server::{TestServer, eventually, soon};
use delaybridge_link::{Link, LinkOptions, LinkState};
use delaybridge_sink::{
    Answers, AttemptId, DeliveryMark, Destination, HeaderRules, Outbound, RunSink, Sink, Suspicion, header_rules,
};
use delaybridge_testing::sink::{PATIENT, ReceivedMessage, Rig, outbound};
use delaybridge_testing::{sink_contract_tests, sink_run_contract_tests};

fn list(key: &'static str) -> Destination {
    RedisDestination::List { key: key.into(), push: Side::Right }.into()
}

fn stream(key: &'static str) -> Destination {
    RedisDestination::Stream { key: key.into(), max_len: None }.into()
}

fn sink_with(endpoint: RedisEndpoint, timeout: Duration) -> RedisSink {
    RedisSink::on_own(Link::start(Arc::new(endpoint), LinkOptions::default()), timeout)
}

fn sink_on(endpoint: RedisEndpoint) -> RedisSink {
    sink_with(endpoint, PATIENT)
}

struct RedisRig {
    server: TestServer,
    destination: Destination,
    /// What had arrived before the server was killed; it keeps nothing.
    before: Vec<Vec<u8>>,
}

impl RedisRig {
    async fn new(destination: Destination) -> RedisRig {
        let server = TestServer::start();
        let mut admin = server.admin().await;
        let _: Value = redis::cmd("SET").arg("string").arg("x").query_async(&mut admin).await.unwrap();
        RedisRig { server, destination, before: Vec::new() }
    }
}

impl Rig for RedisRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(sink_with(self.server.endpoint(), timeout))
    }

    fn destination(&self) -> Destination {
        self.destination.clone()
    }

    fn refusing(&self) -> Destination {
        match self.destination.of_kind(NAME).unwrap() {
            RedisDestination::List { .. } => list("string"),
            RedisDestination::Stream { .. } => stream("string"),
        }
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        let mut admin = self.server.admin().await;
        let mut bodies = self.before.clone();
        match self.destination.of_kind(NAME).unwrap() {
            RedisDestination::List { key, .. } => {
                let list: Vec<Vec<u8>> =
                    redis::cmd("LRANGE").arg(key).arg(0).arg(-1).query_async(&mut admin).await.unwrap();
                bodies.extend(list);
            }
            RedisDestination::Stream { key, .. } => {
                let entries: Vec<(String, Vec<Vec<u8>>)> =
                    redis::cmd("XRANGE").arg(key).arg("-").arg("+").query_async(&mut admin).await.unwrap();
                bodies.extend(entries.into_iter().map(|(_, fields)| {
                    assert_eq!(fields[0], b"payload");
                    fields[1].clone()
                }));
            }
        }
        bodies
    }

    fn header_rules(&self) -> &'static HeaderRules {
        match self.destination.of_kind(NAME).unwrap() {
            RedisDestination::List { .. } => &header_rules::REDIS_LIST,
            RedisDestination::Stream { .. } => &header_rules::REDIS_STREAM,
        }
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let bodies = self.received().await;
        let RedisDestination::Stream { key, .. } = self.destination.of_kind(NAME).unwrap() else {
            return bodies.into_iter().map(|body| (body, Vec::new())).collect();
        };
        let mut admin = self.server.admin().await;
        let entries: Vec<(String, Vec<String>)> =
            redis::cmd("XRANGE").arg(key).arg("-").arg("+").query_async(&mut admin).await.unwrap();
        let fields = |fields: Vec<String>| fields.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        bodies.into_iter().zip(entries.into_iter().map(|(_, entry)| fields(entry))).collect()
    }

    async fn outage(&mut self) {
        // Without the pause the server takes and confirms writes between the reading and its end.
        let mut admin = self.server.admin().await;
        let mut pause = redis::cmd("CLIENT");
        let _: Value = pause.arg("PAUSE").arg(60_000).arg("WRITE").query_async(&mut admin).await.unwrap();
        self.before = self.received().await;
        self.server.kill();
    }

    async fn recover(&mut self) {
        self.server.restart();
    }

    async fn stall(&mut self) {
        self.server.freeze();
    }

    async fn resume(&mut self) {
        self.server.thaw();
    }
}

mod list_contract {
    use super::*;

    sink_contract_tests!(RedisRig::new(list("l")).await);
    sink_run_contract_tests!(RedisRig::new(list("l")).await);
}

mod stream_contract {
    use super::*;

    sink_contract_tests!(RedisRig::new(stream("s")).await);
    sink_run_contract_tests!(RedisRig::new(stream("s")).await);
}

async fn admin(server: &TestServer, words: &str) -> Value {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command.query_async(&mut server.admin().await).await.unwrap()
}

fn assert_failure(outcome: Outcome, class: Class, code: &str) {
    let failure = outcome.expect_err("the server refuses it");
    assert_eq!((failure.class, failure.code), (class, code), "{failure}");
}

#[tokio::test]
async fn a_full_server_is_backpressure_and_drains_again() {
    let server = TestServer::with(&["--maxmemory-policy", "noeviction"]);
    let sink = sink_on(server.endpoint());
    sink.check(&[]).await.unwrap();
    admin(&server, "CONFIG SET maxmemory 1").await;
    for destination in [list("l"), stream("s")] {
        assert_failure(sink.deliver(outbound(1, destination, "x")).await, Class::Backpressure, "OOM");
    }
    admin(&server, "CONFIG SET maxmemory 0").await;
    sink.deliver(outbound(1, list("l"), "x")).await.unwrap();
}

#[tokio::test]
async fn a_wrong_type_holds() {
    let server = TestServer::start();
    let sink = sink_on(server.endpoint());
    admin(&server, "SET k v").await;
    for destination in [list("k"), stream("k")] {
        assert_failure(sink.deliver(outbound(1, destination, "x")).await, Class::TargetPermanent, "WRONGTYPE");
    }
}

#[tokio::test]
async fn a_missing_right_holds_for_its_own_key_only() {
    let server = TestServer::start();
    admin(&server, "ACL SETUSER u on >p ~mine +@connection +info +rpush").await;
    let sink = sink_on(server.endpoint_as(Some("u"), "p"));
    assert_failure(sink.deliver(outbound(1, list("other"), "x")).await, Class::TargetPermanent, "NOPERM");
    assert_failure(sink.deliver(outbound(1, stream("mine"), "x")).await, Class::TargetPermanent, "NOPERM");
    sink.deliver(outbound(1, list("mine"), "x")).await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_holds_and_is_reported_by_the_check() {
    let server = TestServer::with(&["--requirepass", "right"]);
    let sink = sink_on(server.endpoint_as(None, "s3cret"));
    let failure = sink.check(&[]).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "auth"), "{failure}");
    assert!(failure.message.contains("password_file") && !failure.message.contains("s3cret"), "{failure}");
    assert_failure(sink.deliver(outbound(1, list("l"), "x")).await, Class::TargetPermanent, "auth");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_transient() {
    let mut server = TestServer::start();
    let endpoint = server.endpoint();
    server.kill();
    let sink = sink_on(endpoint);
    assert_failure(sink.deliver(outbound(1, list("l"), "x")).await, Class::Transient, "unreachable");
    assert_failure(sink.check(&[]).await.map(drop), Class::Transient, "unreachable");
}

#[tokio::test]
async fn a_pause_beyond_the_time_out_is_ambiguous() {
    let server = TestServer::start();
    let sink = sink_with(server.endpoint(), Duration::from_secs(2));
    sink.deliver(outbound(1, list("l"), "x")).await.unwrap();
    admin(&server, "CLIENT PAUSE 2600").await;
    assert_failure(sink.deliver(outbound(2, list("l"), "y")).await, Class::Ambiguous, "timeout");
    eventually("the paused push to arrive", async || admin(&server, "LLEN l").await == Value::Int(2)).await;
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_write_is_ambiguous() {
    let mut server = TestServer::start();
    let sink = sink_on(server.endpoint());
    sink.deliver(outbound(1, list("l"), "x")).await.unwrap();
    server.freeze();
    let delivery = sink.deliver(outbound(2, list("l"), "y"));
    let kill = async {
        eventually("the worker to take it", async || sink.items.waiting() == 0).await;
        // A killed process closes its sockets, frozen or not.
        server.kill();
    };
    assert_failure(tokio::join!(delivery, kill).0, Class::Ambiguous, "connection_lost");
}

#[tokio::test]
async fn a_demoted_master_is_transient() {
    let server = TestServer::start();
    let sink = sink_on(server.endpoint());
    sink.check(&[]).await.unwrap();
    admin(&server, "REPLICAOF 127.0.0.1 1").await;
    assert_failure(sink.deliver(outbound(1, list("l"), "x")).await, Class::Transient, "READONLY");
    admin(&server, "REPLICAOF NO ONE").await;
    eventually("the master to be found again", async || sink.deliver(outbound(1, list("l"), "x")).await.is_ok()).await;
}

#[tokio::test]
async fn a_server_that_runs_a_long_script_is_transient() {
    let server = TestServer::with(&["--lua-time-limit", "10"]);
    let sink = sink_on(server.endpoint());
    sink.check(&[]).await.unwrap();
    let mut connection = server.admin().await;
    let script = tokio::spawn(async move {
        let endless = redis::cmd("EVAL").arg("while true do end").arg(0).query_async::<Value>(&mut connection).await;
        endless.expect_err("it is killed");
    });
    let sink = &sink;
    eventually("the script to run", async || {
        sink.deliver(outbound(1, list("l"), "x")).await.is_err_and(|failure| failure.code == "BUSY")
    })
    .await;
    assert_failure(sink.deliver(outbound(1, list("l"), "x")).await, Class::Transient, "BUSY");
    // Another connection cannot log in now, but the sink's can still speak.
    let kill = redis::cmd("SCRIPT").arg("KILL").take();
    sink.redis.any().unwrap().query::<Value>(&kill).await.unwrap();
    script.await.unwrap();
    sink.deliver(outbound(1, list("l"), "x")).await.unwrap();
}

#[tokio::test]
async fn a_master_without_enough_replicas_is_transient() {
    let server = TestServer::with(&["--min-replicas-to-write", "1"]);
    let sink = sink_on(server.endpoint());
    assert_failure(sink.deliver(outbound(1, list("l"), "x")).await, Class::Transient, "NOREPLICAS");
}

#[tokio::test]
async fn a_cluster_without_its_slots_is_transient() {
    let server = TestServer::with(&["--cluster-enabled", "yes"]);
    let sink = sink_on(server.endpoint());
    assert_failure(sink.deliver(outbound(1, list("l"), "x")).await, Class::Transient, "CLUSTERDOWN");
}

#[tokio::test]
async fn elements_without_a_waiting_caller_are_not_sent() {
    let server = TestServer::start();
    let sink = sink_on(server.endpoint());
    sink.check(&[]).await.unwrap();
    server.freeze();
    // Eight pipelines fill all slots; what comes later waits for a slot.
    let mut first: Vec<_> = Vec::new();
    for n in 0..8 {
        let mut delivery = sink.deliver(outbound(n, list("l"), "sent"));
        assert!((&mut delivery).now_or_never().is_none());
        eventually("the worker to take it", async || sink.items.waiting() == 0).await;
        first.push(delivery);
    }
    let mut late: Vec<_> = (8..40).map(|n| sink.deliver(outbound(n, list("l"), "late"))).collect();
    for delivery in &mut late {
        assert!(delivery.now_or_never().is_none());
    }
    drop(late);
    server.thaw();
    for outcome in join_all(first).await {
        outcome.unwrap();
    }
    sink.deliver(outbound(100, list("l"), "last")).await.unwrap();
    let mut connection = server.admin().await;
    let bodies: Vec<String> = redis::cmd("LRANGE").arg("l").arg(0).arg(-1).query_async(&mut connection).await.unwrap();
    assert_eq!(bodies.len(), 9, "{bodies:?}");
    assert!(!bodies.contains(&"late".to_owned()));
}

#[tokio::test]
async fn both_ends_of_a_list_and_the_length_of_a_stream_are_respected() {
    let server = TestServer::start();
    let sink = sink_on(server.endpoint());
    let end = |push| Destination::from(RedisDestination::List { key: "l".into(), push });
    for (push, body) in [(Side::Right, "b"), (Side::Left, "a"), (Side::Right, "c")] {
        sink.deliver(outbound(1, end(push), body)).await.unwrap();
    }
    let mut connection = server.admin().await;
    let bodies: Vec<String> = redis::cmd("LRANGE").arg("l").arg(0).arg(-1).query_async(&mut connection).await.unwrap();
    assert_eq!(bodies, ["a", "b", "c"]);
    let trimmed = Destination::from(RedisDestination::Stream { key: "s".into(), max_len: Some(100) });
    let deliveries = (0..1000).map(|n| sink.deliver(outbound(n, trimmed.clone(), "x")));
    assert!(join_all(deliveries).await.iter().all(Result::is_ok));
    let length: u64 = redis::cmd("XLEN").arg("s").query_async(&mut connection).await.unwrap();
    assert!((100..1000).contains(&length), "{length}");
}

#[tokio::test]
async fn closing_a_shared_sink_leaves_the_link_alone() {
    let server = TestServer::start();
    let link = Link::start(Arc::new(server.endpoint()), LinkOptions::default());
    let sink = RedisSink::on_shared(link.clone(), Duration::from_secs(2));
    sink.deliver(outbound(1, list("l"), "x")).await.unwrap();
    sink.close().await;
    assert_failure(sink.deliver(outbound(1, list("l"), "x")).await, Class::Transient, "closed");
    assert!(link.current().is_some());
    let own = RedisSink::on_own(link.clone(), Duration::from_secs(2));
    own.close().await;
    assert!(link.current().is_none() && !matches!(&*link.state().borrow(), LinkState::Up { .. }));
    soon("the supervisor to have ended", link.ended()).await;
}

#[tokio::test]
async fn a_sink_without_a_server_of_its_own_uses_the_link_of_the_source() {
    let source = TestServer::start();
    let own = TestServer::start();
    let link = Redis::from(Link::start(Arc::new(source.endpoint()), LinkOptions::default()));
    for (target, server) in [(None, &source), (Some(own.endpoint().into()), &own)] {
        let connector = Arc::new(RedisSpec { target });
        let spec =
            delaybridge_sink::SinkSpec { name: "s".into(), connector, timeout: Duration::from_secs(5), max_rate: None };
        let sink = spec.connect(&link);
        assert_eq!((sink.kind(), sink.timeout()), ("redis", Duration::from_secs(5)));
        sink.deliver(outbound(1, list("l"), "x")).await.unwrap();
        let length: u64 = redis::cmd("LLEN").arg("l").query_async(&mut server.admin().await).await.unwrap();
        assert_eq!(length, 1);
        sink.close().await;
    }
    let left = soon("the link of the source to be left up", link.first()).await;
    left.expect("a connection");
}

/// Sends a run. Returns the codes of its failures, by their places.
async fn run_failures(sink: &RedisSink, run: Vec<Outbound>) -> Vec<(usize, &'static str)> {
    let answers = Answers::new(run.len());
    sink.deliver_run(run, &answers).await;
    let mut failed: Vec<_> = answers.take().failed.into_iter().map(|(at, failure)| (at, failure.code)).collect();
    failed.sort_unstable();
    failed
}

/// A stream with the largest possible id takes no entry more: the script answers what it added, and the refusal.
#[tokio::test]
async fn a_run_stops_at_the_entry_that_a_stream_refuses() {
    let rig = RedisRig::new(stream("s")).await;
    let mut admin = rig.server.admin().await;
    let last_but_one = format!("{0}-{1}", u64::MAX, u64::MAX - 2);
    let _: Value =
        redis::cmd("XADD").arg("s").arg(last_but_one).arg("a").arg("b").query_async(&mut admin).await.unwrap();
    let run = (0..5).map(|n| outbound(n, stream("s"), format!("body-{n}"))).collect();
    assert_eq!(
        run_failures(&sink_on(rig.server.endpoint()), run).await,
        [(2, "ERR"), (3, "behind_another"), (4, "behind_another")]
    );
    let length: i64 = redis::cmd("XLEN").arg("s").query_async(&mut admin).await.unwrap();
    assert_eq!(length, 3);
}

/// The script is refused, and nothing of it has run: entries go one by one.
#[tokio::test]
async fn a_user_without_the_right_to_scripts_adds_entries_one_by_one() {
    let rig = RedisRig::new(stream("s")).await;
    let mut admin = rig.server.admin().await;
    let _: Value =
        redis::cmd("ACL").arg("SETUSER").arg("default").arg("-evalsha").query_async(&mut admin).await.unwrap();
    let run = (0..5).map(|n| outbound(n, stream("s"), format!("body-{n}"))).collect();
    assert_eq!(run_failures(&sink_on(rig.server.endpoint()), run).await, []);
    let length: i64 = redis::cmd("XLEN").arg("s").query_async(&mut admin).await.unwrap();
    assert_eq!(length, 5);
}

/// Another destination in the middle: what is behind it was not sent, and what is before it was.
#[tokio::test]
async fn a_run_goes_on_at_the_next_key_only_after_the_one_before_it() {
    for (good, bad) in [(list("l"), list("string")), (stream("s"), stream("string"))] {
        let rig = RedisRig::new(good.clone()).await;
        let run =
            [&good, &good, &bad, &good].into_iter().zip(0..).map(|(to, n)| outbound(n, to.clone(), "x")).collect();
        assert_eq!(run_failures(&sink_on(rig.server.endpoint()), run).await, [(2, "WRONGTYPE"), (3, "behind_another")]);
    }
}

/// An element as its attempt hands it over.
fn marked(element: u128, destination: Destination, suspicion: Suspicion) -> Outbound {
    let attempt = AttemptId(if suspicion == Suspicion::Nothing { 1 } else { 2 });
    let mark = Some(Box::new(DeliveryMark { element, attempt, suspicion, since_ms: 0 }));
    Outbound { mark, ..outbound(element as u64, destination, format!("body-{element}")) }
}

/// Delivers it, and tells whether the destination had it.
async fn was_known(sink: &RedisSink, message: Outbound) -> Result<bool, Failure> {
    let answers = Answers::new(1);
    sink.deliver_all(vec![message], &answers).await;
    let mut answered = answers.take();
    answered.failed.pop().map_or(Ok(answered.known == 1), |(_, failure)| Err(failure))
}

#[tokio::test]
async fn what_an_earlier_attempt_has_written_is_not_written_again() {
    let server = TestServer::start();
    let sink = sink_on(server.endpoint());
    let mut connection = server.admin().await;
    for (destination, key, length) in [(list("l"), "l", "LLEN"), (stream("{x}s"), "{x}s", "XLEN")] {
        let written = |suspicion| marked(7, destination.clone(), suspicion);
        let rows = [
            ("the first attempt", written(Suspicion::Nothing), false, 1),
            ("a second one", written(Suspicion::Anyone), true, 1),
            ("one after an attempt that did not write it", written(Suspicion::Attempt(AttemptId(9))), false, 2),
            ("one after the attempt that wrote it last", written(Suspicion::Attempt(AttemptId(2))), true, 2),
            ("a new life", written(Suspicion::Nothing), false, 3),
            ("another element", marked(8, destination.clone(), Suspicion::Anyone), false, 4),
        ];
        for (what, message, known, count) in rows {
            assert_eq!(was_known(&sink, message).await, Ok(known), "{what}");
            let length: u64 = redis::cmd(length).arg(key).query_async(&mut connection).await.unwrap();
            assert_eq!(length, count, "{what}");
        }
    }
    let marks: Vec<String> = redis::cmd("KEYS").arg("delaybridge:sent:*").query_async(&mut connection).await.unwrap();
    assert_eq!(marks.len(), 4, "{marks:?}");
    for mark in marks {
        let left: i64 = redis::cmd("PTTL").arg(&mark).query_async(&mut connection).await.unwrap();
        assert!((1..=300_000).contains(&left), "{mark} has {left} ms");
    }
}

#[tokio::test]
async fn a_write_that_is_refused_leaves_no_mark() {
    let server = TestServer::start();
    let sink = sink_on(server.endpoint());
    admin(&server, "SET l text").await;
    let refused = was_known(&sink, marked(7, list("l"), Suspicion::Nothing)).await;
    assert_failure(refused.map(drop), Class::TargetPermanent, "WRONGTYPE");
    admin(&server, "DEL l").await;
    assert_eq!(was_known(&sink, marked(7, list("l"), Suspicion::Anyone)).await, Ok(false));
    assert_eq!(admin(&server, "LLEN l").await, Value::Int(1));
    // A stranger's key in the place of a mark is no mark.
    admin(&server, "DEL delaybridge:sent:{l}:00000000000000000000000000000008").await;
    admin(&server, "LPUSH delaybridge:sent:{l}:00000000000000000000000000000008 x").await;
    assert_eq!(was_known(&sink, marked(8, list("l"), Suspicion::Anyone)).await, Ok(false));
    assert_eq!(admin(&server, "LLEN l").await, Value::Int(2));
}

#[tokio::test]
async fn a_server_that_has_forgotten_the_script_gets_it_within_the_attempt() {
    let server = TestServer::start();
    let sink = sink_on(server.endpoint());
    for n in 0..3 {
        admin(&server, "SCRIPT FLUSH").await;
        let batch: Vec<_> = (0..10).map(|m| marked(10 * n + m, list("l"), Suspicion::Nothing)).collect();
        let answers = Answers::new(batch.len());
        sink.deliver_all(batch, &answers).await;
        let answered = answers.take();
        assert_eq!((answered.confirmed.len(), answered.known), (10, 0), "{:?}", answered.failed);
    }
    let mut connection = server.admin().await;
    let bodies: Vec<String> = redis::cmd("LRANGE").arg("l").arg(0).arg(-1).query_async(&mut connection).await.unwrap();
    assert_eq!(bodies, (0..30).map(|n| format!("body-{n}")).collect::<Vec<_>>());
}
