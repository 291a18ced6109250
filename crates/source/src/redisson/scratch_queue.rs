//! A queue that exists only to be measured: filled quickly, and gone without a trace.
//!
//! Nothing here looks at what it overwrites: [`Redisson::keys_there`] comes first.

use std::time::Duration;

use bytes::Bytes;

use super::Redisson;
use delaybridge_ledger::millis;
use delaybridge_link::{Conn, LinkError, Memory};

/// Pings the server; how long that takes is the round trip.
///
/// # Errors
///
/// Those of the connection.
pub async fn ping(conn: &Conn) -> Result<(), LinkError> {
    conn.query(&redis::cmd("PING")).await
}

/// Reads the bytes that the server may still take before its `maxmemory`; `None` where it has no limit.
///
/// # Errors
///
/// Those of the connection.
pub async fn memory_left(conn: &Conn) -> Result<Option<u64>, LinkError> {
    let info: String = conn.query(redis::cmd("INFO").arg("memory")).await?;
    Ok(Memory::parse(&info).left())
}

impl Redisson {
    /// Returns all keys that are ever stored for a queue.
    fn stored(&self) -> Vec<&Bytes> {
        let k = &self.keys;
        let ledger: &delaybridge_ledger::Keys = k;
        k.in_scripts().into_iter().chain(ledger.stored()).collect()
    }

    /// Returns the names of everything that is ever stored for a queue, for a person.
    pub fn stored_names(&self) -> Vec<String> {
        self.stored().into_iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    /// Lists the keys of the queue that exist.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn keys_there(&self, conn: &Conn) -> Result<Vec<String>, LinkError> {
        let mut pipe = redis::pipe();
        for key in self.stored() {
            pipe.cmd("EXISTS").arg(&key[..]);
        }
        let mut there = Vec::new();
        for (name, answer) in self.stored_names().into_iter().zip(conn.pipeline(&pipe).await?) {
            if answer? != redis::Value::Int(0) {
                there.push(name);
            }
        }
        Ok(there)
    }

    /// Puts packed elements with their due times into the sorted set: the cheapest thing that can be done with them.
    ///
    /// # Errors
    ///
    /// Those of the connection. Sent twice, it changes nothing.
    pub async fn schedule(&self, conn: &Conn, elements: &[(Bytes, i64)]) -> Result<(), LinkError> {
        let mut zadd = redis::cmd("ZADD");
        zadd.arg(&self.keys.delayed[..]);
        for (element, due_ms) in elements {
            zadd.arg(due_ms).arg(&element[..]);
        }
        conn.query(&zadd).await
    }

    /// Puts the same elements into the list, as an offer would have done at once.
    ///
    /// # Errors
    ///
    /// Those of the connection. Sent twice, it lists them twice.
    pub async fn list(&self, conn: &Conn, elements: &[(Bytes, i64)]) -> Result<(), LinkError> {
        let mut rpush = redis::cmd("RPUSH");
        rpush.arg(&self.keys.list[..]);
        for (element, _) in elements {
            rpush.arg(&element[..]);
        }
        conn.query(&rpush).await
    }

    /// Sets an expiry on everything stored now. A key that is emptied and created again has none.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn vanish_after(&self, conn: &Conn, time: Duration) -> Result<(), LinkError> {
        let mut pipe = redis::pipe();
        for key in self.stored() {
            pipe.cmd("PEXPIRE").arg(&key[..]).arg(millis(time));
        }
        conn.pipeline(&pipe).await?.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Deletes everything stored for the queue. `UNLINK`, so that the server frees the memory in the background.
    ///
    /// # Errors
    ///
    /// Those of the connection. Sent twice, it changes nothing.
    pub async fn unlink(&self, conn: &Conn) -> Result<(), LinkError> {
        let mut unlink = redis::cmd("UNLINK");
        for key in self.stored() {
            unlink.arg(&key[..]);
        }
        conn.query(&unlink).await
    }
}
