//! The keys under `durability` of a queue.

use std::time::Duration;

use delaybridge_settings::Settings;
use delaybridge_settings::reader::Section;

/// [Durability](redis.md#durability) of a claim before delivery. Until it is reached, elements go back without a
/// counted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Settings)]
#[settings(keys, at = "queues.NAME.durability")]
pub struct Durability {
    /// Replicas that must have the claim (`WAIT`).
    #[key(count(0, 64), default = "1")]
    pub replicas: u32,
    /// The claim must be in the append-only file of master and replicas (`WAITAOF`, Redis 7.2).
    #[key(Kind::Flag, default = "false")]
    pub aof: bool,
    /// Time limit, below half of `redis.command_timeout`.
    #[key(duration(1), default = "1s")]
    pub timeout: Duration,
}

/// Reads the section `durability`.
pub fn read(section: &Section<'_>) -> Durability {
    let need = Durability::of(section);
    if need.replicas == 0 && !need.aof {
        let help = "write at least `replicas: 1`, or `aof: true`, or remove `durability`";
        section.cx.report.problem(&section.spot(&keys::REPLICAS), "there is nothing to wait for", help);
    }
    need
}
