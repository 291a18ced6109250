//! The marker that keeps two prefixes from one queue: daemons with different ones would not see each other's claims, pauses and
//! order.
//!
//! `delaybridge:prefix:TAG` is the prefix that the queue is delivered with. Its own name has the default prefix, whatever the
//! configuration says, because all daemons have to find it. Only daemons with another prefix than the default write it. It is
//! read with the pauses: before the first claim, after a reconnect, and once a minute.
//!
//! A daemon whose prefix is not the marker's takes the queue over if nothing is left under the other one. Otherwise it claims
//! nothing, and says what to do.

use bytes::Bytes;

use super::claims::ClaimName;
use super::keys::Keys;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::operate::daemons;
use crate::other_prefix::{FoundThere, OtherPrefix};
use delaybridge_link::rights::command::{EXISTS, GET, HKEYS, PUBSUB_NUMSUB, SET, ZRANGE};
use delaybridge_link::rights::{Grant, Pattern};
use delaybridge_link::{Conn, KeyPrefix, LinkError};

/// Names of claims that are looked at. More, or those of a newer version, are a queue at work.
const CLAIMS: usize = 1_000;

impl Keys {
    /// Returns the key of the marker. Its name is the same for every prefix.
    pub fn marker(&self) -> Bytes {
        [KeyPrefix::DEFAULT, "prefix:", &self.tag].concat().into()
    }
}

impl Ledger {
    /// Returns whether the marker does not speak of this queue, because the schedule itself has the prefix.
    fn has_no_marker(&self) -> bool {
        self.source.is_ours()
    }

    /// Returns the command that reads the marker, if the queue has one.
    pub(super) fn ask_for_prefix(&self) -> Option<redis::Cmd> {
        let mut get = redis::cmd("GET");
        get.arg(&self.keys.marker()[..]);
        (!self.has_no_marker()).then_some(get)
    }

    pub(super) fn marker(&self, answer: Result<redis::Value, LinkError>) -> Result<Option<Vec<u8>>, StoreError> {
        match answer {
            // Rights of an earlier version, whose daemons all have the default.
            Err(LinkError::Server { code: "NOPERM", .. }) if self.keys.space.prefix.is_default() => Ok(None),
            answer => read(answer?),
        }
    }

    /// Reads the marker, and refuses a queue that is delivered with another prefix.
    ///
    /// # Errors
    ///
    /// That it is, and those of the connection.
    pub async fn check_prefix(&self, conn: &Conn) -> Result<(), StoreError> {
        let Some(ask) = self.ask_for_prefix() else { return Ok(()) };
        let marker = self.marker(conn.query(&ask).await)?;
        self.judge_prefix(marker.as_deref())
    }

    /// Reads the prefix that the queue is delivered with, if daemons with another than the default one have marked it.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a missing right.
    pub async fn delivered_with(&self, conn: &Conn) -> Result<Option<KeyPrefix>, StoreError> {
        let Some(ask) = self.ask_for_prefix() else { return Ok(None) };
        let marker: Option<String> = conn.query(&ask).await?;
        Ok(marker.and_then(|marker| marker.parse().ok()))
    }

    /// Refuses a queue with the marker of another prefix.
    pub(super) fn judge_prefix(&self, marker: Option<&[u8]>) -> Result<(), StoreError> {
        match marker {
            Some(theirs) if *theirs != *self.keys.space.prefix.as_bytes() => {
                Err(self.other(&String::from_utf8_lossy(theirs), FoundThere::NotAsked).into())
            }
            _ => Ok(()),
        }
    }

    /// Sets the marker to our prefix, unless anything is left under that of the marker, or under the default without a marker.
    pub(super) async fn take_prefix(&self, conn: &Conn, marker: Option<&[u8]>) -> Result<(), StoreError> {
        let ours = &self.keys.space.prefix;
        if self.has_no_marker() || marker.map_or(ours.is_default(), |theirs| *theirs == *ours.as_bytes()) {
            return Ok(());
        }
        let theirs = marker.map_or(KeyPrefix::DEFAULT.into(), String::from_utf8_lossy);
        // The default is never written there.
        let Ok(prefix) = theirs.parse::<KeyPrefix>() else {
            return Err(self.other(&theirs, FoundThere::Unreadable).into());
        };
        let keys = self.keys.under(prefix);
        match self.left_under(conn, &keys).await {
            Ok(None) => {}
            Ok(Some(found)) => return Err(self.other(&theirs, found).into()),
            Err(StoreError::Refused { code: "NOPERM", message }) => {
                return Err(self.other(&theirs, FoundThere::NoRight(message)).into());
            }
            Err(error) => return Err(error),
        }
        let key = self.keys.marker();
        let mut write = redis::cmd(if ours.is_default() { "UNLINK" } else { "SET" });
        write.arg(&key[..]);
        if !ours.is_default() {
            write.arg(&**ours);
            // Of two daemons that start at once, one finds the other's.
            if marker.is_none() {
                write.arg("NX");
            }
        }
        conn.query::<redis::Value>(&write).await?;
        let marker: Option<Vec<u8>> = conn.query(redis::cmd("GET").arg(&key[..])).await?;
        self.judge_prefix(marker.as_deref())
    }

    /// Finds keys that are left under these names, or daemons that use them.
    async fn left_under(&self, conn: &Conn, keys: &Keys) -> Result<Option<FoundThere>, StoreError> {
        let daemons = daemons(conn, keys).await?;
        if daemons > 0 {
            return Ok(Some(FoundThere::Daemons(daemons)));
        }
        let mut look = redis::cmd("ZRANGE");
        let names: Vec<Vec<u8>> = conn.query(look.arg(&keys.leases[..]).arg(0).arg(CLAIMS)).await?;
        let claims = names.iter().map(|name| std::str::from_utf8(name).ok()?.parse::<ClaimName>().ok());
        let Some(claims) = claims.collect::<Option<Vec<_>>>().filter(|claims| claims.len() < CLAIMS) else {
            return Ok(Some(FoundThere::Left(vec![String::from_utf8_lossy(&keys.leases).into_owned()])));
        };
        // A name is buried some time after its claim has ended: without keys it holds nothing.
        let claims = claims.into_iter().flat_map(|name| keys.of_claim(name));
        let all: Vec<Bytes> = claims.chain(self.kept_under(keys)).collect();
        let mut pipe = redis::pipe();
        pipe.cmd("HKEYS").arg(&keys.state[..]);
        all.iter().for_each(|key| _ = pipe.cmd("EXISTS").arg(&key[..]));
        let mut answers = conn.pipeline(&pipe).await?.into_iter();
        let mut left = Vec::new();
        if let Some(fields) = answers.next() {
            let fields: Vec<Vec<u8>> = read(fields?)?;
            left.extend(fields.iter().any(|field| field.starts_with(b"pause")).then_some(&keys.state));
        }
        for (key, answer) in all.iter().zip(answers) {
            left.extend((read::<i64>(answer?)? > 0).then_some(key));
        }
        let names = left.into_iter().take(3).map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>();
        Ok((!names.is_empty()).then_some(FoundThere::Left(names)))
    }

    /// Returns the keys that exist only while a daemon has something left to do.
    fn kept_under(&self, keys: &Keys) -> Vec<Bytes> {
        let lives = self.source.bodies().map(|_| keys.lives());
        let words = self.source.left_behind().iter().map(|word| keys.named(word));
        [keys.retry.clone(), keys.dead.clone()].into_iter().chain(lives).chain(words).collect()
    }

    fn other(&self, theirs: &str, found: FoundThere) -> OtherPrefix {
        let marker = String::from_utf8_lossy(&self.keys.marker()).into_owned();
        let theirs = theirs.chars().filter(|c| !c.is_control()).take(64).collect();
        OtherPrefix { ours: self.keys.space.prefix.clone(), theirs, marker, found }
    }

    /// Returns the right to read the marker.
    pub(super) fn to_see_prefix(&self) -> Option<Grant> {
        (!self.has_no_marker()).then(|| Grant::on([Pattern::exact(self.keys.marker())], [GET]))
    }

    /// Returns the rights of a daemon that takes a queue over from the default prefix. On what is left under another
    /// one no user is known to have any, so a daemon with the default prefix has to be let in by a person, or by more
    /// rights than these.
    pub(super) fn to_take_prefix(&self) -> Vec<Grant> {
        if self.has_no_marker() || self.keys.space.prefix.is_default() {
            return Vec::new();
        }
        let keys = self.keys.under(KeyPrefix::default());
        let left = self.kept_under(&keys).into_iter().map(Pattern::exact).chain([keys.of_claims()]);
        vec![
            Grant::plain([PUBSUB_NUMSUB]),
            Grant::on([Pattern::exact(self.keys.marker())], [SET]),
            Grant::on([Pattern::exact(keys.leases.clone())], [ZRANGE]),
            Grant::on([Pattern::exact(keys.state.clone())], [HKEYS]),
            Grant::on(left, [EXISTS]),
        ]
    }
}

fn read<T: redis::FromRedisValue>(value: redis::Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|error| StoreError::Malformed(error.to_string()))
}
