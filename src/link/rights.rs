//! Which commands the logged-in user may not run.

use redis::Value;

use super::conn::Conn;
use super::error::LinkError;

/// Asks the server by `ACL DRYRUN` which of `commands` (name, then arguments, real keys included) the user may not run,
/// and returns the server's words for each that is refused.
///
/// `None` if the server cannot tell: `ACL DRYRUN` exists since 7.0 and needs a right of its own. Then the first command
/// that is refused tells by `NOPERM`.
///
/// # Errors
///
/// [`LinkError`] if the connection fails meanwhile.
pub async fn missing_rights(conn: &Conn, commands: &[Vec<&[u8]>]) -> Result<Option<Vec<String>>, LinkError> {
    let user: String = match conn.query(redis::cmd("ACL").arg("WHOAMI")).await {
        Ok(user) => user,
        Err(LinkError::Server { .. } | LinkError::Malformed(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut missing = Vec::new();
    for command in commands {
        let mut dry_run = redis::cmd("ACL");
        dry_run.arg("DRYRUN").arg(&user);
        for part in command {
            dry_run.arg(*part);
        }
        match conn.query::<Value>(&dry_run).await {
            Ok(Value::Okay) => {}
            Ok(Value::BulkString(words)) => missing.push(String::from_utf8_lossy(&words).into_owned()),
            Ok(_) | Err(LinkError::Server { .. } | LinkError::Malformed(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(missing))
}
