//! Pause and resume of queues and sinks, for every daemon that serves them.

use std::sync::Arc;

use hyper::StatusCode;

use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::{Asker, ChangeSubject, SINK};
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::fields::JsonFields;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::pause::{self, PauseChanges, PauseEnd, PauseReason, PauseTarget, check_target};
use delaybridge_ops::{Error, Session};

/// A queue or a sink that is paused or resumed.
#[derive(Debug, Clone)]
pub enum PauseSubject {
    /// A queue.
    Queue(String),
    /// A sink.
    Sink(String),
}

impl PauseSubject {
    fn target(&self) -> PauseTarget<'_> {
        match self {
            PauseSubject::Queue(name) => PauseTarget::Queue(name),
            PauseSubject::Sink(name) => PauseTarget::Sink(name),
        }
    }

    fn name(&self) -> &str {
        let (PauseSubject::Queue(name) | PauseSubject::Sink(name)) = self;
        name
    }
}

/// Why, by whom, and for how long.
#[derive(Debug, Clone)]
pub struct PauseRequest {
    /// The person, if not the token's name.
    pub by: Option<String>,
    /// Why.
    pub why: Option<String>,
    /// The end of the pause.
    pub end: PauseEnd,
}

/// Pauses a queue.
pub async fn pause(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let wish = wish(&mut call).await?;
    let what = PauseSubject::Queue(call.part("queue").to_owned());
    answer(&admin.pause(what, wish, Asker::of(&call)).await?)
}

/// Pauses a sink.
pub async fn pause_sink(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let wish = wish(&mut call).await?;
    let what = PauseSubject::Sink(call.part("sink").to_owned());
    answer(&admin.pause(what, wish, Asker::of(&call)).await?)
}

/// Ends the pause of a queue.
pub async fn resume(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    answer(&admin.resume(PauseSubject::Queue(call.part("queue").to_owned()), Asker::of(&call)).await?)
}

/// Ends the pause of a sink.
pub async fn resume_sink(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    answer(&admin.resume(PauseSubject::Sink(call.part("sink").to_owned()), Asker::of(&call)).await?)
}

async fn wish(call: &mut Call<AdminCaller>) -> Result<PauseRequest, Problem> {
    let mut fields = call.read(JsonFields::parse).await?;
    let (by, why) = (fields.text("by")?, fields.text("why")?);
    let (length, until) = (fields.text("for")?, fields.number("until_ms")?);
    fields.finish()?;
    Ok(PauseRequest { by, why, end: end(length.as_deref(), until)? })
}

/// The end of a pause.
///
/// # Errors
/// Both, or what is no time.
pub fn end(length: Option<&str>, until: Option<u64>) -> Result<PauseEnd, Problem> {
    match (length, until) {
        (Some(_), Some(_)) => Err(Problem::bad("read the end of the pause: there are both `for` and `until_ms`")),
        (Some(text), None) => match pause::length(text) {
            Ok(time) => Ok(PauseEnd::After(time)),
            Err(problem) => Err(Problem::bad(format!("read `for`: {problem}"))),
        },
        (None, Some(ms)) => match pause::point(&ms.to_string()) {
            Ok(ms) => Ok(PauseEnd::At(ms)),
            Err(problem) => Err(Problem::bad(format!("read `until_ms`: {problem}"))),
        },
        (None, None) => Ok(PauseEnd::Never),
    }
}

fn answer(changes: &PauseChanges) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, changes)
}

impl Admin {
    /// Pauses something.
    ///
    /// # Errors
    /// It is not there, the wish cannot be, or Redis does not answer for one of its queues.
    pub async fn pause(
        self: &Arc<Self>,
        what: PauseSubject,
        wish: PauseRequest,
        asker: Asker,
    ) -> Result<PauseChanges, Problem> {
        let session = self.known(&what)?;
        let PauseRequest { by, why, end } = wish;
        let asker = asker.on_behalf_of(by.as_deref());
        let by = asker.name.clone();
        let why = why.unwrap_or_else(|| "no reason given".to_owned());
        let subject = subject("pause", &what);
        let work = async move {
            whole(pause::pause(&session, what.target(), &PauseReason { by: &by, why: &why, end }).await?, "pause")
        };
        self.change(subject, asker, work, PauseChanges::words).await
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// It is not there, or Redis does not answer for one of its queues.
    pub async fn resume(self: &Arc<Self>, what: PauseSubject, asker: Asker) -> Result<PauseChanges, Problem> {
        let session = self.known(&what)?;
        let subject = subject("resume", &what);
        let work = async move { whole(pause::resume(&session, what.target()).await?, "resume") };
        self.change(subject, asker, work, PauseChanges::words).await
    }

    /// The session, if there is such a queue or sink.
    fn known(&self, what: &PauseSubject) -> Result<Arc<Session>, Problem> {
        let session = self.session();
        check_target(&session.config, what.target())
            .map_err(|error| Problem::new(ProblemKind::NotFound, error.message))?;
        Ok(session)
    }
}

fn subject(what: &'static str, of: &PauseSubject) -> ChangeSubject {
    let which = if matches!(of, PauseSubject::Sink(_)) { SINK } else { "queue" };
    ChangeSubject { what, of: of.name().to_owned(), which: which.to_owned() }
}

/// A change of which a part failed has failed: it may be repeated as a whole.
fn whole(changes: PauseChanges, verb: &str) -> Result<PauseChanges, Error> {
    let failed: Vec<_> =
        changes.errors.iter().map(|error| format!("{verb} queue `{}`: {}", error.queue, error.message)).collect();
    if failed.is_empty() {
        Ok(changes)
    } else {
        Err(Error { kind: delaybridge_ops::ErrorKind::Failed, message: failed.join("; ") })
    }
}
