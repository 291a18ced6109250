//! The scripts alone: the library's own calls, without delivery.
//!
//! No sink of the daemon would do: even the cheapest includes decoding and routing, which would hide the cost of the
//! scripts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use delaybridge_ledger::claims::Whole;
use delaybridge_ledger::{BATCH_ENTRIES, Start, UpkeepRequest, UpkeepState};
use delaybridge_link::{Conn, Link, LinkOptions};
use delaybridge_ops::bench::{Claimer, bury, settle};
use delaybridge_source::redisson::ListCleanup;
use delaybridge_source::redisson::{Redisson, SCRIPTS};
use redis::aio::MultiplexedConnection;
use tokio::sync::{mpsc, watch};

use harness::redis_server::RedisServer;
use harness::redisson::redis_now_ms;

/// The interval between the daemon's sweeps.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// One connection that does the daemon's work on a queue.
pub struct Scripts {
    link: Link,
    conn: Conn,
    queue: Redisson,
    claimer: Claimer,
    sweep: UpkeepRequest,
    /// Whether a drain also sweeps when a turn is due.
    sweeping: bool,
}

/// The results of [`Scripts::drain`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Drained {
    /// Seconds from the first claim to the last settling.
    pub seconds: f64,
    /// Maximum number of ghosts.
    pub ghosts: u64,
    /// Maximum age of the oldest ghost.
    pub oldest: Duration,
}

/// The results of [`Scripts::turn`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    /// Number of entries walked.
    pub entries: i64,
    /// Number of ghosts removed.
    pub removed: i64,
}

impl Scripts {
    /// Connects, with the default settings of a queue. `sweeping` as the daemon does, else turns only on request.
    pub async fn connect(
        server: &RedisServer,
        redis: &mut MultiplexedConnection,
        name: &str,
        sweeping: bool,
    ) -> Result<Self> {
        let options = LinkOptions { scripts: SCRIPTS.all().into_iter().cloned().collect(), ..LinkOptions::default() };
        let link = Link::start(Arc::new(server.endpoint()), options);
        let conn = link.ready().await;
        let queue = Redisson::new(name, fastrand::u64(..).to_le_bytes(), true, true, ListCleanup::Auto);
        let (ghost_max_age, bandwidth) = sweep_defaults()?;
        let sweep = UpkeepRequest { step: None, max_age: ghost_max_age, bandwidth, start: Start::Due, largest: 0 };
        let claimer = Claimer::new(redis_now_ms(redis).await);
        Ok(Scripts { link, conn, queue, claimer, sweep, sweeping })
    }

    /// Claims and settles `count` elements, with two scripts outstanding at any time, and sweeps like the daemon.
    pub async fn drain(&mut self, count: usize) -> Result<Drained> {
        let (claimed, mut to_settle) = mpsc::channel::<Whole>(1);
        let (settled_all, mut ended) = watch::channel(false);
        let mut drained = Drained::default();
        let mut claimer = self.claimer.clone();
        let sweep = self.sweep;
        let this = &*self;
        let started = Instant::now();
        let claiming = async {
            let claimed = claimed;
            let mut taken = 0;
            while taken < count {
                let most = BATCH_ENTRIES.min(count - taken);
                let batch = claimer.claim(&this.conn, &this.queue, most).await?;
                let reply = &batch.claimed;
                ensure!(!reply.elements.is_empty(), "a claim took nothing");
                if let Some(leftovers) = &reply.leftovers {
                    drained.ghosts = drained.ghosts.max(leftovers.count);
                    drained.oldest = drained.oldest.max(leftovers.oldest);
                }
                taken += reply.elements.len();
                claimed.send(batch.confirmed()).await.context("pass on the claimed elements")?;
            }
            Ok(claimer)
        };
        let settling = async {
            let mut settled = Vec::new();
            while let Some(whole) = to_settle.recv().await {
                settle(&this.conn, &this.queue, &[whole]).await?;
                settled.push(whole);
            }
            bury(&this.conn, &this.queue, &settled).await?;
            let seconds = started.elapsed().as_secs_f64();
            settled_all.send_replace(true);
            Ok(seconds)
        };
        let sweeping = async {
            // Order does not matter: an interrupted turn is finished by the next.
            while tokio::time::timeout(SWEEP_EVERY, ended.wait_for(|ended| *ended)).await.is_err() {
                if this.sweeping {
                    this.turn_of(sweep).await?;
                }
            }
            Ok(())
        };
        let (claimer, seconds, ()) = tokio::try_join!(claiming, settling, sweeping)?;
        drained.seconds = seconds;
        self.claimer = claimer;
        Ok(drained)
    }

    /// Runs one full turn of the sweep, due or not.
    pub async fn turn(&self) -> Result<Turn> {
        self.turn_of(UpkeepRequest { start: Start::Census, ..self.sweep }).await
    }

    async fn turn_of(&self, mut request: UpkeepRequest) -> Result<Turn> {
        let mut turn = Turn::default();
        loop {
            let swept = self.queue.sweep(&self.conn, &request).await?;
            turn.removed += swept.removed;
            match swept.state {
                UpkeepState::Begun => turn.entries = swept.left,
                UpkeepState::Step => {}
                UpkeepState::Idle | UpkeepState::Done => return Ok(turn),
                UpkeepState::Busy | UpkeepState::Stale => bail!("a step of the sweep was refused: {:?}", swept.state),
            }
            request.step = Some(swept.step);
        }
    }

    pub async fn close(self) {
        self.link.close().await;
    }
}

/// The default `ghost_max_age` and `sweep_bandwidth` of a queue.
fn sweep_defaults() -> Result<(Duration, u64)> {
    let yaml = "redis: { url: 'redis://h' }\nsinks: { out: { redis: {} } }\nqueues: { q: { source: { redisson: { name: q } }, to: [{ sink: out, list: l }] } }\n";
    let loaded =
        delaybridge_config::load_str(yaml, "defaults", &|_| None).map_err(|errors| anyhow::anyhow!("{errors}"))?;
    let queue = loaded.config.queues.first().context("one queue")?;
    Ok((queue.source.leftover_max_age(), queue.source.upkeep_bandwidth()))
}
