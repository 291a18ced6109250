//! The claim: what is asked for, what was taken, what it learned.

use std::time::Duration;

use bytes::Bytes;

use super::entry::{ClaimKey, Entry};
use super::reply::{BadReply, Fields};
use super::{BATCH_BYTES, BATCH_ENTRIES, Ledger};
use crate::link::Conn;
use crate::source::{Leftovers, Source, SourceError, millis, text};

/// How much to claim, and until when a lost sending may run.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// Number of this claim; never used twice by a process.
    pub number: u64,
    /// Redis time in ms after which the script does nothing.
    pub not_after_ms: i64,
    /// How long the entries are ours.
    pub lease: Duration,
    /// How long before their due times elements of the source are taken.
    pub ahead: Duration,
    /// Most entries.
    pub most: usize,
    /// Most bytes; a single larger entry is taken all the same.
    pub bytes: usize,
    /// Only one entry with three expired leases, and nothing else.
    pub alone: bool,
    /// Which source goes first; grows by one with every claim that is not alone, so that none starves.
    pub rotation: u64,
    /// What earlier claims learned.
    pub hints: Hints,
}

/// What one claim learns for the next, so that large elements are not read twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Score of the source's head, if that is known to be large.
    pub(crate) large_due: Option<i64>,
    /// Score of a head of the retry zset known to be large.
    large_retry: Option<i64>,
    /// Size of the largest element met lately; halves with every claim that meets smaller ones.
    largest: usize,
    /// Expired entries of a newer version at the head of in-flight, which claims start behind.
    past_newer: u64,
}

impl Hints {
    /// Size of the largest element met lately, in bytes.
    pub fn largest(&self) -> usize {
        self.largest
    }
}

/// Entries of a newer version that one claim skips in in-flight.
const NEWER_SKIPPED: u64 = 100;

/// Elements above this are not read again before they are due.
const LARGE: i64 = 16 << 10;

/// Where a claimed entry came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimedFrom {
    /// The source's sorted set.
    Delayed,
    /// What the source's own clients made ready.
    Ready,
    /// The retry zset.
    Retry,
    /// Another owner's expired lease.
    Expired,
    /// The same, for the tenth time: to be settled as dead without a delivery.
    Exhausted,
}

/// What a claim did.
#[derive(Debug)]
pub enum ClaimReply {
    /// It ran after its `not_after` and did nothing.
    Late {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// It ran.
    Claimed(Claimed),
}

/// What a claim took and saw.
#[derive(Debug)]
pub struct Claimed {
    /// Redis time in ms.
    pub now_ms: i64,
    /// The entries taken, in due order within each source.
    pub entries: Vec<(ClaimedFrom, Entry)>,
    /// Expired entries of this very process: given a new lease, not taken.
    pub own: Vec<ClaimKey>,
    /// When there is something to take next, in Redis ms; a past time means at once.
    pub next_ms: Option<i64>,
    /// For the next claim.
    pub hints: Hints,
    /// What claims have left behind at the source.
    pub leftovers: Leftovers,
    /// Entries that wait to be claimed alone.
    pub suspects: u64,
    /// Entries met that this version cannot read: a newer one's, and left to it, or damaged ones.
    pub unknown: u64,
    /// Something was left because of its size: there is more to claim at once.
    pub more: bool,
}

impl Ledger {
    /// Claims what is due.
    ///
    /// # Errors
    ///
    /// On [`LinkError::Unknown`] the claim may have run: recover finds what it took. It is never sent again.
    pub async fn claim(&self, conn: &Conn, request: &ClaimRequest) -> Result<ClaimReply, SourceError> {
        let mut nonce = [0; 16];
        fastrand::Rng::new().fill(&mut nonce);
        let score = |s: Option<i64>| s.map(|s| s.to_string()).unwrap_or_default();
        let hints = &request.hints;
        let mut args = vec![
            Bytes::copy_from_slice(&self.owner),
            Bytes::copy_from_slice(&request.number.to_le_bytes()),
            Bytes::copy_from_slice(&nonce),
            text(request.not_after_ms),
            text(millis(request.lease)),
            text(request.most.min(BATCH_ENTRIES)),
            text(request.bytes.min(BATCH_BYTES)),
            Bytes::from_static(if request.alone { b"alone" } else { b"many" }),
            score(hints.large_retry).into(),
            text(hints.largest),
            text(request.rotation % 12), // Divides by two, three and four sources alike.
            text(hints.past_newer),
        ];
        args.extend(self.source.claim_args(hints, request.ahead));
        let reply = conn.script(&self.scripts.claim, &self.with_source(), &args).await?;
        Ok(claim_reply(&*self.source, reply, hints, request.ahead)?)
    }
}

/// The score of a head that is large, for the next call; size -1 means that the script did not look, because the score
/// said that the head is still the large one.
pub fn large_head(score: Option<i64>, size: i64) -> Option<i64> {
    score.filter(|_| !(0..=LARGE).contains(&size))
}

fn claim_reply(
    source: &dyn Source,
    reply: redis::Value,
    hints: &Hints,
    ahead: Duration,
) -> Result<ClaimReply, BadReply> {
    let bad = |expected| BadReply { script: "claim", expected };
    let mut fields = Fields::of("claim", reply)?;
    if fields.text()? == "late" {
        return Ok(ClaimReply::Late { now_ms: fields.int()? });
    }
    let now_ms = fields.int()?;
    let kinds = fields.bytes()?;
    let members = fields.all_bytes()?;
    if kinds.len() != members.len() {
        return Err(bad("a kind for each member"));
    }
    let largest = members.iter().map(Bytes::len).max().unwrap_or(0).max(hints.largest / 2);
    let (mut entries, mut own, mut unreadable) = (Vec::with_capacity(members.len()), Vec::new(), 0);
    for (&kind, member) in kinds.iter().zip(members) {
        let from = match kind {
            b't' => ClaimedFrom::Retry,
            b'e' => ClaimedFrom::Expired,
            b'p' => ClaimedFrom::Exhausted,
            b'o' => {
                own.push(own_key(&member).ok_or(bad("a header"))?);
                continue;
            }
            other => source.claimed_from(other).ok_or(bad("a known kind"))?,
        };
        // The script looks at magic and version only. One entry that cannot be read must not cost its neighbours their
        // reply: it stays in Redis under this lease, and is reported.
        match Entry::decode(member) {
            Some(entry) => entries.push((from, entry)),
            None => unreadable += 1,
        }
    }
    let (r, r_size) = (fields.score()?, fields.int()?);
    let mut info = fields.array()?;
    let mut count = || info.int().map(|n| n.max(-1));
    let (suspects, waiting) = (count()?, count()?.unsigned_abs());
    let (newer, short) = (count()?.unsigned_abs(), count()?);
    let added = source.claim_added(fields.array()?)?;
    // A hundred are skipped in one claim: the next one starts behind them. Fewer: the end was seen, and all over again.
    let past_newer = if newer >= NEWER_SKIPPED { hints.past_newer + newer } else { 0 };
    Ok(ClaimReply::Claimed(Claimed {
        now_ms,
        entries,
        own,
        next_ms: added.next_ms.map(|due_ms| due_ms.saturating_sub(millis(ahead))).into_iter().chain(r).min(),
        hints: Hints { large_due: added.large, large_retry: large_head(r, r_size), largest, past_newer },
        leftovers: added.leftovers,
        suspects: suspects.unsigned_abs(),
        unknown: waiting + past_newer.max(newer) + unreadable,
        more: short == 1,
    }))
}

/// The fixed part of a header alone, as the claim script returns it for entries of the caller itself.
fn own_key(header: &[u8]) -> Option<ClaimKey> {
    Some(ClaimKey {
        claim: u64::from_le_bytes(*header.get(24..)?.first_chunk()?),
        index: u32::from_le_bytes(*header.get(32..)?.first_chunk()?),
    })
}
