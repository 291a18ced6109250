//! Tokens of namespaces, for APIs that make them at run time. Only hashes are kept: one hash a namespace, field is the
//! token's SHA-256, value is what was said of it. Each call is one command.

use super::error::JobError;
use super::keys::PREFIX;
use super::queue::JobQueue;

/// Most tokens that a list shows.
const MOST: usize = 10_000;

pub(super) fn key(namespace: &str) -> String {
    format!("{PREFIX}tokens:{{{namespace}}}")
}

impl JobQueue {
    /// Whether the namespace has a token of this hash.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn has_token(&self, namespace: &str, hash: &str) -> Result<bool, JobError> {
        let mut command = redis::cmd("HEXISTS");
        command.arg(key(namespace)).arg(hash);
        Ok(self.conn(key(namespace)).await?.query(&command).await?)
    }

    /// Enters a token; false if it is there. A second call answers false.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn make_token(&self, namespace: &str, hash: &str, description: &str) -> Result<bool, JobError> {
        let mut command = redis::cmd("HSETNX");
        command.arg(key(namespace)).arg(hash).arg(description);
        Ok(self.conn(key(namespace)).await?.query(&command).await?)
    }

    /// Hashes of the namespace's tokens, and what was said of them.
    ///
    /// # Errors
    ///
    /// Those of the connection. [`JobError::Invalid`] if there are more than can be shown.
    pub async fn tokens(&self, namespace: &str) -> Result<Vec<(String, String)>, JobError> {
        let conn = self.conn(key(namespace)).await?;
        let mut length = redis::cmd("HLEN");
        length.arg(key(namespace));
        if conn.query::<usize>(&length).await? > MOST {
            return Err(JobError::Invalid(format!("the namespace has more than {MOST} tokens")));
        }
        let mut command = redis::cmd("HGETALL");
        command.arg(key(namespace));
        Ok(conn.query(&command).await?)
    }

    /// Removes a token. A second call does nothing.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn delete_token(&self, namespace: &str, hash: &str) -> Result<(), JobError> {
        let mut command = redis::cmd("HDEL");
        command.arg(key(namespace)).arg(hash);
        Ok(self.conn(key(namespace)).await?.query::<()>(&command).await?)
    }
}
