//! The keys under `durability` of a queue.

use super::super::durable::Durability;
use delaybridge_settings::keys::tables;
use delaybridge_settings::reader::Section;

tables! {
    mod keys at "queues.NAME.durability", "Durability of a claim before its elements are delivered. Until it is reached, nothing is delivered, and the elements go back without counting an attempt. See [redis.md](redis.md#durability)." {
        REPLICAS = key("replicas", count(0, 64), "Replicas that must have the claim (`WAIT`).").default("1");
        AOF = key("aof", Kind::Flag, "The claim must be in the append-only file of the master and of these replicas (`WAITAOF`, Redis 7.2 or newer).").default("false");
        TIMEOUT = key("timeout", duration(1), "Time limit for both; less than half of `redis.command_timeout`.").default("1s");
    }
}

/// Reads the section `durability`.
pub fn read(section: &Section<'_>) -> Durability {
    let replicas = section.count(&keys::REPLICAS).and_then(|count| u32::try_from(count).ok()).unwrap_or(1);
    let aof = section.flag(&keys::AOF).unwrap_or(false);
    if replicas == 0 && !aof {
        let help = "write at least `replicas: 1`, or `aof: true`, or remove `durability`";
        section.cx.report.problem(&section.spot(&keys::REPLICAS), "there is nothing to wait for", help);
    }
    Durability { replicas, aof, timeout: section.duration(&keys::TIMEOUT) }
}
