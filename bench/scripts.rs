//! The claim and settle scripts alone: the library's own calls, with nothing between a claim and its settling.
//!
//! No sink of the daemon would do: the cheapest still decodes, routes and judges, and would hide what those cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use delaybridge::config::ListCleanup;
use delaybridge::link::{Link, LinkOptions};
use delaybridge::source::redisson::{
    Answer, BATCH_BYTES, BATCH_ENTRIES, ClaimReply, ClaimRequest, Hints, Move, Redisson, SCRIPTS,
};
use tokio::sync::mpsc;

use crate::passage::{QUEUE, Stock, by_script, log_scripts};
use crate::redisson::redis_now_ms;

/// Elements a second that one connection claims and settles, two scripts under way at any time; Redis's time in each.
pub async fn rate(stock: &Stock) -> Result<(f64, String)> {
    let mut redis = stock.server.client().await;
    log_scripts(&mut redis).await?;
    let now_ms = redis_now_ms(&mut redis).await;
    let options = LinkOptions { scripts: SCRIPTS.all().into_iter().cloned().collect(), ..LinkOptions::default() };
    let link = Link::start(Arc::new(stock.server.endpoint()), options);
    let conn = link.ready().await;
    let queue = Redisson::new(QUEUE, fastrand::u64(..).to_le_bytes(), true, true, ListCleanup::Auto);
    let (claimed, mut to_settle) = mpsc::channel::<Vec<(Bytes, Move)>>(1);
    let started = Instant::now();
    let claiming = async {
        let claimed = claimed;
        let (mut taken, mut hints) = (0, Hints::default());
        for number in 1.. {
            let request = ClaimRequest {
                number,
                not_after_ms: now_ms + 600_000,
                lease: Duration::from_secs(600),
                ahead: Duration::ZERO,
                most: BATCH_ENTRIES,
                bytes: BATCH_BYTES,
                alone: false,
                rotation: number,
                hints,
            };
            let ClaimReply::Claimed(reply) = queue.claim(&conn, &request).await? else { bail!("a claim came late") };
            ensure!(!reply.entries.is_empty(), "a claim took nothing");
            hints = reply.hints;
            taken += reply.entries.len();
            let moves = reply.entries.into_iter().map(|(_, entry)| (entry.member, Move::Confirm)).collect();
            claimed.send(moves).await.context("hand over what was claimed")?;
            if taken >= stock.count {
                break;
            }
        }
        Ok(())
    };
    let settling = async {
        while let Some(moves) = to_settle.recv().await {
            let settled = queue.settle(&conn, &moves, None, None).await?;
            ensure!(settled.answers.iter().all(|answer| *answer == Answer::Done), "a settling was refused");
        }
        Ok(())
    };
    tokio::try_join!(claiming, settling)?;
    let seconds = started.elapsed().as_secs_f64();
    link.close().await;
    Ok((stock.count as f64 / seconds, by_script(&mut redis, stock.count).await?))
}
