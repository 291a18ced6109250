//! `why`: where an element is, what it waits for, and what would deliver it now.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::known_element;
use crate::content::escaped;
use crate::element::{ElementWhy, Wanted, why};
use crate::error::Error;
use crate::operation::{AskDaemon, Explain, Operation, Route, Scene, route};
use crate::show;
use crate::table::TextTable;
use crate::time::Moment;
use delaybridge_model::Config;

/// Explain where an element is, what it waits for, and what would deliver it now.
///
/// Shows the place of the element and since when it is there, every failed attempt that is known with its cause, everything in its
/// way (its due time, a pause, a hold, a sink that is down, elements before it), when it is tried next, and the commands that bring
/// its delivery nearer. Nothing is changed, and no payload is shown. Holds, the state of sinks and attempts are known to daemons alone:
/// the one that the configuration names (http.admin) is asked, or that of --daemon. Where it does not answer, or has another Redis, the
/// first line says so. Without --due the server searches the whole queue, which takes a while where millions are scheduled.
///
/// An element that is not in the queue is explained too: by what is still known of it, or that nothing is.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = WHY)]
#[serde(deny_unknown_fields)]
pub struct Why {
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

const WHY: &str = "\
Examples:
  delaybridge why order_timeout 52414e444f4d3842 --daemon http://127.0.0.1:9465
  delaybridge why order_timeout 52414e444f4d3842
  delaybridge why order_timeout 1795251632252-0 --output json

Exit codes: 0 explained, also if it is gone, 1 failed, 2 wrong arguments or configuration";

impl Operation for Why {
    type Answer = ElementWhy;

    const NAME: &'static str = "why";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}/elements/{id}/why" why ToSearch,
        "Explain where an element is, what it waits for, and what would deliver it now" => "The explanation",
        "An element that is not in the queue is explained too, as `gone`: by what this daemon still knows of it. No payload.")];
    const DAEMON: AskDaemon = AskDaemon::WithToken;
    const LONG: bool = true;

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        known_element(config, &self.queue, &self.id)
    }

    async fn run(&self, scene: &Scene) -> Result<ElementWhy, Error> {
        let wanted = Wanted { id: &self.id, due_ms: self.due.map(|Moment(ms)| ms) };
        why(scene, &self.queue, wanted).await.map(|(found, _)| found)
    }

    fn text(&self, found: &ElementWhy, explain: Explain) -> String {
        words(found, explain)
    }
}

fn words(found: &ElementWhy, explain: Explain) -> String {
    let mut text = format!("{}\n", escaped(&found.summary));
    let time = |ms: i64| format!("{} ({})", show::absolute(ms), show::relative(ms, found.now_ms));
    let mut facts = TextTable::new("|");
    let mut fact = |name: &str, value: String| facts.row([name.to_owned(), value]);
    fact("state", found.state.words().to_owned());
    if let Some(since) = found.since_ms {
        fact("since", time(since));
    }
    if let Some(next) = found.next_words() {
        fact("next attempt", escaped(&next));
        fact("attempts", format!("{} of {}", found.attempts, found.max_attempts));
    }
    text.push_str(&format!("\n{}", body(&facts)));
    if !found.waits_for.is_empty() {
        let mut table = TextTable::new("WAITS FOR|WHY");
        for obstacle in &found.waits_for {
            table.row([obstacle.kind.words().to_owned(), escaped(&obstacle.detail)]);
        }
        text.push_str(&format!("\n{}", table.render()));
    }
    if !found.attempts_seen.is_empty() {
        text.push_str(&format!("\n{}", attempts(found, explain)));
    }
    for event in &found.events {
        let sink = event.sink.as_deref().map(|sink| format!(" {}", escaped(sink))).unwrap_or_default();
        text.push_str(&format!("{} {}{sink}\n", show::absolute(event.at_ms), event.fate));
    }
    if !found.remedies.is_empty() {
        let mut table = TextTable::new("COMMAND|EFFECT");
        for remedy in &found.remedies {
            table.row([remedy.command.clone(), remedy.effect.clone()]);
        }
        text.push_str(&format!("\n{}", table.render()));
    }
    let notes: String = found.notes.iter().map(|note| format!("{}\n", escaped(note))).collect();
    if notes.is_empty() { text } else { format!("{text}\n{notes}") }
}

/// Returns a table without its head.
fn body(table: &TextTable) -> String {
    table.render().lines().skip(1).map(|line| format!("{line}\n")).collect()
}

/// Returns the failed attempts, with cause and cure of the last.
fn attempts(found: &ElementWhy, explain: Explain) -> String {
    let mut table = TextTable::new("FAILED ATTEMPT||SINK|CLASS|CODE");
    for seen in &found.attempts_seen {
        let sink = if seen.sink.is_empty() { "-" } else { &seen.sink };
        table.row([
            show::absolute(seen.at_ms),
            show::relative(seen.at_ms, found.now_ms),
            escaped(sink),
            seen.class.clone(),
            escaped(&seen.code),
        ]);
    }
    let known = found.attempts_seen.last().and_then(|seen| explain(&seen.code));
    let cure = known.map(|known| format!("cause: {}\ncure: {}\n", known.cause, known.cure)).unwrap_or_default();
    table.render() + &cure
}
