//! Queues in Redis: the ledger and the source of each, over the one supervised connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::ledger::claims::{self, ClaimName};
use super::ledger::{DeadLetter, Forwarder, Ledger, Order, Place, Stats};
use super::store::{Call, Claims, InFlight, Rescued, Scheduled, Server, Store, Unannounced};
use super::{Announcement, NoPayload, Read, Score, Source, SourceError, UpkeepRequest, Upkept};
use crate::link::{Conn, Link, LinkError};
use crate::message::Identity;
use crate::metric::SourceTerms;

/// One queue behind a connection.
pub struct RedisStore {
    link: Link,
    ledger: Ledger,
}

impl RedisStore {
    /// The queue of this source. `owner` is this process's random number.
    pub fn new(link: Link, source: Arc<dyn Source>, owner: [u8; 8]) -> Self {
        RedisStore { link, ledger: Ledger::new(source, owner) }
    }

    /// The scripts and keys behind it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The connection, or the answer that nothing was sent.
    fn conn(&self) -> Result<Conn, SourceError> {
        current(&self.link)
    }
}

fn current(link: &Link) -> Result<Conn, SourceError> {
    link.current().ok_or(SourceError::Link(LinkError::NotSent { address: link.address().into() }))
}

impl Store for RedisStore {
    fn stats(&self) -> Call<'_, Stats> {
        async { self.ledger.stats(&self.conn()?).await }.boxed()
    }

    fn poll(&self, now_ms: i64, ahead: Duration) -> Vec<Read> {
        let keys = &self.ledger.keys;
        let ours =
            [&keys.retry, &keys.leases].map(|key| Read::DueBefore { key: key.clone(), until: Score::of_ms(now_ms) });
        self.ledger.source().poll(now_ms, ahead).into_iter().chain(ours).collect()
    }

    fn unannounced(&self) -> Option<Unannounced> {
        let source = self.ledger.source();
        let (read, channel) = (source.unannounced()?, source.channel()?.clone());
        Some(Unannounced { read, channel, presence: self.ledger.keys.presence.clone() })
    }

    fn channels(&self) -> Vec<Arc<str>> {
        self.ledger.source().channel().into_iter().chain([&self.ledger.keys.presence]).cloned().collect()
    }

    fn announcement(&self, channel: &str, payload: &[u8]) -> Option<Announcement> {
        let source = self.ledger.source();
        source.channel().filter(|own| &***own == channel).and_then(|_| source.announcement(payload))
    }

    fn terms(&self) -> Option<&'static SourceTerms> {
        self.ledger.source().terms()
    }

    fn upkeep<'a>(&'a self, request: &'a UpkeepRequest) -> Call<'a, Upkept> {
        async { self.ledger.source().upkeep(&self.conn()?, self.ledger.owner, request).await }.boxed()
    }

    fn due_before(&self, ms: i64) -> Call<'_, usize> {
        async move { self.ledger.due_before(&self.conn()?, ms).await }.boxed()
    }

    fn scheduled(&self, first: usize) -> Call<'_, Scheduled> {
        async move {
            let members = self.ledger.members(&self.conn()?, Place::Scheduled, first).await?;
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

    fn rescue<'a>(&'a self, after: Duration, elements: &'a [Bytes]) -> Call<'a, Rescued> {
        async move { self.ledger.source().rescue(&self.conn()?, after, elements).await }.boxed()
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
        async move { self.ledger.claim(&self.conn()?, request).await }.boxed()
    }

    fn take_over<'a>(&'a self, request: &'a claims::TakeOverRequest) -> Call<'a, claims::TakeOverReply> {
        async move { self.ledger.take_over(&self.conn()?, request).await }.boxed()
    }

    fn expired(&self, now_ms: i64, most: usize) -> Call<'_, (Vec<ClaimName>, u64)> {
        async move { self.ledger.claims().expired(&self.conn()?, now_ms, most).await }.boxed()
    }

    fn extend<'a>(&'a self, lease: Duration, names: &'a [ClaimName]) -> Call<'a, claims::Extended> {
        async move { self.ledger.claims().extend(&self.conn()?, lease, names).await }.boxed()
    }

    fn contents(&self, name: ClaimName) -> Call<'_, claims::Contents> {
        async move { self.ledger.contents(&self.conn()?, name).await }.boxed()
    }

    fn confirm<'a>(&'a self, how: claims::Confirm, claims: &'a [claims::Whole]) -> Call<'a, Vec<claims::Confirmed>> {
        async move { self.ledger.claims().confirm(&self.conn()?, how, claims).await }.boxed()
    }

    fn settle<'a>(
        &'a self,
        batch: &'a [claims::Verdict],
        push_to: Option<&'a Bytes>,
        dead_max_len: Option<u64>,
    ) -> Call<'a, claims::Settled> {
        async move { self.ledger.claims().settle(&self.conn()?, batch, push_to, dead_max_len).await }.boxed()
    }

    fn bury<'a>(&'a self, not_after_ms: i64, names: &'a [ClaimName]) -> Call<'a, claims::Buried> {
        async move { self.ledger.claims().bury(&self.conn()?, not_after_ms, names).await }.boxed()
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
        element.body.as_ref().and_then(|body| self.ledger.source().tries(body))
    }

    fn topic(&self, element: &claims::Element) -> Option<Arc<str>> {
        element.body.as_ref().and_then(|body| self.ledger.source().topic(body))
    }
}

/// The server behind a connection.
pub struct RedisServer(Link);

impl RedisServer {
    /// The server that this link leads to.
    pub fn new(link: Link) -> Self {
        RedisServer(link)
    }
}

impl Server for RedisServer {
    fn ready(&self) -> BoxFuture<'_, ()> {
        async { drop(self.0.ready().await) }.boxed()
    }

    fn is_up(&self) -> bool {
        self.0.current().is_some()
    }

    fn call_timeout(&self) -> Duration {
        self.0.command_timeout()
    }

    fn read<'a>(&'a self, reads: &'a [Read]) -> Call<'a, Vec<Result<i64, SourceError>>> {
        async move {
            if reads.is_empty() {
                return Ok(Vec::new());
            }
            let mut pipe = redis::pipe();
            for read in reads {
                match read {
                    Read::DueBefore { key, until } => pipe.cmd("ZCOUNT").arg(&key[..]).arg("-inf").arg(*until),
                    Read::Length { key } => pipe.cmd("LLEN").arg(&key[..]),
                };
            }
            let answers = current(&self.0)?.pipeline(&pipe).await?;
            let number = |answer| match answer {
                Ok(redis::Value::Int(n)) => Ok(n),
                Ok(_) => Err(SourceError::Link(LinkError::Malformed("expected a number".to_owned()))),
                Err(error) => Err(SourceError::Link(error)),
            };
            Ok(answers.into_iter().map(number).collect())
        }
        .boxed()
    }

    fn listeners<'a>(&'a self, channels: &'a [Arc<str>]) -> Call<'a, Vec<i64>> {
        async move {
            let mut command = redis::cmd("PUBSUB");
            command.arg("NUMSUB");
            for channel in channels {
                command.arg(&**channel);
            }
            let counts: Vec<(String, i64)> = current(&self.0)?.query(&command).await?;
            Ok(counts.into_iter().map(|(_, subscribers)| subscribers).collect())
        }
        .boxed()
    }

    fn nearly_full(&self) -> Call<'_, bool> {
        async { super::ledger::nearly_full(&current(&self.0)?).await }.boxed()
    }
}
