//! The rights of a Redis user: declared once, printed as ACL rules, and checked on a server.
//!
//! source, sinks -> [`Grant`]s -> [`Rules`], what `ACL SETUSER` takes
//!                             -> [`missing_rights`], what the logged-in user lacks of them

pub mod command;
mod grant;
mod rules;

use redis::Value;

use super::conn::Conn;
use super::durable::Durability;
use super::error::LinkError;
use command::{
    ACL_DRYRUN, ACL_WHOAMI, ASKING, CLIENT_INFO, CLIENT_LIST, CLIENT_SETNAME, CLUSTER_SLOTS, INFO, PING, SCRIPT_LOAD,
    SELECT, SENTINEL_MASTER, SUBSCRIBE, WAIT, WAITAOF,
};
pub use grant::{Grant, Pattern};
pub use rules::{Dialect, Rules};

/// Returns the rights that every connection of a link needs.
pub fn to_connect(database: u32) -> Grant {
    let select = (database != 0).then_some(SELECT);
    Grant::plain([PING, INFO, CLIENT_SETNAME].into_iter().chain(select))
}

/// Returns the rights to find the master of a slot, and to follow a slot that moves.
pub fn to_follow_slots() -> Grant {
    Grant::plain([CLUSTER_SLOTS, ASKING])
}

/// Returns the rights at a sentinel.
pub fn to_ask_sentinels() -> Vec<Grant> {
    let channels = super::sentinel::CHANNELS.map(Pattern::exact);
    vec![Grant::plain([PING, SENTINEL_MASTER]), Grant::channels(channels, [SUBSCRIBE])]
}

/// Returns the rights to load scripts.
pub fn to_load_scripts() -> Grant {
    Grant::plain([SCRIPT_LOAD])
}

/// Returns the rights to check rights.
pub fn to_ask_for_rights() -> Grant {
    Grant::plain([ACL_WHOAMI, ACL_DRYRUN])
}

/// Returns the rights to wait for replicas or disks.
pub fn to_wait(need: &Durability) -> Grant {
    Grant::plain([if need.aof { WAITAOF } else { WAIT }])
}

/// Returns the rights to list clients that block on a key.
pub fn to_see_clients() -> Grant {
    Grant::plain([CLIENT_INFO, CLIENT_LIST])
}

/// A right that the user lacks.
#[derive(Debug, Clone)]
pub struct Missing {
    /// The message of the server.
    pub words: String,
    /// The grant that gives it.
    pub grant: Grant,
}

/// Asks the server by `ACL DRYRUN` which of these rights the logged-in user lacks.
///
/// Returns `None` if the server cannot answer: `ACL DRYRUN` exists since 7.0 and needs a right of its own. Then the
/// first refused command reports it with `NOPERM`. For a pattern, its example is checked, if there is one.
///
/// # Errors
///
/// Returns a [`LinkError`] if the connection fails.
pub async fn missing_rights(conn: &Conn, grants: &[Grant]) -> Result<Option<Vec<Missing>>, LinkError> {
    let user = match whoami(conn).await {
        Ok(user) => user,
        Err(LinkError::Server { .. } | LinkError::Malformed(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let asked: Vec<_> = grants.iter().flat_map(Grant::single).collect();
    let mut questions = redis::Pipeline::new();
    for (words, _) in &asked {
        questions.cmd("ACL").arg("DRYRUN").arg(&user);
        for word in words {
            questions.arg(&word[..]);
        }
    }
    let mut missing = Vec::new();
    for (answer, (_, grant)) in conn.pipeline(&questions).await?.into_iter().zip(asked) {
        match answer {
            Ok(Value::Okay) => {}
            Ok(Value::BulkString(words)) => {
                missing.push(Missing { words: String::from_utf8_lossy(&words).into_owned(), grant });
            }
            Ok(_) | Err(LinkError::Server { .. } | LinkError::Malformed(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(missing))
}

/// Asks for the user of this connection.
///
/// # Errors
///
/// Returns an error of the connection, or a missing right to `ACL WHOAMI`.
pub async fn whoami(conn: &Conn) -> Result<String, LinkError> {
    conn.query(redis::cmd("ACL").arg("WHOAMI")).await
}

#[cfg(test)]
mod tests {
    use super::command::ALL;
    use super::*;
    use crate::test_server::{TestServer, soon};
    use crate::{Link, LinkOptions};

    /// The table of commands agrees with the server: with less access it refuses, with the declared access it does not.
    #[tokio::test]
    async fn the_server_wants_of_a_key_what_the_table_says() {
        let server = TestServer::start();
        let mut admin = server.admin().await;
        let link = Link::start(std::sync::Arc::new(server.endpoint()), LinkOptions::default());
        let conn = soon("a connection", link.ready()).await;
        for (n, permission) in ["%R~", "%W~"].into_iter().enumerate() {
            let rules = ["on", "-@all", &format!("{permission}k*"), "&k*"].map(str::to_owned).into_iter();
            let rules = rules.chain(ALL.iter().map(|command| format!("+{}", command.name)));
            let mut setuser = redis::cmd("ACL");
            setuser.arg("SETUSER").arg(permission).arg(rules.collect::<Vec<_>>());
            let () = setuser.query_async(&mut admin).await.unwrap();
            for command in ALL {
                let keyless =
                    ["acl|", "asking", "client|", "cluster|", "info", "ping", "script|", "select", "time", "wait"];
                let keys = if keyless.iter().any(|start| command.name.starts_with(start)) {
                    Grant::plain([*command])
                } else {
                    Grant::on([Pattern::exact("k1"), Pattern::exact("k2")], [*command])
                };
                let needs = if n == 0 { command.access.writes } else { command.access.reads };
                for (words, _) in keys.single() {
                    let mut dry_run = redis::cmd("ACL");
                    dry_run.arg("DRYRUN").arg(permission);
                    dry_run.arg(words.iter().map(|word| &word[..]).collect::<Vec<_>>());
                    let allowed = conn.query::<Value>(&dry_run).await.unwrap() == Value::Okay;
                    assert_eq!(allowed, !needs, "{permission} for {words:?}");
                }
            }
        }
    }
}
