//! All daemons on one page: each writes a small record with a lease into the first Redis of its configuration, and any of them, or the
//! command line, reads all.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Attempted, Error, QueueError};
use super::plural::{count, duration};
use super::session::{Queue, Session, at};
use delaybridge_ledger::{FleetRecords, redis_now_ms};
use delaybridge_link::{Conn, KeyPrefix, Redis};

/// Time for which a record is valid: three times that between two of them.
const LEASE_MS: i64 = 30_000;
/// Time after which the record of a daemon that ended is removed.
const FORGET_MS: i64 = 600_000;
/// Most daemons that are read.
const MOST: usize = 1_000;
/// Bytes of a record that is read.
const LARGEST: usize = 4 << 10;

/// The state of one daemon, as it tells the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetMember {
    /// The random number of the daemon, as in the names of its claims.
    pub daemon: String,
    /// The host.
    pub host: String,
    /// The process there.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
    /// A hash of the settings that run, without secrets.
    pub configuration: String,
    /// Seconds since that configuration was read; none from a daemon that does not tell.
    #[serde(default)]
    pub configured_seconds: Option<u64>,
    /// The address of its admin API.
    pub listen: String,
    /// Seconds since its start.
    pub up_seconds: u64,
    /// Whether it is ready.
    pub ready: bool,
    /// The queues of its configuration.
    pub queues: usize,
    /// Queues that it holds.
    pub held: usize,
    /// Sinks of it that are down or blocked, or have destinations in trouble.
    pub sinks_in_trouble: usize,
    /// Elements that it has in flight.
    pub in_flight: u64,
    /// Elements that it delivered by second, over the last minute.
    pub delivered_per_second: f64,
    /// Attempts that failed by second, over the last minute.
    pub failed_per_second: f64,
    /// 99th percentile of its lateness over the last minute; none where nothing was delivered.
    #[serde(default)]
    pub lateness_p99_ms: Option<f64>,
    /// Redis time of the record.
    #[serde(default)]
    pub at_ms: i64,
    /// Whether the record is over: the daemon ended, or is cut off from Redis.
    #[serde(default)]
    pub gone: bool,
}

/// The daemon that delivers a queue in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderHolder {
    /// The queue.
    pub queue: String,
    /// The random number of the daemon; another one after a reload of the queue.
    pub daemon: String,
    /// End of its lease.
    pub until_ms: i64,
}

/// Every daemon of a configuration's Redis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Redis time.
    pub now_ms: i64,
    /// The daemons, by host and process.
    pub daemons: Vec<FleetMember>,
    /// Number of daemons by the hash of the configuration that they run, of those that are not gone.
    pub configurations: BTreeMap<String, usize>,
    /// The holders of the order of queues in order.
    pub orders: Vec<OrderHolder>,
    /// Queues whose holder could not be read.
    pub errors: Vec<QueueError>,
}

/// The work of the daemons that are not gone, together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetSums {
    /// The daemons.
    pub daemons: usize,
    /// Elements in flight.
    pub in_flight: u64,
    /// Elements that were delivered by second, over the last minute.
    pub delivered_per_second: f64,
    /// Attempts that failed by second, over the last minute.
    pub failed_per_second: f64,
    /// The highest 99th percentile of the lateness of one of them.
    pub lateness_p99_ms: Option<f64>,
}

impl Fleet {
    /// Returns the work of all daemons together, as each last reported it.
    pub fn sums(&self) -> FleetSums {
        self.daemons.iter().filter(|member| !member.gone).fold(FleetSums::default(), |sums, member| FleetSums {
            daemons: sums.daemons + 1,
            in_flight: sums.in_flight.saturating_add(member.in_flight),
            delivered_per_second: sums.delivered_per_second + member.delivered_per_second,
            failed_per_second: sums.failed_per_second + member.failed_per_second,
            lateness_p99_ms: [sums.lateness_p99_ms, member.lateness_p99_ms].into_iter().flatten().reduce(f64::max),
        })
    }
}

impl FleetSums {
    /// Returns the sums in a sentence.
    pub fn words(&self) -> String {
        let late =
            self.lateness_p99_ms.map_or_else(String::new, |ms| format!(", the highest p99 {}", duration(ms as u64)));
        format!(
            "{} together: {} in flight, {:.1}/s delivered, {:.1}/s failed{late}.",
            count(self.daemons, "daemon"),
            self.in_flight,
            self.delivered_per_second,
            self.failed_per_second
        )
    }
}

/// Tells the others of this daemon; removes the records of daemons that ended long ago.
pub async fn tell(session: &Session, member: &FleetMember) -> Result<(), Error> {
    let what = "tell the other daemons of this one";
    let conn = home(session).await?;
    let at_ms = redis_now_ms(&conn).await.attempt(what)?;
    let record = serde_json::to_string(&FleetMember { at_ms, ..member.clone() })
        .map_err(|error| Error::failed(format!("{what}: {error}")))?;
    FleetRecords::over(&conn, prefix(session)).put(&member.daemon, &record).await.attempt(what)?;
    let over = |found: &(Vec<u8>, Option<FleetMember>)| {
        found.1.as_ref().is_none_or(|member| at_ms.saturating_sub(member.at_ms) > FORGET_MS)
    };
    for (field, _) in records(session, &conn, what).await?.into_iter().filter(over) {
        FleetRecords::over(&conn, prefix(session)).remove(&field).await.attempt(what)?;
    }
    Ok(())
}

/// Removes the record of a daemon that ends.
pub async fn leave(session: &Session, daemon: &str) -> Result<(), Error> {
    let what = "leave the fleet";
    let conn = home(session).await?;
    FleetRecords::over(&conn, prefix(session)).remove(daemon.as_bytes()).await.attempt(what)
}

/// Reads every daemon, and who delivers which queue in order.
pub async fn fleet(session: &Session) -> Result<Fleet, Error> {
    let what = "read the daemons";
    let conn = home(session).await?;
    let now_ms = redis_now_ms(&conn).await.attempt(what)?;
    let members = records(session, &conn, what).await?.into_iter().filter_map(|(_, member)| member);
    let mut fleet = gathered(members.collect(), now_ms);
    for spec in session.config.queues.iter().filter(|spec| spec.order.is_some()) {
        let holder = async { session.queue(spec.clone()).await?.order_holder().await };
        match holder.await {
            Ok(holder) => fleet.orders.extend(holder),
            Err(error) => fleet.errors.push(QueueError { queue: spec.id.to_string(), message: error.message }),
        }
    }
    Ok(fleet)
}

/// Returns the fleet of these records.
fn gathered(mut daemons: Vec<FleetMember>, now_ms: i64) -> Fleet {
    let mut configurations = BTreeMap::new();
    for member in &mut daemons {
        member.gone = now_ms.saturating_sub(member.at_ms) > LEASE_MS;
        if !member.gone {
            *configurations.entry(member.configuration.clone()).or_default() += 1;
        }
    }
    daemons.sort_by(|a, b| (a.gone, &a.host, a.pid, &a.daemon).cmp(&(b.gone, &b.host, b.pid, &b.daemon)));
    Fleet { now_ms, daemons, configurations, ..Fleet::default() }
}

impl Queue {
    /// Returns the daemon that delivers the queue in order, if one does.
    async fn order_holder(&self) -> Result<Option<OrderHolder>, Error> {
        let what = format!("read who delivers `{}` in order", self.id());
        let holder = self.ledger.order_holder(&self.conn).await.attempt(&what)?;
        Ok(holder.map(|(daemon, until_ms)| OrderHolder { queue: self.id().to_owned(), daemon, until_ms }))
    }
}

/// Returns the Redis that has the records.
fn first(session: &Session) -> &Redis {
    let first = session.config.redis.iter().next().map(|(name, _)| name.clone()).unwrap_or_default();
    session.redis(&first)
}

fn prefix(session: &Session) -> &KeyPrefix {
    &first(session).space().prefix
}

/// Returns the connection to the server that has the records.
async fn home(session: &Session) -> Result<Conn, Error> {
    at(first(session), FleetRecords::key(prefix(session))).await.map_err(|error| Error::failed(error.to_string()))
}

/// Returns the records; `None` for what is none. Whoever may write there can write anything, so that both size and
/// number are bounded.
async fn records(session: &Session, conn: &Conn, what: &str) -> Result<Vec<(Vec<u8>, Option<FleetMember>)>, Error> {
    let all = FleetRecords::over(conn, prefix(session)).all().await.attempt(what)?;
    let read = |text: &[u8]| (text.len() <= LARGEST).then(|| serde_json::from_slice(text).ok()).flatten();
    Ok(all.into_iter().take(MOST).map(|(field, text)| (field, read(&text))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_over_is_of_a_daemon_that_is_gone() {
        let member = |host: &str, at_ms, configuration: &str| FleetMember {
            host: host.to_owned(),
            at_ms,
            configuration: configuration.to_owned(),
            ..FleetMember::default()
        };
        let now_ms = 1_000_000;
        let found = gathered(
            vec![
                member("c", now_ms - LEASE_MS - 1, "old"),
                member("b", now_ms, "new"),
                member("a", now_ms - LEASE_MS, "new"),
                member("d", now_ms + 5, "old"),
            ],
            now_ms,
        );
        let hosts: Vec<_> = found.daemons.iter().map(|member| (&member.host[..], member.gone)).collect();
        assert_eq!(hosts, [("a", false), ("b", false), ("d", false), ("c", true)]);
        assert_eq!(found.configurations, [("new".to_owned(), 2), ("old".to_owned(), 1)].into());
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Fleet>(&text).unwrap(), found);
    }
}
