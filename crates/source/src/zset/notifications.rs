//! Keyspace notifications: the server may announce changes of sorted sets.

use delaybridge_link::Conn;

/// Returns whether additions to sorted sets are announced under the names of their keys; `None` where that may not be
/// asked.
pub async fn announced(conn: &Conn) -> Option<bool> {
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("notify-keyspace-events");
    let answer = conn.query::<Vec<String>>(&ask).await.ok()?;
    Some(announces(answer.get(1)?))
}

/// Returns whether these flags of `notify-keyspace-events` do: `A` stands for all kinds of events.
fn announces(flags: &str) -> bool {
    flags.contains('K') && (flags.contains('z') || flags.contains('A'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_take_the_key_and_the_type() {
        for (flags, announced) in [("Kz", true), ("AK", true), ("AKE", true), ("Ez", false), ("K", false), ("", false)]
        {
            assert_eq!(announces(flags), announced, "{flags}");
        }
    }
}
