//! The choice of faults for a run, and their variation.

use std::time::Duration;

use fastrand::Rng;

use crate::offers::QUEUES;
use crate::plan::Settings;
use crate::profile::Profile;
use crate::receiver::Manner;
use crate::what::{Ailment, Ill, Side, Trouble, What};
use harness::failovers::Failover;
use harness::toxic::Toxic;

/// The strands of faults: they run in parallel, and the faults of a strand one after the other.
pub fn strands(settings: &Settings) -> Vec<Vec<What>> {
    let mut strands =
        vec![of_source(settings.profile), of_target(settings.destinations()), of_operators(settings.profile)];
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
        // A receiver loses answers by itself, and so do links to daemons.
        let lost = if settings.destinations().has_streams() { 2 } else { 0 };
        let target = both.iter().copied().chain(std::iter::repeat_n(Trouble::LoseMessages(0), lost));
        if settings.profile.has_target_links() {
            strands.push(target.map(|trouble| What::Link(daemon, Side::Target, trouble)).collect());
        }
    }
    for daemon in 0..settings.daemons {
        strands.push(vec![What::Reload(daemon)]);
    }
    if settings.profile.has_target_links() && settings.profile.delivers() {
        strands.push(vec![What::Poison]);
        strands.push(vec![What::Large(0)]);
    }
    // Appended after the others, so that those keep their times.
    if settings.profile.delivers() {
        let queues = || 0..QUEUES.len();
        strands.push(queues().map(What::ForeignMembers).chain(queues().map(What::ForeignKey)).collect());
    }
    if settings.old.is_some() {
        strands.push((0..settings.daemons).map(What::Upgrade).collect());
    }
    if settings.profile.is_hostile() {
        // One strand for each queue, so that several queues are affected most of the time.
        for queue in 0..QUEUES.len() {
            strands.push(vec![What::Strangers(queue), What::OwnType(queue, 0)]);
        }
    }
    strands
}

/// The faults caused by people and other programs.
fn of_operators(profile: Profile) -> Vec<What> {
    let pauses = [What::Pause(0), What::Pause(1), What::Pause(2)];
    let others = if profile.delivers() { vec![What::Junk(0)] } else { vec![What::Consumers] };
    pauses.into_iter().chain(others).chain([What::Rolling]).collect()
}

/// The faults of the Redis with the queues.
fn of_source(profile: Profile) -> Vec<What> {
    let queues = || 0..QUEUES.len();
    let failovers = |how: Failover| queues().map(move |queue| What::FailOver(how, queue));
    let frozen = queues().map(What::FreezeMaster);
    let behind = queues().chain(queues()).map(|queue| What::FailOverBehind(queue, 0));
    match profile {
        Profile::Sentinel | Profile::JobsSentinel => {
            let all = failovers(Failover::Command).chain(failovers(Failover::Kill)).chain(frozen);
            all.chain((0..3).map(What::FreezeSentinel)).chain(behind).collect()
        }
        Profile::Cluster => {
            let all = failovers(Failover::Command).chain(failovers(Failover::Kill)).chain(frozen);
            all.chain(queues().map(What::MoveSlot)).chain(behind).collect()
        }
        Profile::Older => [Ill::Freeze, Ill::Full, Ill::ScriptFlush, Ill::Disconnect]
            .map(|ill| What::Server(Side::Source, ill))
            .into_iter()
            .chain(std::iter::repeat_n(What::Older(0), 4))
            .collect(),
        Profile::Clock => vec![
            What::Clock(1),
            What::Clock(-1),
            What::Clock(1),
            What::Clock(-1),
            What::Server(Side::Source, Ill::Kill),
        ],
        _ => {
            let all = [Ill::Freeze, Ill::Kill, Ill::Full, Ill::ScriptFlush, Ill::Disconnect, Ill::Rights];
            all.into_iter().chain([Ill::Disk { ends: false }]).map(|ill| What::Server(Side::Source, ill)).collect()
        }
    }
}

fn of_target(profile: Profile) -> Vec<What> {
    match profile {
        Profile::Kafka => {
            let half = Ailment::Half { node: 0, killed: false };
            let all = [Ailment::Freeze, Ailment::Kill, Ailment::Refuse, Ailment::Rights, Ailment::Gone, Ailment::Disk];
            all.into_iter().chain([half, half]).map(What::Broker).collect()
        }
        Profile::Amqp => {
            let all = [Ailment::Freeze, Ailment::Kill, Ailment::Full, Ailment::Disconnect];
            all.into_iter().chain([Ailment::Gone, Ailment::Rights]).map(What::Broker).collect()
        }
        Profile::Nats => {
            let all = [Ailment::Freeze, Ailment::Kill, Ailment::Full, Ailment::Gone, Ailment::Rights];
            all.map(What::Broker).to_vec()
        }
        Profile::Amqp1 => [Ailment::Freeze, Ailment::Kill, Ailment::Full, Ailment::Rights].map(What::Broker).to_vec(),
        Profile::Sqs => [Ailment::Freeze, Ailment::Kill].map(What::Broker).to_vec(),
        Profile::RocketMq => {
            let all = [Ailment::Freeze, Ailment::Freeze, Ailment::Kill, Ailment::Kill, Ailment::NameServer];
            all.map(What::Broker).to_vec()
        }
        Profile::Jobs | Profile::JobsSentinel | Profile::HostileJobs => vec![What::Consumers],
        Profile::Webhook => [
            Manner::Slow { ms: 0, nth: 0 },
            Manner::Fail { status: 0, nth: 0 },
            Manner::Busy { status: 0, seconds: 0, nth: 0 },
            Manner::Cut { nth: 0 },
            Manner::Mute,
            Manner::Refuse,
        ]
        .map(What::Receiver)
        .to_vec(),
        _ => [Ill::Freeze, Ill::Kill, Ill::Full, Ill::Disconnect, Ill::Rights]
            .map(|ill| What::Server(Side::Target, ill))
            .into_iter()
            .chain([What::WrongType(0), What::WrongType(1), What::WrongType(2)])
            .collect(),
    }
}

/// Replaces the figures of a fault by random ones.
pub fn vary(what: What, random: &mut Rng) -> What {
    if let What::Clock(way) = what {
        return What::Clock(way * random.i64(10_000..150_000));
    }
    if let What::FailOverBehind(queue, _) = what {
        return What::FailOverBehind(queue, random.u64(300..1_500));
    }
    if let What::Older(_) = what {
        return What::Older(random.u64(300..1_500));
    }
    if let What::Large(_) = what {
        return What::Large(random.usize(10..=50));
    }
    if let What::Receiver(manner) = what {
        return What::Receiver(vary_manner(manner, random));
    }
    if let What::Server(side, Ill::Disk { .. }) = what {
        return What::Server(side, Ill::Disk { ends: random.bool() });
    }
    if let What::Broker(Ailment::Half { .. }) = what {
        return What::Broker(Ailment::Half { node: random.usize(1..=2), killed: random.bool() });
    }
    if let What::OwnType(queue, _) = what {
        return What::OwnType(queue, random.usize(..1_000));
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

fn vary_manner(manner: Manner, random: &mut Rng) -> Manner {
    let nth = random.u64(1..=4);
    match manner {
        Manner::Slow { .. } => Manner::Slow { ms: random.u64(100..4_000), nth },
        Manner::Fail { .. } => Manner::Fail { status: [500, 502, 504][random.usize(..3)], nth },
        Manner::Busy { .. } => Manner::Busy { status: [429, 503][random.usize(..2)], seconds: random.u64(0..=3), nth },
        Manner::Cut { .. } => Manner::Cut { nth },
        plain => plain,
    }
}

pub fn lasts(what: What, settings: &Settings, random: &mut Rng) -> Duration {
    match what {
        // Longer than the lease, so that another daemon takes over.
        What::Stop(_) => settings.lease + millis(random, 500, 3_000),
        What::Kill(_) | What::Terminate(_) => millis(random, 0, 2_500),
        What::Rolling => Duration::ZERO,
        // Both versions work on the queues meanwhile.
        What::Upgrade(_) => millis(random, 2_000, 10_000),
        What::Link(_, _, Trouble::Toxic(_)) => millis(random, 1_000, 5_000),
        What::Link(..) => millis(random, 300, 4_000),
        What::Server(_, Ill::ScriptFlush | Ill::Disconnect) => millis(random, 100, 1_000),
        What::Server(..) | What::WrongType(_) => millis(random, 300, 4_000),
        // Ends when the failover is done; no other fault is planned for its usual duration.
        What::FailOver(..) => Duration::from_secs(6),
        What::FailOverBehind(_, cut_ms) => Duration::from_millis(cut_ms) + Duration::from_secs(6),
        What::Older(behind_ms) => Duration::from_millis(behind_ms) + Duration::from_secs(1),
        What::Broker(Ailment::Disconnect) => Duration::ZERO,
        What::Broker(_) | What::Receiver(_) => millis(random, 300, 5_000),
        What::FreezeMaster(_) | What::FreezeSentinel(_) => millis(random, 300, 4_000),
        What::Clock(_) => millis(random, 500, 8_000),
        What::Reload(_) => Duration::ZERO,
        // Ends when it is done: ten leases.
        What::Poison => settings.lease * 12 + Duration::from_secs(15),
        What::MoveSlot(_) => millis(random, 0, 1_500),
        What::Pause(_) => millis(random, 500, 3_000),
        What::ForeignMembers(_) | What::ForeignKey(_) => millis(random, 300, 4_000),
        What::OwnType(..) => millis(random, 300, 3_000),
        What::Large(_) => Duration::from_secs(5),
        What::Junk(_) | What::Consumers | What::Strangers(_) => Duration::ZERO,
    }
}

/// The usual time from the end of a fault until the next one of its strand can begin.
pub fn recovers(what: What) -> Duration {
    match what {
        // The broker must start, and catch up with the other one.
        What::Broker(Ailment::Kill | Ailment::Refuse | Ailment::Disk | Ailment::Half { killed: true, .. }) => {
            Duration::from_secs(6)
        }
        // A broker registers every ten seconds, and there is a rest behind that.
        What::Broker(Ailment::NameServer) => Duration::from_secs(24),
        _ => Duration::ZERO,
    }
}

/// A random duration between two limits, in ms.
pub fn millis(random: &mut Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.u64(from..to))
}
