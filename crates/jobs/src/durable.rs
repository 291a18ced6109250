//! Jobs that count as added only when replicas, or a disk, have them.
//!
//! `WAIT` speaks of the last write of its own connection. So the jobs of a durable handle are added on connections of its
//! own, and a call that finds all of them there already writes too (see `add.lua`): they may have come by another connection.

use bytes::Bytes;
use redis::Value;

use super::error::JobError;
use super::name::Topic;
use super::queue::JobQueue;
use delaybridge_link::{DurableRedis, Script};

impl JobQueue {
    /// Makes the queue durable: [`add`](JobQueue::add) answers only when the jobs are durable. Other calls are as
    /// before.
    #[must_use]
    pub fn durable(self, durable: DurableRedis) -> JobQueue {
        JobQueue { durable: Some(durable), ..self }
    }

    /// Runs the script that adds jobs. Without the durability that is needed the answer is [`JobError::NotDurable`],
    /// and the jobs may be there.
    pub(super) async fn run_add(
        &self,
        script: &Script,
        topic: &Topic,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> Result<Value, JobError> {
        let Some(durable) = &self.durable else { return self.run_on(script, topic, keys, args).await };
        self.stir(topic);
        let durable = durable.at(self.keys(topic).topic());
        let short = |shortfall| JobError::NotDurable { shortfall };
        let conn = durable.ready().await?.map_err(short)?;
        let reply = conn.script(script, keys, args).await?;
        durable.confirm(&conn).await?.map_err(short)?;
        Ok(reply)
    }
}
