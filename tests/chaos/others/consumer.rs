//! The consumers and their producers.

use std::process::Stdio;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::Kind;
use crate::life::{Road, Seat};
use crate::offers::{Answer, now_ms};
use crate::options::Options;
use crate::payload::number;
use crate::plan::Plan;
use crate::produce::connect;
use crate::profile::Profile;
use crate::target::{Target, place};
use harness::logs::Lines;
use harness::oracle::read_stream;
use harness::process::{Process, command};
use harness::redis_server::RedisServer;
use harness::redisson::{OFFER, RedissonQueue};

const QUEUE: &str = "orders";
/// The time for handling an element, in ms.
const WORK_MS: &str = "20";
/// Number of retries of asynq.
const RETRIES: &str = "20";
const PATIENCE: Duration = Duration::from_secs(5);
/// The version of the consuming Redisson.
const VERSION: &str = "4.7.0";

const SOURCE: &str = include_str!("Consumer.java");

/// A consumer, in one process after the other.
pub struct Consumer {
    kind: Kind,
    port: u16,
    process: Option<Process>,
    /// The output of each process.
    printed: Vec<Lines>,
    daemon: Option<(Seat, Target)>,
    lives: usize,
}

impl Consumer {
    /// A consumer that has not started yet.
    pub async fn new(kind: Kind, redis: &RedisServer) -> Consumer {
        let daemon = match kind {
            Kind::Delaybridge => {
                let target = Target::start(Profile::Fixed, None).await;
                let mut plan = Plan::new(&Options { kinds: vec!["none".to_owned()], ..Options::default() });
                plan.settings.lease = Duration::from_secs(5);
                plan.settings.max_in_flight = 100;
                let seat = Seat::new(&plan, Road::Through(redis.port()), &target, None).await;
                Some((seat, target))
            }
            _ => None,
        };
        Consumer { kind, port: redis.port(), process: None, printed: Vec::new(), daemon, lives: 0 }
    }

    /// Starts a process, unless there is one.
    pub async fn start(&mut self) {
        if let Some((seat, _)) = &self.daemon {
            // A process that ended by itself is noticed here.
            let _ = seat.ended();
            self.lives += 1;
            return seat.start(self.lives).await;
        }
        if self.process.as_mut().is_some_and(|process| process.exit_status().is_none()) {
            return;
        }
        let mut command = match self.kind {
            Kind::Asynq => {
                let mut command = command(brokers::asynq().unwrap_or_else(|e| panic!("{e}")));
                command.args([&format!("127.0.0.1:{}", self.port), QUEUE, "work", WORK_MS]);
                command
            }
            _ => {
                let compiled = brokers::redisson::compiled(VERSION, "Consumer", SOURCE);
                let (mut command, classes) = compiled.unwrap_or_else(|e| panic!("{e}"));
                let how = if self.kind == Kind::Take { "take" } else { "drain" };
                let address = format!("redis://127.0.0.1:{}", self.port);
                command.args(["-cp", &classes, "Consumer", &address, QUEUE, how, WORK_MS]);
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::spawn("consumer", command).unwrap_or_else(|e| panic!("start a consumer: {e}"));
        self.printed.push(Lines::collect(process.child_mut().stdout.take().expect("stdout is piped")));
        self.process = Some(process);
    }

    /// Kills the process with SIGKILL.
    pub async fn kill(&mut self) {
        if let Some((seat, _)) = &self.daemon {
            let _ = seat.kill().await;
        }
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Suspends the process for this time.
    pub async fn freeze(&mut self, lasts: Duration) {
        if let Some((seat, _)) = &self.daemon {
            seat.stop().await;
            sleep(lasts).await;
            return seat.go_on().await;
        }
        if let Some(process) = self.process.as_mut()
            && process.exit_status().is_none()
        {
            process.freeze();
            sleep(lasts).await;
            process.signal(rustix::process::Signal::CONT);
        }
    }

    /// The numbers of the handled elements, with repetitions.
    pub async fn handled(&self) -> Vec<u64> {
        if let Some((_, target)) = &self.daemon {
            let Target::Redis(server) = target else { return Vec::new() };
            let arrived = read_stream(&mut server.client().await, &place(QUEUE)).await;
            return arrived.iter().filter_map(|delivery| number(&delivery.payload)).collect();
        }
        let lines = self.printed.iter().flat_map(Lines::all);
        lines.filter_map(|line| number(line.as_bytes())).collect()
    }

    /// Number of remaining elements, and of dead ones.
    pub async fn rest(&self) -> (usize, usize) {
        let mut redis = connect(&format!("redis://127.0.0.1:{}/0", self.port)).await.expect("connect to Redis");
        let counts = |commands: [(&'static str, String); 6]| async move {
            let mut pipe = redis::pipe();
            for (command, key) in &commands {
                pipe.cmd(command).arg(key);
            }
            pipe.query_async::<[usize; 6]>(&mut redis).await.expect("count what is left")
        };
        let queue = RedissonQueue::new(QUEUE);
        let ours = |word: &str| format!("delaybridge:{word}:{{{QUEUE}}}");
        let asynq = |word: &str| format!("asynq:{{{QUEUE}}}:{word}");
        let [left @ .., dead] = match self.kind {
            Kind::Asynq => {
                let lists = [("LLEN", asynq("pending")), ("LLEN", asynq("active"))];
                let [pending, active] = lists;
                let sets = ["scheduled", "retry", "nothing", "archived"].map(|word| ("ZCARD", asynq(word)));
                let [scheduled, retry, nothing, archived] = sets;
                counts([pending, active, scheduled, retry, nothing, archived]).await
            }
            _ => {
                counts([
                    ("ZCARD", queue.timeouts),
                    ("LLEN", QUEUE.to_owned()),
                    ("ZCARD", ours("leases")),
                    ("ZCARD", ours("retry")),
                    ("ZCARD", ours("nothing")),
                    ("XLEN", ours("dead")),
                ])
                .await
            }
        };
        (left.iter().sum(), dead)
    }
}

pub struct Producer {
    kind: Kind,
    port: u16,
    redis: Option<MultiplexedConnection>,
}

impl Producer {
    pub fn new(kind: Kind, port: u16) -> Producer {
        Producer { kind, port, redis: None }
    }

    /// Offers one element with this due time.
    pub async fn offer(&mut self, n: u64, due_ms: i64) -> Answer {
        let offered = match self.kind {
            Kind::Asynq => self.enqueue(n, due_ms).await,
            _ => timeout(PATIENCE, self.write(n, due_ms)).await.unwrap_or(false),
        };
        if !offered {
            self.redis = None;
        }
        if offered { Answer::Yes } else { Answer::Unknown }
    }

    async fn enqueue(&self, n: u64, due_ms: i64) -> bool {
        let mut command = command(brokers::asynq().unwrap_or_else(|e| panic!("{e}")));
        let delay_ms = (due_ms - now_ms()).max(0).to_string();
        command.args([&format!("127.0.0.1:{}", self.port), QUEUE, "add", &n.to_string(), "1", &delay_ms, RETRIES]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let status = tokio::task::spawn_blocking(move || command.status()).await.expect("no panic");
        status.is_ok_and(|status| status.success())
    }

    async fn write(&mut self, n: u64, due_ms: i64) -> bool {
        if self.redis.is_none() {
            self.redis = connect(&format!("redis://127.0.0.1:{}/0", self.port)).await.ok();
        }
        let Some(redis) = &mut self.redis else { return false };
        let queue = RedissonQueue::new(QUEUE);
        let script = queue.script(OFFER);
        let mut call = script.prepare_invoke();
        call.key(&queue.timeouts).key(&queue.list).key(&queue.channel);
        call.arg(due_ms).arg(&n.to_le_bytes()[..]).arg(format!("{{\"n\":{n},\"x\":\"\"}}"));
        call.invoke_async::<redis::Value>(redis).await.is_ok()
    }
}
