//! The producer: the calls of a queue over a connection.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Script, ServerErrorKind};

use crate::call::{Call, Calls, Element, Text};
use crate::clock::{Clock, Due};
use crate::error::{Error, Invalid};
use crate::keys::{Keys, is_prefix};
use crate::layout::{self, Layout};
use crate::offer::{Id, Offer};
use crate::payload::Payload;

/// Elements that one step of a search by value asks for.
const STEP: usize = 500;

static SCRIPTS: LazyLock<[Script; 2]> = LazyLock::new(|| Text::ALL.map(|text| Script::new(text.text())));

fn script(text: Text) -> &'static Script {
    let [offer, change] = &*SCRIPTS;
    match text {
        Text::Offer => offer,
        Text::Change => change,
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
    /// Creates a payload and when it is due.
    pub fn new(payload: impl Into<Payload>, due: Due) -> Request {
        Request { payload: payload.into(), due, id: None }
    }

    /// Sets an id of the caller's. An offer with the same id and payload that is made again within ten minutes changes
    /// nothing: so it may be repeated after an error that says that it may have run.
    #[must_use]
    pub fn with_id(self, id: Id) -> Request {
        Request { id: Some(id), ..self }
    }

    fn element(&self, id: Id) -> Element<'_> {
        Element { id, chosen: self.id.is_some(), payload: &self.payload, due: self.due }
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
    /// Creates a handle of the queue whose destination has this name: the one given to `getBlockingQueue`, after the
    /// `NameMapper` if there is one.
    pub fn new(conn: C, name: &str) -> DelayedOffers<C> {
        let calls = Calls { keys: Keys::of(name), layout: Layout::New, clock: Clock::default() };
        DelayedOffers { conn, calls }
    }

    /// Sets the layout of Redisson up to 3.21.0, for consumers that are as old.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.calls.layout = layout;
        self
    }

    /// Sets another clock to count delays from.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.calls.clock = clock;
        self
    }

    /// Sets the daemon's `redis.key_prefix`: the keys begin with it that remember the ids of callers. All producers of
    /// the queue need the same.
    ///
    /// # Errors
    ///
    /// [`Invalid::Prefix`] for a text that is none.
    pub fn with_key_prefix(mut self, prefix: &str) -> Result<Self, Invalid> {
        if !is_prefix(prefix) {
            return Err(Invalid::Prefix);
        }
        self.calls.keys = self.calls.keys.with_prefix(prefix);
        Ok(self)
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
        let made = self.all("offer an element", std::slice::from_ref(request)).await?;
        made.into_iter().next().ok_or(Error::Reply { what: "offer an element" })
    }

    /// Makes offers in one script, in their order, all or none.
    ///
    /// # Errors
    ///
    /// As for [`offer`](DelayedOffers::offer).
    pub async fn make_all(&mut self, requests: &[Request]) -> Result<Vec<Offer>, Error> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        self.all("offer a batch", requests).await
    }

    async fn all(&mut self, what: &'static str, requests: &[Request]) -> Result<Vec<Offer>, Error> {
        let id_of = |request: &Request| match request.id {
            Some(id) => Ok(id),
            None => Id::random_for(self.calls.layout, request.payload.as_bytes()),
        };
        let ids = requests.iter().map(id_of).collect::<Result<Vec<_>, _>>().map_err(Error::NoRandomness)?;
        let elements: Vec<_> = requests.iter().zip(&ids).map(|(request, id)| request.element(*id)).collect();
        let call = self.calls.offer(&elements).map_err(|why| Error::Invalid { what, why })?;
        let dues: Vec<String> = self.run(&call).await.map_err(|error| Error::of(what, ids.clone(), error))?;
        let offers = ids.iter().zip(&dues).map_while(|(id, due)| Some(Offer { id: *id, due_ms: due.parse().ok()? }));
        let offers: Vec<_> = offers.collect();
        if offers.len() == ids.len() { Ok(offers) } else { Err(Error::Reply { what }) }
    }

    /// Cancels an offer; false if it is no longer scheduled. Repeated, it does nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if it may have been cancelled.
    pub async fn cancel(&mut self, offer: Offer) -> Result<bool, Error> {
        let call = self.calls.cancel(offer);
        let removed: i64 = self.run(&call).await.map_err(|error| Error::of("cancel an offer", Vec::new(), error))?;
        Ok(removed == 1)
    }

    /// Cancels all scheduled offers of a payload, and answers how many there were. It reads all elements of the queue.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if some may have been cancelled.
    pub async fn cancel_all(&mut self, payload: impl Into<Payload>) -> Result<u64, Error> {
        let payload = payload.into();
        let failed = |error| Error::of("cancel offers by their payload", Vec::new(), error);
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
        const WHAT: &str = "move an offer";
        let call = self.calls.reschedule(offer, due_ms).map_err(|why| Error::Invalid { what: WHAT, why })?;
        let moved: i64 = self.run(&call).await.map_err(|error| Error::of(WHAT, Vec::new(), error))?;
        Ok((moved == 1).then_some(Offer { due_ms, ..offer }))
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
