//! Gathers the elements that are to be looked for: one search reads a partition for all of them. While it runs, others wait
//! for the next, which reads only what this one has not.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::look::{RecordSearch, SearchMemory};
use super::search::{Asked, Wanted};
use super::{producer, record};
use crate::tokens::LoginTokens;
use crate::{KafkaDestination, KafkaSpec, NAME};
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{Destination, Lookup, Outbound};

/// The searches of a sink.
#[derive(Debug)]
pub(super) struct KafkaLookup {
    spec: Arc<KafkaSpec>,
    timeout: Duration,
    tokens: Option<Arc<LoginTokens>>,
    waiting: Arc<LookupQueue>,
}

/// The elements that wait for the next search.
#[derive(Debug, Default)]
struct LookupQueue {
    state: Mutex<LookupState>,
    /// Notified when an element is added.
    more: Notify,
}

#[derive(Debug, Default)]
struct LookupState {
    asked: Vec<Asked>,
    /// Whether a task searches.
    is_searching: bool,
    /// The records that the searches so far have left, while none runs.
    memory: SearchMemory,
}

/// The time for which a consumer is kept after a search: one that is connected answers in milliseconds.
const IDLE: Duration = Duration::from_secs(10);

impl KafkaLookup {
    pub(super) fn new(spec: Arc<KafkaSpec>, timeout: Duration, tokens: Option<Arc<LoginTokens>>) -> KafkaLookup {
        KafkaLookup { spec, timeout, tokens, waiting: Arc::default() }
    }

    /// Builds the search for an element.
    fn wanted(&self, message: &Outbound) -> Result<Wanted, Failure> {
        let KafkaDestination { topic, key } = message.destination.of_kind(NAME)?;
        let mark = message.mark.clone().ok_or_else(|| failure("an element without a mark"))?;
        let key = record::key(message, key.as_deref()).map(<[u8]>::to_vec);
        Ok(Wanted::new(topic.clone(), key, mark, message.now_ms, self.timeout))
    }

    fn ask(&self, wanted: Wanted) -> oneshot::Receiver<Result<bool, Failure>> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.waiting.state.lock();
        state.asked.push((wanted, reply));
        self.waiting.more.notify_one();
        if !std::mem::replace(&mut state.is_searching, true) {
            let search = RecordSearch { spec: self.spec.clone(), timeout: self.timeout, tokens: self.tokens.clone() };
            tokio::spawn(search_all(search, self.waiting.clone()));
        }
        answer
    }
}

impl Lookup for KafkaLookup {
    fn look<'a>(&'a self, suspects: &'a [Outbound]) -> BoxFuture<'a, Vec<Result<bool, Failure>>> {
        let asked = suspects.iter().map(|message| {
            let asked = self.wanted(message).map(|wanted| self.ask(wanted));
            async move { asked?.await.unwrap_or_else(|_gone| Err(failure("the search ended without an answer"))) }
        });
        join_all(asked.collect::<Vec<_>>()).boxed()
    }

    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<(), Failure>> {
        let search = RecordSearch { spec: self.spec.clone(), timeout: self.timeout, tokens: self.tokens.clone() };
        async move {
            let topics = destinations.iter().map(|to| to.of_kind::<KafkaDestination>(NAME).map(|to| to.topic.clone()));
            let topics = topics.collect::<Result<Vec<_>, _>>()?;
            let read = producer::blocking(move || search.check(&topics)).await;
            read.unwrap_or_else(|| Err(failure("no thread to read from")))
        }
        .boxed()
    }
}

/// Searches for all that wait, and ends when none has waited for a while.
async fn search_all(search: RecordSearch, waiting: Arc<LookupQueue>) {
    let mut reader = None;
    loop {
        // Those that have given up meanwhile are not looked for.
        let mut asked = std::mem::take(&mut waiting.state.lock().asked);
        asked.retain(|(_, reply)| !reply.is_closed());
        if asked.is_empty() {
            if tokio::time::timeout(IDLE, waiting.more.notified()).await.is_ok() {
                continue;
            }
            let mut state = waiting.state.lock();
            if state.asked.is_empty() {
                state.is_searching = false;
                break;
            }
            continue;
        }
        let run = search.clone();
        let mut kept = reader.take();
        let mut memory = std::mem::take(&mut waiting.state.lock().memory);
        let searched = producer::blocking(move || {
            run.run(&mut kept, &mut memory, asked);
            (kept, memory)
        });
        // Without a thread, or after a panic in it, the replies are dropped, and each caller learns that.
        let Some((kept, memory)) = searched.await else { continue };
        reader = kept;
        waiting.state.lock().memory = memory;
    }
    // Its end waits for the threads of the client.
    producer::blocking(move || drop(reader)).await;
}

fn failure(what: &str) -> Failure {
    Failure::new(Class::Unknown, "look", format!("look for a record: {what}"))
}
