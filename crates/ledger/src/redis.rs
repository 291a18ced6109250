//! Queues in Redis: the ledger and the source of each, over the connection to the server that has it.
//!
//! Durable claims: with `durability`, claims of a queue use a connection of their own, followed by `WAIT`. A claim is
//! answered only when it is durable. Otherwise the claimed elements are released and the call returns an error, so the
//! pipeline knows nothing of replicas. After an unknown answer the claim is found by its name, and its contents must be
//! durable too.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::answers::{Announcement, InFlight, Rescued};
use super::batch::BATCH_BYTES;
use super::claims::{self, ClaimName, Element};
use super::dead::{DeadLetter, Forwarder, Order};
use super::error::StoreError;
use super::handle::Ledger;
use super::keys::Keys;
use super::look::Look;
use super::operate::{CHANGED, NOTE};
use super::page::redis_now_ms;
use super::pause::{ANNOUNCED, Pauses};
use super::payload::NoPayload;
use super::source::Source;
use super::stats::Stats;
use super::store::{Call, Claims, CountedKeys, QueueServer, Scheduled, Store, Unannounced};
use super::upkeep::{UpkeepRequest, Upkept};
use delaybridge_core::carried::Carried;
use delaybridge_core::message::Identity;
use delaybridge_core::metric::SourceTerms;
use delaybridge_link::{Conn, Durable, DurableRedis, History, LinkError, NoAnswer, Place, Redis};

/// One queue, and its place.
pub struct RedisStore {
    place: Place,
    ledger: Ledger,
    durable: Option<Durable>,
}

impl RedisStore {
    /// Creates a store for the queue of this source. `owner` is this process's random number.
    pub fn new(redis: impl Into<Redis>, source: Arc<dyn Source>, owner: [u8; 8]) -> Self {
        let ledger = Ledger::new(source, owner);
        RedisStore { place: redis.into().at(&ledger.keys.leases), ledger, durable: None }
    }

    /// Sets that a claim is answered only when it is durable.
    pub fn durable(self, durable: Option<&DurableRedis>) -> Self {
        RedisStore { durable: durable.map(|durable| durable.at(&self.ledger.keys.leases)), ..self }
    }

    /// Sets whether one daemon at a time delivers from the queue, in order.
    pub fn in_order(self, ordered: bool) -> Self {
        RedisStore { ledger: self.ledger.in_order(ordered), ..self }
    }

    /// Returns the place of the queue.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the scripts and keys behind it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the connection, or the answer that nothing was sent.
    fn conn(&self) -> Result<Conn, StoreError> {
        current(&self.place)
    }

    /// Returns the connection for claims. While replicas are behind there is none.
    async fn conn_for_claims(&self) -> Result<Conn, StoreError> {
        let Some(durable) = &self.durable else { return self.conn() };
        let short = |shortfall| StoreError::NotDurable { shortfall, released: 0, may_repeat: false };
        Box::pin(durable.ready()).await?.map_err(short)
    }

    /// Confirms that a claim is durable, so that it may be delivered. Else it goes back, uncounted: after a failover it could be
    /// delivered again, by a master that does not know of the claim.
    ///
    /// After an unknown answer the claim is looked for by its name, and its contents come by here again.
    async fn make_durable<'a>(
        &self,
        conn: &Conn,
        name: ClaimName,
        may_repeat: bool,
        elements: impl Iterator<Item = &'a Element> + Clone,
    ) -> Result<(), StoreError> {
        let any = elements.clone().next().is_some();
        let Some(durable) = self.durable.as_ref().filter(|_| any) else { return Ok(()) };
        let released = elements.clone().count() as u64;
        // Boxed, because few queues ask for it.
        let problem = match Box::pin(durable.confirm(conn)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(shortfall)) => StoreError::NotDurable { shortfall, released, may_repeat },
            // A missing right: it is reported, and holds up nothing that was claimed.
            Err(refused @ LinkError::Server { .. }) => refused.into(),
            Err(error) => return Err(self.unfinished(&error)),
        };
        let back = |(at, element)| claims::SettleCommand::release(name, name.number, at, element).doubtful(may_repeat);
        let back: Vec<_> = elements.enumerate().map(back).collect();
        let gone_back = Box::pin(self.ledger.claims().settle(conn, &back, None, None)).await;
        gone_back.map_err(|error| self.unfinished(&error))?;
        Err(problem)
    }

    /// Builds the error of a claim that has run but whose follow-up failed: the claim is to be looked for by its name.
    /// Any other error would say that nothing was claimed, and leave the elements to their lease.
    fn unfinished(&self, error: &dyn std::error::Error) -> StoreError {
        let reason = NoAnswer::Broken(format!("the claim could not be made durable: {error}"));
        StoreError::Unknown { address: self.place.address(), reason }
    }
}

/// Returns the connection to a place, or the answer that nothing was sent.
pub(super) fn current(place: &Place) -> Result<Conn, StoreError> {
    place.current().ok_or_else(|| StoreError::NotSent { address: place.address() })
}

impl Store for RedisStore {
    fn home(&self) -> &dyn QueueServer {
        &self.place
    }

    fn stats(&self) -> Call<'_, Stats> {
        async { self.ledger.stats(&self.conn()?).await }.boxed()
    }

    fn look(&self) -> Look {
        let source = self.ledger.source();
        let (schedules, lists) = source.claimed_from();
        let Keys { retry, leases, .. } = &self.ledger.keys;
        Look { schedules, unit: source.unit(), lists, retry: retry.clone(), leases: leases.clone() }
    }

    fn counted(&self) -> CountedKeys {
        let source = self.ledger.source();
        let Keys { retry, leases, dead, .. } = &self.ledger.keys;
        let others: Vec<_> = [retry, dead].into_iter().cloned().chain(source.claimed_from().1).collect();
        // Only delaybridge writes to its own keys.
        let typed = if source.is_ours() { Vec::new() } else { source.repair().typed_keys() };
        let lasting = typed.into_iter().map(|(key, _)| key).filter(|key| !others.contains(key)).collect();
        CountedKeys { schedules: source.schedules(), leases: leases.clone(), others, lasting }
    }

    fn unannounced(&self) -> Option<Unannounced> {
        let source = self.ledger.source();
        let announcements = source.announcements()?;
        Some(Unannounced { list: announcements.unannounced()?, channel: announcements.channel().clone() })
    }

    fn note_others(&self, seen: Option<Duration>, holds: Duration) -> Call<'_, ()> {
        async move { self.ledger.note_others(&self.conn()?, seen, holds).await }.boxed()
    }

    fn presence(&self) -> Arc<str> {
        self.ledger.keys.presence.clone()
    }

    fn presence_in_database(&self) -> Arc<str> {
        self.ledger.keys.in_database.clone()
    }

    fn channels(&self) -> Vec<Arc<str>> {
        let own = self.ledger.source().announcements().map(|own| own.channel());
        let keys = &self.ledger.keys;
        own.into_iter().chain([&keys.presence, &keys.in_database]).cloned().collect()
    }

    fn announcement(&self, channel: &str, payload: &[u8]) -> Option<Announcement> {
        if [&self.ledger.keys.presence, &self.ledger.keys.in_database].iter().any(|ours| ***ours == *channel) {
            return match payload {
                ANNOUNCED => Some(Announcement::Pause),
                CHANGED => Some(Announcement::Changed),
                note if note.starts_with(NOTE) => Some(Announcement::Note(NOTE.len())),
                _ => None,
            };
        }
        let own = self.ledger.source().announcements().filter(|own| &**own.channel() == channel);
        own.and_then(|own| own.announcement(payload))
    }

    fn pauses<'a>(&'a self, sinks: &'a [Arc<str>]) -> Call<'a, Pauses> {
        async move {
            let conn = self.conn()?;
            let (pauses, marker) = self.ledger.pauses_and_prefix(&conn, sinks).await?;
            // Boxed, because it is rarely more than a comparison.
            Box::pin(self.ledger.take_prefix(&conn, marker.as_deref())).await?;
            Ok(pauses)
        }
        .boxed()
    }

    fn metric_names(&self) -> Option<&'static SourceTerms> {
        Some(self.ledger.source().upkeep()?.metric_names())
    }

    fn upkeep<'a>(&'a self, request: &'a UpkeepRequest) -> Call<'a, Upkept> {
        async {
            let conn = self.conn()?;
            match self.ledger.source().upkeep() {
                Some(upkeep) => upkeep.step(&conn, self.ledger.owner, request).await,
                // A claim leaves nothing behind.
                None => Ok(Upkept::idle(redis_now_ms(&conn).await?)),
            }
        }
        .boxed()
    }

    fn schedules(&self) -> usize {
        self.ledger.source().schedules().len()
    }

    fn due_between<'a>(&'a self, bounds: &'a [(i64, i64)]) -> Call<'a, Vec<u64>> {
        async move { self.ledger.due_between(&self.conn()?, bounds).await }.boxed()
    }

    fn due_before(&self, schedule: usize, ms: i64) -> Call<'_, usize> {
        async move { self.ledger.due_before(&self.conn()?, schedule, ms).await }.boxed()
    }

    fn scheduled(&self, schedule: usize, first: usize) -> Call<'_, Scheduled> {
        async move {
            let members = self.ledger.scheduled(&self.conn()?, schedule, first).await?;
            let source = self.ledger.source();
            // An element of a sorted set has a score; without one it is taken for due.
            let elements = members.members.into_iter().map(|(score, bytes)| match score {
                Some(score) => source.bare(bytes, score),
                None => claims::Element::bare(bytes, members.now_ms),
            });
            Ok(Scheduled { now_ms: members.now_ms, elements: elements.collect() })
        }
        .boxed()
    }

    fn read_bodies<'a>(&'a self, elements: &'a mut [claims::Element]) -> Call<'a, ()> {
        async move { self.ledger.fetch(&self.conn()?, elements, BATCH_BYTES).await.map(drop) }.boxed()
    }

    fn rescue<'a>(&'a self, after: Duration, elements: &'a [Bytes]) -> Call<'a, Rescued> {
        async move {
            match self.ledger.source().transfer() {
                Some(transfer) => transfer.rescue(&self.conn()?, after, elements).await,
                // The configuration refuses it: no client of the source transfers anything.
                None => Ok(Rescued::default()),
            }
        }
        .boxed()
    }

    fn forwarded<'a>(&'a self, lease: Duration, confirmed: &'a [String]) -> Call<'a, Forwarder> {
        async move { self.ledger.forwarded(&self.conn()?, lease, confirmed).await }.boxed()
    }

    fn dead_count(&self) -> Call<'_, usize> {
        async { self.ledger.dead_count(&self.conn()?).await }.boxed()
    }

    fn dead_range<'a>(
        &'a self,
        order: Order,
        from: &'a str,
        until: &'a str,
        count: usize,
    ) -> Call<'a, Vec<DeadLetter>> {
        async move { self.ledger.dead_range(&self.conn()?, order, from, until, count).await }.boxed()
    }
}

impl Claims for RedisStore {
    fn claim<'a>(&'a self, request: &'a claims::ClaimRequest) -> Call<'a, claims::ClaimReply> {
        async move {
            let conn = self.conn_for_claims().await?;
            let reply = self.ledger.claim(&conn, request).await?;
            if let claims::ClaimReply::Claimed(claimed) = &reply {
                self.make_durable(&conn, request.name, false, claimed.elements.iter().chain(&claimed.damaged)).await?;
            }
            Ok(reply)
        }
        .boxed()
    }

    fn take_over<'a>(&'a self, request: &'a claims::TakeOverRequest) -> Call<'a, claims::TakeOverReply> {
        async move {
            let conn = self.conn_for_claims().await?;
            let reply = self.ledger.take_over(&conn, request).await?;
            if let claims::TakeOverReply::Taken { elements, damaged, .. } = &reply {
                self.make_durable(&conn, request.new, true, elements.iter().chain(damaged)).await?;
            }
            Ok(reply)
        }
        .boxed()
    }

    fn expired(&self, now_ms: i64, most: usize) -> Call<'_, (Vec<ClaimName>, u64)> {
        async move { self.ledger.claims().expired(&self.conn()?, now_ms, most).await }.boxed()
    }

    fn extend<'a>(&'a self, lease: Duration, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, claims::Extended> {
        async move { self.ledger.claims().extend(&self.conn()?, lease, not_after_ms, names).await }.boxed()
    }

    fn contents(&self, name: ClaimName) -> Call<'_, claims::Contents> {
        async move { self.ledger.contents(&self.conn()?, name).await }.boxed()
    }

    fn recover(
        &self,
        name: ClaimName,
        lease: Duration,
        not_after_ms: i64,
        may_repeat: bool,
    ) -> Call<'_, Option<claims::Contents>> {
        async move {
            let conn = self.conn_for_claims().await?;
            // The claim was made over another connection. A server waits only for what this one has written (Redis 7.2 and newer,
            // Valkey): an end that differs from the one that the caller has just set.
            if self.durable.is_some() {
                let lease = lease + Duration::from_millis(1);
                match self.ledger.claims().extend(&conn, lease, not_after_ms, &[name]).await? {
                    claims::Extended::Late { .. } => return Ok(None),
                    claims::Extended::Done { held, .. } if held == [true] => {}
                    // Another daemon has taken it over, or it was settled.
                    claims::Extended::Done { .. } => return Ok(Some(claims::Contents::default())),
                }
            }
            let contents = self.ledger.contents(&conn, name).await?;
            self.make_durable(&conn, name, may_repeat, contents.elements.iter().chain(&contents.damaged)).await?;
            Ok(Some(contents))
        }
        .boxed()
    }

    fn confirm<'a>(&'a self, claims: &'a [claims::Whole]) -> Call<'a, Vec<claims::Confirmed>> {
        async move { self.ledger.claims().confirm(&self.conn()?, claims).await }.boxed()
    }

    fn settle<'a>(
        &'a self,
        batch: &'a [claims::SettleCommand],
        push_to: Option<&'a Bytes>,
        dead_max_len: Option<u64>,
    ) -> Call<'a, claims::Settled> {
        async move { self.ledger.claims().settle(&self.conn()?, batch, push_to, dead_max_len).await }.boxed()
    }

    fn bury<'a>(&'a self, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, claims::Buried> {
        async move { self.ledger.claims().bury(&self.conn()?, not_after_ms, names).await }.boxed()
    }

    fn owner(&self) -> [u8; 8] {
        self.ledger.owner
    }

    fn leave_order(&self, until_ms: i64) -> Call<'_, bool> {
        async move { self.ledger.claims().leave_order(&self.conn()?, self.ledger.owner, until_ms).await }.boxed()
    }

    fn in_flight(&self) -> Call<'_, InFlight> {
        async move { self.ledger.claims().in_flight(&self.conn()?).await }.boxed()
    }

    fn open_element(&self, element: &claims::Element) -> (Identity, Result<Bytes, NoPayload>) {
        self.ledger.open(element)
    }

    fn has_met_bodies(&self) -> bool {
        self.ledger.has_met_bodies()
    }

    fn tries(&self, element: &claims::Element) -> Option<u32> {
        self.ledger.source().bodies()?.tries(element.body.as_ref()?)
    }

    fn topic(&self, element: &claims::Element) -> Option<Arc<str>> {
        self.ledger.source().bodies()?.topic(element.body.as_ref()?)
    }

    fn carried(&self, element: &claims::Element) -> Option<Arc<Carried>> {
        self.ledger.source().bodies()?.carried(element.body.as_ref()?).map(Arc::new)
    }
}

impl QueueServer for Place {
    fn ready(&self) -> BoxFuture<'_, ()> {
        async { drop(self.ready().await) }.boxed()
    }

    fn is_up(&self) -> bool {
        self.current().is_some()
    }

    fn call_timeout(&self) -> Duration {
        self.command_timeout()
    }

    fn now_ms(&self) -> i64 {
        self.now_ms()
    }

    fn observe(&self, now_ms: i64) {
        self.observe(now_ms);
    }

    fn is_nearly_full(&self) -> bool {
        self.is_nearly_full()
    }

    fn history(&self) -> Option<History> {
        self.history()
    }
}
