//! Reads what stands at a place, as bytes: page by page, bounded by count and by bytes, whatever lies in the keys.

use std::sync::LazyLock;

use bytes::Bytes;

use super::inspect::Place;
use super::reply::{BadReply, Fields};
use super::scripts::of_the_command_line;
use super::{BATCH_BYTES, BATCH_ENTRIES, Redisson, SourceError};
use crate::link::{Conn, LinkError, Script};

static PEEK: LazyLock<Script> = LazyLock::new(|| of_the_command_line("peek", include_str!("scripts/peek.lua")));

/// Some of what stands at a place, as it stands there.
#[derive(Debug, Clone)]
pub struct Members {
    /// Redis time in ms.
    pub now_ms: i64,
    /// Score in ms (none for a list), and the exact bytes.
    pub members: Vec<(Option<i64>, Bytes)>,
}

/// What the peek script read.
pub(super) struct RawPage {
    pub(super) now_ms: i64,
    pub(super) total: usize,
    /// Score (none for a list), size, and the first bytes.
    pub(super) members: Vec<(Option<i64>, usize, Bytes)>,
}

impl Redisson {
    /// What stands at a place from the `first` on, whole, with the scores (none for a list): at least one unless the place
    /// ends before.
    ///
    /// # Errors
    ///
    /// As for [`peek`](Redisson::peek).
    pub async fn members(&self, conn: &Conn, place: Place, first: usize) -> Result<Members, SourceError> {
        let page = self.page(conn, place, first, BATCH_ENTRIES, usize::MAX >> 12).await?;
        let members = page.members.into_iter().map(|(score, _, bytes)| (score, bytes)).collect();
        Ok(Members { now_ms: page.now_ms, members })
    }

    /// How many elements of Z fall due before this time: the place of the first that does not.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn due_before(&self, conn: &Conn, ms: i64) -> Result<usize, SourceError> {
        let mut count = redis::cmd("ZCOUNT");
        count.arg(&self.keys.delayed[..]).arg("-inf").arg(format!("({ms}"));
        Ok(conn.query(&count).await?)
    }

    /// The same, as bytes: score, size, and the first `shown` bytes of each.
    pub(super) async fn page(
        &self,
        conn: &Conn,
        place: Place,
        first: usize,
        count: usize,
        shown: usize,
    ) -> Result<RawPage, SourceError> {
        let kind = if matches!(place, Place::Ready | Place::Listed) { "list" } else { "zset" };
        let args = [
            kind.to_owned(),
            first.to_string(),
            count.min(BATCH_ENTRIES).to_string(),
            BATCH_BYTES.to_string(),
            shown.to_string(),
        ];
        let reply = conn.script(&PEEK, &[self.key(place)], &args).await?;
        let mut fields = Fields::of("peek", reply)?;
        let (now_ms, total) = (fields.int()?, count_of(fields.int()?)?);
        let mut rest = fields.array()?;
        let mut members = Vec::new();
        while !rest.is_empty() {
            members.push((rest.score()?, count_of(rest.int()?)?, rest.bytes()?));
        }
        Ok(RawPage { now_ms, total, members })
    }

    pub(super) fn key(&self, place: Place) -> &Bytes {
        match place {
            Place::Scheduled => &self.keys.delayed,
            Place::Retry => &self.keys.retry,
            Place::InFlight => &self.keys.in_flight,
            Place::Ready => &self.keys.ready,
            Place::Listed => &self.keys.list,
        }
    }
}

fn count_of(number: i64) -> Result<usize, BadReply> {
    usize::try_from(number).map_err(|_| BadReply { script: "peek", expected: "a count" })
}

/// Redis time in ms.
///
/// # Errors
///
/// Those of the connection.
pub async fn redis_now_ms(conn: &Conn) -> Result<i64, LinkError> {
    let (seconds, micros): (i64, i64) = conn.query(&redis::cmd("TIME")).await?;
    Ok(seconds * 1000 + micros / 1000)
}
