//! The producer in use: made at its first use, and replaced after a fatal error or when it knows too many topics.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::producer::{Defect, Producer, blocking};
use super::settings::ProducerPurpose;
use crate::KafkaSpec;
use crate::tokens::LoginTokens;
use delaybridge_core::message::{Class, Failure};
use parking_lot::{Mutex, MutexGuard};

type Made = Result<Arc<Producer>, Failure>;
type Making = Shared<BoxFuture<'static, Made>>;

/// Holds at most one producer for a purpose.
pub(super) struct Slot {
    spec: Arc<KafkaSpec>,
    timeout: Duration,
    purpose: ProducerPurpose,
    defect: Defect,
    tokens: Option<Arc<LoginTokens>>,
    state: Mutex<SlotState>,
}

enum SlotState {
    Empty,
    Making(Making),
    Ready(Arc<Producer>),
    Closed,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

impl Slot {
    pub(super) fn new(
        spec: Arc<KafkaSpec>,
        timeout: Duration,
        purpose: ProducerPurpose,
        defect: Defect,
        tokens: Option<Arc<LoginTokens>>,
    ) -> Slot {
        Slot { spec, timeout, purpose, defect, tokens, state: Mutex::new(SlotState::Empty) }
    }

    /// Makes the producer now, so that the first elements need not wait for each other. A failure is reported by
    /// [`get`](Slot::get). One that would wait for a token is made when it is needed.
    pub(super) fn warmed(self) -> Slot {
        if self.tokens.is_none()
            && let Ok(producer) = Producer::start(&self.spec, self.timeout, self.purpose, self.defect.clone(), None)
        {
            *self.state() = SlotState::Ready(Arc::new(producer));
        }
        self
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock()
    }

    pub(super) fn ready(&self) -> Option<Arc<Producer>> {
        match &*self.state() {
            SlotState::Ready(producer) if !producer.is_over() => Some(producer.clone()),
            _ => None,
        }
    }

    /// Returns the producer, which is made if necessary. Many callers at once make one.
    pub(super) async fn get(&self) -> Result<Arc<Producer>, Failure> {
        let making = {
            let mut state = self.state();
            match &*state {
                SlotState::Ready(producer) if !producer.is_over() => return Ok(producer.clone()),
                SlotState::Making(making) => making.clone(),
                SlotState::Closed => return Err(closed()),
                SlotState::Empty | SlotState::Ready(_) => {
                    let making = self.make();
                    *state = SlotState::Making(making.clone());
                    making
                }
            }
        };
        let made = making.clone().await;
        let mut state = self.state();
        if matches!(&*state, SlotState::Making(current) if current.ptr_eq(&making)) {
            *state = made.as_ref().map_or(SlotState::Empty, |producer| SlotState::Ready(producer.clone()));
        }
        made
    }

    /// Begins to make the producer, if there is none.
    pub(super) fn prepare(&self) {
        let mut state = self.state();
        if matches!(&*state, SlotState::Empty) {
            *state = SlotState::Making(self.make());
        }
    }

    /// Drops the producer if it is over, with its threads and connections: the next one may be needed much later.
    pub(super) fn drop_ended(&self) {
        let mut state = self.state();
        if matches!(&*state, SlotState::Ready(producer) if producer.is_over()) {
            *state = SlotState::Empty;
        }
    }

    /// Takes the producer out; there will be no other.
    pub(super) fn close(&self) -> Option<Arc<Producer>> {
        match std::mem::replace(&mut *self.state(), SlotState::Closed) {
            SlotState::Ready(producer) => Some(producer),
            SlotState::Making(_) | SlotState::Empty | SlotState::Closed => None,
        }
    }

    /// Returns whether there is no producer.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        matches!(&*self.state(), SlotState::Empty)
    }

    /// Returns whether a producer is being made.
    #[cfg(test)]
    pub(super) fn is_making(&self) -> bool {
        matches!(&*self.state(), SlotState::Making(_))
    }

    /// Begins to make a producer.
    fn make(&self) -> Making {
        let spec = self.spec.clone();
        let timeout = self.timeout;
        let purpose = self.purpose;
        let defect = self.defect.clone();
        let tokens = self.tokens.clone();
        let start = move || Producer::start(&spec, timeout, purpose, defect, tokens.as_ref()).map(Arc::new);
        let started = blocking(start);
        let made = async move {
            started.await.unwrap_or_else(|| {
                Err(Failure::new(Class::Transient, "client_creation", "start a Kafka producer: no thread to do it"))
            })
        };
        made.boxed().shared()
    }
}

/// Builds the failure of what comes after the close.
pub(super) fn closed() -> Failure {
    Failure::new(Class::Transient, "closed", "send to Kafka: the sink is closed")
}
