//! Operations of operators, each defined once.
//!
//! A type that implements [`Operation`] is at the same time the arguments of a command, the query or body of a route of the admin API, and
//! its schema. It says where it is reached ([`Route`]), how it runs, what it answers, and how that reads for a person. A command calls it at
//! a [`Place`]: here, on Redis, or in a daemon, which finds the same type behind the route and runs the same code.

mod fields;
mod need;
mod place;
mod record;
mod scene;

use std::fmt::Debug;

use bytes::Bytes;
use clap::Args;
use hyper::Method;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::fields::RequestFields;
pub use self::need::Need;
pub use self::place::{Place, whole};
pub use self::record::{ChangeSubject, ChangeTarget};
pub use self::scene::{Input, LiveState, OperatorAct, Scene};
use super::error::Error;
use super::progress::Progress;
use super::session::find;
use delaybridge_core::codes::Code;
use delaybridge_model::Config;

/// Finds cause and cure of a code.
pub type Explain = fn(&str) -> Option<Code>;

/// A way to an operation in the admin API.
#[derive(Debug, Clone)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path; `{names}` are fields of the request.
    pub path: &'static str,
    /// The name in the OpenAPI document.
    pub name: &'static str,
    /// The label in metrics.
    pub label: &'static str,
    /// The right that a caller needs.
    pub need: Need,
    /// A line about it.
    pub summary: &'static str,
    /// Further sentences.
    pub about: &'static str,
    /// The answer, in words.
    pub answer: &'static str,
}

/// Makes a [`Route`]: method, path, name and need, then the summary, the answer in words, and further sentences if there are any.
macro_rules! route {
    ($method:ident $path:literal $name:ident $need:ident, $summary:literal => $answer:literal $(, $about:literal)?) => {
        $crate::operation::Route {
            method: hyper::Method::$method,
            path: $path,
            name: stringify!($name),
            label: concat!("admin_", stringify!($name)),
            need: $crate::operation::Need::$need,
            summary: $summary,
            about: concat!($($about)?),
            answer: $answer,
        }
    };
}
pub(crate) use route;

/// Most lines of a body.
pub const LINES: usize = 100;

/// Whether an operation that runs on Redis asks the daemon that the configuration names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskDaemon {
    /// No: Redis knows everything.
    Never,
    /// Yes.
    Always,
    /// Yes, if there is a token where the daemon wants one.
    WithToken,
}

/// An operation of an operator: defined once, and run by a daemon and by the command line alike.
pub trait Operation: Args + Clone + Debug + Send + Sync + 'static {
    /// The answer.
    type Answer: Serialize + Send + 'static;

    /// The name of the command, and in the audit.
    const NAME: &'static str;

    /// The ways to it in the admin API; none where it is a command on Redis alone. A client takes the first whose `{names}` the request
    /// has.
    const ROUTES: &'static [Route] = &[];

    /// Whether the daemon that the configuration names is asked, because it knows more than Redis.
    const DAEMON: AskDaemon = AskDaemon::Never;

    /// Whether it reads so much of a queue that a daemon bounds how many run at once, and for how long.
    const SEARCHES: bool = false;

    /// Whether it may take so long that the person who waits sees how far it is, and may end it.
    const LONG: bool = Self::SEARCHES;

    /// Whether the body of a request is lines, and its other fields are the query. Sent twice, it does no harm.
    const HAS_LINES: bool = false;

    /// Returns the queue that it is about.
    fn queue(&self) -> Option<&str> {
        None
    }

    /// Returns the right that this request needs beyond that of its route.
    fn need(&self) -> Option<Need> {
        None
    }

    /// Refuses what the configuration does not have, without Redis: a queue, unless the operation says otherwise.
    ///
    /// # Errors
    ///
    /// The mistake in the request.
    fn check(&self, config: &Config) -> Result<(), Error> {
        self.queue().map_or(Ok(()), |queue| find(config, queue).map(drop))
    }

    /// Carries it out.
    ///
    /// # Errors
    ///
    /// The reason why it failed. Where that says so, a part of it may have been done.
    fn run(&self, scene: &Scene) -> impl Future<Output = Result<Self::Answer, Error>> + Send;

    /// Returns the answer of a command for a person; `explain` has cause and cure of a code.
    fn text(&self, _answer: &Self::Answer, _explain: Explain) -> String {
        String::new()
    }

    /// Returns the part that failed, of an answer that has such parts.
    fn failed(_answer: &Self::Answer) -> Option<String> {
        None
    }

    /// Returns the part of the request that is not done: a command prints it behind its answer, and ends with 1.
    fn missed(answer: &Self::Answer) -> Option<String> {
        Self::failed(answer)
    }

    /// Returns the exit code of a command with this answer.
    fn exit_code(_answer: &Self::Answer) -> u8 {
        0
    }

    /// Returns the change, for the audit; none of what only reads.
    fn change(&self) -> Option<ChangeSubject> {
        None
    }

    /// Returns the result of the change, for the audit. No payload.
    fn result(_answer: &Self::Answer) -> String {
        String::new()
    }

    /// Returns the part of it that one request asks for.
    fn portion(&self) -> Self {
        self.clone()
    }

    /// Returns the request for what this answer left out; none if that is nothing.
    fn rest(&self, _answer: &Self::Answer) -> Option<Self> {
        None
    }

    /// Adds the answer to the rest.
    fn add_rest(_all: &mut Self::Answer, _rest: Self::Answer) {}

    /// Returns the changes a second that the portions together may make, at most.
    fn rate(&self) -> Option<f64> {
        None
    }

    /// Returns the lines of the body.
    fn lines(&mut self) -> Option<&mut Vec<Bytes>> {
        None
    }

    /// Returns the names that standard input has, if `-` is among the arguments.
    fn names(&mut self) -> Option<&mut Vec<String>> {
        None
    }

    /// Returns the answer to a request that asks for nothing.
    fn nothing(&self) -> Option<Self::Answer> {
        None
    }

    /// Refuses what a person has not confirmed; `terminal` says whether one is at a terminal.
    ///
    /// # Errors
    ///
    /// The way to confirm it.
    fn confirm(&self, _terminal: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Makes the answer to the whole of the answers to its portions; `stopped` says whether a person ended it before.
    fn end(_all: &mut Self::Answer, _stopped: bool) {}

    /// Returns the progress of an operation with this answer so far.
    fn progress(&self, _answer: &Self::Answer) -> Progress {
        Progress::default()
    }

    /// The person whom the request names.
    fn person(&self) -> Option<&str> {
        None
    }

    /// Names the person where the request names none.
    fn name_person(&mut self, _person: String) {}
}

/// An operation that a daemon carries out as well: its request and its answer are sent as JSON.
pub trait Remote: Operation<Answer: DeserializeOwned + JsonSchema> + Serialize + DeserializeOwned + JsonSchema {}

impl<O> Remote for O where
    O: Operation<Answer: DeserializeOwned + JsonSchema> + Serialize + DeserializeOwned + JsonSchema
{
}
