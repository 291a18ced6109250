//! `peek`: the elements of a queue in a state.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SHOWN, within};
use crate::error::Error;
use crate::jobs::{FoundJobs, Jobs, topic_named};
use crate::operation::{Explain, Operation, Place, Route, Scene, route};
use crate::peek::{Elements, Peek, PeekState, peek};
use crate::session::find;
use crate::table::TextTable;
use crate::{plural, show};
use delaybridge_jobs::{JobState, Topic};
use delaybridge_model::Config;

/// Elements that are shown unless the request says otherwise.
const PAGE: usize = 20;
/// Most elements of a request.
const MOST: usize = 100;
/// Characters of a payload in a row.
const PREVIEW: usize = 80;
/// Bytes of each payload that a command reads. A codec can only read a payload that was read to its end.
const START: usize = 64 << 10;

fn page() -> usize {
    PAGE
}

/// Show the elements of a queue without taking them.
///
/// Shows the elements in the order of their due times, with the decoded payload. Only the beginning of large payloads is
/// read, unless --full is given. An element that moves meanwhile can be shown twice or not at all.
///
/// scheduled -> in-flight -> gone | retry -> in-flight; ready -> in-flight
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = PEEK)]
#[serde(deny_unknown_fields)]
pub struct ListElements {
    /// The queue's id in the configuration, or a topic of the job queue
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// Maximum number of elements
    #[arg(long, value_name = "COUNT", default_value_t = PAGE)]
    #[serde(default = "page")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: usize,
    /// The state of the elements
    #[arg(long, value_enum, value_name = "STATE", default_value_t)]
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["scheduled", "retry", "in_flight", "ready"]))]
    pub state: PeekState,
    /// Show whole payloads
    #[arg(long, conflicts_with = "url")]
    #[serde(skip)]
    pub full: bool,
    /// Show the destination of each element; reads whole payloads, as --full
    #[arg(long, conflicts_with = "url")]
    #[serde(skip)]
    pub routes: bool,
    /// The `next` of the page before
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

const PEEK: &str = "\
Examples:
  delaybridge peek order_timeout
  delaybridge peek order_timeout --state retry --limit 5 --full
  delaybridge peek order_timeout --routes
  delaybridge peek order_timeout --id 52414e444f4d3842
  delaybridge peek order_timeout --output json

In JSON a payload is `payload` (text) or `payload_base64`; `payload_cut` means that it is longer.
`value` is the payload decoded by the queue's codec; with codec `raw`, by the most probable codec.
An element with the layout `junk` is not from Redisson; it becomes a dead letter at its due time.";

impl Operation for ListElements {
    type Answer = Elements;

    const NAME: &'static str = "peek";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}/elements" elements ToSee,
        "Look at elements in a state" => "The elements", "The first 4096 bytes of each payload.")];

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        self.first()?;
        find(config, &self.queue).map(drop)
    }

    async fn run(&self, scene: &Scene) -> Result<Elements, Error> {
        within(self.limit, MOST)?;
        let bytes = if scene.live().is_some() { SHOWN } else { START };
        let ListElements { state, limit, routes, .. } = *self;
        let ask = Peek { state, first: self.first()?, limit, payload_bytes: (!self.full).then_some(bytes), routes };
        peek(&scene.queue(&self.queue).await?, &ask).await
    }

    fn text(&self, found: &Elements, _: Explain) -> String {
        self.words(found)
    }

    fn portion(&self) -> ListElements {
        ListElements { limit: self.limit.min(MOST), ..self.clone() }
    }

    fn rest(&self, found: &Elements) -> Option<ListElements> {
        let limit = self.limit.saturating_sub(found.elements.len());
        let after = found.next.clone().filter(|_| limit > 0)?;
        Some(ListElements { limit, after: Some(after), ..self.clone() })
    }

    fn add_rest(all: &mut Elements, rest: Elements) {
        all.elements.extend(rest.elements);
        (all.now_ms, all.total, all.next) = (rest.now_ms, rest.total, rest.next);
    }
}

impl ListElements {
    /// Returns the number of elements before the page.
    ///
    /// # Errors
    ///
    /// When the page before did not answer this.
    pub fn first(&self) -> Result<usize, Error> {
        let after = self.after.as_deref().unwrap_or("0");
        after.parse().map_err(|_| Error::invalid("read `after`: it is the `next` of the page before"))
    }

    /// Reads the jobs of the topic with this name, as if they were elements; none where it names no topic, or a daemon is asked.
    ///
    /// # Errors
    ///
    /// When a topic has no such state, and when Redis cannot be asked.
    pub async fn jobs(&self, place: &Place) -> Result<Option<FoundJobs>, Error> {
        let Place::Here(scene) = place else { return Ok(None) };
        let Some((jobs, topic)) = topic_named(scene.config(), &self.queue).await? else { return Ok(None) };
        self.peek_topic(&jobs, &topic).await.map(Some)
    }

    async fn peek_topic(&self, jobs: &Jobs, topic: &Topic) -> Result<FoundJobs, Error> {
        let refused = |why: &str| Err(Error::invalid(format!("look at topic {topic}: {why}")));
        let state = match self.state {
            _ if self.routes => return refused("a topic has no destinations; name the queue that delivers it"),
            // As in a queue: all that waits, whether it is due or not.
            PeekState::Scheduled | PeekState::Ready => JobState::Ready,
            PeekState::InFlight => JobState::Reserved,
            PeekState::Retry => {
                return refused("a topic has no jobs in `retry`; those that failed wait as `scheduled`");
            }
            PeekState::Dead => return refused("dead jobs are listed by `delaybridge jobs dead`"),
        };
        let mut found = jobs.peek(topic, state, self.limit).await?;
        let rest = self.limit.saturating_sub(found.jobs.len());
        if self.state == PeekState::Scheduled && rest > 0 {
            let later = jobs.peek(topic, JobState::Delay, rest).await?;
            found.jobs.extend(later.jobs);
            found.more |= later.more;
        }
        Ok(found)
    }

    fn words(&self, found: &Elements) -> String {
        let score = match self.state {
            PeekState::Scheduled | PeekState::Ready | PeekState::Dead => "",
            PeekState::Retry => "NEXT ATTEMPT|",
            PeekState::InFlight => "LEASE ENDS|",
        };
        let routes = if self.routes { "|WOULD GO TO" } else { "" };
        let mut table = TextTable::new(&format!("ID|DUE||{score}>ATTEMPTS|LAYOUT|>SIZE|PAYLOAD{routes}"));
        let none = || "-".to_owned();
        let relative = |ms| show::relative(ms, found.now_ms);
        for element in &found.elements {
            let mut row = vec![
                element.id.as_ref().map_or_else(none, |id| id.to_string()),
                element.due_ms.map_or_else(none, show::absolute),
                element.due_ms.map_or_else(String::new, relative),
            ];
            if !score.is_empty() {
                row.push(element.next_attempt_ms.or(element.lease_ends_ms).map_or_else(none, relative));
            }
            let failed = if element.code.is_empty() { String::new() } else { format!(" ({})", element.code) };
            row.extend([
                format!("{}{failed}", element.attempts),
                element.layout.to_string(),
                show::size(element.size),
                element.content.preview(if self.full { usize::MAX } else { PREVIEW }),
            ]);
            row.extend(element.routes.as_ref().map(|routes| routes.join(", ")));
            table.row(row);
        }
        let paused: String = found.paused.iter().map(|pause| format!("{}\n", pause.line(found.now_ms))).collect();
        format!("{}\n{} of {}\n{paused}", table.render(), found.elements.len(), plural::count(found.total, "element"))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use redisson_codecs::Codec;

    use super::*;
    use crate::content::Content;
    use crate::peek::PeekedElement;
    use delaybridge_core::message::MessageId;

    fn request(limit: usize) -> ListElements {
        let queue = "q".to_owned();
        let state = PeekState::Retry;
        ListElements { queue, limit, state, full: false, routes: false, after: None }
    }

    fn found(elements: Vec<PeekedElement>, next: Option<&str>) -> Elements {
        let queue = "q".to_owned();
        let next = next.map(str::to_owned);
        Elements { queue, now_ms: 1_795_251_642_252, total: 1, paused: Vec::new(), elements, next }
    }

    #[test]
    fn a_row_says_which_when_and_what() {
        let element = PeekedElement {
            id: Some(MessageId(*b"RANDOM8B").into()),
            state: PeekState::Retry,
            due_ms: Some(1_795_251_632_252),
            next_attempt_ms: Some(1_795_251_637_252),
            attempts: 2,
            code: "timeout".to_owned(),
            layout: "new".into(),
            size: 100,
            content: Content::new(Codec::String, Bytes::from("x".repeat(100)), true),
            ..PeekedElement::default()
        };
        let text = request(20).words(&found(vec![element], None));
        let row = text.lines().nth(1).unwrap();
        assert_eq!(
            row.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<_>>(),
            [
                "52414e444f4d3842",
                "2026-11-21T09:00:32.252Z",
                "10s ago",
                "5s ago",
                "2 (timeout)",
                "new",
                "100 B",
                &format!("{}...", "x".repeat(80))
            ]
        );
    }

    #[test]
    fn more_than_a_request_has_are_asked_for_page_by_page() {
        let page = |count, next| found(vec![PeekedElement::default(); count], next);
        let request = request(150);
        assert_eq!(request.portion().limit, MOST);
        let rest = request.rest(&page(100, Some("100"))).unwrap();
        assert_eq!((rest.limit, rest.first().unwrap()), (50, 100));
        assert!(rest.rest(&page(50, Some("150"))).is_none() && request.rest(&page(7, None)).is_none());
    }
}
