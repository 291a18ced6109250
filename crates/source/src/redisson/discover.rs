//! Finds delayed queues by their keys: `SCAN` in bounded steps, never `KEYS`.

use bytes::Bytes;

use super::{Keys, Redisson};
use delaybridge_ledger::StoreError;
use delaybridge_link::{Conn, Fields, listeners};

const PREFIX: &str = "redisson_delay_queue_timeout:";

/// Keys that one step of the scan looks at.
const STEP: usize = 1000;

/// A queue that was found by the key of its sorted set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The mapped name: the key of its ready list.
    pub name: String,
    /// Set where the keys fit two names: the other one.
    pub or: Option<String>,
}

/// Returns the queue that a key belongs to. `NAME` and `{NAME}` have the same companion keys, so a rest like `{x}` fits
/// both `x`, which is meant nearly always, and `{x}`. `None` for what Redisson would not have named so.
pub fn name_of(key: &[u8]) -> Option<Found> {
    let rest = std::str::from_utf8(key).ok()?.strip_prefix(PREFIX)?;
    // Whatever has a brace in its name is named as it is; everything else got a pair of them.
    if !rest.contains('{') {
        return None;
    }
    match rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) if !inner.is_empty() && !inner.contains('{') => {
            Some(Found { name: inner.to_owned(), or: Some(rest.to_owned()) })
        }
        _ => Some(Found { name: rest.to_owned(), or: None }),
    }
}

/// Finds every delayed queue of the connection's database that has something scheduled, in the order of the names; and
/// how many keys had a name that Redisson does not give.
///
/// # Errors
///
/// Those of the connection, and a missing right to `SCAN`.
pub async fn discover(conn: &Conn) -> Result<(Vec<Found>, usize), StoreError> {
    let mut found = Vec::new();
    let mut strange = 0;
    let mut cursor = Bytes::from_static(b"0");
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor[..]).arg("MATCH").arg(format!("{PREFIX}*")).arg("COUNT").arg(STEP).arg("TYPE").arg("zset");
        let mut fields = Fields::of("SCAN", conn.query(&scan).await?)?;
        cursor = fields.bytes()?;
        for key in fields.all_bytes()? {
            match name_of(&key) {
                Some(queue) => found.push(queue),
                None => strange += 1,
            }
        }
        if &cursor[..] == b"0" {
            break;
        }
    }
    // A scan may meet a key twice.
    found.sort_by(|a: &Found, b| a.name.cmp(&b.name));
    found.dedup();
    for queue in &mut found {
        settle_name(conn, queue).await?;
    }
    Ok((found, strange))
}

async fn settle_name(conn: &Conn, queue: &mut Found) -> Result<(), StoreError> {
    let Some(braced) = &queue.or else { return Ok(()) };
    let mut pipe = redis::pipe();
    pipe.cmd("TYPE").arg(&queue.name).cmd("TYPE").arg(braced);
    let lists: Vec<bool> = conn
        .pipeline(&pipe)
        .await?
        .into_iter()
        .map(|kind| matches!(kind, Ok(redis::Value::SimpleString(kind)) if kind == "list"))
        .collect();
    match lists.as_slice() {
        [true, false] => queue.or = None,
        [false, true] => *queue = Found { name: braced.clone(), or: None },
        _ => {}
    }
    Ok(())
}

/// Counts the Redisson clients that listen to the queue's channel: the transfer tasks that are alive. Daemons that
/// deliver from the queue are not among them.
///
/// # Errors
///
/// Those of the connection, and a missing right to `PUBSUB`.
pub async fn redisson_clients(conn: &Conn, queue: &Redisson) -> Result<u64, StoreError> {
    let counts = listeners(conn, &[&queue.keys.channel, &queue.keys.presence]).await?;
    let [all, daemons] = counts[..] else { return Ok(0) };
    Ok(u64::try_from(all - daemons).unwrap_or(0))
}

/// Reads the free places of the ready list where it is an `RBoundedBlockingQueue`: its producers wait for one in
/// `put()`.
///
/// # Errors
///
/// Those of the connection, and a missing right to `GET` the key.
pub async fn free_places(conn: &Conn, keys: &Keys) -> Result<Option<String>, StoreError> {
    let mut get = redis::cmd("GET");
    get.arg(&keys.permits[..]);
    Ok(conn.query(&get).await?)
}

#[cfg(test)]
mod tests {
    use delaybridge_link::KeySpace;

    use super::*;

    #[test]
    fn names_come_back_from_the_keys_that_redisson_makes_of_them() {
        for name in ["orders", "app:orders", "{app}:orders", "app:{orders}:q", "a{b", "a}b", "{a}{b}"] {
            let keys = Keys::of(&KeySpace::default(), name);
            let found = name_of(&keys.delayed).unwrap();
            assert!(found.name == name || found.or.as_deref() == Some(name), "{name}: {found:?}");
            assert_eq!(Keys::of(&KeySpace::default(), &found.name).delayed, keys.delayed, "{name}");
        }
        let both = name_of(b"redisson_delay_queue_timeout:{x}").unwrap();
        assert_eq!(both, Found { name: "x".to_owned(), or: Some("{x}".to_owned()) });
        for strange in ["redisson_delay_queue_timeout:x", "redisson_delay_queue_timeout:", "x"] {
            assert_eq!(name_of(strange.as_bytes()), None);
        }
        assert_eq!(name_of(b"redisson_delay_queue_timeout:{\xff}"), None);
    }
}
