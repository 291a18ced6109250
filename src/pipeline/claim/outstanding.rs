//! Claims that were sent, until their replies are handled, in the order of their sending.
//!
//! While a queue has a backlog its claimer keeps two claims outstanding, so that Redis has the next when it has answered
//! one: sending, reading and taking over five hundred elements takes as long as claiming half of them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, MaybeDone, maybe_done};

use crate::clock::Instant;
use crate::link::History;
use crate::pipeline::claim::Isolation;
use crate::pipeline::gate::Probe;
use crate::pipeline::limits::reserved::Reserved;
use crate::pipeline::queue::Queue;
use crate::source::StoreError;
use crate::source::ledger::claims::{ClaimName, ClaimReply, ClaimRequest, TakeOverReply, TakeOverRequest};

/// What is asked for.
pub enum Request {
    /// What is due.
    Claim(ClaimRequest),
    /// What is in a claim with a lease that is over.
    TakeOver(TakeOverRequest),
}

/// What Redis says to it.
pub enum Reply {
    /// To a claim.
    Claim(ClaimReply),
    /// To a takeover.
    TakeOver(TakeOverReply),
}

impl Request {
    /// The name under which the elements will be.
    pub fn name(&self) -> ClaimName {
        match self {
            Request::Claim(request) => request.name,
            Request::TakeOver(request) => request.new,
        }
    }

    /// Redis time in ms after which it does nothing.
    pub fn not_after_ms(&self) -> i64 {
        match self {
            Request::Claim(request) => request.not_after_ms,
            Request::TakeOver(request) => request.not_after_ms,
        }
    }

    /// Most elements.
    pub fn most(&self) -> usize {
        match self {
            Request::Claim(request) => request.most,
            Request::TakeOver(request) => request.most,
        }
    }
}

/// A claim as it is sent.
pub struct Sending {
    /// What is asked for.
    pub request: Request,
    /// When that was; leases count from here, because the claim may run at once.
    pub sent: Instant,
    /// How long it may wait for its turn.
    pub patience: Duration,
    /// The time until which nothing was known to be due. Noted before the sending: what is seen during the claim may
    /// be what it leaves.
    pub nothing_due_ms: i64,
    /// What the elements will take.
    pub room: Reserved,
    /// What may be in flight beside them.
    pub isolation: Isolation,
    /// What one of them is to find out.
    pub probe: Option<Probe>,
    /// The history of the server, from before the sending; `None` if it could not be asked.
    pub history: Option<History>,
}

/// What became of a claim.
pub struct Answered {
    /// As it was sent.
    pub claim: Sending,
    /// What Redis says.
    pub answer: Result<Reply, StoreError>,
    /// From the sending until Redis said so.
    pub took: Duration,
}

/// The outstanding claims of one queue.
#[derive(Default)]
pub struct Outstanding(VecDeque<MaybeDone<BoxFuture<'static, Box<Answered>>>>);

impl Outstanding {
    /// Adds a claim behind the others. It is sent by the next poll of [`next`](Self::next), which sends in this order, and
    /// so one connection answers in this order too.
    pub fn push(&mut self, queue: Arc<Queue>, claim: Sending) {
        let answered = async move {
            let answer = match &claim.request {
                Request::Claim(request) => queue.store.claim(request).await.map(Reply::Claim),
                Request::TakeOver(request) => queue.store.take_over(request).await.map(Reply::TakeOver),
            };
            Box::new(Answered { took: claim.sent.elapsed(), claim, answer })
        };
        self.0.push_back(maybe_done(answered.boxed()));
    }

    /// The answer to the oldest claim; pending for ever while there is none. Cancel safe: an answer stays until it is
    /// taken. Between two polls nothing is sent and no answer is read.
    pub async fn next(&mut self) -> Box<Answered> {
        poll_fn(|cx| {
            for claim in &mut self.0 {
                // Ready or not is seen below, of the first only.
                let _ = claim.poll_unpin(cx);
            }
            match self.0.front_mut().and_then(|first| Pin::new(first).take_output()) {
                Some(answered) => {
                    self.0.pop_front();
                    Poll::Ready(answered)
                }
                None => Poll::Pending,
            }
        })
        .await
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
