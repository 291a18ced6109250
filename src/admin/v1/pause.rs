//! Pause and resume of queues and sinks, for every daemon that serves them.

use std::sync::Arc;

use hyper::StatusCode;

use crate::admin::Admin;
use crate::admin::access::Caller;
use crate::admin::changes::{Asker, Subject};
use crate::api::call::Call;
use crate::api::fields::Fields;
use crate::api::problem::{Kind, Problem};
use crate::api::reply::Reply;
use crate::operate::pause::{self, PauseChanges, PauseEnd, Reason, Target, check_target};
use crate::operate::{Error, Session};

/// A queue or a sink that is paused or resumed.
#[derive(Debug, Clone)]
pub enum What {
    /// A queue.
    Queue(String),
    /// A sink.
    Sink(String),
}

impl What {
    fn target(&self) -> Target<'_> {
        match self {
            What::Queue(name) => Target::Queue(name),
            What::Sink(name) => Target::Sink(name),
        }
    }

    fn name(&self) -> &str {
        let (What::Queue(name) | What::Sink(name)) = self;
        name
    }
}

/// Why, by whom, and for how long.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The person, if not the token's name.
    pub by: Option<String>,
    /// Why.
    pub why: Option<String>,
    /// The end of the pause.
    pub end: PauseEnd,
}

/// Pauses a queue.
pub async fn pause(admin: Arc<Admin>, mut call: Call<Caller>) -> Result<Reply, Problem> {
    let wish = wish(&mut call).await?;
    let what = What::Queue(call.part("queue").to_owned());
    answer(&admin.pause(what, wish, Asker::of(&call)).await?)
}

/// Pauses a sink.
pub async fn pause_sink(admin: Arc<Admin>, mut call: Call<Caller>) -> Result<Reply, Problem> {
    let wish = wish(&mut call).await?;
    let what = What::Sink(call.part("sink").to_owned());
    answer(&admin.pause(what, wish, Asker::of(&call)).await?)
}

/// Ends the pause of a queue.
pub async fn resume(admin: Arc<Admin>, call: Call<Caller>) -> Result<Reply, Problem> {
    answer(&admin.resume(What::Queue(call.part("queue").to_owned()), Asker::of(&call)).await?)
}

/// Ends the pause of a sink.
pub async fn resume_sink(admin: Arc<Admin>, call: Call<Caller>) -> Result<Reply, Problem> {
    answer(&admin.resume(What::Sink(call.part("sink").to_owned()), Asker::of(&call)).await?)
}

async fn wish(call: &mut Call<Caller>) -> Result<Wish, Problem> {
    let mut fields = call.read(Fields::parse).await?;
    let (by, why) = (fields.text("by")?, fields.text("why")?);
    let (length, until) = (fields.text("for")?, fields.number("until_ms")?);
    fields.finish()?;
    Ok(Wish { by, why, end: end(length.as_deref(), until)? })
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
    pub async fn pause(self: &Arc<Self>, what: What, wish: Wish, asker: Asker) -> Result<PauseChanges, Problem> {
        let session = self.known(&what)?;
        let Wish { by, why, end } = wish;
        let by = asker.on_behalf_of(by.as_deref());
        let why = why.unwrap_or_else(|| "no reason given".to_owned());
        let subject = subject("pause", &what);
        let work = async move {
            whole(pause::pause(&session, what.target(), &Reason { by: &by, why: &why, end }).await?, "pause")
        };
        self.change(subject, asker, work, |_| "paused".to_owned()).await
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// It is not there, or Redis does not answer for one of its queues.
    pub async fn resume(self: &Arc<Self>, what: What, asker: Asker) -> Result<PauseChanges, Problem> {
        let session = self.known(&what)?;
        let subject = subject("resume", &what);
        let work = async move { whole(pause::resume(&session, what.target()).await?, "resume") };
        self.change(subject, asker, work, |_| "resumed".to_owned()).await
    }

    /// The session, if there is such a queue or sink.
    fn known(&self, what: &What) -> Result<Arc<Session>, Problem> {
        let session = self.session();
        check_target(&session.config, what.target()).map_err(|error| Problem::new(Kind::NotFound, error.message))?;
        Ok(session)
    }
}

fn subject(what: &'static str, of: &What) -> Subject {
    let which = if matches!(of, What::Sink(_)) { "sink" } else { "queue" };
    Subject { what, of: of.name().to_owned(), which: which.to_owned() }
}

/// A change of which a part failed has failed: it may be repeated as a whole.
fn whole(changes: PauseChanges, verb: &str) -> Result<PauseChanges, Error> {
    let failed: Vec<_> =
        changes.errors.iter().map(|error| format!("{verb} queue `{}`: {}", error.queue, error.message)).collect();
    if failed.is_empty() {
        Ok(changes)
    } else {
        Err(Error { kind: crate::operate::Kind::Failed, message: failed.join("; ") })
    }
}
