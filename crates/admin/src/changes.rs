//! Changes that operators ask for. Each runs as a task of its own: a client that goes away in the middle does not stop it half way,
//! and the log says in any case who asked for what, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use super::Admin;
use super::access::AdminCaller;
use super::v1::errors::problem_of_change;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::room::MaybeNamed;
use delaybridge_model::QueueSpec;
use delaybridge_ops::{Error, OperatorNote, on_behalf_of};
use delaybridge_telemetry::events::admin::Change;
use delaybridge_telemetry::peer::Peer;

/// The part of a sink that is changed: all of it.
pub const SINK: &str = "sink";

/// The subject of a change, for the log.
#[derive(Debug, Clone)]
pub struct ChangeSubject {
    /// The endpoint's name.
    pub what: &'static str,
    /// The queue or sink.
    pub of: String,
    /// The part that is changed: an id, a filter. No payload.
    pub which: String,
}

/// The caller who asks for a change.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The name of the token, or `local`; behind that of a person where the caller names one.
    pub name: Arc<str>,
    peer: Peer,
}

impl Asker {
    /// Of a request that may change something.
    pub fn of(call: &Call<AdminCaller>) -> Asker {
        // The route asks for a name, so that there is one.
        Asker { name: call.caller.name().cloned().unwrap_or_else(|| "unknown".into()), peer: call.peer }
    }

    /// The same caller, who names a person: that name and the caller's own stand in the log, the audit and what was changed.
    pub fn on_behalf_of(self, person: Option<&str>) -> Asker {
        Asker { name: on_behalf_of(&self.name, person).into(), ..self }
    }
}

/// Time to keep a change beside its queue: it is done, and its client waits.
const KEEP: Duration = Duration::from_secs(1);
/// Most queues of a sink beside which its pause is kept.
const QUEUES: usize = 100;

impl Admin {
    /// Keeps a change beside the queue that it is about, or beside those that deliver to the sink.
    async fn keep_beside(&self, subject: &ChangeSubject, asker: &Asker, outcome: Result<&str, &str>) {
        let session = self.session();
        let (of, is_sink) = (subject.of.as_str(), subject.which == SINK);
        let concerns = |spec: &&Arc<QueueSpec>| match is_sink {
            true => spec.routes().any(|route| *route.sink == *of),
            false => *spec.id == *of,
        };
        let which = if is_sink { format!("sink {of}") } else { subject.which.clone() };
        let note = OperatorNote::of(subject.what, &which, &asker.name, outcome);
        let from = asker.peer.to_string();
        let kept = async {
            for spec in session.config.queues.iter().filter(concerns).take(QUEUES) {
                if let Ok(queue) = session.queue(spec.clone()).await {
                    queue.keep_change(&note, &from).await;
                }
            }
        };
        // What is not kept in time is in the log.
        let _ = tokio::time::timeout(KEEP, kept).await;
    }

    /// Carries out a change and writes it down; `words` says what came of it.
    ///
    /// # Errors
    /// Those of the change. What had no answer may have been done.
    pub async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        subject: ChangeSubject,
        asker: Asker,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
        words: impl FnOnce(&T) -> String + Send + 'static,
    ) -> Result<T, Problem> {
        let admin = self.clone();
        let task = async move {
            let result = work.await;
            let told = result.as_ref().map(words).map_err(|error| error.message.clone());
            admin.events.changed(&Change {
                what: subject.what,
                of: &subject.of,
                which: &subject.which,
                by: &asker.name,
                peer: asker.peer,
                result: told.as_deref().map_err(String::as_str),
            });
            admin.keep_beside(&subject, &asker, told.as_deref().map_err(String::as_str)).await;
            admin.cache.forget();
            result
        };
        if self.changes.is_closed() {
            return Err(Problem::new(
                ProblemKind::Stopping,
                "change something: the daemon is stopping; nothing was done",
            ));
        }
        match self.changes.spawn(task).await {
            Ok(result) => result.map_err(|error| problem_of_change(&error)),
            Err(_) => Err(Problem::new(
                ProblemKind::OutcomeUnknown,
                "change something: it ended in the middle, by a defect of this program; look, and repeat it if that is needed",
            )),
        }
    }
}
