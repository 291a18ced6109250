//! What a process knows. It may be wrong: Redis decides.

use crate::Elements;
use crate::server::Name;

/// A claim in the hands of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held {
    /// The name.
    pub name: Name,
    /// Elements without a verdict.
    pub open: Elements,
    /// Elements that the sink has confirmed, and whose removal is to be written.
    pub confirmed: Elements,
    /// Elements whose delivery failed, or has no answer.
    pub failed: Elements,
    /// Whether an element has left the claim in another way than by a confirmation.
    pub left: bool,
    /// The server's history in which the claim was made.
    pub history: u8,
    /// Whether the keys are unlinked, and the lease is to follow.
    pub ending: bool,
}

/// A claim that was sent, and of which no reply was read yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sent {
    /// The name.
    pub name: Name,
    /// Whether Redis has run it.
    pub ran: bool,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Daemon {
    /// The number of the process: another one after a crash.
    pub owner: u8,
    /// The number of the next claim.
    pub next: u8,
    /// The claim under way.
    pub sent: Option<Sent>,
    /// The claim in hand. One at a time bounds the model, and loses no order of steps between daemons.
    pub held: Option<Held>,
}

impl Daemon {
    /// A process that has just started.
    pub fn new(owner: u8) -> Daemon {
        Daemon { owner, next: 0, sent: None, held: None }
    }

    /// Takes elements under a name into hand.
    pub fn hold(&mut self, name: Name, elements: Elements, history: u8) {
        let open = (elements != 0).then_some(elements);
        self.held = open.map(|open| Held { name, open, confirmed: 0, failed: 0, left: false, history, ending: false });
    }
}
