//! The looks at queues that nobody asked for. They find what was not announced, and wake idle queues before something falls due.
//!
//! Rounds take a second. In each one a daemon looks at the queues of which it is the [looker](super::lookers), at those that it works
//! on, and now and then at the others. Of what only delaybridge writes, such as retries and leases, a look [far ahead](FAR_EVERY)
//! replaces those of the next rounds: changes of it are announced.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::lookers::{Asked, LookTurn, LookersView};
use super::pollers::pause;
use crate::active::ActiveQueue;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::{LOOKED_AT_ONCE, Look, LookAt, LookPart, millis};
use delaybridge_model::Mode;
use delaybridge_telemetry::labels::Wakeup;
use delaybridge_telemetry::status::Heartbeat;

/// Time between two looks at one queue: a round.
const POLL: Duration = Duration::from_secs(1);
/// Queues that are looked at per second, over the whole process; with more of them the looks become rarer.
const POLL_BUDGET: usize = 10_000;
/// The pause after some looks, as a multiple of the time that they took: Redis spends at most a tenth of its time on them. It
/// compares each key with the patterns of a user, and with the rights of thousands of queues that is what takes it.
const REST: u32 = 9;
/// Rounds between two looks of a daemon that looks in case the looker does not.
const SECOND_EVERY: usize = 4;
/// Rounds between two looks far ahead at the retries and leases of a queue whose schedule is looked at each round.
const OWN_EVERY: usize = 4;
/// Rounds between two looks of all others.
const OTHER_EVERY: usize = 60;
/// Rounds between two looks at what is announced if it may fall due before the next one. An announcement is lost only with its
/// connection, and then all queues are looked at; so they are when the daemon is gone that would have taken it up itself.
const FAR_EVERY: usize = 30;

/// A queue that is looked at: its place, and what is read of it. Kept, because idle queues are not built.
struct Polled {
    place: usize,
    claim_ahead: Duration,
    lease: Duration,
    announces: bool,
    announces_all: bool,
    look: Look,
    /// A hash of its name, the same in all daemons.
    hash: u64,
    turn: LookTurn,
    /// Whether something that is announced may fall due before the next look far ahead. Of another daemon's queue: whether
    /// this one knows of such a thing, which the looker may not have seen.
    is_near: bool,
    /// Whether the last look found something due.
    was_due: bool,
}

/// The range of a look at a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// All that falls due until the next round.
    Near,
    /// The same, but only in the keys that users' programs write.
    Unannounced,
    /// First whether anything that delaybridge writes falls due before the next look far ahead.
    Far,
}

impl Polled {
    fn of(registry: &QueueRegistry, place: usize) -> Polled {
        let spec = registry.spec(place);
        let look = registry.store(place).look();
        Polled {
            place,
            claim_ahead: spec.claim_ahead,
            lease: spec.lease,
            announces: spec.source.announces(),
            announces_all: spec.source.announces_all(),
            hash: xxh3_64(&look.leases),
            look,
            turn: LookTurn::First,
            is_near: true,
            was_due: false,
        }
    }

    /// Returns what it is looked at for in this round; `None` for nothing. `heard`: it would be noticed that another daemon is gone.
    fn sight(&self, round: usize, heard: bool, is_at_work: bool) -> Option<Sight> {
        let is_turn = |every: usize| round.is_multiple_of(every);
        let near = |every| is_turn(every).then_some(Sight::Near);
        let unannounced = || (!self.announces_all).then_some(Sight::Unannounced);
        match self.turn {
            _ if is_at_work => Some(Sight::Near),
            LookTurn::First if heard && is_turn(self.far_every()) => Some(Sight::Far),
            LookTurn::First if heard && !self.is_near => unannounced(),
            LookTurn::First => Some(Sight::Near),
            _ if heard && self.is_near && is_turn(self.far_every()) => Some(Sight::Far),
            _ if heard && self.is_near => Some(Sight::Near),
            LookTurn::Second => near(if heard && self.announces_all { FAR_EVERY } else { SECOND_EVERY }),
            LookTurn::Other => near(OTHER_EVERY),
        }
    }

    /// Returns the number of rounds between two looks far ahead.
    fn far_every(&self) -> usize {
        if self.announces_all { FAR_EVERY } else { OWN_EVERY }
    }

    /// Returns the part of its keys whose changes are announced.
    fn announced(&self) -> LookPart {
        if self.announces_all { LookPart::All } else { LookPart::Own }
    }

    /// Returns what is left of a look in a round; `None` for nothing.
    fn near(&self, sight: Sight) -> Option<LookPart> {
        match sight {
            Sight::Near => Some(LookPart::All),
            Sight::Far if self.is_near => Some(LookPart::All),
            Sight::Far if self.announces_all => None,
            Sight::Far | Sight::Unannounced => Some(LookPart::Users),
        }
    }

    /// Returns the look that finds what falls due in this time.
    fn ahead(&self, part: LookPart, now_ms: i64, ahead: Duration) -> LookAt<'_> {
        LookAt { look: &self.look, part, now_ms, until_ms: now_ms.saturating_add(millis(self.claim_ahead + ahead)) }
    }
}

/// The queues of a registry that are looked at.
struct PolledQueues {
    registry: Arc<QueueRegistry>,
    /// In the order of their names, which is the same in all daemons.
    all: Vec<Polled>,
    /// The number of changes of the registry that they have seen.
    changes: Option<u64>,
    /// The other daemons when the turns were taken.
    view: LookersView,
}

impl PolledQueues {
    /// Takes over what has changed: queues, and daemons with the same queues.
    fn update(&mut self) {
        let changes = self.registry.changes();
        let is_new = self.changes.replace(changes) != Some(changes);
        if is_new {
            let places = self.registry.with_mode(|mode| mode == Mode::Deliver).into_iter();
            self.all = places.map(|place| Polled::of(&self.registry, place)).collect();
            self.all.sort_by(|one, other| one.look.leases.cmp(&other.look.leases));
            let mut names = Xxh3::new();
            self.all.iter().for_each(|polled| names.update(&polled.hash.to_be_bytes()));
            self.registry.lookers().set_queues((!self.all.is_empty()).then(|| names.digest()));
        }
        let view = self.registry.lookers().view(Instant::now());
        if is_new || view != self.view {
            for polled in &mut self.all {
                let turn = self.registry.lookers().turn(polled.hash, &view);
                // Nothing is known of the next due time in a queue that was another daemon's.
                polled.is_near |= turn == LookTurn::First && (polled.turn != turn || !view.is_heard);
                polled.turn = turn;
            }
            self.view = view;
        }
    }

    /// Returns what is looked at in this round, by number.
    fn in_turn(&mut self, round: usize, asked: &Asked) -> Vec<(usize, Sight)> {
        let at_work: BTreeSet<_> = self.registry.at_work().into_iter().map(|(place, _)| place).collect();
        let mut looks = Vec::new();
        for (number, polled) in self.all.iter_mut().enumerate() {
            let changed = self.registry.take_changed(polled.place) || asked.all;
            polled.is_near |= changed && polled.turn == LookTurn::First;
            polled.is_near |= self.registry.take_due_soon(polled.place);
            let is_asked = asked.all || asked.queues.contains(&number);
            // Shifted by the number, so that each round has as many.
            let sight = polled.sight(round + number, self.view.is_heard, at_work.contains(&polled.place));
            let sight = if is_asked && sight != Some(Sight::Far) { Some(Sight::Near) } else { sight };
            looks.extend(sight.map(|sight| (number, sight)));
        }
        looks
    }

    /// Looks at some queues, and wakes those with something due.
    async fn look(&mut self, some: &[(usize, Sight)], until_next: Duration) {
        let far: Vec<_> = some.iter().filter(|(_, sight)| *sight == Sight::Far).map(|(number, _)| *number).collect();
        if !far.is_empty() {
            self.look_far(&far, until_next).await;
        }
        let near = some.iter().filter_map(|(number, sight)| Some((*number, self.all[*number].near(*sight)?)));
        let near: Vec<_> = near.collect();
        let polled: Vec<_> = near.iter().map(|(number, part)| (&self.all[*number], *part)).collect();
        let (answers, _) = look(&self.registry, &polled, until_next).await;
        for ((number, _), answer) in near.into_iter().zip(answers) {
            let Some(is_due) = answer else { continue };
            let polled = &mut self.all[number];
            if is_due && polled.was_due {
                self.registry.lookers().tell(number);
            }
            polled.was_due = is_due;
        }
    }

    /// Looks which of these queues have nothing announced that falls due before they are looked at like this again.
    async fn look_far(&mut self, some: &[usize], until_next: Duration) {
        let now_ms = self.registry.server().now_ms();
        let looks = some.iter().map(|number| {
            let polled = &self.all[*number];
            let ahead = far(polled.far_every(), until_next);
            // A claim that is there may be one of a daemon that ends, and gives it back at once.
            let lease = millis(ahead.max(polled.lease));
            LookAt { now_ms: now_ms.saturating_add(lease), ..polled.ahead(polled.announced(), now_ms, ahead) }
        });
        let looks: Vec<_> = looks.collect();
        // Without an answer nothing is known.
        let answers = self.registry.server().look(&looks).await.unwrap_or_else(|_| vec![None; some.len()]);
        for (number, answer) in some.iter().zip(answers) {
            let polled = &mut self.all[*number];
            polled.is_near = answer != Some(false);
            if !polled.is_near && polled.announces_all {
                self.registry.saw_nothing_due(polled.place, now_ms);
            }
        }
    }
}

/// Returns how far a look far ahead sees: beyond the next one.
fn far(every: usize, until_next: Duration) -> Duration {
    until_next * (every as u32 + 2)
}

/// Polls until the process stops.
pub async fn run(registry: Arc<QueueRegistry>, heartbeat: Heartbeat) {
    let process = registry.process().clone();
    // Until the next look at the same queue, with jitter and a round trip.
    let turn =
        |queues: usize, took: Duration| POLL.max(took).max(POLL * queues.div_ceil(POLL_BUDGET) as u32).mul_f64(1.25);
    let mut took = Duration::ZERO;
    let mut queues =
        PolledQueues { registry: registry.clone(), all: Vec::new(), changes: None, view: LookersView::default() };
    for round in 0.. {
        queues.update();
        let looks = queues.in_turn(round, &registry.lookers().take_asked());
        let until_next = turn(looks.len(), took);
        registry.set_horizons(until_next, far(FAR_EVERY, until_next));
        let began = Instant::now();
        if looks.is_empty() && pause(&process, POLL).await.is_stopping() {
            return;
        }
        heartbeat.beat();
        let mut rest = Duration::ZERO;
        for some in looks.chunks(LOOKED_AT_ONCE) {
            // Jitter, so that many daemons do not poll in step.
            let share = POLL.mul_f64(some.len() as f64 / looks.len().clamp(1, POLL_BUDGET) as f64);
            let share = share.mul_f64(0.9 + 0.2 * fastrand::f64());
            if pause(&process, share.max(rest)).await.is_stopping() {
                return;
            }
            heartbeat.beat();
            let began = Instant::now();
            if registry.server().is_up() {
                queues.look(some, until_next).await;
            }
            // A server that does not answer at all is not asked less often.
            rest = began.elapsed().min(POLL) * REST;
        }
        took = began.elapsed();
    }
}

/// Finds those of these queues that are overdue, and wakes them, `most` in this time. A read of thousands takes a
/// fraction of the claims with which all are looked at.
pub(super) async fn find_overdue(registry: Arc<QueueRegistry>, mut places: Vec<usize>, most: usize, pace: Duration) {
    places.retain(|place| registry.spec(*place).mode == Mode::Deliver);
    for some in places.chunks(LOOKED_AT_ONCE) {
        if !registry.server().is_up() {
            // All are looked at again when it is up.
            return;
        }
        let polled: Vec<_> = some.iter().map(|place| Polled::of(&registry, *place)).collect();
        let polled: Vec<_> = polled.iter().map(|polled| (polled, LookPart::All)).collect();
        let (_, woken) = look(&registry, &polled, Duration::ZERO).await;
        tokio::time::sleep(pace.mul_f64(woken as f64 / most as f64)).await;
    }
}

/// Returns the look at a queue before the next round.
fn ask<'a>(
    (polled, part): (&'a Polled, LookPart),
    at_work: &Option<Arc<ActiveQueue>>,
    now_ms: i64,
    until_next: Duration,
) -> LookAt<'a> {
    // What falls due until the next look at the queue. The claim that this leads to takes nothing early: it learns when
    // the element is due. A queue at work knows that already, if it was announced; and what falls due in one that is idle is its
    // looker's.
    let is_anothers = polled.turn != LookTurn::First && !polled.is_near;
    let knows = if at_work.is_some() { polled.announces } else { is_anothers };
    let now_ms = at_work.as_ref().map_or(now_ms, |queue| queue.home().now_ms());
    polled.ahead(part, now_ms, if knows { Duration::ZERO } else { until_next })
}

/// Looks at some queues in one call, and wakes those with something due. Returns the answers, and the number of those.
async fn look(
    registry: &QueueRegistry,
    some: &[(&Polled, LookPart)],
    until_next: Duration,
) -> (Vec<Option<bool>>, usize) {
    let now_ms = registry.server().now_ms();
    let at_work: Vec<_> = some.iter().map(|(polled, _)| registry.get(polled.place)).collect();
    let all = some.iter().zip(&at_work);
    let looks: Vec<_> = all.map(|(polled, at_work)| ask(*polled, at_work, now_ms, until_next)).collect();
    // Without an answer nothing is known.
    let answers = registry.server().look(&looks).await.unwrap_or_else(|_| vec![None; some.len()]);
    let mut woken = 0;
    for ((((polled, _), at_work), LookAt { now_ms, .. }), answer) in some.iter().zip(at_work).zip(looks).zip(&answers) {
        let Some(due) = *answer else { continue };
        if let Some(queue) = &at_work {
            queue.progress.set_due(due);
        }
        match (due, at_work) {
            (false, Some(queue)) if queue.nothing_due_ms() > i64::MIN => queue.saw_nothing_due(now_ms),
            (false, Some(_)) => {}
            (false, None) => registry.saw_nothing_due(polled.place, now_ms),
            (true, _) => {
                registry.wake(polled.place, |queue| queue.alarm.ring(Wakeup::Poll));
                woken += 1;
            }
        }
    }
    (answers, woken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_ledger::score::Unit;

    fn polled(turn: LookTurn, announces_all: bool, is_near: bool) -> Polled {
        let look = Look { schedules: vec![], unit: Unit::Millis, lists: vec![], retry: "".into(), leases: "".into() };
        let was_due = false;
        Polled {
            place: 0,
            claim_ahead: Duration::ZERO,
            lease: Duration::ZERO,
            announces: true,
            announces_all,
            look,
            hash: 0,
            turn,
            is_near,
            was_due,
        }
    }

    /// The number of looks at all in two minutes, of those only at what is not announced, and of those far ahead.
    fn looks(of: &Polled, heard: bool, is_at_work: bool) -> [usize; 3] {
        let all: Vec<_> = (0..120).filter_map(|round| of.sight(round, heard, is_at_work)).collect();
        [Sight::Near, Sight::Unannounced, Sight::Far].map(|of| all.iter().filter(|sight| **sight == of).count())
    }

    #[test]
    fn the_looks_of_all_daemons_are_few_and_none_is_left_out() {
        use LookTurn::{First, Other, Second};
        for (turn, announces_all, near, far) in [
            (First, false, [90, 0, 30], [0, 90, 30]),
            (Second, false, [90, 0, 30], [30, 0, 0]),
            (Other, false, [90, 0, 30], [2, 0, 0]),
            (First, true, [116, 0, 4], [0, 0, 4]),
            (Second, true, [116, 0, 4], [4, 0, 0]),
            (Other, true, [116, 0, 4], [2, 0, 0]),
        ] {
            assert_eq!(looks(&polled(turn, announces_all, true), true, false), near, "{turn:?} {announces_all}");
            assert_eq!(looks(&polled(turn, announces_all, false), true, false), far, "{turn:?} {announces_all}");
            assert_eq!(looks(&polled(turn, announces_all, false), true, true), [120, 0, 0], "{turn:?} at work");
        }
        // Alone and without an answer to its notes, a daemon cannot know that another one has died.
        assert_eq!(looks(&polled(First, true, false), false, false), [120, 0, 0]);
    }
}
