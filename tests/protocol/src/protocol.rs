//! The steps of all processes, in any order, and the rules that hold after each.

use stateright::{Model, Property};

use crate::daemon::{Daemon, Held, Sent};
use crate::server::{Claim, Name, Server};
use crate::{Elements, Hole};

/// The bounds of the model.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Elements, at most eight.
    pub elements: u8,
    /// Daemons.
    pub daemons: u8,
    /// Claims of a process.
    pub claims: u8,
    /// Leases that run out.
    pub expiries: u8,
    /// Processes that die.
    pub crashes: u8,
    /// Failovers to the replica's state.
    pub failovers: u8,
    /// Replies that are lost.
    pub losses: u8,
}

/// The protocol, with or without a hole.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    /// The bounds.
    pub bounds: Bounds,
    /// The step that is done wrong.
    pub hole: Option<Hole>,
}

/// Everything: Redis, its replica, the processes, and what is true whatever they believe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    master: Server,
    replica: Server,
    daemons: Vec<Daemon>,
    /// Elements whose time has come, by Redis's clock.
    due: Elements,
    /// Elements that were offered, and whose producer has an answer.
    offered: Elements,
    /// Elements whose offer ran, and whose answer was lost.
    unsure: Elements,
    /// Elements that a producer has cancelled.
    cancelled: Elements,
    /// Elements that have arrived at the sink.
    arrived: Elements,
    /// Elements that a failover has forgotten before they arrived: no protocol can keep those.
    forgotten: Elements,
    /// Elements that were sent before their time.
    early: Elements,
    /// Whether a former owner's verdict had an effect, or a running lease was taken.
    stale: bool,
    /// Replication history of the server.
    history: u8,
    left: Left,
}

/// What may still go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Left {
    expiries: u8,
    crashes: u8,
    failovers: u8,
    losses: u8,
}

/// A delivery, as the daemon sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It arrived, and the daemon knows.
    Confirmed,
    /// It did not arrive, and the daemon knows.
    Refused,
    /// It arrived, and the daemon does not know.
    Unanswered,
    /// It did not arrive, and the daemon does not know.
    Vanished,
}

/// One step. Numbers are those of elements and daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A producer offers an element.
    Offer(u8),
    /// The same, and the answer is lost.
    OfferUnanswered(u8),
    /// The producer offers it again, because it has no answer.
    OfferAgain(u8),
    /// A producer cancels an element.
    Cancel(u8),
    /// The time of an element comes.
    FallDue(u8),
    /// Redisson's task transfers an element.
    Transfer(u8),
    /// A daemon sends a claim.
    SendClaim(usize),
    /// Redis runs it.
    RunClaim(usize),
    /// The daemon reads the reply.
    ReadClaim(usize),
    /// The reply is lost; the daemon looks for the claim by its name once it can run no more.
    FindClaim(usize),
    /// A daemon delivers an element.
    Deliver(usize, u8, Outcome),
    /// A daemon writes that an element is confirmed.
    Confirm(usize, u8),
    /// The same, and the reply is lost: it will do so again.
    ConfirmUnanswered(usize, u8),
    /// A daemon ends a claim whole, by its name.
    EndWhole(usize),
    /// What follows it: the lease, or what else was left for a second step.
    EndRest(usize),
    /// A daemon writes a retry.
    Retry(usize, u8),
    /// A daemon writes a dead letter.
    Kill(usize, u8),
    /// A daemon compares its claim with Redis after a failover.
    Reconcile(usize),
    /// A lease runs out.
    Expire(Name),
    /// A daemon extends the lease of its claim.
    Extend(usize),
    /// A daemon takes over the claim of this name.
    TakeOver(usize, Name),
    /// A daemon dies, and another process starts in its place.
    Crash(usize),
    /// The replica receives everything.
    Replicate,
    /// The replica becomes the master.
    FailOver,
}

impl Protocol {
    fn is(&self, hole: Hole) -> bool {
        self.hole == Some(hole)
    }

    fn elements(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.bounds.elements
    }

    /// What a daemon may claim now.
    fn claimable(&self, state: &State) -> Elements {
        // A clock that is fast takes everything for due.
        let due = if self.is(Hole::OwnClock) { Elements::MAX } else { state.due };
        (state.master.scheduled & due) | state.master.ready | state.master.retry
    }

    fn of_daemon(&self, state: &State, at: usize, steps: &mut Vec<Step>) {
        let daemon = &state.daemons[at];
        match &daemon.sent {
            Some(Sent { ran: false, .. }) => {
                steps.push(Step::RunClaim(at));
                if state.left.losses > 0 {
                    steps.push(Step::FindClaim(at));
                }
            }
            Some(Sent { ran: true, .. }) => {
                steps.push(Step::ReadClaim(at));
                if state.left.losses > 0 {
                    steps.push(Step::FindClaim(at));
                }
            }
            None if daemon.held.is_none() && daemon.next < self.bounds.claims => {
                if self.claimable(state) != 0 {
                    steps.push(Step::SendClaim(at));
                }
                for claim in &state.master.claims {
                    let over = claim.lease == Some(true) || self.is(Hole::TakesRunning) && claim.lease.is_some();
                    if over && claim.keys.is_some() && claim.holder != daemon.owner {
                        steps.push(Step::TakeOver(at, claim.name));
                    }
                }
            }
            None => {}
        }
        if state.left.crashes > 0 && (daemon.held.is_some() || daemon.sent.is_some()) {
            steps.push(Step::Crash(at));
        }
        if let Some(held) = &daemon.held {
            self.of_held(state, at, held, steps);
        }
    }

    fn of_held(&self, state: &State, at: usize, held: &Held, steps: &mut Vec<Step>) {
        if held.ending {
            steps.push(Step::EndRest(at));
            return;
        }
        if held.history != state.history && !self.is(Hole::EndsWholeBlindly) {
            // Nothing is written before the two are compared.
            steps.push(Step::Reconcile(at));
            return;
        }
        for element in self.elements().filter(|element| held.open & bit(*element) != 0) {
            for outcome in [Outcome::Confirmed, Outcome::Refused, Outcome::Unanswered, Outcome::Vanished] {
                steps.push(Step::Deliver(at, element, outcome));
            }
        }
        let may_end = !held.left || self.is(Hole::EndsWholeBlindly);
        let all = held.open == 0 && held.failed == 0 && held.confirmed != 0;
        if all && may_end {
            steps.push(Step::EndWhole(at));
        }
        for element in self.elements() {
            if held.confirmed & bit(element) != 0 && !(all && may_end) {
                steps.push(Step::Confirm(at, element));
                if state.left.losses > 0 {
                    steps.push(Step::ConfirmUnanswered(at, element));
                }
            }
            if held.failed & bit(element) != 0 {
                steps.push(Step::Retry(at, element));
                steps.push(Step::Kill(at, element));
            }
        }
        let over = |claim: &Claim| claim.name == held.name && claim.lease == Some(true);
        if state.master.claims.iter().any(over) {
            steps.push(Step::Extend(at));
        }
    }

    /// Writes a verdict about one element of the claim in hand. Whoever has lost the claim must have no effect.
    fn settle(&self, state: &mut State, at: usize, element: u8, write: fn(&mut Server, Name, Elements) -> bool) {
        let owner = state.daemons[at].owner;
        let Some(held) = &state.daemons[at].held else { return };
        let mut name = held.name;
        if self.is(Hole::NoFence) {
            let has = |claim: &&Claim| claim.keys.is_some_and(|keys| keys & bit(element) != 0);
            name = state.master.claims.iter().find(has).map_or(name, |claim| claim.name);
        }
        let foreign = state.master.claims.iter().any(|claim| claim.name == name && claim.holder != owner);
        let effect = write(&mut state.master, name, bit(element));
        state.stale |= effect && foreign;
    }

    /// The claim in hand has no open question about the element any more.
    fn close(state: &mut State, at: usize, element: u8) {
        let Some(held) = &mut state.daemons[at].held else { return };
        held.open &= !bit(element);
        held.confirmed &= !bit(element);
        held.failed &= !bit(element);
        if held.open | held.confirmed | held.failed == 0 {
            // Empty claims are buried once they can run no more.
            let name = held.name;
            state.daemons[at].held = None;
            if state.master.under(name) == 0 {
                state.master.claims.retain(|claim| claim.name != name);
            }
        }
    }

    fn deliver(&self, state: &mut State, at: usize, element: u8, outcome: Outcome) {
        let Some(held) = &mut state.daemons[at].held else { return };
        if state.due & bit(element) == 0 {
            state.early |= bit(element);
        }
        if matches!(outcome, Outcome::Confirmed | Outcome::Unanswered) {
            state.arrived |= bit(element);
        }
        held.open &= !bit(element);
        let confirmed = match outcome {
            Outcome::Confirmed => true,
            Outcome::Refused => false,
            Outcome::Unanswered | Outcome::Vanished => self.is(Hole::UnknownIsSuccess),
        };
        if confirmed { held.confirmed |= bit(element) } else { held.failed |= bit(element) }
    }

    fn find_claim(&self, state: &mut State, at: usize) {
        let history = state.history;
        let Some(Sent { name, ran }) = state.daemons[at].sent.take() else { return };
        state.left.losses -= 1;
        if !ran || self.is(Hole::BuriesLostClaim) {
            // Its time is up: it can run no more. An honest daemon looks before it removes the lease.
            if let Some(claim) = state.master.claim(name) {
                claim.lease = None;
            }
            state.master.tidy();
            return;
        }
        let elements = state.master.under(name);
        state.daemons[at].hold(name, elements, history);
    }

    fn end_whole(&self, state: &mut State, at: usize) {
        let owner = state.daemons[at].owner;
        let Some(held) = &mut state.daemons[at].held else { return };
        held.ending = true;
        let first_lease = self.is(Hole::LeaseGoesFirst);
        if let Some(claim) = state.master.claim(held.name) {
            state.stale |= claim.keys.is_some() && claim.holder != owner;
            if first_lease { claim.lease = None } else { claim.keys = None }
        }
        state.master.tidy();
    }

    fn end_rest(&self, state: &mut State, at: usize) {
        let Some(held) = state.daemons[at].held.take() else { return };
        if let Some(claim) = state.master.claim(held.name) {
            if self.is(Hole::LeaseGoesFirst) {
                claim.keys = None
            } else {
                // What came back under the name keeps its lease.
                claim.lease = claim.lease.filter(|_| claim.keys.is_some())
            }
        }
        state.master.tidy();
    }

    fn reconcile(state: &mut State, at: usize) {
        let history = state.history;
        let Some(held) = &mut state.daemons[at].held else { return };
        held.history = history;
        let name = held.name;
        let under = state.master.under(held.name);
        let known = held.open | held.confirmed | held.failed;
        // What is not there any more is another server's past; what came back may have been delivered.
        held.open &= under;
        held.failed &= under;
        held.confirmed &= under;
        let back = under & !known;
        held.left |= back != 0;
        let none = held.open | held.confirmed | held.failed == 0;
        for element in 0..8 {
            if back & bit(element) != 0 {
                state.master.retry(name, bit(element));
            }
        }
        if none {
            state.daemons[at].held = None;
            if state.master.under(name) == 0 {
                state.master.claims.retain(|claim| claim.name != name);
            }
        }
    }

    fn take_over(&self, state: &mut State, at: usize, name: Name) {
        let history = state.history;
        let daemon = &mut state.daemons[at];
        let new = if self.is(Hole::KeepsName) {
            name
        } else {
            Name { owner: daemon.owner, number: daemon.next, expiries: name.expiries + 1 }
        };
        daemon.next += 1;
        state.stale |= state.master.claims.iter().any(|claim| claim.name == name && claim.lease == Some(false));
        let elements = state.master.take_over(name, new, daemon.owner);
        daemon.hold(new, elements, history);
    }

    fn fail_over(state: &mut State) {
        state.left.failovers -= 1;
        state.history += 1;
        let before = std::mem::replace(&mut state.master, state.replica.clone());
        for element in 0..8 {
            let element = bit(element);
            // What the new master does not know, and has not arrived, is lost by replication.
            if before.places(element) > 0 && state.master.places(element) == 0 {
                state.forgotten |= element;
            }
            // A cancelled or finished element may be back: then it is in the queue as before.
            if state.master.places(element) > 0 {
                state.cancelled &= !element;
            }
        }
    }
}

fn bit(element: u8) -> Elements {
    1 << element
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let Bounds { daemons, expiries, crashes, failovers, losses, .. } = self.bounds;
        vec![State {
            master: Server::default(),
            replica: Server::default(),
            daemons: (0..daemons).map(Daemon::new).collect(),
            due: 0,
            offered: 0,
            unsure: 0,
            cancelled: 0,
            arrived: 0,
            forgotten: 0,
            early: 0,
            stale: false,
            history: 0,
            left: Left { expiries, crashes, failovers, losses },
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for element in self.elements() {
            let one = bit(element);
            if (state.offered | state.unsure) & one == 0 {
                steps.push(Step::Offer(element));
                if state.left.losses > 0 {
                    steps.push(Step::OfferUnanswered(element));
                }
            }
            if state.unsure & one != 0 {
                steps.push(Step::OfferAgain(element));
            }
            if state.master.scheduled & one != 0 {
                steps.push(Step::Cancel(element));
                match state.due & one {
                    0 => steps.push(Step::FallDue(element)),
                    _ => steps.push(Step::Transfer(element)),
                }
            }
        }
        for at in 0..state.daemons.len() {
            self.of_daemon(state, at, steps);
        }
        if state.left.expiries > 0 {
            let running = state.master.claims.iter().filter(|claim| claim.lease == Some(false));
            steps.extend(running.map(|claim| Step::Expire(claim.name)));
        }
        if state.left.failovers > 0 {
            if state.replica != state.master {
                steps.push(Step::Replicate);
            }
            steps.push(Step::FailOver);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Offer(element) => {
                state.master.offer(bit(element), true);
                state.offered |= bit(element);
            }
            Step::OfferUnanswered(element) => {
                state.master.offer(bit(element), true);
                state.unsure |= bit(element);
                state.left.losses -= 1;
            }
            Step::OfferAgain(element) => {
                state.master.offer(bit(element), !self.is(Hole::OffersBlindly));
                state.unsure &= !bit(element);
                state.offered |= bit(element);
            }
            Step::Cancel(element) => {
                state.master.scheduled &= !bit(element);
                state.cancelled |= bit(element);
            }
            Step::FallDue(element) => state.due |= bit(element),
            Step::Transfer(element) => state.master.transfer(bit(element)),
            Step::SendClaim(at) => {
                let daemon = &mut state.daemons[at];
                let name = Name { owner: daemon.owner, number: daemon.next, expiries: 0 };
                daemon.next += 1;
                daemon.sent = Some(Sent { name, ran: false });
            }
            Step::RunClaim(at) => {
                let claimable = self.claimable(&state);
                let sent = state.daemons[at].sent.as_mut()?;
                sent.ran = true;
                state.master.take(sent.name, claimable);
            }
            Step::ReadClaim(at) => {
                let sent = state.daemons[at].sent.take()?;
                let history = state.history;
                let elements = state.master.under(sent.name);
                state.daemons[at].hold(sent.name, elements, history);
            }
            Step::FindClaim(at) => self.find_claim(&mut state, at),
            Step::Deliver(at, element, outcome) => self.deliver(&mut state, at, element, outcome),
            Step::Confirm(at, element) => {
                self.settle(&mut state, at, element, Server::confirm);
                Self::close(&mut state, at, element);
            }
            Step::ConfirmUnanswered(at, element) => {
                self.settle(&mut state, at, element, Server::confirm);
                state.left.losses -= 1;
            }
            Step::EndWhole(at) => self.end_whole(&mut state, at),
            Step::EndRest(at) => self.end_rest(&mut state, at),
            Step::Retry(at, element) => {
                let two_steps = self.is(Hole::RetriesInTwoSteps);
                let write: fn(&mut Server, Name, Elements) -> bool = match two_steps {
                    true => |server, name, element| {
                        let there = server.under(name) & element != 0;
                        server.retry |= if there { element } else { 0 };
                        there
                    },
                    false => Server::retry,
                };
                self.settle(&mut state, at, element, write);
                state.daemons[at].held.as_mut()?.left = true;
                Self::close(&mut state, at, element);
            }
            Step::Kill(at, element) => {
                self.settle(&mut state, at, element, Server::kill);
                state.daemons[at].held.as_mut()?.left = true;
                Self::close(&mut state, at, element);
            }
            Step::Reconcile(at) => Self::reconcile(&mut state, at),
            Step::Expire(name) => {
                state.master.claim(name)?.lease = Some(true);
                state.left.expiries -= 1;
            }
            Step::Extend(at) => {
                let name = state.daemons[at].held.as_ref()?.name;
                state.master.claim(name)?.lease = Some(false);
            }
            Step::TakeOver(at, name) => self.take_over(&mut state, at, name),
            Step::Crash(at) => {
                let next = state.daemons.iter().map(|daemon| daemon.owner).max().unwrap_or(0) + 1;
                state.daemons[at] = Daemon::new(next);
                state.left.crashes -= 1;
            }
            Step::Replicate => state.replica = state.master.clone(),
            Step::FailOver => Self::fail_over(&mut state),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "R1: what was offered is in Redis until it has arrived",
                |model: &Protocol, state: &State| {
                    model.elements().all(|element| {
                        let one = bit(element);
                        let excused = state.arrived | state.cancelled | state.forgotten | state.master.dead;
                        state.offered & one == 0 || excused & one != 0 || state.master.places(one) > 0
                    })
                },
            ),
            Property::always("R2: an element is in one place", |model: &Protocol, state: &State| {
                model.elements().all(|element| state.master.places(bit(element)) <= 1)
            }),
            Property::always(
                "R3: a former owner changes nothing, and no running lease is taken",
                |_, state: &State| {
                    let held = |daemon: &Daemon| daemon.held.as_ref().map(|held| (held.name, daemon.owner));
                    let lost = |(name, owner): (Name, u8)| {
                        state.master.claims.iter().any(|claim| claim.name == name && claim.holder != owner)
                    };
                    !state.stale && !state.daemons.iter().filter_map(held).any(lost)
                },
            ),
            Property::always("R5: no claim has keys without a lease", |_, state: &State| {
                state.master.claims.iter().all(|claim| claim.keys.is_none() || claim.lease.is_some())
            }),
            Property::always("R9: nothing is sent before its time", |_, state: &State| state.early == 0),
            Property::sometimes("everything arrives, and Redis is empty", |model: &Protocol, state: &State| {
                let all = bit(model.bounds.elements) - 1;
                state.arrived == all && model.elements().all(|element| state.master.places(bit(element)) == 0)
            }),
        ]
    }
}
