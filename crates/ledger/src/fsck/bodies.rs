//! Schedules member by member: members in no format of the source, ids without jobs, and jobs without ids.

use std::collections::HashSet;
use std::sync::LazyLock;

use bytes::Bytes;
use redis::Value;

use super::held::{Held, place_of};
use super::leases::MEMBER;
use super::{COMPARED, Check, Fault, Found, MOST, Repair, Suspect, script};
use crate::args::text;
use crate::body::{AllBodies, BodyAt};
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::packed::{Shape, glob_literal};
use crate::page::{Kind, members, redis_now_ms};
use delaybridge_core::message::MessageId;
use delaybridge_link::{Conn, Fields, Script};

static NO_BODY: LazyLock<Script> = LazyLock::new(|| script("fsck_no_body", include_str!("scripts/no_body.lua")));
static NO_ID: LazyLock<Script> = LazyLock::new(|| script("fsck_no_id", include_str!("scripts/no_id.lua")));
static FIELDS: LazyLock<Script> = LazyLock::new(|| script("fsck_fields", include_str!("scripts/fields.lua")));

const JUNK: Repair = Repair::Kept(
    "at its due time a daemon stores it as a dead letter, with all of its bytes; another program wrote it",
);
const NO_MEMBER: Repair = Repair::Kept("what its member looks like is not known, because the id is in a record there");

impl Ledger {
    /// Looks at everything that is scheduled, and at the bodies, where the source keeps them elsewhere.
    pub(super) async fn look_at_schedules(
        &self,
        conn: &Conn,
        held: &Held,
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        let mut known = HashSet::new();
        self.each_scheduled(conn, async |key: &Bytes, page: Vec<Bytes>| {
            found.looked(page.len());
            for member in &page {
                let read = self.source.search().read(MessageId([0; 8]), member, member.len());
                if read.shape == Shape::Junk {
                    let subject = format!("{} bytes in {}", member.len(), String::from_utf8_lossy(key));
                    let check = Check::new(&MEMBER, vec![key.clone()], vec![member.clone()]);
                    found.add(Suspect::new(Fault::UnreadableMember, subject, JUNK, check));
                }
            }
            let bodies =
                page.iter().filter_map(|member| Some((member, self.source.body_at(member)?))).collect::<Vec<_>>();
            known.extend(bodies.iter().map(|(_, at)| place_of(at)));
            self.look_for_bodies(conn, key, &bodies, found).await
        })
        .await?;
        match self.source.bodies().and_then(|bodies| bodies.all_bodies()) {
            Some(_) if held.more || known.len() > COMPARED => {
                found.not_checked(format!("jobs without ids: there are more than {COMPARED} ids"));
                Ok(())
            }
            Some(bodies) => self.look_for_ids(conn, &bodies, &known, held, found).await,
            None => {
                if self.source.bodies().is_some() {
                    found.not_checked("jobs without ids: their keys have no name of their own in front of the id");
                }
                Ok(())
            }
        }
    }

    /// Reads all schedules, and what is not scheduled by the source and has ids as well, page by page.
    async fn each_scheduled(
        &self,
        conn: &Conn,
        mut see: impl AsyncFnMut(&Bytes, Vec<Bytes>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for key in self.all_ids() {
            let mut first = 0;
            loop {
                let page = members(conn, &key, Kind::Zset, first).await?.members;
                if page.is_empty() {
                    break;
                }
                first += page.len();
                see(&key, page.into_iter().map(|(_, member)| member).collect()).await?;
            }
        }
        Ok(())
    }

    /// Returns every sorted set with ids: the schedules, and others of a source with bodies.
    fn all_ids(&self) -> Vec<Bytes> {
        let others = self.source.bodies().map(|bodies| bodies.other_ids()).unwrap_or_default();
        self.source.schedules().into_iter().chain(others).collect()
    }

    async fn look_for_bodies(
        &self,
        conn: &Conn,
        key: &Bytes,
        bodies: &[(&Bytes, BodyAt)],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        if bodies.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for (_, at) in bodies {
            match at.field() {
                None => pipe.cmd("EXISTS").arg(&at.key()[..]),
                Some(field) => pipe.cmd("HEXISTS").arg(&at.key()[..]).arg(&field[..]),
            };
        }
        for ((member, at), answer) in bodies.iter().zip(conn.pipeline(&pipe).await?) {
            // An error is one of the type: the job's key is another program's.
            if let Ok(Value::Int(0)) = answer {
                let args = vec![(*member).clone(), at.field().cloned().unwrap_or_default()];
                let check = Check::new(&NO_BODY, vec![key.clone(), at.key().clone()], args);
                let subject = format!("id {}", self.name_of(member));
                found.add(Suspect::new(Fault::IdWithoutBody, subject, Repair::Script, check));
            }
        }
        Ok(())
    }

    /// Looks at all bodies: each has an id in the schedules, or is held.
    async fn look_for_ids(
        &self,
        conn: &Conn,
        bodies: &AllBodies,
        known: &HashSet<u64>,
        held: &Held,
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        let mut without = Vec::new();
        let mut cursor = Bytes::from_static(b"0");
        loop {
            let (next, page) = self.page_of_bodies(conn, bodies, &cursor).await?;
            found.looked(page.len());
            for name in page {
                let Some(at) = bodies.at(&name) else { continue };
                let place = place_of(&at);
                if !known.contains(&place) && !held.has_body(place) && without.len() < MOST {
                    without.push((name, at));
                }
            }
            cursor = next;
            if &cursor[..] == b"0" {
                break;
            }
        }
        if without.is_empty() {
            return Ok(());
        }
        // A job that was on its way from one place to another while these were read is in one of them now.
        let again = self.held_bodies(conn, &found.unleased).await?;
        let mut still = HashSet::new();
        self.each_scheduled(conn, async |_, page: Vec<Bytes>| {
            still.extend(page.iter().filter_map(|member| Some(place_of(&self.source.body_at(member)?))));
            Ok(())
        })
        .await?;
        let now = text(self.source.unit().until(redis_now_ms(conn).await?));
        let ids = self.all_ids();
        for (name, at) in without {
            let place = place_of(&at);
            if again.contains(&place) || still.contains(&place) {
                continue;
            }
            let member = self.source.bodies().and_then(|bodies| bodies.member_of_body(&name));
            let subject = format!("job {}", member.as_ref().map_or_else(|| name_in_text(&name), |id| self.name_of(id)));
            let repair = if member.is_some() { Repair::Script } else { NO_MEMBER };
            let keys = std::iter::once(at.key().clone()).chain(ids.iter().cloned()).collect();
            let args = vec![member.unwrap_or_default(), at.field().cloned().unwrap_or_default(), now.clone()];
            found.add(Suspect::new(Fault::BodyWithoutId, subject, repair, Check::new(&NO_ID, keys, args)));
        }
        Ok(())
    }

    async fn page_of_bodies(
        &self,
        conn: &Conn,
        bodies: &AllBodies,
        cursor: &Bytes,
    ) -> Result<(Bytes, Vec<Bytes>), StoreError> {
        match bodies {
            AllBodies::Fields { key } => {
                let reply = conn.script(&FIELDS, std::slice::from_ref(key), std::slice::from_ref(cursor)).await?;
                let mut fields = Fields::of("fsck_fields", reply)?;
                Ok((fields.bytes()?, fields.all_bytes()?))
            }
            AllBodies::Keys { before, behind, .. } => {
                let pattern = [&glob_literal(before)[..], b"*", &glob_literal(behind)].concat();
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor[..]).arg("MATCH").arg(&pattern[..]).arg("COUNT").arg(1_000);
                let mut fields = Fields::of("SCAN", conn.query(&scan).await?)?;
                let next = fields.bytes()?;
                let mut page = fields.all_bytes()?;
                // The pool's own keys may have such names too.
                let own: HashSet<Bytes> = self.source.repair().typed_keys().into_iter().map(|(key, _)| key).collect();
                page.retain(|key| !own.contains(key));
                Ok((next, page))
            }
        }
    }
}

fn name_in_text(name: &Bytes) -> String {
    let text = String::from_utf8_lossy(name);
    text.chars().take(64).flat_map(char::escape_default).collect()
}
