//! `dead show`: everything that dead letters keep.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::escaped;
use crate::dead::selection::Selection;
use crate::dead::{Filter, Letter, Letters, check_name, none_of, unknown_sinks};
use crate::error::Error;
use crate::operation::{Explain, Operation, Route, Scene, route};
use crate::session::find;
use crate::show;
use delaybridge_ledger::Order;
use delaybridge_model::Config;

/// Letters that are shown, at most, unless the command says otherwise.
const LIMIT: usize = 20;

fn limit() -> usize {
    LIMIT
}

/// Show all facts about dead letters.
///
/// By name one: if several dead letters have the element's id, the latest. By a filter the latest ones. The element is in
/// hexadecimal digits (text) or base64 (JSON), byte for byte.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = SHOW)]
#[serde(deny_unknown_fields)]
pub struct ShowDead {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// Stream id (1795251632252-0) or element id (as `peek` shows it)
    #[arg(value_name = "ID")]
    #[schemars(skip)]
    pub id: Option<String>,
    /// Maximum number of dead letters, with a filter
    #[arg(long, value_name = "COUNT", default_value_t = LIMIT)]
    #[serde(skip, default = "limit")]
    pub limit: usize,
    /// The filter of the letters
    #[command(flatten)]
    #[serde(default, serialize_with = "Filter::in_query")]
    #[schemars(skip)]
    pub filter: Filter,
}

const SHOW: &str = "\
Examples:
  delaybridge dead show order_timeout 1795251632252-0
  delaybridge dead show order_timeout --field orderId=7
  delaybridge dead show order_timeout 52414e444f4d3842 --output json";

/// Dead letters with everything that they keep.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeadLetter", extend("additionalProperties" = true))]
pub struct ShownLetters {
    /// The queue.
    pub queue: String,
    /// The letters, the latest first.
    #[schemars(skip)]
    pub dead_letters: Vec<Letter>,
    /// Sinks of the filter that neither the configuration has nor a letter that was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_sinks: Vec<String>,
}

impl ShowDead {
    /// Returns the letter of this name.
    pub fn one(queue: &str, id: &str) -> ShowDead {
        ShowDead { queue: queue.to_owned(), id: Some(id.to_owned()), limit: 1, filter: Filter::default() }
    }
}

impl Operation for ShowDead {
    type Answer = ShownLetters;

    const NAME: &'static str = "dead show";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}/dead/{id}" letter ToSee,
        "Look at everything that a dead letter keeps" => "The letter")];

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        self.filter.check()?;
        match &self.id {
            Some(id) => {
                find(config, &self.queue)?;
                check_name(config, &self.queue, id)
            }
            None if self.filter.is_empty() => {
                Err(Error::invalid("show dead letters: name one by its id, or write a filter (--reason, --field, ...)"))
            }
            None => find(config, &self.queue).map(drop),
        }
    }

    async fn run(&self, scene: &Scene) -> Result<ShownLetters, Error> {
        let queue = scene.queue(&self.queue).await?;
        let ids = self.id.clone().map(|id| vec![id]);
        let limit = if ids.is_some() { 1 } else { self.limit };
        let which = Letters { ids, filter: self.filter.clone(), ..Letters::default() };
        let mut selection = Selection::open(&queue, &which, Order::Newest).await?;
        let mut dead_letters = Vec::new();
        while dead_letters.len() < limit {
            let Some(page) = selection.next(usize::MAX).await? else { break };
            let rest = limit - dead_letters.len();
            let letter = |letter| Letter::of(&queue.ledger, letter, queue.spec.codec, &queue.spec.classes);
            dead_letters.extend(page.letters.into_iter().take(rest).map(letter));
        }
        if let Some(ids) = which.ids.as_ref().filter(|_| dead_letters.is_empty()) {
            return Err(none_of(&self.queue, ids, "nothing was shown"));
        }
        // With as many as were asked for, the letters behind them were not looked at.
        let to_the_end = dead_letters.len() < limit;
        let unknown_sinks = if to_the_end { selection.unknown_sinks(scene.config()) } else { Vec::new() };
        Ok(ShownLetters { queue: self.queue.clone(), dead_letters, unknown_sinks })
    }

    fn missed(found: &ShownLetters) -> Option<String> {
        unknown_sinks(&found.queue, &found.unknown_sinks)
    }

    fn text(&self, found: &ShownLetters, explain: Explain) -> String {
        if found.dead_letters.is_empty() {
            format!("no such dead letters in {}\n", found.queue)
        } else {
            found.dead_letters.iter().map(|letter| facts(letter, explain)).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Returns a line for each fact.
fn facts(letter: &Letter, explain: Explain) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        text.push_str(format!("{name:<17} {value}").trim_end());
        text.push('\n');
    };
    line("stream_id", &letter.stream_id);
    for (name, value) in &letter.fields {
        match (name.as_str(), value) {
            ("element_base64", _) => {
                line("payload", &letter.content.preview(usize::MAX));
                line("element", &hex::encode(&letter.element));
            }
            (_, Value::Null) => line(name, ""),
            (_, Value::String(value)) => line(name, &escaped(value)),
            (_, Value::Number(number)) => match number.as_i64().filter(|_| name.ends_with("_ms")) {
                Some(ms) => line(name, &format!("{ms} ({})", show::absolute(ms))),
                None => line(name, &number.to_string()),
            },
            ("confirmed", Value::Array(sinks)) => {
                let sinks: Vec<_> = sinks.iter().filter_map(Value::as_str).collect();
                line(name, &escaped(&sinks.join(",")));
            }
            (_, other) => line(name, &escaped(&other.to_string())),
        }
        if let Some(known) = (name == "code").then(|| explain(value.as_str()?)).flatten() {
            line("  cause", &known.cause);
            line("  cure", &known.cure);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use redisson_codecs::Codec;

    use super::*;
    use crate::dead::sample::sample;
    use delaybridge_core::codes::Code;

    #[test]
    fn a_person_sees_times_and_payload_and_nothing_that_a_terminal_obeys() {
        let found =
            ShownLetters { queue: "q".to_owned(), dead_letters: vec![sample(Codec::String)], unknown_sinks: vec![] };
        let text = ShowDead::one("q", "1-0").text(&found, |code| {
            let [cause, cure] = ["No queue accepts it.", "Bind a queue."].map(Into::into);
            (code == "NO_ROUTE").then_some(Code { code: "NO_ROUTE", cause, cure })
        });
        for line in [
            "stream_id         1-0",
            "due_ms            1795251632252 (2026-11-21T09:00:32.252Z)",
            "first_attempt_ms",
            "code              NO_ROUTE",
            "  cause           No queue accepts it.",
            "  cure            Bind a queue.",
            "message           a\\u{1b}[31m",
            "payload           hello",
            "element           0852414e444f4d3842050000000000000068656c6c6f",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
        }
    }
}
