//! Claims that were sent, until their replies are handled, in the order of their sending.
//!
//! While a queue has a backlog its claimer keeps two claims outstanding, so that Redis has the next when it has answered
//! one: sending, reading and taking over five hundred elements takes as long as claiming half of them.
//!
//! Only one claim is outstanding for an element that must be alone, for a probe, and after a lost claim.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, MaybeDone, maybe_done};

use crate::claim::isolation::Isolation;
use crate::gate::GateProbe;
use crate::leases::Forgotten;
use crate::limits::reserved::RoomReserved;
use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest, TakeOverReply, TakeOverRequest};
use delaybridge_link::History;

/// The call that is sent.
pub enum ClaimCall {
    /// Claims what is due. Boxed, as the other: it is moved from future to future, each of which has room for it.
    Claim(Box<ClaimRequest>),
    /// Takes over a claim with an expired lease.
    TakeOver(Box<TakeOverRequest>),
}

/// The reply of Redis to a call.
pub enum ClaimReplied {
    /// To a claim.
    Claim(ClaimReply),
    /// To a takeover.
    TakeOver(TakeOverReply),
}

impl ClaimCall {
    /// Returns the name under which the elements will be.
    pub fn name(&self) -> ClaimName {
        match self {
            ClaimCall::Claim(request) => request.name,
            ClaimCall::TakeOver(request) => request.new,
        }
    }

    /// Returns the claim as it is to be looked for by its name. Nothing of it was delivered under that name.
    pub fn forget(&self) -> Forgotten {
        let (name, lease) = match self {
            ClaimCall::Claim(request) => (request.name, request.lease),
            ClaimCall::TakeOver(request) => (request.new, request.lease),
        };
        Forgotten { name, not_after_ms: self.not_after_ms(), lease, may_repeat: name.expiries > 0 }
    }

    /// Returns the Redis time in ms after which it does nothing.
    pub fn not_after_ms(&self) -> i64 {
        match self {
            ClaimCall::Claim(request) => request.not_after_ms,
            ClaimCall::TakeOver(request) => request.not_after_ms,
        }
    }

    /// Returns the Redis time in ms before which it also claims what has gone back, while claims wait to be taken over.
    pub fn back_before_ms(&self) -> Option<i64> {
        match self {
            ClaimCall::Claim(request) => request.back_before_ms,
            ClaimCall::TakeOver(_) => None,
        }
    }

    /// Returns the greatest number of elements that the call may take.
    pub fn most(&self) -> usize {
        match self {
            ClaimCall::Claim(request) => request.most,
            ClaimCall::TakeOver(request) => request.most,
        }
    }
}

/// A claim as it is sent.
pub struct PendingClaim {
    /// The call that is sent.
    pub request: ClaimCall,
    /// The time of its sending; leases count from here, because the claim may run at once.
    pub sent: Instant,
    /// The time that it may wait for its turn.
    pub patience: Duration,
    /// The time until which nothing was known to be due. Noted before the sending: what is seen during the claim may
    /// be what it leaves.
    pub nothing_due_ms: i64,
    /// The room of its elements.
    pub room: RoomReserved,
    /// The guard of its elements.
    pub isolation: Isolation,
    /// The probe that its first element is.
    pub probe: Option<GateProbe>,
    /// The history of the server, from before the sending; `None` if it could not be asked.
    pub history: Option<History>,
}

/// A claim with its answer.
pub struct ClaimAnswer {
    /// As it was sent.
    pub claim: PendingClaim,
    /// The answer of Redis.
    pub answer: Result<ClaimReplied, StoreError>,
    /// From the sending until Redis said so.
    pub took: Duration,
}

/// The outstanding claims of one queue.
#[derive(Default)]
pub struct OutstandingClaims(VecDeque<OutstandingClaim>);

struct OutstandingClaim {
    /// The claim for the queue that looks for it, if its answer is not waited for.
    forgotten: Forgotten,
    answered: MaybeDone<BoxFuture<'static, Box<ClaimAnswer>>>,
}

impl OutstandingClaims {
    /// Adds a claim behind the others. It is sent by the next poll of [`next`](Self::next), which sends in this order,
    /// and so one connection answers in this order too.
    pub fn push(&mut self, queue: Arc<Queue>, claim: PendingClaim) {
        let forgotten = claim.request.forget();
        let answered = async move {
            let answer = match &claim.request {
                ClaimCall::Claim(request) => queue.store.claim(request).await.map(ClaimReplied::Claim),
                ClaimCall::TakeOver(request) => queue.store.take_over(request).await.map(ClaimReplied::TakeOver),
            };
            Box::new(ClaimAnswer { took: claim.sent.elapsed(), claim, answer })
        };
        self.0.push_back(OutstandingClaim { forgotten, answered: maybe_done(answered.boxed()) });
    }

    /// Waits for the answer to the oldest claim; pending for ever while there is none. Cancel safe: an answer stays
    /// until it is taken. Between two polls nothing is sent and no answer is read.
    pub async fn next(&mut self) -> Box<ClaimAnswer> {
        poll_fn(|cx| {
            for claim in &mut self.0 {
                // Ready or not is seen below, of the first only.
                let _ = claim.answered.poll_unpin(cx);
            }
            match self.0.front_mut().and_then(|first| Pin::new(&mut first.answered).take_output()) {
                Some(answered) => {
                    self.0.pop_front();
                    Poll::Ready(answered)
                }
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Abandons all answers and returns the claims, to be found by their names.
    pub fn give_up(&mut self) -> impl Iterator<Item = Forgotten> {
        self.0.drain(..).map(|outstanding| outstanding.forgotten)
    }

    /// Returns the number of outstanding claims.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
