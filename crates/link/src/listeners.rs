//! The number of subscribers of channels. A server counts its own clients; in a cluster a client may subscribe at any
//! node.
//!
//! Connections for `PUBSUB NUMSUB` are kept for the next question.

use super::Conn;
use super::error::LinkError;

/// Counts the subscribers of each of these channels.
///
/// # Errors
///
/// Returns an error of the connection, or a missing right to `PUBSUB`. In a cluster every node has to answer, because
/// any of them may have the subscribers.
pub async fn listeners(conn: &Conn, channels: &[&str]) -> Result<Vec<i64>, LinkError> {
    let mut command = redis::cmd("PUBSUB");
    command.arg("NUMSUB").arg(channels);
    let mut sums = vec![0; channels.len()];
    for answer in conn.everywhere("PUBSUB NUMSUB", &command).await? {
        let counts: Vec<(String, i64)> =
            redis::from_redis_value(answer).map_err(|error| LinkError::Malformed(error.to_string()))?;
        sums.iter_mut().zip(counts).for_each(|(sum, (_, listeners))| *sum += listeners);
    }
    Ok(sums)
}
