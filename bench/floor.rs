//! The least that a program does for single elements, as a process of its own: a loop that claims what is due, writes it to
//! the sink and confirms the claim, each as the daemon sends it and by the same client, and sleeps until the next due time.
//! It decides nothing, keeps no lease and counts nothing, so no daemon can be as cheap. The daemon's CPU is compared with it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use delaybridge_ledger::BATCH_ENTRIES;
use delaybridge_link::{KeyPrefix, Link, LinkOptions, RedisEndpoint};
use delaybridge_ops::bench::{Claimer, bury, settle};
use delaybridge_source::redisson::{ListCleanup, Redisson, SCRIPTS};
use redis::Pipeline;

use harness::process::{Process, command};
use harness::redis_server::RedisServer;

/// The first argument of this program that makes it the loop.
pub const NAME: &str = "floor";
/// The least time between two claims, as in the daemon.
const TOGETHER: Duration = Duration::from_millis(2);
/// The bytes of a member before its payload.
const HEAD: usize = 16;

/// Starts the loop for the first `count` elements of a queue, of which the first is due at `start_ms`.
pub fn spawn(server: &RedisServer, sink: &RedisServer, queue: &str, count: usize, start_ms: i64) -> Result<Process> {
    let mut floor = command(std::env::current_exe().context("find this program")?);
    floor.args([NAME, &server.port().to_string(), &sink.port().to_string(), queue, &count.to_string()]);
    floor.arg(start_ms.to_string());
    Process::spawn(NAME, floor).context("start the loop")
}

/// Runs the loop, and then waits to be ended, so that its usage can be read.
pub async fn run(arguments: &[String]) -> Result<()> {
    let [server, sink, name, count, start_ms] = arguments else { bail!("run the loop: wrong arguments") };
    let options = LinkOptions { scripts: SCRIPTS.all().into_iter().cloned().collect(), ..LinkOptions::default() };
    let link = Link::start(Arc::new(endpoint(server.parse()?)), options);
    let sink_options = LinkOptions { small_replies: true, ..LinkOptions::default() };
    let sink = Link::start(Arc::new(endpoint(sink.parse()?)), sink_options);
    let (conn, sink) = (link.ready().await, sink.ready().await);
    let queue = Redisson::new(name, fastrand::u64(..).to_le_bytes(), true, true, ListCleanup::Auto);
    // Everything is on one machine, so the clock is Redis's.
    let mut claimer = Claimer::new(now_ms()?);
    let mut left: usize = count.parse()?;
    let mut next_ms: i64 = start_ms.parse()?;
    let mut settled = Vec::new();
    let mut not_before = Instant::now();
    while left > 0 {
        let wait = Duration::from_millis(u64::try_from(next_ms - now_ms()?).unwrap_or(0));
        tokio::time::sleep_until((Instant::now() + wait).max(not_before).into()).await;
        not_before = Instant::now() + TOGETHER;
        let batch = claimer.claim(&conn, &queue, BATCH_ENTRIES).await?;
        let elements = &batch.claimed.elements;
        next_ms = batch.claimed.next_ms.unwrap_or(i64::MAX);
        if elements.is_empty() {
            continue;
        }
        let mut pipeline = Pipeline::with_capacity(elements.len());
        for element in elements {
            let (id, payload) = element.member.split_at(HEAD.min(element.member.len()));
            let add =
                pipeline.cmd("XADD").arg("out").arg("*").arg("payload").arg(payload).arg("id").arg(hex::encode(id));
            add.arg("queue").arg("q").arg("due_ms").arg(element.score_ms).arg("attempt").arg(1);
        }
        let answers = sink.pipeline(&pipeline).await.context("write to the sink")?;
        ensure!(answers.iter().all(Result::is_ok), "the sink has refused an element");
        let whole = batch.confirmed();
        settle(&conn, &queue, &[whole]).await?;
        left = left.saturating_sub(elements.len());
        settled.push(whole);
        if settled.len() == BATCH_ENTRIES {
            bury(&conn, &queue, &std::mem::take(&mut settled)).await?;
        }
    }
    std::future::pending().await
}

#[expect(clippy::disallowed_methods, reason = "Redis is on the same machine")]
fn now_ms() -> Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?;
    Ok(i64::try_from(now.as_millis())?)
}

fn endpoint(port: u16) -> RedisEndpoint {
    RedisEndpoint {
        host: "127.0.0.1".to_owned(),
        port,
        socket: None,
        tls: None,
        database: 0,
        key_prefix: KeyPrefix::default(),
        username: None,
        password: None,
        connect_timeout: Duration::from_secs(30),
        command_timeout: Duration::from_secs(60),
    }
}
