//! The Redis with the queues is a master that sentinels watch: failovers, and claims that wait for replicas.

mod durability;
mod failover;
mod rig;
