//! Random faults on real processes, and an oracle that knows the required deliveries.
//!
//! A run is first planned from its seed: settings, faults, their times. The schedule is written to a file, then played
//! against daemons, a Redis with the queues and a Redis with the destinations. After the faults everything is repaired,
//! and the daemons must finish within a stated bound. Then the oracle judges (the rules are in `judge.rs`). A failed
//! run is replayed with fewer faults, to find the few that are needed.
//!
//! `make chaos SEED=7 MINUTES=10` plays a seed. The tests play one fixed seed and two daemons with a planted defect.

mod artemis_queues;
mod clock;
mod disk;
mod evidence;
mod fates;
mod faults;
mod foreign;
mod forgets;
mod gateway;
mod jobs;
mod judge;
mod life;
mod nats_streams;
mod offers;
mod options;
mod order;
mod others;
mod payload;
mod plan;
mod planted;
mod play;
mod produce;
mod profile;
mod quiet;
mod receiver;
mod report;
mod rights;
mod rocketmq_topics;
mod run;
mod shrink;
mod source;
mod sqs_queues;
mod stage;
mod strangers;
mod suite;
mod target;
mod topics;
mod what;
