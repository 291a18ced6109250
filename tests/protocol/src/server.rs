//! What Redis holds of a queue. Each method is one script, or one command: no other step runs in between.

use crate::Elements;

/// The name of a claim: its owner, the owner's number of it, and the leases in a row that ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The process. A process that starts again is another one.
    pub owner: u8,
    /// The number of the claim.
    pub number: u8,
    /// Leases that ran out.
    pub expiries: u8,
}

/// A claim in Redis: its lease and its keys are apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The name.
    pub name: Name,
    /// The lease: whether it is over; none once it is removed.
    pub lease: Option<bool>,
    /// The keys: the elements under the name; none once they are unlinked.
    pub keys: Option<Elements>,
    /// The process that has it in truth, whatever the name says.
    pub holder: u8,
}

/// One server's data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Server {
    /// Scheduled.
    pub scheduled: Elements,
    /// On the ready list, where Redisson's transfer has put them.
    pub ready: Elements,
    /// Waiting for a retry.
    pub retry: Elements,
    /// Dead letters.
    pub dead: Elements,
    /// Ids of offers that are remembered.
    pub offers: Elements,
    /// Claims, sorted by name.
    pub claims: Vec<Claim>,
}

impl Server {
    /// How often an element is somewhere.
    pub fn places(&self, element: Elements) -> usize {
        let sets = [self.scheduled, self.ready, self.retry, self.dead];
        let claimed = self.claims.iter().filter_map(|claim| claim.keys);
        sets.into_iter().chain(claimed).filter(|set| set & element != 0).count()
    }

    /// The claim of this name.
    pub fn claim(&mut self, name: Name) -> Option<&mut Claim> {
        self.claims.iter_mut().find(|claim| claim.name == name)
    }

    /// The elements under a name.
    pub fn under(&self, name: Name) -> Elements {
        self.claims.iter().find(|claim| claim.name == name).and_then(|claim| claim.keys).unwrap_or(0)
    }

    /// Offers an element under an id: a second call does nothing.
    pub fn offer(&mut self, element: Elements, with_id: bool) {
        if with_id && self.offers & element != 0 {
            return;
        }
        self.offers |= element;
        self.scheduled |= element;
    }

    /// Moves a due element to the ready list, as Redisson's task does.
    pub fn transfer(&mut self, element: Elements) {
        self.scheduled &= !element;
        self.ready |= element;
    }

    /// Moves the elements to a new claim, unless the name is there. The lease is written first.
    pub fn take(&mut self, name: Name, due: Elements) {
        if self.claim(name).is_some() {
            return;
        }
        let taken = (self.scheduled & due) | self.ready | self.retry;
        if taken == 0 {
            return;
        }
        self.scheduled &= !taken;
        self.ready &= !taken;
        self.retry &= !taken;
        self.add(Claim { name, lease: Some(false), keys: Some(taken), holder: name.owner });
    }

    /// Gives a claim whose lease is over to another process: under a new name, so that the former one finds nothing.
    pub fn take_over(&mut self, name: Name, new: Name, holder: u8) -> Elements {
        let Some(at) = self.claims.iter().position(|claim| claim.name == name) else { return 0 };
        let old = self.claims.remove(at);
        if old.keys.is_none() {
            // A lease without keys: nothing is behind it.
            return 0;
        }
        self.add(Claim { name: new, lease: Some(false), keys: old.keys, holder });
        old.keys.unwrap_or(0)
    }

    /// Removes a confirmed element from the claim of this name. Returns whether it was there.
    pub fn confirm(&mut self, name: Name, element: Elements) -> bool {
        let Some(keys) = self.claim(name).and_then(|claim| claim.keys.as_mut()) else { return false };
        let was = *keys & element != 0;
        *keys &= !element;
        self.tidy();
        was
    }

    /// Moves an element from the claim of this name to the retries. Returns whether it was there.
    pub fn retry(&mut self, name: Name, element: Elements) -> bool {
        let was = self.confirm(name, element);
        if was {
            self.retry |= element;
        }
        was
    }

    /// Moves an element from the claim of this name to the dead letters. Returns whether it was there.
    pub fn kill(&mut self, name: Name, element: Elements) -> bool {
        let was = self.confirm(name, element);
        if was {
            self.dead |= element;
        }
        was
    }

    fn add(&mut self, claim: Claim) {
        self.claims.push(claim);
        self.claims.sort();
    }

    /// Keys without members do not exist; a claim without a lease and keys is gone.
    pub fn tidy(&mut self) {
        for claim in &mut self.claims {
            claim.keys = claim.keys.filter(|keys| *keys != 0);
        }
        self.claims.retain(|claim| claim.keys.is_some() || claim.lease.is_some());
    }
}
