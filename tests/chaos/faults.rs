//! Which faults there are in a run, and how they vary.

use std::time::Duration;

use fastrand::Rng;

use crate::failovers::Failover;
use crate::offers::QUEUES;
use crate::plan::{Ailment, Ill, Settings, Side, Trouble, What};
use crate::profile::Profile;
use crate::toxic::Toxic;

/// What may happen at the same time, and in each strand what happens one after the other.
pub fn strands(settings: &Settings) -> Vec<Vec<What>> {
    let mut strands = vec![
        of_source(settings.profile),
        of_target(settings.profile),
        vec![What::Pause(0), What::Pause(1), What::Pause(2), What::Junk(0), What::Rolling],
    ];
    for daemon in 0..settings.daemons {
        strands.push(vec![What::Kill(daemon), What::Stop(daemon), What::Terminate(daemon)]);
    }
    for daemon in 0..settings.daemons {
        let slow = [
            Toxic::Latency { ms: 0, jitter: 0 },
            Toxic::Bandwidth { kb: 0 },
            Toxic::Slicer { bytes: 0 },
            Toxic::LimitData { bytes: 0 },
        ];
        let both = [Trouble::Freeze, Trouble::Mute, Trouble::Refuse, Trouble::Drop];
        let both: Vec<Trouble> = both.into_iter().chain(slow.map(Trouble::Toxic)).collect();
        let lost = [Trouble::LoseClaims(0), Trouble::LoseVerdicts(0), Trouble::LoseExtensions(0)];
        let source = both.iter().copied().chain(lost).map(|trouble| What::Link(daemon, Side::Source, trouble));
        if settings.profile.has_source_links() {
            strands.push(source.collect());
        }
        let target = both.iter().copied().chain([Trouble::LoseMessages(0), Trouble::LoseMessages(0)]);
        if settings.profile.has_target_links() {
            strands.push(target.map(|trouble| What::Link(daemon, Side::Target, trouble)).collect());
        }
    }
    for daemon in 0..settings.daemons {
        strands.push(vec![What::Reload(daemon)]);
    }
    if settings.profile.has_target_links() {
        strands.push(vec![What::Poison]);
    }
    strands
}

/// What happens to the Redis with the queues.
fn of_source(profile: Profile) -> Vec<What> {
    let queues = || 0..QUEUES.len();
    let failovers = |how: Failover| queues().map(move |queue| What::FailOver(how, queue));
    let frozen = queues().map(What::FreezeMaster);
    match profile {
        Profile::Sentinel => {
            let all = failovers(Failover::Command).chain(failovers(Failover::Kill)).chain(frozen);
            all.chain((0..3).map(What::FreezeSentinel)).collect()
        }
        Profile::Cluster => {
            let all = failovers(Failover::Command).chain(failovers(Failover::Kill)).chain(frozen);
            all.chain(queues().map(What::MoveSlot)).collect()
        }
        Profile::Clock => vec![
            What::Clock(1),
            What::Clock(-1),
            What::Clock(1),
            What::Clock(-1),
            What::Server(Side::Source, Ill::Kill),
        ],
        _ => [Ill::Freeze, Ill::Kill, Ill::Full, Ill::ScriptFlush, Ill::Disconnect]
            .map(|ill| What::Server(Side::Source, ill))
            .to_vec(),
    }
}

/// What happens to the destinations.
fn of_target(profile: Profile) -> Vec<What> {
    match profile {
        Profile::Kafka => [Ailment::Freeze, Ailment::Kill].map(What::Broker).to_vec(),
        Profile::Amqp => {
            [Ailment::Freeze, Ailment::Kill, Ailment::Full, Ailment::Disconnect].map(What::Broker).to_vec()
        }
        _ => [Ill::Freeze, Ill::Kill, Ill::Full, Ill::Disconnect]
            .map(|ill| What::Server(Side::Target, ill))
            .into_iter()
            .chain([What::WrongType(0), What::WrongType(1), What::WrongType(2)])
            .collect(),
    }
}

/// The fault with figures of its own.
pub fn vary(what: What, random: &mut Rng) -> What {
    if let What::Clock(way) = what {
        return What::Clock(way * random.i64(10_000..150_000));
    }
    let What::Link(daemon, side, trouble) = what else { return what };
    let nth = random.u64(1..=4);
    let trouble = match trouble {
        Trouble::LoseClaims(_) => Trouble::LoseClaims(nth),
        Trouble::LoseVerdicts(_) => Trouble::LoseVerdicts(nth),
        Trouble::LoseExtensions(_) => Trouble::LoseExtensions(nth),
        Trouble::LoseMessages(_) => Trouble::LoseMessages(nth),
        Trouble::Toxic(Toxic::Latency { .. }) => {
            Trouble::Toxic(Toxic::Latency { ms: random.u64(5..150), jitter: random.u64(1..150) })
        }
        Trouble::Toxic(Toxic::Bandwidth { .. }) => Trouble::Toxic(Toxic::Bandwidth { kb: random.u64(20..500) }),
        Trouble::Toxic(Toxic::Slicer { .. }) => Trouble::Toxic(Toxic::Slicer { bytes: random.usize(1..200) }),
        Trouble::Toxic(Toxic::LimitData { .. }) => Trouble::Toxic(Toxic::LimitData { bytes: random.u64(500..50_000) }),
        plain => plain,
    };
    What::Link(daemon, side, trouble)
}

/// How long it is to last.
pub fn lasts(what: What, settings: &Settings, random: &mut Rng) -> Duration {
    match what {
        // Longer than the lease, so that another daemon takes over.
        What::Stop(_) => settings.lease + millis(random, 500, 3_000),
        What::Kill(_) | What::Terminate(_) => millis(random, 0, 2_500),
        What::Rolling => Duration::ZERO,
        What::Link(_, _, Trouble::Toxic(_)) => millis(random, 1_000, 5_000),
        What::Link(..) => millis(random, 300, 4_000),
        What::Server(_, Ill::ScriptFlush | Ill::Disconnect) => millis(random, 100, 1_000),
        What::Server(..) | What::WrongType(_) => millis(random, 300, 4_000),
        // As long as it takes; others are not planned for the time that this usually is.
        What::FailOver(..) => Duration::from_secs(6),
        What::Broker(Ailment::Disconnect) => Duration::ZERO,
        What::Broker(_) => millis(random, 300, 5_000),
        What::FreezeMaster(_) | What::FreezeSentinel(_) => millis(random, 300, 4_000),
        What::Clock(_) => millis(random, 500, 8_000),
        What::Reload(_) => Duration::ZERO,
        // As long as it takes: ten leases.
        What::Poison => settings.lease * 12 + Duration::from_secs(15),
        What::MoveSlot(_) => millis(random, 0, 1_500),
        What::Pause(_) => millis(random, 500, 3_000),
        What::Junk(_) => Duration::ZERO,
    }
}

/// A random time between these, in ms.
pub fn millis(random: &mut Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.u64(from..to))
}
