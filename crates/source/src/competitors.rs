//! Clients that wait on a list: Java consumers that would compete with a daemon that drains the ready list.
//!
//! Redis reports that a client is blocked, and in which command, but not on which key. A client that waits on a list proves
//! that the list is empty; so where the ready list holds something, none of the waiting clients waits there. What polls
//! (`poll()`, `drainTo()`) does not block and is not seen at all.

use bytes::Bytes;

use delaybridge_ledger::StoreError;
use delaybridge_link::rights::to_see_clients;
use delaybridge_link::{Conn, LinkError, missing_rights};

/// A client, and its last command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// `host:port`.
    pub address: String,
    /// The name that it gave itself, if any.
    pub name: String,
    /// The command, in lower case.
    pub command: String,
    /// For how many seconds it has waited in it, or how many ago it sent it.
    pub seconds: u64,
    /// The client waits in that command.
    pub blocked: bool,
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.address)?;
        if !self.name.is_empty() {
            write!(f, " (name {})", self.name)?;
        }
        let command = self.command.to_uppercase();
        let seconds = self.seconds;
        if self.blocked { write!(f, " in {command} for {seconds}s") } else { write!(f, " in {command} {seconds}s ago") }
    }
}

/// Commands that wait for an element and take it.
const TAKING: [&str; 6] = ["blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin"];

/// Finds the clients that wait on some list of the connection's database, and how many of these lists are empty, so
/// that they could be waited on. `None` if the user may not ask.
///
/// # Errors
///
/// Those of the connection.
pub async fn blocked_consumers(conn: &Conn, lists: &[Bytes]) -> Result<Option<(Vec<Client>, usize)>, StoreError> {
    // Checked first: a refused command would be in the server's ACL log.
    if missing_rights(conn, &[to_see_clients()]).await?.is_some_and(|missing| !missing.is_empty()) {
        return Ok(None);
    }
    let mut pipe = redis::pipe();
    pipe.cmd("CLIENT").arg("INFO");
    pipe.cmd("CLIENT").arg("LIST").arg("TYPE").arg("normal");
    for list in lists {
        pipe.cmd("LLEN").arg(&list[..]);
    }
    let mut answers = conn.pipeline(&pipe).await?.into_iter();
    let mut text = || match answers.next() {
        Some(Ok(value)) => redis::from_redis_value::<String>(value).map(Some).or(Ok(None)),
        Some(Err(LinkError::Server { .. })) | None => Ok(None),
        Some(Err(error)) => Err(error),
    };
    let (Some(own), Some(list)) = (text()?, text()?) else { return Ok(None) };
    let empty = answers.filter(|length| matches!(length, Ok(redis::Value::Int(0)))).count();
    Ok(Some((blocked(&list, field(&own, "db").unwrap_or("0")), empty)))
}

/// Asks for the clients of the connection's database, each with its last command. `None` if that may not be asked.
///
/// # Errors
///
/// Those of the connection.
pub async fn clients(conn: &Conn) -> Result<Option<Vec<Client>>, StoreError> {
    let mut pipe = redis::pipe();
    pipe.cmd("CLIENT").arg("INFO");
    pipe.cmd("CLIENT").arg("LIST").arg("TYPE").arg("normal");
    let mut texts = Vec::new();
    for answer in conn.pipeline(&pipe).await? {
        match answer {
            Ok(value) => texts.extend(redis::from_redis_value::<String>(value).ok()),
            Err(LinkError::Server { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    let [own, list] = texts.as_slice() else { return Ok(None) };
    let db = field(own, "db").unwrap_or("0");
    Ok(Some(list.lines().filter(|line| field(line, "db") == Some(db)).filter_map(client).collect()))
}

/// Returns the client in a line of `CLIENT LIST`. Redis 7 writes `get`, and a command of a container as `client|list`.
fn client(line: &str) -> Option<Client> {
    Some(Client {
        address: field(line, "addr").unwrap_or_default().to_owned(),
        name: field(line, "name").unwrap_or_default().to_owned(),
        command: field(line, "cmd")?.to_owned(),
        seconds: field(line, "idle").and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
        blocked: field(line, "flags")?.contains('b'),
    })
}

/// Clients that are named one by one; the rest is counted.
const NAMED: usize = 5;

/// Returns a message about clients that wait on a list, with advice; `None` if there are none.
pub fn advice(blocked: &[Client]) -> Option<String> {
    let advice = "If one of them is a Java consumer of a ready list that this daemon drains, they share its elements: stop the \
                  consumer, or keep it and write `consume: [delayed]`";
    let named: Vec<_> = blocked.iter().take(NAMED).map(ToString::to_string).collect();
    let more = blocked.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!blocked.is_empty()).then(|| {
        let named = named.join(", ");
        format!("clients wait on a list in this database: {named}{more}; Redis does not report which list. {advice}")
    })
}

fn blocked(list: &str, db: &str) -> Vec<Client> {
    let of_database = list.lines().filter(|line| field(line, "db") == Some(db)).filter_map(client);
    of_database.filter(|client| client.blocked && TAKING.contains(&&*client.command)).collect()
}

/// Returns the value of `name=value` in a line of `CLIENT LIST`. Values have no blanks.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_wait_on_a_list_of_this_database_are_named() {
        let list = "id=3 addr=10.0.0.1:5 name=shop fd=8 idle=7 flags=b db=0 cmd=blpop user=default\n\
                    id=4 addr=10.0.0.2:5 name= idle=1 flags=b db=1 cmd=blpop\n\
                    id=5 addr=10.0.0.3:5 name= idle=2 flags=N db=0 cmd=blpop\n\
                    id=6 addr=10.0.0.4:5 name= idle=3 flags=b db=0 cmd=xread\n\
                    id=7 addr=10.0.0.5:5 name= idle=4 flags=bx db=0 cmd=blmove\n\ngarbage = x=\n";
        let found: Vec<_> = blocked(list, "0").iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1:5 (name shop) in BLPOP for 7s", "10.0.0.5:5 in BLMOVE for 4s"]);
    }
}
