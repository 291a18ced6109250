//! The fake passes the contract too, and does as its script says.

use std::sync::Arc;

use super::*;
use crate::sink::{IMPATIENT, ReceivedMessage, Rig, anywhere, outbound};
use crate::sink_contract_tests;
use delaybridge_sink::{Destination, HeaderRules, header_rules};

struct FakeRig(Arc<FakeSink>);

impl FakeRig {
    fn new() -> FakeRig {
        FakeRig(Arc::new(FakeSink::new(IMPATIENT)))
    }
}

impl Rig for FakeRig {
    async fn sink(&self, _timeout: Duration) -> Arc<dyn Sink> {
        self.0.clone()
    }

    fn destination(&self) -> Destination {
        anywhere()
    }

    fn refusing(&self) -> Destination {
        let failure = Failure::new(Class::MessagePermanent, "refused", "as scripted");
        self.0.on_id(MessageId(50_u64.to_be_bytes()), [Step::Fail(failure)]);
        anywhere()
    }

    fn foreign(&self) -> Option<Destination> {
        None
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        self.0.taken().into_iter().map(|message| message.body.to_vec()).collect()
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::STDOUT
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let texts = |headers: Vec<(Arc<str>, String)>| {
            headers.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
        };
        self.0.taken().into_iter().map(|message| (message.body.to_vec(), texts(message.headers))).collect()
    }

    async fn outage(&mut self) {
        self.0.outage(Some(Failure::new(Class::Transient, "outage", "as scripted")));
    }

    async fn recover(&mut self) {
        self.0.outage(None);
    }

    async fn stall(&mut self) {
        self.0.stall(true);
    }

    async fn resume(&mut self) {
        self.0.stall(false);
    }
}

mod contract {
    use super::*;

    sink_contract_tests!(FakeRig::new());
}

#[tokio::test(start_paused = true)]
async fn the_script_is_followed_and_recorded() {
    let sink = FakeSink::new(IMPATIENT);
    let failure = Failure::new(Class::Transient, "busy", "as scripted");
    let message = outbound(7, anywhere(), "x");
    sink.on_id(message.id.id, [Step::Fail(failure.clone()), Step::Confirm]);
    sink.on_call([Step::FailAfterTaking(failure.clone()), Step::Hang]);
    let other = outbound(8, anywhere(), "y");
    assert_eq!(sink.deliver(message.clone()).await, Err(failure.clone()));
    assert_eq!(sink.deliver(other.clone()).await, Err(failure));
    assert_eq!(sink.deliver(message.clone()).await, Ok(()));
    assert_eq!(sink.deliver(other.clone()).await.unwrap_err().class, Class::Ambiguous);
    assert_eq!(sink.deliver(other).await, Ok(()));
    assert_eq!(sink.attempts().len(), 5);
    let taken: Vec<_> = sink.taken().iter().map(|message| u64::from_be_bytes(message.id.id.0)).collect();
    assert_eq!(taken, [8, 7, 8, 8]);
}
