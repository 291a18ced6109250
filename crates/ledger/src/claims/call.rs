//! The calls on claims, one script or command each: no state between calls, no retries.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use super::{
    Buried, ClaimName, ClaimReply, ClaimRequest, Confirmed, Contents, Extended, Scripts, SettleCommand, Settled,
    TakeOverReply, TakeOverRequest, Whole, reply, verdict,
};
use crate::args::{millis, text, truth};
use crate::batch::{BATCH_BYTES, BATCH_ENTRIES};
use crate::claims::Answer;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::keys::Keys;
use crate::source::Source;
use crate::store::InFlight;
use delaybridge_link::{BadReply, Conn, Fields, Script};

/// Names that one read of leases asks for, at most.
const PAGE: usize = 1_000;
/// Names that one script looks up, at most: 1 us each.
const NAMES: usize = 2_000;
/// Claims that [`ClaimScripts::in_flight`] looks at.
const COUNTED: usize = 1_000;

/// The claims of one queue in one Redis, as one process sees them.
#[derive(Clone, Copy)]
pub struct ClaimScripts<'a> {
    keys: &'a Keys,
    pub(super) source: &'a dyn Source,
    scripts: &'static Scripts,
    /// One daemon at a time delivers from the queue, in order.
    ordered: bool,
}

impl Ledger {
    /// Returns the calls on claims.
    pub fn claims(&self) -> ClaimScripts<'_> {
        ClaimScripts { keys: &self.keys, source: &*self.source, scripts: &self.scripts.claims, ordered: self.ordered }
    }
}

impl ClaimScripts<'_> {
    /// Returns the script and its keys; for a queue in order, the script with the fence, and the key that it needs.
    fn fenced(
        &self,
        script: &'static Script,
        in_order: &'static Script,
        mut keys: Vec<Bytes>,
    ) -> (&'static Script, Vec<Bytes>) {
        if !self.ordered {
            return (script, keys);
        }
        keys.push(self.keys.state.clone());
        (in_order, keys)
    }

    /// Gives the order back, for a process with nothing in flight; not if it ends later than `until_ms`, because the process has
    /// claimed since.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn leave_order(&self, conn: &Conn, owner: [u8; 8], until_ms: i64) -> Result<bool, StoreError> {
        let args = [text(format_args!("{:016x}", u64::from_be_bytes(owner))), text(until_ms)];
        let answer = conn.script(&self.scripts.in_order.leave, std::slice::from_ref(&self.keys.state), &args).await?;
        Ok(truth("claims_leave", answer)?)
    }

    /// Claims what is due. `name` is new, or that of a call with a lost answer.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn claim(&self, conn: &Conn, request: &ClaimRequest) -> Result<ClaimReply, StoreError> {
        let ClaimName { owner, number, .. } = request.name;
        let mut nonce = [0; 16];
        fastrand::Rng::new().fill(&mut nonce);
        let hints = &request.hints;
        let [d, h] = self.keys.of_claim(request.name);
        let mut keys = vec![self.keys.leases.clone(), d, h, self.keys.retry.clone()];
        keys.extend(self.source.keys());
        keys.extend(self.source.bodies().map(|_| self.keys.lives()));
        let mut args = vec![
            text(request.name),
            Bytes::from([owner, number.to_le_bytes()].concat()),
            Bytes::copy_from_slice(&nonce),
            text(request.not_after_ms),
            text(millis(request.lease)),
            text(request.most.min(BATCH_ENTRIES)),
            text(request.bytes.min(BATCH_BYTES)),
            text(hints.largest()),
            hints.large_retry.map(text).unwrap_or_default(),
            text(request.rotation % 12), // Divides by two, three and four places alike.
        ];
        args.extend(self.source.claim_args(hints, request.ahead));
        args.extend(self.ordered.then(|| request.back_before_ms.map(text).unwrap_or_default()));
        let (script, keys) = self.fenced(&self.scripts.claim, &self.scripts.in_order.claim, keys);
        let answer = conn.script(script, &keys, &args).await?;
        Ok(reply::claim(self.source, answer, hints, request.ahead)?)
    }

    /// Takes over what is in a claim with a lease that is over: all of it, or what there is room for.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn take_over(&self, conn: &Conn, request: &TakeOverRequest) -> Result<TakeOverReply, StoreError> {
        let ([old_d, old_h], [d, h]) = (self.keys.of_claim(request.old), self.keys.of_claim(request.new));
        let keys = vec![self.keys.leases.clone(), old_d, old_h, d, h];
        let (script, keys) = self.fenced(&self.scripts.take_over, &self.scripts.in_order.take_over, keys);
        let args = [
            text(request.old),
            text(request.new),
            text(request.not_after_ms),
            text(millis(request.lease)),
            text(request.most.min(BATCH_ENTRIES)),
            text(request.bytes.min(BATCH_BYTES)),
            text(request.largest),
        ];
        Ok(reply::take_over(self.source, conn.script(script, &keys, &args).await?)?)
    }

    /// Reads the names of claims whose leases were over at this time, the longest first; at most `most`. Also returns
    /// how many of the names looked at this version cannot read: they do not hide others, however many they are.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn expired(&self, conn: &Conn, now_ms: i64, most: usize) -> Result<(Vec<ClaimName>, u64), StoreError> {
        let mut names = Vec::new();
        let mut unknown = 0;
        for from in (0..).step_by(PAGE) {
            // By rank: behind a score, Redis would walk over everything that was passed before.
            let mut command = redis::cmd("ZRANGE");
            command.arg(&self.keys.leases[..]).arg(from).arg(from + PAGE - 1).arg("WITHSCORES");
            let page: Vec<(Vec<u8>, f64)> = conn.query(&command).await?;
            let read = page.len();
            let over = page.into_iter().take_while(|(_, ends_ms)| *ends_ms <= now_ms as f64);
            let found: Vec<Bytes> = over.map(|(name, _)| Bytes::from(name)).collect();
            let (known, others) = reply::names(&found);
            names.extend(known);
            unknown += others;
            if found.len() < read || read < PAGE || names.len() >= most {
                break;
            }
        }
        names.truncate(most);
        Ok((names, unknown))
    }

    /// Moves the ends of these leases, at most [`EXTENDED`](super::EXTENDED), to a full lease from now, unless that is after
    /// `not_after_ms`; says which were still the caller's.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn extend(
        &self,
        conn: &Conn,
        lease: Duration,
        not_after_ms: i64,
        names: &[ClaimName],
    ) -> Result<Extended, StoreError> {
        let args: Vec<_> =
            [text(not_after_ms), text(millis(lease))].into_iter().chain(names.iter().map(text)).collect();
        let keys = vec![self.keys.leases.clone()];
        let (script, keys) = self.fenced(&self.scripts.extend, &self.scripts.in_order.extend, keys);
        Ok(reply::extended(conn.script(script, &keys, &args).await?, names.len())?)
    }

    /// Reads the contents of a claim.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn contents(&self, conn: &Conn, name: ClaimName) -> Result<Contents, StoreError> {
        let mut pipe = redis::pipe();
        for key in self.keys.of_claim(name) {
            // A claim holds no more than a script moves.
            pipe.cmd("ZRANGE").arg(&key[..]).arg(0).arg(BATCH_ENTRIES).arg("WITHSCORES");
        }
        let mut answers = conn.pipeline(&pipe).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let bare = next()?;
        let entries = next()?;
        let mut contents = Contents::default();
        reply::entries("contents", entries, &mut contents)?;
        reply::bare(self.source, "contents", bare, &mut contents.elements)?;
        Ok(contents)
    }

    /// Removes whole claims, by their names; one answer for each. One command for each claim, all in one round trip: a claim may
    /// have two keys, so the number of keys that one command for all of them removed would not say how many claims were there.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn confirm(&self, conn: &Conn, claims: &[Whole]) -> Result<Vec<Confirmed>, StoreError> {
        let mut pipe = redis::pipe();
        for claim in claims.iter().filter(|claim| claim.bare + claim.entries > 0) {
            let [d, h] = self.keys.of_claim(claim.name);
            let command = pipe.cmd("UNLINK");
            for (key, there) in [(d, claim.bare > 0), (h, claim.entries > 0)] {
                if there {
                    command.arg(&key[..]);
                }
            }
        }
        let mut answers = conn.pipeline(&pipe).await?.into_iter().peekable();
        let confirmed = |claim: &Whole| match answers.next_if(|_| claim.bare + claim.entries > 0).transpose()? {
            None | Some(Value::Int(0)) => Ok(Confirmed::Gone),
            Some(Value::Int(_)) => Ok(Confirmed::Done),
            Some(_) => Err(BadReply { script: "confirm", expected: "a number" }.into()),
        };
        claims.iter().map(confirmed).collect()
    }

    /// Writes verdicts, each on an exact member. `dead_max_len` is the exact length that dead letters are trimmed to.
    ///
    /// # Errors
    ///
    /// After any error the same batch may be sent again; what was done already is answered so.
    pub async fn settle(
        &self,
        conn: &Conn,
        batch: &[SettleCommand],
        push_to: Option<&Bytes>,
        dead_max_len: Option<u64>,
    ) -> Result<Settled, StoreError> {
        let k = self.keys;
        let mut keys = vec![k.retry.clone(), k.dead.clone(), push_to.unwrap_or(&k.retry).clone()];
        let mut args = Vec::with_capacity(batch.len() * 5 + 1);
        args.push(dead_max_len.map(text).unwrap_or_default());
        let has_bodies = self.source.bodies().is_some();
        let digests = verdict::digests(has_bodies, batch).await;
        verdict::arguments(k, self.source, batch, &digests, &mut keys, &mut args);
        if batch.is_empty() {
            return Ok(Settled { now_ms: 0, answers: Vec::new(), trimmed: 0 });
        }
        let answer = conn.script(&self.scripts.settle, &keys, &args).await?;
        let mut fields = Fields::of("claims_settle", answer)?;
        let now_ms = fields.int()?;
        let answers = reply::letters("claims_settle", &fields.bytes()?, batch.len(), Answer::of)?;
        Ok(Settled { now_ms, answers, trimmed: fields.int()?.unsigned_abs() })
    }

    /// Removes the leases of those of these claims that hold nothing, after the latest `not_after` of them.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn bury(&self, conn: &Conn, not_after_ms: i64, names: &[ClaimName]) -> Result<Buried, StoreError> {
        let mut all_kept = Vec::with_capacity(names.len());
        let mut last_ms = 0;
        for names in names.chunks(NAMES).chain(names.is_empty().then_some(names)) {
            let mut keys = vec![self.keys.leases.clone()];
            keys.extend(names.iter().flat_map(|name| self.keys.of_claim(*name)));
            let args: Vec<_> = std::iter::once(text(not_after_ms)).chain(names.iter().map(text)).collect();
            let mut fields = Fields::of("claims_bury", conn.script(&self.scripts.bury, &keys, &args).await?)?;
            let what = fields.text()?;
            let now_ms = fields.int()?;
            if what == "wait" {
                return Ok(Buried::Wait { now_ms });
            }
            let kept = reply::letters("claims_bury", &fields.bytes()?, names.len(), |letter| match letter {
                b'k' => Some(true),
                b'y' => Some(false),
                _ => None,
            })?;
            all_kept.extend(kept);
            last_ms = now_ms;
        }
        Ok(Buried::Done { now_ms: last_ms, kept: all_kept })
    }

    /// Counts the elements in flight, over all processes: exact for at most 1,000 claims, else at least this many.
    /// Claims of an unknown version are not counted.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn in_flight(&self, conn: &Conn) -> Result<InFlight, StoreError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(&self.keys.leases[..]).arg(0).arg(COUNTED);
        let found: Vec<Vec<u8>> = conn.query(&command).await?;
        let more = found.len() > COUNTED;
        let found: Vec<Bytes> = found.into_iter().take(COUNTED).map(Bytes::from).collect();
        let mut pipe = redis::pipe();
        for name in reply::names(&found).0 {
            for key in self.keys.of_claim(name) {
                pipe.cmd("ZCARD").arg(&key[..]);
            }
        }
        let mut elements = 0;
        for answer in conn.pipeline(&pipe).await? {
            match answer? {
                Value::Int(n) => elements += n.unsigned_abs(),
                _ => return Err(BadReply { script: "in_flight", expected: "a number" }.into()),
            }
        }
        Ok(InFlight { elements, more })
    }
}
