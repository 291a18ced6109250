//! Says what becomes of records: the intake schedules them, refused ones go to the dead-letter topic, or hold their partition.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::KafkaInputSpec;
use super::check;
use super::consumer::{self, TakenRecords};
use super::held::RecordEnd;
use super::record::RecordPlace;
use crate::{KafkaDestination, KafkaSink, NAME};
use delaybridge_core::carried::{self, Carried};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Failure, Identity};
use delaybridge_input::{Arrival, Input, InputCheck, InputRefusal, JobIntake, Verdict};
use delaybridge_sink::{Connector, Outbound, Sink};

/// The header with the reason why a record was refused.
const REFUSED: &str = "delaybridge-refused";
/// The time-out of a record to the dead-letter topic.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct KafkaInput {
    spec: Arc<KafkaInputSpec>,
}

impl KafkaInput {
    pub(super) fn new(spec: KafkaInputSpec) -> KafkaInput {
        KafkaInput { spec: Arc::new(spec) }
    }

    fn address(&self) -> String {
        format!("topics {} at {}", self.spec.topics.join(", "), self.spec.cluster.address())
    }

    /// Decides the end of each record, in their order; `None` if `stop` came first.
    async fn decide(
        &self,
        intake: &JobIntake,
        letters: Option<&KafkaSink>,
        records: Vec<(RecordPlace, Arrival)>,
        stop: &CancellationToken,
    ) -> Option<Vec<RecordEnd>> {
        let mut ends: Vec<Option<RecordEnd>> = Vec::with_capacity(records.len());
        let mut held = HashSet::new();
        let mut taken = Vec::new();
        for (place, arrival) in records {
            let partition = (place.topic.clone(), place.partition);
            // What is behind a held record is not taken: it will come again.
            let refused = letters.is_none().then(|| intake.refuses(&arrival)).flatten();
            if held.contains(&partition) {
                ends.push(Some(RecordEnd::Behind));
            } else if let Some(refusal) = refused {
                intake.events().refused(refusal.code(), &refusal.to_string());
                held.insert(partition);
                ends.push(Some(RecordEnd::Held(refusal.to_string())));
            } else {
                ends.push(None);
                taken.push((place, arrival));
            }
        }
        let verdicts = intake.take(taken.iter().map(|(_, arrival)| arrival.clone()).collect(), stop).await?;
        let mut verdicts = taken.into_iter().zip(verdicts);
        let mut no_place = None;
        for end in ends.iter_mut().filter(|end| end.is_none()) {
            let Some(((place, arrival), verdict)) = verdicts.next() else { continue };
            *end = Some(match (verdict, letters) {
                (Verdict::Scheduled | Verdict::Duplicate, _) => RecordEnd::Done,
                (Verdict::Refused(refusal), None) => RecordEnd::Held(refusal.to_string()),
                (Verdict::Refused(refusal), Some(letters)) => {
                    let partition = (place.topic.clone(), place.partition);
                    match &no_place {
                        _ if held.contains(&partition) => RecordEnd::Behind,
                        // Each try takes its time, and other partitions wait for this batch.
                        Some(why) => {
                            held.insert(partition);
                            RecordEnd::Unburied(format!("{refusal}; {why}"))
                        }
                        None => match self.bury(letters, (&place, arrival), &refusal, stop).await? {
                            Ok(()) => RecordEnd::Done,
                            Err(why) => {
                                held.insert(partition);
                                let text = format!("{refusal}; {why}");
                                no_place = Some(why);
                                RecordEnd::Unburied(text)
                            }
                        },
                    }
                }
            });
        }
        Some(ends.into_iter().flatten().collect())
    }

    /// Writes a refused record to the dead-letter topic; the reason why it is not there. It may be all the same: then it comes again,
    /// with the same id. `None` if `stop` came first.
    async fn bury(
        &self,
        letters: &KafkaSink,
        (place, arrival): (&RecordPlace, Arrival),
        refusal: &InputRefusal,
        stop: &CancellationToken,
    ) -> Option<Result<(), String>> {
        let topic: Arc<str> = self.spec.dead_letter_topic.as_deref()?.into();
        let id = Identity::named(&place.id())?;
        let carried = as_it_came(&arrival);
        let reason = [(REFUSED.into(), refusal.code().to_owned())];
        let headers = carried.headers.iter().map(|(name, value)| (name.as_str().into(), value.clone()));
        let headers: Vec<_> = reason.into_iter().chain(headers).collect();
        let letter = Outbound {
            id,
            queue: self.spec.group.as_str().into(),
            due_ms: None,
            attempt: 1,
            now_ms: 0,
            send_before: Instant::now().after(TIMEOUT),
            destination: KafkaDestination { topic: topic.clone(), key: None }.into(),
            body: arrival.body.clone(),
            headers,
            carried: Some(Arc::new(carried)),
            mark: None,
        };
        tokio::select! {
            biased;
            written = letters.deliver(letter) => {
                Some(written.map_err(|failure| format!("topic {topic} does not take it: {failure}")))
            }
            () = stop.cancelled() => None,
        }
    }
}

/// Returns the parts of a record beside its value, with the headers that are for the input.
fn as_it_came(arrival: &Arrival) -> Carried {
    let mut carried = arrival.carried.clone();
    match &carried.record {
        Some(record) => {
            let text = |value: &Option<Bytes>| String::from_utf8(value.as_deref().unwrap_or_default().to_vec()).ok();
            let texts = record.headers.iter().filter_map(|(name, value)| Some((name.clone(), text(value)?)));
            let others = record.headers.iter().filter(|(_, value)| text(value).is_none());
            let others = others.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
            (carried.headers, carried.others) = (texts.collect(), others.collect());
        }
        None => {
            let own = [(carried::DELAY, &arrival.delay), (carried::DUE, &arrival.due), (carried::TO, &carried.to)];
            let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
            carried.headers = own.chain(carried.headers.iter().cloned()).collect();
        }
    }
    carried
}

impl Input for KafkaInput {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn run<'a>(&'a self, intake: &'a JobIntake, stop: CancellationToken) -> BoxFuture<'a, ()> {
        async move {
            let letters =
                self.spec.dead_letter_topic.is_some().then(|| KafkaSink::new(self.spec.cluster.clone(), TIMEOUT));
            // One batch waits while another is decided.
            let (sender, mut batches) = mpsc::channel::<TakenRecords>(1);
            let ended =
                consumer::start(self.spec.clone(), self.address(), intake.events().clone(), sender, stop.clone());
            while let Some(TakenRecords { records, reply }) = batches.recv().await {
                let Some(ends) = self.decide(intake, letters.as_ref(), records, &stop).await else { break };
                // The thread has ended.
                let _sent = reply.send(ends);
            }
            drop(batches);
            drop(ended.await);
            if let Some(letters) = letters {
                letters.close().await;
            }
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<InputCheck, Failure>> {
        check::check(self.spec.clone()).boxed()
    }
}
