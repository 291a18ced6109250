//! The Redis with the queues is a master watched by sentinels: failovers, and claims that wait for replicas.

mod commands;
mod durability;
mod failover;
mod redisson;
mod tls;
