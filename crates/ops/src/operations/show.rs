//! `peek --id`: everything that is known of one element.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::known_element;
use crate::content::escaped;
use crate::element::{Detail, FoundElement, Wanted, Whereabouts, find};
use crate::error::Error;
use crate::operation::{Explain, Operation, Route, Scene, route};
use crate::plural::duration;
use crate::show;
use crate::time::Moment;
use delaybridge_model::Config;

/// Show everything about one element, wherever it is.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowElement {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// The element's id
    #[arg(value_name = "ID")]
    #[schemars(skip)]
    pub id: String,
    /// The due time of the element, if it is known: it is found there at once, unless more than 20,000 are due then
    #[arg(long, value_name = "TIME")]
    #[serde(rename = "due_ms", default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
}

impl Operation for ShowElement {
    type Answer = FoundElement;

    const NAME: &'static str = "peek";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}/elements/{id}" element ToSee,
        "Find an element by its id: its place, its history, its payload" => "The element")];

    const LONG: bool = true;

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        known_element(config, &self.queue, &self.id)
    }

    async fn run(&self, scene: &Scene) -> Result<FoundElement, Error> {
        let queue = scene.queue(&self.queue).await?;
        let wanted = Wanted { id: &self.id, due_ms: self.due.map(|Moment(ms)| ms) };
        let found = find(&queue, wanted, &mut *scene.patience()).await?;
        Ok(FoundElement { held: scene.held(&queue).await, ..found })
    }

    fn text(&self, found: &FoundElement, explain: Explain) -> String {
        words(found, explain)
    }
}

/// Returns a line for each fact.
fn words(found: &FoundElement, explain: Explain) -> String {
    let [element] = &found.elements;
    let mut lines = FactLines { text: String::new(), now_ms: found.now_ms, explain };
    lines.facts(element);
    let paused: String = found.paused.iter().map(|pause| format!("{}\n", pause.line(found.now_ms))).collect();
    let held = found.held.iter().map(|hold| {
        let lasts = duration(hold.seconds.saturating_mul(1_000));
        format!("queue on hold for {lasts}: {}\n", escaped(&hold.reason))
    });
    lines.text + &paused + &held.collect::<String>()
}

struct FactLines {
    text: String,
    now_ms: i64,
    explain: Explain,
}

impl FactLines {
    fn line(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text.push_str(&format!("{name:<17} {value}\n"));
        }
    }

    fn time(&mut self, name: &str, ms: Option<i64>) {
        if let Some(ms) = ms {
            let value = format!("{} ({})", show::absolute(ms), show::relative(ms, self.now_ms));
            self.line(name, &value);
        }
    }

    fn facts(&mut self, element: &Detail) {
        self.line("id", &element.id.as_ref().map(ToString::to_string).unwrap_or_default());
        let state = Whereabouts::of(element.state, element.due_ms, self.now_ms);
        self.line("state", state.words());
        if let Some(holder) = &element.held_by {
            self.line("in flight with", &format!("daemon {} (claim {})", holder.daemon, holder.claim));
        }
        self.time("lease until", element.lease_ends_ms);
        self.line("stream id", element.stream_id.as_deref().unwrap_or_default());
        self.time("died", element.died_ms);
        self.line("reason", &escaped(&element.reason));
        self.time("due", element.due_ms);
        self.time("next attempt", element.next_attempt_ms);
        self.line("attempts", &element.attempts.to_string());
        self.time("first attempt", element.first_attempt_ms);
        self.time("last attempt", element.last_attempt_ms);
        self.failure(element);
        self.line("confirmed by", &escaped(&element.confirmed.join(", ")));
        self.line("still to go to", &escaped(&element.outstanding.join(", ")));
        self.line("would go to", &escaped(&element.routes.join(", ")));
        self.line("attempts seen", &element.attempts_seen.as_ref().map(ToString::to_string).unwrap_or_default());
        self.line("problem", &escaped(element.problem.as_deref().unwrap_or_default()));
        self.line("layout", &element.layout);
        self.line("size", &show::size(element.size));
        self.line("payload", &element.content.preview(usize::MAX));
    }

    fn failure(&mut self, element: &Detail) {
        let failure = [&element.class, &element.code].map(|word| escaped(word));
        self.line("last failure", failure.join(" ").trim());
        if let Some(known) = (self.explain)(&element.code) {
            self.line("  cause", &known.cause);
            self.line("  cure", &known.cure);
        }
        self.line("message", &escaped(&element.message));
        self.line("sink", &escaped(&element.sink));
        self.line("destination", &escaped(&element.destination));
    }
}
