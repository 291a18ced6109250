//! The daemons that share looks at queues: a hash with a field for each, in every Redis with queues. What is in a field the pipeline
//! knows.
//!
//! The fields of daemons that ended are removed by the others, and the hash goes a minute after the last note.

use std::time::Duration;

use bytes::Bytes;

use super::error::StoreError;
use delaybridge_link::rights::command::{HDEL, HSCAN, HSET, PEXPIRE};
use delaybridge_link::rights::{Grant, Pattern};
use delaybridge_link::{Conn, KeyPrefix};

/// The most daemons that share looks. With more of them each looks by itself.
const MOST: usize = 500;
/// The most bytes of a name and a note. A note of ours has less than 1,000.
const LARGEST: usize = 4 << 10;
/// The time for which the hash stays after the last note.
const HOLDS: Duration = Duration::from_secs(60);

/// The note of a daemon for those that share looks with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookerNote {
    /// The name of the daemon.
    pub daemon: Bytes,
    /// The text of the daemon. Whoever may write there can write anything.
    pub text: Bytes,
}

/// Returns the key of the hash.
pub fn lookers_key(prefix: &KeyPrefix) -> String {
    prefix.name("lookers")
}

/// Returns the rights of a daemon that shares looks.
pub fn to_share_looks(prefix: &KeyPrefix) -> Grant {
    Grant::on([Pattern::exact(lookers_key(prefix))], [HDEL, HSCAN, HSET, PEXPIRE])
}

/// A name and a value of the hash.
type Field = (Vec<u8>, Vec<u8>);

/// Writes the note of a daemon and reads those of all, in one round trip. Refuses more daemons than may share looks,
/// and a field that is too large for a note.
pub(super) async fn exchange(conn: &Conn, key: &str, own: &LookerNote) -> Result<Vec<LookerNote>, StoreError> {
    let mut pipe = redis::Pipeline::with_capacity(3);
    pipe.cmd("HSET").arg(key).arg(&own.daemon[..]).arg(&own.text[..]);
    pipe.cmd("PEXPIRE").arg(key).arg(HOLDS.as_millis() as u64);
    // HGETALL has no bound on the number of fields.
    pipe.cmd("HSCAN").arg(key).arg(0).arg("COUNT").arg(MOST);
    let malformed = |error: redis::ParsingError| StoreError::Malformed(error.to_string());
    let mut last = redis::Value::Nil;
    for reply in conn.pipeline(&pipe).await? {
        last = reply?;
    }
    let (next, fields): (u64, Vec<Field>) = redis::from_redis_value(last).map_err(malformed)?;
    if next != 0 || fields.len() > MOST {
        return Err(StoreError::Malformed(format!("{key} has more than {MOST} fields")));
    }
    if fields.iter().any(|(daemon, text)| daemon.len() + text.len() > LARGEST) {
        return Err(StoreError::Malformed(format!("{key} has a field of more than {LARGEST} bytes")));
    }
    let note = |(daemon, text): Field| LookerNote { daemon: daemon.into(), text: text.into() };
    Ok(fields.into_iter().map(note).collect())
}

/// Removes the notes of daemons that ended.
pub(super) async fn remove(conn: &Conn, key: &str, daemons: &[Bytes]) -> Result<(), StoreError> {
    let mut command = redis::cmd("HDEL");
    command.arg(key);
    daemons.iter().for_each(|daemon| {
        command.arg(&daemon[..]);
    });
    if !daemons.is_empty() {
        conn.query::<i64>(&command).await?;
    }
    Ok(())
}
