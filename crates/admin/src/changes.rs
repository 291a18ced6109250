//! Changes that operators ask for. Each runs as a task of its own: a client that goes away in the middle does not stop it half way,
//! and the log says in any case who asked for what, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Admin;
use super::access::AdminCaller;
use super::v1::errors::{problem, problem_of_change};
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::room::{MaybeNamed, who};
use delaybridge_model::role::AccessRole;
use delaybridge_ops::operation::{ChangeSubject, Operation, Scene};
use delaybridge_ops::{Error, ErrorKind, on_behalf_of};
use delaybridge_telemetry::events::admin::Change;
use delaybridge_telemetry::peer::Peer;

/// The caller who asks for a change.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The name of the token, or `local`; behind that of a person where the caller names one.
    pub name: Arc<str>,
    caller: AdminCaller,
    peer: Peer,
}

impl Asker {
    /// Of a request.
    pub fn of(call: &Call<AdminCaller>) -> Asker {
        // A route that changes something asks for a name.
        let name = call.caller.name().cloned().unwrap_or_else(|| "unknown".into());
        Asker { name, caller: call.caller.clone(), peer: call.peer }
    }

    /// Returns the same caller, who names a person: that name and the caller's own stand in the log, the audit and what
    /// was changed.
    pub fn on_behalf_of(self, person: Option<&str>) -> Asker {
        Asker { name: on_behalf_of(&self.name, person).into(), ..self }
    }
}

/// Time limit of a search, less than what clients wait for an answer.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(20);
/// Time to keep a change beside its queue: it is done, and its client waits.
const KEEP: Duration = Duration::from_secs(1);
impl Admin {
    /// Returns the surroundings of an operation of this caller.
    pub fn scene(self: &Arc<Self>, asker: &Asker) -> Scene {
        let live = self.clone();
        let name = asker.name.to_string();
        let caller = asker.caller.clone();
        let may = move |role: AccessRole, name: &str| caller.may(role, Some(name));
        Scene::in_daemon(self.reload.running(), self.session(), live, name, may)
    }

    /// Carries out an operation of this caller, and writes down what it changed.
    pub async fn operate<O: Operation>(self: &Arc<Self>, request: O, asker: Asker) -> Result<O::Answer, Problem> {
        let scene = self.scene(&asker);
        request.check(scene.config()).map_err(|error| problem(&error))?;
        let Some(subject) = request.change() else {
            if !O::SEARCHES {
                return request.run(&scene).await.map_err(|error| problem(&error));
            }
            let _turn = self.searches.take(&who(asker.peer, &asker.caller), 1, "search the queue").await?;
            return match timeout(SEARCH_TIMEOUT, request.run(&scene)).await {
                Ok(found) => found.map_err(|error| problem(&error)),
                Err(_) => {
                    let detail =
                        "search: it took more than 20 s; ask for less at once: a smaller `limit`, or one queue";
                    Err(Problem::new(ProblemKind::Unavailable, detail).retry_after(Duration::from_secs(1)))
                }
            };
        };
        let asker = asker.on_behalf_of(request.person());
        let work = async move {
            let answer = request.run(&scene).await?;
            // A change of which a part failed has failed: it may be repeated as a whole.
            O::failed(&answer).map_or(Ok(answer), |problem| {
                Err(Error { kind: ErrorKind::Failed, message: problem.replace('\n', "; ") })
            })
        };
        self.change(subject, asker, work, O::result).await
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
                of: subject.of.name(),
                which: &subject.which,
                by: &asker.name,
                peer: asker.peer,
                result: told.as_deref().map_err(String::as_str),
            });
            let session = admin.session();
            let from = asker.peer.to_string();
            let kept = subject.keep(&session, &asker.name, &from, told.as_deref().map_err(String::as_str));
            // What is not kept in time is in the log.
            let _ = timeout(KEEP, kept).await;
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
