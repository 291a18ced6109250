//! The keys under `durability` of a queue.

use std::time::Duration;

use delaybridge_settings::Settings;
use delaybridge_settings::reader::Section;

/// Durability of a claim before its elements are delivered. Until it is reached, nothing is delivered, and the elements
/// go back without counting an attempt. See [redis.md](redis.md#durability).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Settings)]
#[settings(keys, at = "queues.NAME.durability")]
pub struct Durability {
    /// Replicas that must have the claim (`WAIT`).
    #[key(count(0, 64), default = "1")]
    pub replicas: u32,
    /// The claim must be in the append-only file of the master and of these replicas (`WAITAOF`, Redis 7.2 or newer).
    #[key(Kind::Flag, default = "false")]
    pub aof: bool,
    /// Time limit for both; less than half of `redis.command_timeout`.
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
