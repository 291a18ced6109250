//! The producer: the calls of a queue over a connection.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Script, ServerErrorKind, Value};

use crate::call::{Call, Calls, Text};
use crate::clock::{Clock, Due};
use crate::error::Error;
use crate::keys::Keys;
use crate::layout::{self, Layout};
use crate::offer::{Id, Offer};
use crate::payload::Payload;

/// Elements that one step of a search by value asks for.
const STEP: usize = 500;

static SCRIPTS: LazyLock<[Script; 4]> = LazyLock::new(|| Text::ALL.map(|text| Script::new(text.text())));

fn script(text: Text) -> &'static Script {
    let [offer, cancel, remove, reschedule] = &*SCRIPTS;
    match text {
        Text::Offer => offer,
        Text::Cancel => cancel,
        Text::Remove => remove,
        Text::Reschedule => reschedule,
    }
}

/// An offer to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    payload: Payload,
    due: Due,
    id: Option<Id>,
}

impl Request {
    /// A payload and when it is due.
    pub fn new(payload: impl Into<Payload>, due: Due) -> Request {
        Request { payload: payload.into(), due, id: None }
    }

    /// The same under an id of the caller's. An offer with the same id and payload that is made again within ten minutes
    /// changes nothing: so it may be repeated after an error that says that it may have run.
    #[must_use]
    pub fn with_id(self, id: Id) -> Request {
        Request { id: Some(id), ..self }
    }
}

/// The producer of one queue, over any asynchronous connection of the [`redis`] crate.
///
/// It neither connects again nor sends anything twice: a connection that does, and a caller who repeats, decide that.
#[derive(Debug, Clone)]
pub struct DelayedOffers<C> {
    conn: C,
    calls: Calls,
}

impl<C: ConnectionLike> DelayedOffers<C> {
    /// The queue whose destination has this name: the one given to `getBlockingQueue`, after the `NameMapper` if there is one.
    pub fn new(conn: C, name: &str) -> DelayedOffers<C> {
        let calls = Calls { keys: Keys::of(name), layout: Layout::New, clock: Clock::default() };
        DelayedOffers { conn, calls }
    }

    /// The same with the layout of Redisson up to 3.21.0, for consumers that are as old.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.calls.layout = layout;
        self
    }

    /// The same with another clock to count delays from.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.calls.clock = clock;
        self
    }

    /// Offers a payload.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if it may have been offered. Made again it would be another offer; to be able to repeat one, give
    /// it an id ([`Request::with_id`]).
    pub async fn offer(&mut self, payload: impl Into<Payload>, due: Due) -> Result<Offer, Error> {
        self.make(&Request::new(payload, due)).await
    }

    /// Makes one offer.
    ///
    /// # Errors
    ///
    /// As for [`offer`](DelayedOffers::offer).
    pub async fn make(&mut self, request: &Request) -> Result<Offer, Error> {
        const WHAT: &str = "offer an element";
        let (id, call) = self.call(request)?;
        let reply: Value = self.run(&call).await.map_err(|error| Error::of(WHAT, Some(id), error))?;
        offered(id, reply).ok_or(Error::Reply { what: WHAT })
    }

    /// Makes many offers in one round trip, in their order. They are scripts of their own: other clients may come between
    /// two of them, and after an error those before it were made.
    ///
    /// # Errors
    ///
    /// The first error. [`Error::Unknown`] if any of them may have been made.
    pub async fn make_all(&mut self, requests: &[Request]) -> Result<Vec<Offer>, Error> {
        const WHAT: &str = "offer a batch";
        let failed = |error| Error::of(WHAT, None, error);
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        let mut ids = Vec::with_capacity(requests.len());
        for request in requests {
            let (id, call) = self.call(request)?;
            ids.push(id);
            pipe.add_command(command(&call));
        }
        pipe.ignore_errors();
        let mut replies: Vec<RedisResult<Value>> = pipe.query_async(&mut self.conn).await.map_err(failed)?;
        let unknown_script = |reply: &RedisResult<Value>| reply.as_ref().is_err_and(is_unknown_script);
        if replies.iter().all(unknown_script) {
            // None of them ran, so that all of them may be sent once more.
            script(Text::Offer).load_async(&mut self.conn).await.map_err(failed)?;
            replies = pipe.query_async(&mut self.conn).await.map_err(failed)?;
        }
        let mut offers = Vec::with_capacity(ids.len());
        for (id, reply) in ids.into_iter().zip(replies) {
            let reply = reply.map_err(|error| Error::Unknown { what: WHAT, id: Some(id), source: error })?;
            offers.push(offered(id, reply).ok_or(Error::Reply { what: WHAT })?);
        }
        Ok(offers)
    }

    /// Cancels an offer; false if it is no longer scheduled. Repeated, it does nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if it may have been cancelled.
    pub async fn cancel(&mut self, offer: Offer) -> Result<bool, Error> {
        let call = self.calls.cancel(offer);
        let removed: i64 =
            self.run(&call).await.map_err(|error| Error::of("cancel an offer", Some(offer.id), error))?;
        Ok(removed == 1)
    }

    /// Cancels all scheduled offers of a payload, and answers how many there were. It reads all elements of the queue.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if some may have been cancelled.
    pub async fn cancel_all(&mut self, payload: impl Into<Payload>) -> Result<u64, Error> {
        let payload = payload.into();
        let failed = |error| Error::of("cancel offers by their payload", None, error);
        let mut cursor = b"0".to_vec();
        let mut removed = 0;
        loop {
            let mut scan = redis::cmd("ZSCAN");
            scan.arg(&self.calls.keys.timeout).arg(&cursor).arg("COUNT").arg(STEP);
            let (next, page): (Vec<u8>, Vec<Vec<u8>>) = scan.query_async(&mut self.conn).await.map_err(failed)?;
            let mut found: Vec<Vec<u8>> =
                page.into_iter().step_by(2).filter(|element| holds(element, &payload)).collect();
            // A scan may show an element twice.
            found.sort_unstable();
            found.dedup();
            if !found.is_empty() {
                let count: u64 = self.run(&self.calls.remove(found)).await.map_err(failed)?;
                removed += count;
            }
            if next == b"0" {
                return Ok(removed);
            }
            cursor = next;
        }
    }

    /// Gives an offer another due time; `None` if it is no longer scheduled.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if it may have been moved.
    pub async fn reschedule(&mut self, offer: Offer, due_ms: i64) -> Result<Option<Offer>, Error> {
        let call = self.calls.reschedule(offer, due_ms);
        let moved: i64 = self.run(&call).await.map_err(|error| Error::of("move an offer", Some(offer.id), error))?;
        Ok((moved == 1).then_some(Offer { due_ms, ..offer }))
    }

    fn call(&self, request: &Request) -> Result<(Id, Call), Error> {
        let id = match request.id {
            Some(id) => id,
            None => Id::random(self.calls.layout).map_err(Error::NoRandomness)?,
        };
        Ok((id, self.calls.offer(id, request.id.is_some(), &request.payload, request.due)))
    }

    async fn run<T: FromRedisValue>(&mut self, call: &Call) -> RedisResult<T> {
        let command = command(call);
        match command.query_async(&mut self.conn).await {
            Err(error) if is_unknown_script(&error) => {
                script(call.script).load_async(&mut self.conn).await?;
                command.query_async(&mut self.conn).await
            }
            other => other,
        }
    }
}

fn command(call: &Call) -> redis::Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script(call.script).get_hash()).arg(call.keys.len()).arg(&call.keys).arg(&call.args);
    command
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn holds(element: &[u8], payload: &Payload) -> bool {
    let head = layout::head(element, element.len());
    head.is_ok_and(|head| element[head.layout.header()..] == *payload.as_bytes())
}

/// Reads `{'offered' or 'already', due time}`.
fn offered(id: Id, reply: Value) -> Option<Offer> {
    let (_, due): (String, String) = redis::from_redis_value(reply).ok()?;
    Some(Offer { id, due_ms: due.parse().ok()? })
}
