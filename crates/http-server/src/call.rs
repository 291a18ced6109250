//! One request on its way to its handler: who sent it, what its path, query and headers say, and its body, once asked for.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use tokio::time::timeout;

use super::gzip;
use super::problem::{Problem, ProblemKind};
use super::room::{BodyMemory, BodyRoom, FREE, MaybeNamed, who};
use super::text::{clip, decode, time};
use delaybridge_telemetry::peer::Peer;

/// A client that has not sent its body by then is cut off.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Most pairs of a query or a form.
const MAX_PAIRS: usize = 100;

/// One request, from a caller of this kind.
pub struct Call<C> {
    /// The other end.
    pub peer: Peer,
    /// The sender, once that is known.
    pub caller: C,
    /// The headers.
    pub headers: HeaderMap,
    /// The named parts of the path.
    pub path: Vec<(&'static str, String)>,
    /// The pairs of the query.
    pub query: Query,
    /// The body, until it is read.
    pub body: Option<Incoming>,
    /// The memory that the body takes room of.
    pub memory: BodyMemory,
    /// The room that the body takes, until the request is answered.
    pub room: BodyRoom,
}

impl<C> Call<C> {
    /// Creates a call from a request of this caller, with the named parts of its path.
    ///
    /// # Errors
    /// The query has too many pairs.
    pub fn new(
        (head, body): (Parts, Incoming),
        peer: Peer,
        caller: C,
        path: Vec<(&'static str, String)>,
        memory: &BodyMemory,
    ) -> Result<Call<C>, Problem> {
        let query = Query::parse(head.uri.query().unwrap_or_default())?;
        let memory = memory.clone();
        let room = BodyRoom::default();
        Ok(Call { peer, caller, headers: head.headers, path, query, body: Some(body), memory, room })
    }

    /// Returns the part of the path with this name.
    pub fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(part, _)| *part == name).map_or("", |(_, text)| text)
    }

    /// Returns the media type of the body, without its parameters, in lower case.
    pub fn media_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns whether the body is JSON by its media type, or may be: no media type says nothing, and `curl -d` says
    /// that it is a form.
    pub fn is_json(&self) -> bool {
        self.says_json() || matches!(self.media_type().as_str(), "" | "application/x-www-form-urlencoded")
    }

    /// Returns whether the body is JSON by its media type.
    pub fn says_json(&self) -> bool {
        self.media_type() == "application/json"
    }
}

impl<C: MaybeNamed> Call<C> {
    /// Reads the body, unpacked and within `max_body`, and parses it. A large one is unpacked and parsed on another
    /// thread.
    ///
    /// # Errors
    /// It is larger, too slow, cut off, or in a coding that is not read; there is no room for it now; or those of
    /// `parse`.
    pub async fn read<T: Send + 'static>(
        &mut self,
        parse: impl FnOnce(Bytes) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let packed = gzip::is_packed(&self.headers)?;
        let sent = timeout(BODY_TIMEOUT, self.arrived(packed)).await.map_err(|_| {
            Problem::new(ProblemKind::TooSlow, "read the body: it did not arrive within 30 s")
                .retry_after(Duration::from_secs(1))
        })??;
        if !packed {
            return match sent.len() {
                ..=FREE => parse(sent),
                _ => self.memory.aside(move || parse(sent)).await?,
            };
        }
        let limit = self.memory.max_body;
        // What is packed says at its end how much it is. Where that is not so, all of the limit has to be there.
        for most in [gzip::claimed(&sent).min(limit), limit] {
            if most > FREE {
                self.room.hold(&self.memory, &who(self.peer, &self.caller), most, most).await?;
            }
            let packed = sent.clone();
            let unpack = move || gzip::unpack(&packed, most);
            let unpacked = if most > FREE { self.memory.aside(unpack).await?? } else { unpack()? };
            if let Some(body) = unpacked {
                return if most > FREE { self.memory.aside(move || parse(body)).await? } else { parse(body) };
            }
        }
        Err(Problem::new(
            ProblemKind::TooLarge,
            format!("read the body: unpacked it is larger than max_body, {limit} bytes; send fewer jobs at once"),
        ))
    }

    /// Reads the bytes that were sent.
    async fn arrived(&mut self, packed: bool) -> Result<Bytes, Problem> {
        let Some(mut incoming) = self.body.take() else { return Ok(Bytes::new()) };
        let limit = self.memory.max_body;
        let too_large = || {
            let detail = format!("read the body: it is larger than max_body, {limit} bytes; send fewer jobs at once");
            Problem::new(ProblemKind::TooLarge, detail)
        };
        // What the client says, before a byte of it is read.
        let declared = incoming.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if declared.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let whole = declared.filter(|_| !packed).unwrap_or(limit);
        let mut sent = Vec::new();
        while let Some(frame) = self.room.next(incoming.frame()).await? {
            let frame =
                frame.map_err(|_| Problem::bad("read the body: the connection ended before it was complete"))?;
            let Ok(data) = frame.into_data() else { continue };
            let there = sent.len() + data.len();
            if there > limit {
                return Err(too_large());
            }
            if there > FREE {
                self.room.hold(&self.memory, &who(self.peer, &self.caller), whole, there).await?;
                // Once, so that no byte is copied again. What is not written takes no memory.
                sent.reserve_exact(declared.unwrap_or(there).max(there) - sent.len());
            }
            sent.extend_from_slice(&data);
        }
        Ok(sent.into())
    }
}

/// The pairs of a query, percent-decoded.
#[derive(Debug, Default, Clone)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses what is behind the `?`, or a form.
    ///
    /// # Errors
    /// It has too many pairs.
    pub fn parse(text: &str) -> Result<Query, Problem> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        });
        let pairs: Vec<_> = pairs.take(MAX_PAIRS + 1).collect();
        match pairs.len() {
            ..=MAX_PAIRS => Ok(Query { pairs }),
            _ => Err(Problem::bad(format!("read the query or the form: it has more than {MAX_PAIRS} parameters"))),
        }
    }

    /// Returns the value of a name; the first one, if there are several.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(pair, _)| pair == name).map(|(_, value)| value.as_str())
    }

    /// Returns all pairs, in their order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Reads a flag.
    ///
    /// # Errors
    /// It is something else than true or false.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Problem::bad(format!("read `{name}` in the query: expected true or false"))),
        }
    }

    /// Reads a whole number.
    ///
    /// # Errors
    /// It is none.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        self.text(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Problem::bad(format!(
                        "read `{name}` in the query: expected a whole number from 0 on, found `{}`",
                        clip(text)
                    ))
                })
            })
            .transpose()
    }

    /// Reads a time: a duration with its unit, or milliseconds under the name that ends in `_ms`.
    ///
    /// # Errors
    /// It is none of them, or there are both.
    pub fn time(&self, [name, name_ms]: [&str; 2]) -> Result<Option<Duration>, Problem> {
        match (self.text(name), self.number(name_ms)?) {
            (Some(_), Some(_)) => {
                Err(Problem::bad(format!("read the query: there are both `{name}` and `{name_ms}`; send one of them")))
            }
            (Some(text), None) => {
                time(text).map(Some).map_err(|problem| Problem::bad(format!("read `{name}` in the query: {problem}")))
            }
            (None, millis) => Ok(millis.map(Duration::from_millis)),
        }
    }

    /// Checks that all names are known.
    ///
    /// # Errors
    /// One is not known.
    pub fn only(&self, known: &[&str]) -> Result<(), Problem> {
        let unknown = self.pairs.iter().find(|(name, _)| !known.contains(&name.as_str()));
        let Some((unknown, _)) = unknown else { return Ok(()) };
        let help = match delaybridge_settings::keys::nearest(unknown, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if known.is_empty() => "there are none here".to_owned(),
            None => format!("known are {}", known.join(", ")),
        };
        Err(Problem::bad(format!("read the query: unknown parameter `{}`; {help}", clip(unknown))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_by_name() {
        let parse = |text: &str| Query::parse(text).unwrap();
        let query = parse("delay_ms=5000&id=a%2Fb+c&flag&id=second&x=%ff");
        assert_eq!(query.number("delay_ms").unwrap(), Some(5000));
        assert_eq!((query.text("id"), query.text("flag"), query.text("gone")), (Some("a/b c"), Some(""), None));
        assert_eq!(query.text("x"), Some("\u{fffd}"));
        let problem = query.number("id").unwrap_err().detail;
        assert_eq!(problem, "read `id` in the query: expected a whole number from 0 on, found `a/b c`");
        let problem = parse("delay=5").only(&["delay_ms", "ttr_ms"]).unwrap_err().detail;
        assert_eq!(problem, "read the query: unknown parameter `delay`; did you mean `delay_ms`?");
        let delay = |text: &str| parse(text).time(["delay", "delay_ms"]).map_err(|problem| problem.detail);
        let millis = |millis| Ok(Some(Duration::from_millis(millis)));
        assert_eq!((delay("delay=1m30s"), delay("delay_ms=5"), delay("")), (millis(90_000), millis(5), Ok(None)));
        let problem = delay("delay=5").unwrap_err();
        assert_eq!(
            problem,
            "read `delay` in the query: `5` has no unit; write `5s` for seconds or `5ms` for milliseconds"
        );
        assert!(delay("delay=5s&delay_ms=5").unwrap_err().contains("both `delay` and `delay_ms`"));
        assert!(Query::parse(&"a&".repeat(100)).is_ok());
        assert_eq!(Query::parse(&"a&".repeat(1 << 20)).unwrap_err().kind, ProblemKind::BadRequest);
    }
}
