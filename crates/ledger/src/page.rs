//! Reads the members of a sorted set or a list: page by page, bounded by count and by bytes, whatever is in the keys.

use std::sync::LazyLock;

use bytes::Bytes;

use crate::batch::{BATCH_BYTES, BATCH_ENTRIES};
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::scripts::whole;
use delaybridge_link::{BadReply, Clock, Conn, Fields, LinkError, Score, Script};

static PEEK: LazyLock<Script> =
    LazyLock::new(|| Script::new("peek", whole(include_str!("scripts/peek.lua"), Clock::Redis)));

/// A size that no string of Redis has. Lua's numbers hold it exactly.
pub(super) const ANY_SIZE: usize = usize::MAX >> 12;

/// Some of the elements at a place, unchanged.
#[derive(Debug, Clone)]
pub struct Members {
    /// Redis time in ms.
    pub now_ms: i64,
    /// Score (none for a list), and the exact bytes.
    pub members: Vec<(Option<Score>, Bytes)>,
}

/// The page that the peek script read.
pub struct RawPage {
    /// Redis time in ms.
    pub now_ms: i64,
    /// The number of all elements there.
    pub total: usize,
    /// Score (none for a list), size, and the first bytes.
    pub members: Vec<(Option<Score>, usize, Bytes)>,
}

impl Ledger {
    /// Counts the elements of a schedule that fall due before this time: the place of the first that does not.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn due_before(&self, conn: &Conn, schedule: usize, ms: i64) -> Result<usize, StoreError> {
        let Some(key) = self.source.schedules().into_iter().nth(schedule) else { return Ok(0) };
        let mut count = redis::cmd("ZCOUNT");
        count.arg(&key[..]).arg("-inf").arg(self.source.unit().until(ms.saturating_sub(1)));
        Ok(conn.query(&count).await?)
    }

    /// Reads the members of a schedule from the `first` on, whole, with their scores: at least one unless the end is
    /// reached.
    ///
    /// # Errors
    ///
    /// As for [`members`].
    pub async fn scheduled(&self, conn: &Conn, schedule: usize, first: usize) -> Result<Members, StoreError> {
        match self.source.schedules().into_iter().nth(schedule) {
            Some(key) => members(conn, &key, Kind::Zset, first).await,
            None => Ok(Members { now_ms: redis_now_ms(conn).await?, members: Vec::new() }),
        }
    }
}

/// The type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A sorted set.
    Zset,
    /// A list.
    List,
}

/// Reads members from the `first` on, whole, with the scores (none for a list): at least one unless the end is reached.
///
/// # Errors
///
/// Those of the connection; a key of a wrong type is `Server { code: "WRONGKEY" }`.
pub async fn members(conn: &Conn, key: &Bytes, kind: Kind, first: usize) -> Result<Members, StoreError> {
    let page = page(conn, key, kind, first, BATCH_ENTRIES, ANY_SIZE).await?;
    let members = page.members.into_iter().map(|(score, _, bytes)| (score, bytes)).collect();
    Ok(Members { now_ms: page.now_ms, members })
}

/// Reads a page of members as bytes: score, size, and the first `shown` bytes of each.
///
/// # Errors
///
/// As for [`members`].
pub async fn page(
    conn: &Conn,
    key: &Bytes,
    kind: Kind,
    first: usize,
    count: usize,
    shown: usize,
) -> Result<RawPage, StoreError> {
    page_of(conn, key, kind, first, count, (shown, ANY_SIZE)).await
}

/// Reads a page of a key whose entries have at most `mean` bytes on average; of any other, no members.
pub(super) async fn page_of(
    conn: &Conn,
    key: &Bytes,
    kind: Kind,
    first: usize,
    count: usize,
    (shown, mean): (usize, usize),
) -> Result<RawPage, StoreError> {
    let kind = if kind == Kind::List { "list" } else { "zset" };
    let args = [
        kind.to_owned(),
        first.to_string(),
        count.min(BATCH_ENTRIES).to_string(),
        BATCH_BYTES.to_string(),
        shown.to_string(),
        mean.to_string(),
    ];
    let reply = conn.script(&PEEK, std::slice::from_ref(key), &args).await?;
    let mut fields = Fields::of("peek", reply)?;
    let now_ms = fields.int()?;
    let total = count_of(fields.int()?)?;
    let mut rest = fields.array()?;
    let mut members = Vec::new();
    while !rest.is_empty() {
        members.push((rest.score()?, count_of(rest.int()?)?, rest.bytes()?));
    }
    Ok(RawPage { now_ms, total, members })
}

fn count_of(number: i64) -> Result<usize, BadReply> {
    usize::try_from(number).map_err(|_| BadReply { script: "peek", expected: "a count" })
}

/// Asks for the Redis time in ms.
///
/// # Errors
///
/// Those of the connection.
pub async fn redis_now_ms(conn: &Conn) -> Result<i64, LinkError> {
    let (seconds, micros): (i64, i64) = conn.query(&redis::cmd("TIME")).await?;
    Ok(seconds * 1000 + micros / 1000)
}
