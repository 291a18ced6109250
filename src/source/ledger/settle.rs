//! Verdicts and leases: what ends a claim, and what keeps it.

use std::time::Duration;

use bytes::Bytes;

use super::reply::{BadReply, Fields};
use super::verdict::{self, Answer, Move};
use super::{BATCH_BYTES, BATCH_ENTRIES, Ledger};
use crate::link::Conn;
use crate::source::{SourceError, millis, text};

/// What a settling did.
#[derive(Debug)]
pub struct Settled {
    /// Redis time in ms, if a script returned it.
    pub now_ms: Option<i64>,
    /// One answer for each verdict, in their order. Of a batch of nothing but confirmations only their number is right:
    /// the number of confirmations for entries of another claim counts, not which entries.
    pub answers: Vec<Answer>,
    /// Dead letters that were trimmed away.
    pub trimmed: u64,
}

impl Ledger {
    /// Writes the verdicts of a batch. `dead_max_len` is the exact length that the dead stream is trimmed to.
    ///
    /// # Errors
    ///
    /// After any error the same batch may be sent again; what was done already is answered so.
    pub async fn settle(
        &self,
        conn: &Conn,
        batch: &[(Bytes, Move)],
        exactly_once_list: Option<&Bytes>,
        dead_max_len: Option<u64>,
    ) -> Result<Settled, SourceError> {
        if batch.iter().all(|(_, step)| matches!(step, Move::Confirm)) {
            return self.confirm(conn, batch).await;
        }
        let k = &self.keys;
        let mut keys = vec![k.in_flight.clone(), k.retry.clone(), k.dead.clone()];
        keys.extend(exactly_once_list.cloned());
        let mut args = Vec::with_capacity(batch.len() * 4 + 1);
        args.push(dead_max_len.map(text).unwrap_or_default());
        for (member, step) in batch {
            verdict::arguments(member, step, &mut args);
        }
        let reply = conn.script(&self.scripts.settle, &keys, &args).await?;
        let mut fields = Fields::of("settle", reply)?;
        let (now_ms, letters) = answers("settle", &mut fields, batch.len())?;
        let answers = letters.iter().map(|&letter| Answer::of(letter)).collect::<Option<_>>();
        let answers = answers.ok_or(BadReply { script: "settle", expected: "known answers" })?;
        Ok(Settled { now_ms: Some(now_ms), answers, trimmed: fields.int()?.unsigned_abs() })
    }

    /// Nearly all batches. One command is a transaction as well, and cheaper than a script: nothing is copied into Lua.
    /// Sent twice it finds nothing: no member ever comes back under its old name.
    async fn confirm(&self, conn: &Conn, batch: &[(Bytes, Move)]) -> Result<Settled, SourceError> {
        let removed: usize = match batch {
            [] => 0,
            _ => conn.query(&confirmation(&self.keys.in_flight, batch)).await?,
        };
        let answers = (0..batch.len()).map(|n| if n < removed { Answer::Done } else { Answer::NotMine }).collect();
        Ok(Settled { now_ms: None, answers, trimmed: 0 })
    }

    /// Moves the deadline of these members to a full lease from now; answers which were still the caller's.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn extend(&self, conn: &Conn, lease: Duration, members: &[Bytes]) -> Result<Vec<bool>, SourceError> {
        let mut args = Vec::with_capacity(members.len() + 1);
        args.push(text(millis(lease)));
        args.extend(members.iter().cloned());
        let reply = conn.script(&self.scripts.extend, std::slice::from_ref(&self.keys.in_flight), &args).await?;
        let (_, letters) = answers("extend", &mut Fields::of("extend", reply)?, members.len())?;
        Ok(letters.iter().map(|&letter| letter == b'y').collect())
    }
}

/// The command that takes these members out of flight.
pub fn confirmation(in_flight: &[u8], batch: &[(Bytes, Move)]) -> redis::Cmd {
    let bytes = batch.iter().map(|(member, _)| member.len()).sum();
    let mut command = redis::Cmd::with_capacity(batch.len() + 2, bytes);
    command.arg("ZREM").arg(in_flight);
    for (member, _) in batch {
        command.arg(&member[..]);
    }
    command
}

/// How many of these moves one script may take, by count and by bytes: at least one, if there is one.
pub fn batch_end<'a>(moves: impl Iterator<Item = (&'a Bytes, &'a Move)>) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for (member, step) in moves.take(BATCH_ENTRIES) {
        bytes += verdict::size(member, step);
        if count > 0 && bytes > BATCH_BYTES {
            break;
        }
        count += 1;
    }
    count
}

fn answers(script: &'static str, fields: &mut Fields, expected: usize) -> Result<(i64, Bytes), BadReply> {
    let (now_ms, letters) = (fields.int()?, fields.bytes()?);
    match letters.len() == expected {
        true => Ok((now_ms, letters)),
        false => Err(BadReply { script, expected: "one answer for each member" }),
    }
}
