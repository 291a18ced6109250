//! Faults of Redisson's list, and of the records beside it.
//!
//! The list is read page by page while others change it. So what is missing there is looked for once more by the script that
//! checks it, at one moment. That takes longer the longer the list is, so it is done for lists up to a bound.

use std::collections::HashSet;
use std::sync::LazyLock;

use bytes::Bytes;
use redis::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::RedissonSource;
use super::scripts::of_the_command_line;
use delaybridge_ledger::fsck::{COMPARED, Check, Fault, Found, Held, Repair, Suspect};
use delaybridge_ledger::{Kind, StoreError, members, redis_now_ms, text};
use delaybridge_link::{Conn, Script};

/// Entries of a list that one script searches: 36 ns each.
const SEARCHED: usize = 130_000;
/// The time for which nobody continues a turn that was abandoned.
const ABANDONED_MS: i64 = 60_000;

static ORPHAN: LazyLock<Script> =
    LazyLock::new(|| of_the_command_line("fsck_orphan", include_str!("scripts/fsck/orphan.lua")));
static UNLISTED: LazyLock<Script> =
    LazyLock::new(|| of_the_command_line("fsck_unlisted", include_str!("scripts/fsck/unlisted.lua")));
static SWEEP: LazyLock<Script> =
    LazyLock::new(|| of_the_command_line("fsck_sweep", include_str!("scripts/fsck/sweep.lua")));
static UNSCHEDULE: LazyLock<Script> = LazyLock::new(|| {
    let body = include_str!("scripts/fsck/unschedule.lua")
        .replace("--#include remove.lua", include_str!("scripts/remove.lua"));
    of_the_command_line("fsck_unschedule", &body)
});

impl RedissonSource {
    /// Takes an element out of the sorted set and the list, if another copy of it is the member of this sorted set.
    pub(super) fn unscheduled(&self, element: &Bytes, kept_key: &Bytes, kept: &Bytes) -> Check {
        let k = &self.keys;
        let keys = [&k.delayed, kept_key, &k.list, &k.ghosts, &k.sweep].map(Bytes::clone);
        Check::new(&UNSCHEDULE, keys.to_vec(), vec![element.clone(), self.cleanup_word(), kept.clone()])
    }

    /// Looks at the list, and at the turn of the sweep.
    pub(super) async fn faults(&self, conn: &Conn, held: &Held, found: &mut Found<'_>) -> Result<(), StoreError> {
        self.look_at_sweep(conn, found).await?;
        let Some(listed) = self.look_at_list(conn, held, found).await? else {
            found.not_checked(format!("the list: more than {COMPARED} entries"));
            return Ok(());
        };
        if listed.entries > SEARCHED {
            found.not_checked(format!(
                "scheduled elements that are not in the list: it has more than {SEARCHED} entries, and a search would hold Redis up"
            ));
            return Ok(());
        }
        let mut first = 0;
        loop {
            let page = members(conn, &self.keys.delayed, Kind::Zset, first).await?.members;
            if page.is_empty() {
                return Ok(());
            }
            first += page.len();
            for (_, element) in page.into_iter().filter(|(_, element)| !listed.hashes.contains(&xxh3_64(element))) {
                let keys = [&self.keys.delayed, &self.keys.list].map(Bytes::clone).to_vec();
                let check = Check::new(&UNLISTED, keys, vec![element.clone(), text(SEARCHED)]);
                found.add(Suspect::new(Fault::NotListed, name_of(&element), Repair::Script, check));
            }
        }
    }

    /// Reads the list; `None` if it is too long for that.
    async fn look_at_list(
        &self,
        conn: &Conn,
        held: &Held,
        found: &mut Found<'_>,
    ) -> Result<Option<Listed>, StoreError> {
        let k = &self.keys;
        let mut listed = Listed::default();
        loop {
            let page = members(conn, &k.list, Kind::List, listed.entries).await?.members;
            if page.is_empty() {
                return Ok(Some(listed));
            }
            found.looked(page.len());
            let entries: Vec<Bytes> = page.into_iter().map(|(_, entry)| entry).collect();
            let mut pipe = redis::pipe();
            let scores = pipe.cmd("ZMSCORE").arg(&k.delayed[..]);
            entries.iter().for_each(|entry| {
                scores.arg(&entry[..]);
            });
            for ghosts in [&k.ghosts, &k.ghosts_turn] {
                let recorded = pipe.cmd("SMISMEMBER").arg(&ghosts[..]);
                entries.iter().for_each(|entry| {
                    recorded.arg(identity(entry));
                });
            }
            let mut answers = Vec::with_capacity(3);
            for answer in conn.pipeline(&pipe).await? {
                match answer? {
                    Value::Array(values) if values.len() == entries.len() => answers.push(values),
                    _ => {
                        let expected = "an answer for each entry";
                        return Err(delaybridge_link::BadReply { script: "ZMSCORE", expected }.into());
                    }
                }
            }
            let [scores, ghosts, turn] = &answers[..] else { return Ok(None) };
            for (n, entry) in entries.iter().enumerate() {
                let recorded = |set: &[Value]| set[n] == Value::Int(1);
                if scores[n] == Value::Nil && !recorded(ghosts) && !recorded(turn) {
                    self.nowhere(entry, listed.entries + n, held, found);
                }
            }
            listed.entries += entries.len();
            if listed.entries > COMPARED {
                return Ok(None);
            }
            listed.hashes.extend(entries.iter().map(|entry| xxh3_64(entry)));
        }
    }

    /// Adds the suspicion about an entry that is neither scheduled nor a ghost.
    fn nowhere(&self, entry: &Bytes, place: usize, held: &Held, found: &mut Found<'_>) {
        let k = &self.keys;
        if held.more {
            found.not_checked("orphans of the list: delaybridge holds more elements than are compared");
            return;
        }
        let (fault, word) = if held.has(entry) { (Fault::UnrecordedGhost, "ghost") } else { (Fault::Orphan, "orphan") };
        let keys = [&k.delayed, &k.list, &k.ghosts, &k.ghosts_turn, &k.sweep].map(Bytes::clone).to_vec();
        let args = vec![entry.clone(), text(word), text(SEARCHED), text(place)];
        let readable = super::recognise(entry).is_some();
        let kept = Repair::Kept("its bytes are no element of Redisson: scheduled, they would stop all of its clients");
        let repair = if readable || fault == Fault::UnrecordedGhost { Repair::Script } else { kept };
        found.add(Suspect::new(fault, name_of(entry), repair, Check::new(&ORPHAN, keys, args)));
    }

    async fn look_at_sweep(&self, conn: &Conn, found: &mut Found<'_>) -> Result<(), StoreError> {
        const FIELDS: [&str; 9] =
            ["until", "left", "slice", "since", "bytes", "entries", "orphans", "next_turn", "oldest"];
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.sweep[..]).arg(&FIELDS);
        let values: Vec<Option<Vec<u8>>> = conn.query(&command).await?;
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse::<f64>().ok().filter(|n| n.is_finite());
        let mut of_turn = [None; 2];
        for (n, (field, value)) in FIELDS.iter().zip(&values).enumerate() {
            let Some(value) = value else { continue };
            match number(value) {
                Some(value) if n < 2 => of_turn[n] = Some(value),
                Some(_) => {}
                None => {
                    let args = vec![text("field"), text(field), text(0)];
                    let check = Check::new(&SWEEP, vec![self.keys.sweep.clone()], args);
                    found.add(Suspect::new(Fault::SweepUnreadable, format!("field {field}"), Repair::Script, check));
                }
            }
        }
        let now_ms = redis_now_ms(conn).await?;
        if let [until, Some(left)] = of_turn
            && until.unwrap_or(0.0) + (ABANDONED_MS as f64) < now_ms as f64
        {
            let args = vec![text("turn"), text("left"), text(ABANDONED_MS)];
            let check = Check::new(&SWEEP, vec![self.keys.sweep.clone()], args);
            found.add(Suspect::new(Fault::SweepAbandoned, format!("a turn with {left:.0} to go"), Repair::Turn, check));
        }
        Ok(())
    }
}

/// The entries that were read of the list.
#[derive(Default)]
struct Listed {
    hashes: HashSet<u64>,
    entries: usize,
}

/// Returns the bytes by which a ghost is recorded.
fn identity(entry: &Bytes) -> &[u8] {
    &entry[..entry.len().min(9)]
}

fn name_of(element: &Bytes) -> String {
    let read = super::read(element, element.len());
    read.id.map_or_else(String::new, |id| format!("element {id}"))
}
