//! Programs that take due jobs of a pool as well, as far as Redis shows them: by a name that they give their connections, by a channel
//! that they subscribe to, or as clients that have just read a sorted set.
//!
//! What is known of a program is found by the keys of the pool, so that a layout that is written out is recognised too.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::JobPoolSpec;
use crate::competitors::{Client, clients};
use delaybridge_ledger::StoreError;
use delaybridge_ledger::score::Unit;
use delaybridge_link::rights::command::{CLIENT_INFO, CLIENT_LIST, EXISTS, HEXISTS, PUBSUB_NUMSUB, SCARD};
use delaybridge_link::rights::{Grant, Pattern};
use delaybridge_link::{Conn, listeners, missing_rights};

/// Looks at the clients of the server so often, to see those whose connections do other things between two polls.
const LOOKS: u32 = 4;
/// Time between two looks.
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(250);
/// Clients that are named one by one; the rest is counted.
const NAMED: usize = 5;
/// Commands by which a timer finds the head of a bucket. A script may be anything.
const POLLING: [&str; 5] = ["zrange", "zrangebyscore", "zrangewithscores", "zrevrange", "zpopmin"];
/// Commands by which a consumer waits for a job.
const WAITING: [&str; 6] = ["blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin"];

/// Returns the rights to look for them.
pub fn to_see_rivals() -> Grant {
    Grant::plain([CLIENT_INFO, CLIENT_LIST, PUBSUB_NUMSUB])
}

/// The sign by which a program shows itself.
#[derive(Debug, PartialEq, Eq)]
enum Trace {
    /// Every running one subscribes to this channel.
    Channel(&'static str),
    /// The names of its connections are this text, or begin with it and a colon.
    Name(String),
}

/// Returns the sign of the program with this layout, and the name of the program.
fn trace(spec: &JobPoolSpec) -> Option<(Trace, &'static str)> {
    if asynq(spec).is_some() {
        return Some((Trace::Channel("asynq:cancel"), "a server of asynq runs"));
    }
    let (prefix, queue) = bullmq(spec)?.rsplit_once(':')?;
    Some((Trace::Name(format!("{prefix}:{}", STANDARD.encode(queue))), "a worker of BullMQ runs"))
}

/// Returns the prefix of the keys of a queue of asynq.
fn asynq(spec: &JobPoolSpec) -> Option<&str> {
    let bucket = spec.first_bucket();
    bucket.strip_suffix(":scheduled").or(bucket.strip_suffix(":retry")).filter(|queue| queue.starts_with("asynq:{"))
}

/// Returns the prefix of a queue of BullMQ. Nothing else has its scores.
fn bullmq(spec: &JobPoolSpec) -> Option<&str> {
    spec.first_bucket().strip_suffix(":delayed").filter(|_| spec.score == Unit::Millis4096)
}

impl JobPoolSpec {
    /// Returns the rights to see what its program holds back.
    pub(super) fn to_see_held(&self) -> Vec<Grant> {
        let on = |key: String, command| Grant::on([Pattern::exact(key)], [command]);
        let asynq = asynq(self).map(|of| [on(format!("{of}:paused"), EXISTS), on(format!("{of}:groups"), SCARD)]);
        let bullmq = bullmq(self).map(|of| on(format!("{of}:meta"), HEXISTS));
        asynq.into_iter().flatten().chain(bullmq).collect()
    }
}

/// Lists in words what the program of a pool holds back and this daemon does not; empty for nothing.
///
/// # Errors
///
/// Those of the connection.
pub async fn held(conn: &Conn, spec: &JobPoolSpec) -> Result<Vec<String>, StoreError> {
    const PAUSED: &str = "and this daemon delivers its jobs all the same: `delaybridge pause` pauses it here";
    let mut held = Vec::new();
    if let Some(of) = asynq(spec) {
        if conn.query::<bool>(redis::cmd("EXISTS").arg(format!("{of}:paused"))).await? {
            held.push(format!("it is paused in asynq, {PAUSED}"));
        }
        let groups: u64 = conn.query(redis::cmd("SCARD").arg(format!("{of}:groups"))).await?;
        if groups > 0 {
            held.push(format!(
                "asynq has {groups} groups: tasks in them wait for its own aggregation, and a scheduled one of a group is delivered by itself"
            ));
        }
    }
    if let Some(of) = bullmq(spec)
        && conn.query::<bool>(redis::cmd("HEXISTS").arg(format!("{of}:meta")).arg("paused")).await?
    {
        held.push(format!("it is paused in BullMQ, {PAUSED}"));
    }
    Ok(held)
}

/// Signs of programs that take due jobs of these pools as well, each in words; empty for none. `None` if the user may
/// not ask.
///
/// # Errors
///
/// Those of the connection.
pub async fn rivals(conn: &Conn, pools: &[&JobPoolSpec]) -> Result<Option<Vec<String>>, StoreError> {
    // Checked first: a refused command would be in the server's ACL log.
    if missing_rights(conn, &[to_see_rivals()]).await?.is_some_and(|missing| !missing.is_empty()) {
        return Ok(None);
    }
    let mut seen: Vec<Client> = Vec::new();
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        let Some(now) = clients(conn).await? else { return Ok(None) };
        for client in now {
            if !seen.iter().any(|known| known.address == client.address && known.command == client.command) {
                seen.push(client);
            }
        }
    }
    let mut signs = Vec::new();
    for spec in pools {
        let Some((trace, what)) = trace(spec) else { continue };
        let running = match &trace {
            Trace::Channel(channel) => subscribers(conn, channel).await? > 0,
            Trace::Name(name) => seen.iter().any(|client| is_named(client, name)),
        };
        let sign = format!("{what} and takes due {} as well", if what.contains("asynq") { "tasks" } else { "jobs" });
        if running && !signs.contains(&sign) {
            signs.push(sign);
        }
    }
    signs.extend(sign_of(&seen, &WAITING, "wait for an element of a list or a sorted set"));
    signs.extend(sign_of(&seen, &POLLING, "have just read a sorted set"));
    Ok(Some(signs))
}

async fn subscribers(conn: &Conn, channel: &str) -> Result<u64, StoreError> {
    Ok(listeners(conn, &[channel]).await?.into_iter().sum::<i64>().unsigned_abs())
}

fn is_named(client: &Client, name: &str) -> bool {
    client.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Describes the clients that were seen in one of these commands, a moment ago.
fn sign_of(seen: &[Client], commands: &[&str], what: &str) -> Option<String> {
    let is_own = |client: &Client| client.name.starts_with("delaybridge");
    let mut found: Vec<String> = Vec::new();
    for client in seen.iter().filter(|client| !is_own(client) && commands.contains(&&*client.command)) {
        let recent = client.blocked || client.seconds <= 2;
        if recent && !found.iter().any(|known| known.starts_with(&format!("{} ", client.address))) {
            found.push(client.to_string());
        }
    }
    let more = found.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    found.truncate(NAMED);
    (!found.is_empty()).then(|| format!("clients {what}: {}{more}", found.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_pool::PRESETS;

    fn client(address: &str, name: &str, command: &str, seconds: u64, blocked: bool) -> Client {
        Client { address: address.into(), name: name.into(), command: command.into(), seconds, blocked }
    }

    #[test]
    fn a_program_is_known_by_the_keys_of_its_pool() {
        let trace_of = |preset: &str, name: &str| {
            let fill = PRESETS.iter().find(|known| known.0 == preset).expect("a preset").2;
            trace(&JobPoolSpec::of(fill(name))).map(|(trace, _)| trace)
        };
        assert_eq!(trace_of("asynq", "mails"), Some(Trace::Channel("asynq:cancel")));
        // Seen of BullMQ 5 on a queue `q`.
        assert_eq!(trace_of("bullmq", "q"), Some(Trace::Name("bull:cQ==".to_owned())));
        let own = crate::job_pool::preset::bullmq_with("{my:app}", "q");
        assert_eq!(
            trace(&JobPoolSpec::of(own)),
            Some((Trace::Name("{my:app}:cQ==".to_owned()), "a worker of BullMQ runs"))
        );
        assert_eq!(trace_of("yii2", "queue"), None);
        assert!(is_named(&client("", "bull:cQ==:w:mine", "", 0, true), "bull:cQ=="));
        assert!(!is_named(&client("", "bull:cQ==x", "", 0, true), "bull:cQ=="));
    }

    #[test]
    fn clients_that_polled_a_moment_ago_are_named_and_our_own_are_not() {
        let seen = [
            client("1:1", "", "zrangebyscore", 1, false),
            client("1:1", "", "zrange", 0, false),
            client("2:2", "delaybridge", "zrange", 0, false),
            client("3:3", "", "zrange", 60, false),
            client("4:4", "", "get", 0, false),
        ];
        assert_eq!(sign_of(&seen, &POLLING, "poll").as_deref(), Some("clients poll: 1:1 in ZRANGEBYSCORE 1s ago"));
        assert_eq!(sign_of(&seen, &WAITING, "wait"), None);
    }
}
