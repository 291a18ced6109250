//! `run-now`, `reschedule`, `cancel` and `kill`: one element by its id.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NO_REASON, known_element, no_reason, one_line};
use crate::element::{ActOutcome, Action, NewState, Wanted, When, act};
use crate::error::Error;
use crate::operation::{ChangeSubject, ChangeTarget, Explain, Operation, Route, Scene, route};
use crate::peek::PeekState;
use crate::session::Queue;
use crate::show;
use crate::time::{Length, Moment};
use delaybridge_model::Config;

/// Make an element due now.
///
/// One that is scheduled falls due now, one that waits for a retry is tried now, a dead letter is redriven. One that is
/// due already stays as it is. An element in flight is not touched. Without --due the server searches the whole queue, which takes a
/// while where millions are scheduled.
///
/// scheduled | retry | dead -> due now
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = RUN_NOW)]
#[serde(deny_unknown_fields)]
pub struct RunNow {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// The element's id, as `peek` shows it; of a dead letter its stream id (1795251632252-0) too
    #[arg(value_name = "ID")]
    #[schemars(skip)]
    pub id: String,
    /// The due time of the element, if it is known: it is found there at once, unless more than 20,000 are due then
    #[arg(long, value_name = "TIME")]
    #[serde(rename = "due_ms", default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
}

/// Give an element another time.
///
/// One that is scheduled falls due then; Redisson's clients see it too. One that waits for a retry is tried then, and keeps its
/// attempts. A dead letter is redriven, due then. An element in flight is not touched. In a source with scores of whole seconds
/// the time is rounded down.
///
/// scheduled | retry | dead -> scheduled | retry, due then
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = RESCHEDULE)]
#[serde(deny_unknown_fields)]
pub struct Reschedule {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// The element's id, as `peek` shows it; of a dead letter its stream id (1795251632252-0) too
    #[arg(value_name = "ID")]
    #[schemars(skip)]
    pub id: String,
    /// The due time of the element, if it is known: it is found there at once, unless more than 20,000 are due then
    #[arg(long, value_name = "TIME")]
    #[serde(rename = "due_ms", default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
    /// Time from now, as 2h 30m
    #[arg(long = "in", value_name = "DURATION", required_unless_present = "at")]
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub after: Option<Length>,
    /// New time, by the clock of Redis: 2027-01-31T09:00:00Z, or milliseconds since 1970
    #[arg(long, value_name = "TIME", conflicts_with = "after")]
    #[serde(rename = "at_ms", skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,
}

/// Remove an element that is scheduled, waits for a retry or is dead.
///
/// It is removed permanently, from the source's structures too. An element in flight belongs to the daemon that claimed it,
/// and is not cancelled. Without --due the server searches the whole queue, which takes a while where millions are scheduled.
///
/// scheduled | retry | dead -> gone
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = CANCEL)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// The element's id, as `peek` shows it; of a dead letter its stream id (1795251632252-0) too
    #[arg(value_name = "ID")]
    #[schemars(skip)]
    pub id: String,
    /// The due time of the element, if it is known: it is found there at once, unless more than 20,000 are due then
    #[arg(long, value_name = "TIME")]
    #[serde(rename = "due_ms", default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
}

/// Make a dead letter of an element.
///
/// It is kept with its bytes and its history, and not delivered until it is redriven. The reason of the letter is `killed`. Of
/// its failed attempts the letter has the number and the last; over a daemon, those that this daemon saw too. An element in
/// flight is not touched.
///
/// scheduled | retry -> dead
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = KILL)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = []))]
pub struct Kill {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// The element's id, as `peek` shows it
    #[arg(value_name = "ID")]
    #[schemars(skip)]
    pub id: String,
    /// The due time of the element, if it is known: it is found there at once, unless more than 20,000 are due then
    #[arg(long, value_name = "TIME")]
    #[serde(rename = "due_ms", default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
    /// Why, for everybody who meets the letter; it is kept with it
    #[arg(long, alias = "reason", value_name = "TEXT", default_value = NO_REASON)]
    #[serde(default = "no_reason")]
    pub why: String,
    /// Name of the person who kills it [default: the user who runs the command, or the owner of the token]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

const RUN_NOW: &str = "\
Example:
  delaybridge run-now order_timeout 52414e444f4d3842

Exit codes: 0 it is due, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

const RESCHEDULE: &str = "\
Examples:
  delaybridge reschedule order_timeout 52414e444f4d3842 --in 5m
  delaybridge reschedule order_timeout 52414e444f4d3842 --at 2027-01-31T09:00:00Z

Exit codes: 0 it has that time, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

const CANCEL: &str = "\
Example:
  delaybridge cancel order_timeout 52414e444f4d3842

Exit codes: 0 cancelled, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

const KILL: &str = "\
Example:
  delaybridge kill order_timeout 52414e444f4d3842 --why 'customer 7 was deleted'

Exit codes: 0 it is a dead letter, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

/// Implements what is common to the changes of an element.
macro_rules! changes_an_element {
    () => {
        type Answer = ActOutcome;

        const LONG: bool = true;

        fn queue(&self) -> Option<&str> {
            Some(&self.queue)
        }

        fn text(&self, acted: &ActOutcome, _: Explain) -> String {
            done(acted)
        }

        fn change(&self) -> Option<ChangeSubject> {
            let of = ChangeTarget::Queue(self.queue.clone());
            let which = self.id.clone();
            Some(ChangeSubject { what: Self::NAME, of, which })
        }

        fn result(acted: &ActOutcome) -> String {
            acted.elements[0].words()
        }
    };
}

impl Operation for RunNow {
    changes_an_element!();

    const NAME: &'static str = "run-now";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/queues/{queue}/elements/{id}/run-now" run_now ToOperate,
        "Make an element due now" => "The outcome")];

    fn check(&self, config: &Config) -> Result<(), Error> {
        known_element(config, &self.queue, &self.id)
    }

    async fn run(&self, scene: &Scene) -> Result<ActOutcome, Error> {
        self.act(scene, &scene.queue(&self.queue).await?, Action::Reschedule(When::Now)).await
    }
}

impl Operation for Reschedule {
    changes_an_element!();

    const NAME: &'static str = "reschedule";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/queues/{queue}/elements/{id}/reschedule" reschedule ToOperate,
        "Give an element another due time" => "The outcome")];

    fn check(&self, config: &Config) -> Result<(), Error> {
        self.when()?;
        known_element(config, &self.queue, &self.id)
    }

    async fn run(&self, scene: &Scene) -> Result<ActOutcome, Error> {
        let when = self.when()?;
        self.act(scene, &scene.queue(&self.queue).await?, Action::Reschedule(when)).await
    }
}

impl Reschedule {
    /// Returns the time that is meant.
    fn when(&self) -> Result<When, Error> {
        match (self.after, self.at) {
            (Some(Length(time)), None) => Ok(When::In(time)),
            (None, Some(Moment(ms))) => Ok(When::At(ms)),
            (None, None) => Err(Error::invalid("read the time: say when, by `in` or by `at_ms`")),
            (Some(_), Some(_)) => Err(Error::invalid("read the time: there are both `in` and `at_ms`")),
        }
    }
}

impl Operation for Cancel {
    changes_an_element!();

    const NAME: &'static str = "cancel";
    const ROUTES: &'static [Route] = &[route!(DELETE "/v1/queues/{queue}/elements/{id}" cancel ToAdminister,
        "Remove an element for good" => "The outcome")];

    fn check(&self, config: &Config) -> Result<(), Error> {
        known_element(config, &self.queue, &self.id)
    }

    async fn run(&self, scene: &Scene) -> Result<ActOutcome, Error> {
        self.act(scene, &scene.queue(&self.queue).await?, Action::Cancel).await
    }
}

impl Operation for Kill {
    changes_an_element!();

    const NAME: &'static str = "kill";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/queues/{queue}/elements/{id}/kill" kill ToOperate,
        "Move an element to the dead letters" => "The outcome")];

    fn check(&self, config: &Config) -> Result<(), Error> {
        known_element(config, &self.queue, &self.id)?;
        let what = |option: &str| format!("kill {} in `{}`: {option}", self.id, self.queue);
        one_line(&what("--why"), &self.why)?;
        self.by.as_deref().map_or(Ok(()), |by| one_line(&what("--by"), by))
    }

    async fn run(&self, scene: &Scene) -> Result<ActOutcome, Error> {
        let by = scene.by(self.by.as_deref());
        let queue = scene.queue(&self.queue).await?;
        // Redis has the last attempt alone.
        let seen = match (scene.live(), queue.identity(&self.id)) {
            (Some(live), Ok(id)) => live.of_element(&queue, &id).attempts,
            _ => Vec::new(),
        };
        self.act(scene, &queue, Action::Kill { by: &by, why: &self.why, seen: &seen }).await
    }

    fn person(&self) -> Option<&str> {
        self.by.as_deref()
    }

    fn name_person(&mut self, person: String) {
        self.by.get_or_insert(person);
    }
}

/// Implements the way to the element.
macro_rules! acts_on_its_element {
    ($($operation:ident)+) => {
        $(impl $operation {
            async fn act(&self, scene: &Scene, queue: &Queue, action: Action<'_>) -> Result<ActOutcome, Error> {
                let wanted = Wanted { id: &self.id, due_ms: self.due.map(|Moment(ms)| ms) };
                let acted = act(queue, wanted, action, &mut *scene.patience()).await?;
                let [element] = &acted.elements;
                if let Some(done) = element.done().filter(|_| !element.unchanged) {
                    scene.count(queue, done, 1);
                }
                Ok(acted)
            }
        })+
    };
}
acts_on_its_element!(RunNow Reschedule Cancel Kill);

/// `52414e444f4d3842 of orders: was scheduled, is due now`.
fn done(acted: &ActOutcome) -> String {
    let [element] = &acted.elements;
    let was = match element.was {
        PeekState::Retry => "waiting for a retry",
        PeekState::Dead => "dead",
        PeekState::Scheduled | PeekState::InFlight | PeekState::Ready => "scheduled",
    };
    let time = element.due_ms.map(|ms| {
        if ms <= acted.now_ms {
            "due now".to_owned()
        } else {
            format!("due {} ({})", show::relative(ms, acted.now_ms), show::absolute(ms))
        }
    });
    let time = time.unwrap_or_default();
    let is = match element.state {
        NewState::Scheduled => format!("scheduled, {time}"),
        NewState::Retry => format!("waiting for a retry, {time}"),
        NewState::Dead => "dead".to_owned(),
        NewState::Gone => "gone".to_owned(),
    };
    let again = if element.unchanged { "; it was so before, nothing was changed" } else { "" };
    let renamed = element.new_id.as_ref().map(|id| format!("; its id is now {id}, a hash over its due time"));
    format!("{} of {}: was {was}, is {is}{again}{}\n", element.id, acted.queue, renamed.unwrap_or_default())
}
