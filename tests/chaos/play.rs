//! The faults: each begins, lasts, and is undone.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, sleep, sleep_until};

use crate::evidence::Struck;
use crate::foreign;
use crate::offers::{Answer, Book, Kind, QUEUES, now_ms};
use crate::payload::payload;
use crate::plan::{Fault, Plan};
use crate::quiet;
use crate::rights;
use crate::source::Guide;
use crate::stage::Stage;
use crate::strangers;
use crate::what::{Ill, Side, Trouble, What};
use harness::daemon::command_line;
use harness::proxy::{Cut, CutCount, Mode, Proxy};
use harness::redis_server::RedisServer;
use harness::resp::Frame;

/// Time-out for a process to be ready again before the schedule continues.
const READY: Duration = Duration::from_secs(10);
/// Time-out after which a server counts as away.
const AWAY: Duration = Duration::from_secs(2);
/// Number of consecutive expired leases after which an element is a dead letter.
const DEADLY: u64 = 10;
/// Time-out for an element to become one.
const POISON: Duration = Duration::from_secs(120);
/// The pause between two strikes of a repeated fault.
const AGAIN: Duration = Duration::from_millis(150);

/// Plays one strand of the schedule.
pub async fn strand(stage: Arc<Stage>, book: Arc<Book>, began: Instant, faults: Vec<Fault>) {
    for fault in faults {
        sleep_until(began + fault.at).await;
        let from_ms = now_ms();
        let times = fault_of(&stage, &book, &fault).await;
        stage.struck(Struck { fault, from_ms, till_ms: now_ms(), times });
    }
}

/// The strands of a schedule.
pub fn strands(plan: &Plan) -> Vec<Vec<Fault>> {
    let last = plan.faults.iter().map(|fault| fault.strand + 1).max().unwrap_or(0);
    (0..last).map(|strand| plan.faults.iter().filter(|fault| fault.strand == strand).cloned().collect()).collect()
}

/// Makes a fault and undoes it; returns how often it struck.
async fn fault_of(stage: &Stage, book: &Book, fault: &Fault) -> u64 {
    let lasts = fault.lasts;
    match fault.what {
        What::Kill(daemon) => {
            let killed = stage.seats[daemon].kill().await;
            let times = u64::from(killed.is_some());
            stage.ended(killed);
            sleep(lasts).await;
            stage.start_daemon(daemon).await;
            times
        }
        What::Stop(daemon) => {
            let times = u64::from(stage.seats[daemon].stop().await);
            sleep(lasts).await;
            stage.seats[daemon].go_on().await;
            times
        }
        What::Terminate(daemon) => {
            let times = terminate(stage, daemon).await;
            sleep(lasts).await;
            stage.start_daemon(daemon).await;
            times
        }
        What::Rolling => {
            let mut times = 0;
            for daemon in 0..stage.seats.len() {
                times += terminate(stage, daemon).await;
                stage.start_daemon(daemon).await;
                stage.seats[daemon].ready(READY).await;
            }
            times
        }
        What::Upgrade(daemon) => {
            let seat = &stage.seats[daemon];
            seat.run_binary(stage.old.as_deref());
            let times = terminate(stage, daemon).await;
            stage.start_daemon(daemon).await;
            sleep(lasts).await;
            seat.run_binary(None);
            terminate(stage, daemon).await;
            stage.start_daemon(daemon).await;
            times
        }
        What::Link(daemon, side, trouble) => link(stage.seats[daemon].link(side), trouble, lasts).await,
        What::Server(_, Ill::Disk { ends }) => {
            let disk = stage.disk.as_ref().expect("a disk that can be full");
            disk.full(stage.source.lock().await.server(), ends, lasts).await
        }
        What::Server(Side::Source, ill) => {
            let mut source = stage.source.lock().await;
            server(source.server(), ill, lasts).await
        }
        What::Server(Side::Target, ill) => server(stage.target.lock().await.server(), ill, lasts).await,
        What::Broker(ailment) => stage.target.lock().await.suffer(ailment, lasts).await,
        What::Receiver(manner) => {
            let receiver = stage.target.lock().await.receiver();
            receiver.behave(manner, lasts).await
        }
        What::FailOver(how, queue) => {
            stage.source.lock().await.fail_over(how, queue).await;
            1
        }
        What::FailOverBehind(queue, cut_ms) => {
            stage.source.lock().await.fail_over_behind(queue, Duration::from_millis(cut_ms)).await;
            1
        }
        What::Older(behind_ms) => {
            let mut source = stage.source.lock().await;
            older(source.server(), book, Duration::from_millis(behind_ms)).await;
            1
        }
        What::FreezeMaster(queue) => {
            stage.source.lock().await.freeze_master(queue, lasts).await;
            1
        }
        What::FreezeSentinel(place) => {
            stage.source.lock().await.freeze_sentinel(place, lasts).await;
            1
        }
        What::MoveSlot(queue) => {
            stage.source.lock().await.move_slot(queue, lasts).await;
            1
        }
        What::Consumers => {
            stage.consumers.send_modify(|generation| *generation += 1);
            1
        }
        What::WrongType(queue) => wrong_type(stage, queue, lasts).await,
        What::Clock(ahead_ms) => {
            let clock = stage.clock.as_ref().expect("a clock that can be moved");
            clock.set(ahead_ms);
            sleep(lasts).await;
            clock.set(0);
            1
        }
        What::Reload(daemon) => stage.seats[daemon].reload().await,
        What::Poison => poison(stage, book).await,
        What::Pause(queue) => pause(stage, queue, lasts).await,
        What::Junk(queue) => junk(stage, book, queue).await,
        What::ForeignMembers(queue) => foreign::members(stage, queue, lasts).await,
        What::ForeignKey(queue) => foreign::key(stage, queue, lasts).await,
        What::Strangers(queue) => strangers::come(stage, queue).await,
        What::OwnType(queue, key) => strangers::wrong_type(stage, queue, key, lasts).await,
        What::Large(mb) => large(stage, book, mb << 20).await,
    }
}

async fn terminate(stage: &Stage, daemon: usize) -> u64 {
    let Some(mut ended) = stage.seats[daemon].terminate().await else { return 0 };
    // During a failover, a sentinel may still name the former master, which has elements that were settled at the new
    // one.
    let settled = match &stage.guide {
        Guide::Fixed(_) => None,
        _ => match stage.source.try_lock() {
            Ok(lock) => Some(lock),
            Err(_) => {
                stage.ended(Some(ended));
                return 1;
            }
        },
    };
    // After a jump of the clock, the remaining time of a lease is unknown.
    if let (Some(0), Some(owner), None) = (ended.code, &ended.owner, &stage.clock) {
        // While Redis is away, nothing is known.
        let look = async { quiet::claims_of(&mut stage.guide.clients().await?, owner, stage.dropped_ms).await };
        ended.left = tokio::time::timeout(AWAY, look).await.ok().and_then(Result::ok).unwrap_or_default();
    }
    drop(settled);
    stage.ended(Some(ended));
    1
}

async fn link(proxy: &Proxy, trouble: Trouble, lasts: Duration) -> u64 {
    let mode = match trouble {
        Trouble::Freeze => Mode::Freeze,
        Trouble::Mute => Mode::Mute,
        Trouble::Refuse => Mode::Refuse,
        Trouble::Drop => {
            let until = Instant::now() + lasts;
            let mut times = 0;
            while times == 0 || Instant::now() < until {
                proxy.drop_connections();
                times += 1;
                sleep(AGAIN).await;
            }
            return times;
        }
        Trouble::Toxic(toxic) => {
            let before = proxy.received();
            proxy.set_toxic(Some(toxic));
            sleep(lasts).await;
            proxy.set_toxic(None);
            return u64::from(proxy.received() > before);
        }
        Trouble::LoseClaims(nth) => return lose(proxy, |frame| runs(frame, &CLAIMS), nth, lasts).await,
        Trouble::LoseVerdicts(nth) => {
            let verdict = |frame: &Frame| frame.command() == "UNLINK" || runs(frame, &VERDICTS);
            return lose(proxy, verdict, nth, lasts).await;
        }
        Trouble::LoseExtensions(nth) => return lose(proxy, |frame| runs(frame, &EXTENSIONS), nth, lasts).await,
        Trouble::LoseMessages(nth) => return lose(proxy, |frame| frame.command() == "XADD", nth, lasts).await,
    };
    proxy.set_mode(mode);
    sleep(lasts).await;
    proxy.set_mode(Mode::Pass);
    1
}

/// Loses the answers to every n-th of these commands.
async fn lose(proxy: &Proxy, which: impl Fn(&Frame) -> bool + Send + 'static, nth: u64, lasts: Duration) -> u64 {
    let count: CutCount = proxy.cut(Cut::matching(which).every(nth).times(u64::MAX));
    sleep(lasts).await;
    proxy.stop_cutting();
    count.lost()
}

type Names = LazyLock<HashSet<String>>;
static CLAIMS: Names = LazyLock::new(|| scripts(&["claim", "take_over", "jobs_pop"]));
static VERDICTS: Names = LazyLock::new(|| scripts(&["settle", "jobs_add", "jobs_finish", "jobs_release"]));
static EXTENSIONS: Names = LazyLock::new(|| scripts(&["extend", "jobs_touch"]));

/// The hashes of the scripts with these names, of all sources.
fn scripts(names: &[&str]) -> HashSet<String> {
    let sources = [
        delaybridge_source::redisson::SCRIPTS.all(),
        delaybridge_source::zset::SCRIPTS.all(),
        delaybridge_source::job_pool::SCRIPTS.all(),
    ];
    let scripts = sources.into_iter().flatten().chain(delaybridge_jobs::SCRIPTS.all());
    scripts.filter(|script| names.contains(&script.name())).map(|script| script.sha1().to_ascii_lowercase()).collect()
}

fn runs(frame: &Frame, which: &HashSet<String>) -> bool {
    frame.script().is_some_and(|sha| which.contains(&sha))
}

async fn server(server: &mut RedisServer, ill: Ill, lasts: Duration) -> u64 {
    match ill {
        Ill::Freeze => {
            server.running().freeze();
            sleep(lasts).await;
            server.resume();
            1
        }
        Ill::Kill => {
            server.kill();
            sleep(lasts).await;
            server.boot().await.unwrap_or_else(|log| panic!("start a killed Redis again: {log}"));
            1
        }
        Ill::Full => {
            let mut redis = server.client().await;
            limit(&mut redis, 1).await;
            sleep(lasts).await;
            limit(&mut redis, 0).await;
            1
        }
        Ill::Rights => rights::take_away(&server.url(), lasts).await,
        Ill::ScriptFlush => again(server, &["SCRIPT", "FLUSH"], lasts).await,
        Ill::Disk { .. } => panic!("the disk of a Redis that has none of its own"),
        Ill::Disconnect => again(server, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"], lasts).await,
    }
}

/// Restarts a server with an older state. Offers and withdrawals since then may be forgotten.
async fn older(server: &mut RedisServer, book: &Book, behind: Duration) {
    let mut redis = server.client().await;
    let from_ms = now_ms();
    redis::cmd("SAVE").exec_async(&mut redis).await.expect("write a snapshot");
    sleep(behind).await;
    server.kill();
    server.boot().await.unwrap_or_else(|log| panic!("start a server with older data: {log}"));
    book.forgotten_since(from_ms);
}

/// Sets `maxmemory`, in bytes; 0 is no limit.
async fn limit(redis: &mut MultiplexedConnection, bytes: u64) {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg(bytes).arg("maxmemory-policy").arg("noeviction");
    set.exec_async(redis).await.expect("set maxmemory");
}

async fn again(server: &RedisServer, words: &[&str], lasts: Duration) -> u64 {
    let mut redis = server.client().await;
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let until = Instant::now() + lasts;
    let mut times = 0;
    while times == 0 || Instant::now() < until {
        command.exec_async(&mut redis).await.unwrap_or_else(|e| panic!("{words:?}: {e}"));
        times += 1;
        sleep(AGAIN).await;
    }
    times
}

/// Renames the stream of a queue, and puts another type in its place.
async fn wrong_type(stage: &Stage, queue: usize, lasts: Duration) -> u64 {
    let mut redis = stage.target.lock().await.server().client().await;
    let stream = format!("out-{}", QUEUES[queue]);
    let aside = format!("aside-{}", QUEUES[queue]);
    let mut breaks = redis::pipe();
    breaks.atomic().rename(&stream, &aside).set(&stream, "no stream");
    // Without any arrivals, the stream does not exist yet.
    if breaks.exec_async(&mut redis).await.is_err() {
        let _ = redis::cmd("DEL").arg(&stream).exec_async(&mut redis).await;
        return 0;
    }
    sleep(lasts).await;
    let mut repairs = redis::pipe();
    repairs.atomic().del(&stream).rename(&aside, &stream);
    repairs.exec_async(&mut redis).await.expect("put the stream back");
    1
}

/// Pauses and resumes a queue with the command line.
async fn pause(stage: &Stage, queue: usize, lasts: Duration) -> u64 {
    let name = QUEUES[queue];
    let pause = if stage.crowded { vec!["jobs", "pause", name] } else { vec!["pause", name, "--why", "chaos"] };
    let paused = operate(stage, &pause).await;
    sleep(lasts).await;
    // Also without a confirmation of the pause.
    resume(stage, queue).await;
    u64::from(paused)
}

/// Resumes a queue, repeatedly until it succeeds.
async fn resume(stage: &Stage, queue: usize) {
    let resume = ["resume", QUEUES[queue]];
    let resume = if stage.crowded { [&["jobs"], &resume[..]].concat() } else { resume.to_vec() };
    while !operate(stage, &resume).await {
        sleep(AGAIN).await;
    }
}

/// Resumes every paused queue again, because a failover may have lost the first time.
pub async fn resume_all(stage: &Stage, plan: &Plan) {
    let paused = |fault: &Fault| if let What::Pause(queue) = fault.what { Some(queue) } else { None };
    for queue in plan.faults.iter().filter_map(paused).collect::<BTreeSet<_>>() {
        resume(stage, queue).await;
    }
}

/// Runs a command of the binary with the configuration of the first daemon.
async fn operate(stage: &Stage, arguments: &[&str]) -> bool {
    let mut command = command_line(stage.seats[0].config(), arguments);
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    output.is_ok_and(|output| output.status.success())
}

/// Adds members without a valid layout to those of Redisson.
async fn junk(stage: &Stage, book: &Book, queue: usize) -> u64 {
    let mut redis = stage.guide.clients_when_well().await.0.swap_remove(queue);
    let key = format!("redisson_delay_queue_timeout:{{{}}}", QUEUES[queue]);
    let mut times = 0;
    for _ in 0..3 {
        let due_ms = now_ms() + 300;
        let n = book.note(queue, 0, due_ms, Kind::Junk, |n| format!("junk {n}"));
        let member = format!("junk {{\"n\":{n},");
        let added: redis::RedisResult<i64> =
            redis::cmd("ZADD").arg(&key).arg(due_ms).arg(member).query_async(&mut redis).await;
        let sure = added.is_ok() && stage.guide.is_sure(&mut redis).await;
        book.taken(n, if sure { Answer::Yes } else { Answer::Unknown });
        times += u64::from(added.is_ok());
    }
    times
}

/// Offers an element of this many bytes.
async fn large(stage: &Stage, book: &Book, size: usize) -> u64 {
    const QUEUE: usize = 1;
    let due_ms = now_ms();
    let n = book.note(QUEUE, size, due_ms, Kind::Large, |n| n.to_string());
    let mut redis = stage.guide.clients_when_well().await.0.swap_remove(QUEUE);
    let body = payload(stage.seed, n, size);
    let added = redis::cmd("ZADD").arg(QUEUES[QUEUE]).arg(due_ms).arg(body).exec_async(&mut redis).await;
    book.taken(n, if added.is_ok() { Answer::Yes } else { Answer::Unknown });
    u64::from(added.is_ok())
}

/// Offers an element to the second queue that kills every daemon that sends it, until it is a dead letter; returns the
/// number of kills.
async fn poison(stage: &Stage, book: &Book) -> u64 {
    const QUEUE: usize = 1;
    let n = book.note(QUEUE, 0, now_ms(), Kind::Poison, |n| n.to_string());
    let mark = format!("poison-{n}-");
    let body = format!("{{\"n\":{n},\"x\":\"{mark}\"}}");
    let trips: Vec<_> = stage.seats.iter().map(|seat| seat.link(Side::Target).trip(mark.as_bytes())).collect();
    let mut seen = vec![0; trips.len()];
    let mut redis = stage.guide.clients_when_well().await.0.swap_remove(QUEUE);
    let added = redis::cmd("ZADD").arg(QUEUES[QUEUE]).arg(now_ms()).arg(&body).exec_async(&mut redis).await;
    book.taken(n, if added.is_ok() { Answer::Yes } else { Answer::Unknown });
    let until = Instant::now() + POISON;
    while added.is_ok() && Instant::now() < until {
        for (place, trip) in trips.iter().enumerate() {
            if trip.count() > seen[place] {
                seen[place] = trip.count();
                stage.ended(stage.seats[place].kill().await);
                stage.start_daemon(place).await;
            }
        }
        let ask = async {
            let mut redis = stage.guide.connect(QUEUE).await?;
            redis::cmd("XLEN")
                .arg(format!("delaybridge:dead:{{{}}}", QUEUES[QUEUE]))
                .query_async::<u64>(&mut redis)
                .await
        };
        // Other dead letters may come first: the number of kills is sufficient when its leases are used up.
        if seen.iter().sum::<u64>() >= DEADLY && ask.await.is_ok_and(|letters| letters > 0) {
            break;
        }
        sleep(AGAIN).await;
    }
    seen.iter().sum()
}
