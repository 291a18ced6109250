//! The tokens of namespaces, for APIs that create them at run time. Only hashes are stored: one Redis hash for each
//! namespace, whose fields are the tokens' SHA-256, and whose values are their data. Each call is one command.
//!
//! ```text
//! value    0x01 maker 0x01 read write interval 0x01 description       the middle is empty without limits
//! ```

use serde::Serialize;

use super::error::JobError;
use super::queue::JobQueue;
use delaybridge_link::KeyPrefix;

/// Maximum number of tokens in a list.
const MOST: usize = 10_000;

/// The byte that starts a value and separates its parts. A value without it is only a description, as versions before
/// 0.1 wrote it.
const MARK: u8 = 1;

/// The data of a token that was created at run time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MadeToken {
    /// The name of the token that created it; empty if it was created on the daemon's machine without a token.
    pub maker: String,
    /// The rate limits.
    pub limits: Option<TokenLimits>,
    /// The description.
    pub description: String,
}

/// The rate limits of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct TokenLimits {
    /// Maximum number of requests that take jobs; zero is no limit.
    pub read: u32,
    /// Maximum number of requests that add jobs; zero is no limit.
    pub write: u32,
    /// The interval of the limits, in seconds.
    pub interval: u32,
}

impl MadeToken {
    fn written(&self) -> Vec<u8> {
        let limits = self.limits.map(|limits| format!("{} {} {}", limits.read, limits.write, limits.interval));
        let parts = [self.maker.as_str(), limits.as_deref().unwrap_or_default(), &self.description];
        parts.iter().flat_map(|part| [&[MARK], part.as_bytes()].concat()).collect()
    }

    fn read(value: &[u8]) -> MadeToken {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut parts = value.strip_prefix(&[MARK]).unwrap_or_default().splitn(3, |byte| *byte == MARK);
        let (Some(maker), Some(limits), Some(description)) = (parts.next(), parts.next(), parts.next()) else {
            return MadeToken { description: text(value), ..MadeToken::default() };
        };
        let numbers: Vec<u32> = text(limits).split(' ').filter_map(|number| number.parse().ok()).collect();
        let limits = <[u32; 3]>::try_from(numbers).ok();
        let limits = limits.map(|[read, write, interval]| TokenLimits { read, write, interval });
        MadeToken { maker: text(maker), limits, description: text(description) }
    }
}

pub(super) fn key(prefix: &KeyPrefix, namespace: &str) -> String {
    format!("{prefix}jobs:tokens:{{{namespace}}}")
}

impl JobQueue {
    fn key_of_tokens(&self, namespace: &str) -> String {
        key(self.prefix(), namespace)
    }

    /// Reads the data of the token with this hash, if the namespace has it.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn token(&self, namespace: &str, hash: &str) -> Result<Option<MadeToken>, JobError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.key_of_tokens(namespace)).arg(hash);
        let value: Option<Vec<u8>> = self.conn(self.key_of_tokens(namespace)).await?.query(&command).await?;
        Ok(value.map(|value| MadeToken::read(&value)))
    }

    /// Stores a token; returns false if it exists, as a second call does.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn make_token(&self, namespace: &str, hash: &str, token: &MadeToken) -> Result<bool, JobError> {
        let mut command = redis::cmd("HSETNX");
        command.arg(self.key_of_tokens(namespace)).arg(hash).arg(token.written());
        Ok(self.conn(self.key_of_tokens(namespace)).await?.query(&command).await?)
    }

    /// Replaces the data of a token. It may be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn change_token(&self, namespace: &str, hash: &str, token: &MadeToken) -> Result<(), JobError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.key_of_tokens(namespace)).arg(hash).arg(token.written());
        Ok(self.conn(self.key_of_tokens(namespace)).await?.query::<()>(&command).await?)
    }

    /// Reads the tokens of a namespace, by their hashes.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection, or [`JobError::Invalid`] if there are too many to show.
    pub async fn tokens(&self, namespace: &str) -> Result<Vec<(String, MadeToken)>, JobError> {
        let conn = self.conn(self.key_of_tokens(namespace)).await?;
        let mut length = redis::cmd("HLEN");
        length.arg(self.key_of_tokens(namespace));
        if conn.query::<usize>(&length).await? > MOST {
            return Err(JobError::Invalid(format!("the namespace has more than {MOST} tokens")));
        }
        let mut command = redis::cmd("HGETALL");
        command.arg(self.key_of_tokens(namespace));
        let all: Vec<(String, Vec<u8>)> = conn.query(&command).await?;
        Ok(all.into_iter().map(|(hash, value)| (hash, MadeToken::read(&value))).collect())
    }

    /// Removes a token. A second call has no effect.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn delete_token(&self, namespace: &str, hash: &str) -> Result<(), JobError> {
        let mut command = redis::cmd("HDEL");
        command.arg(self.key_of_tokens(namespace)).arg(hash);
        Ok(self.conn(self.key_of_tokens(namespace)).await?.query::<()>(&command).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_token_reads_back() {
        let limits = Some(TokenLimits { read: 3, write: 0, interval: 2 });
        for token in [
            MadeToken { maker: "ops".to_owned(), limits, description: "a \u{1} b".to_owned() },
            MadeToken { description: "made here".to_owned(), ..MadeToken::default() },
        ] {
            assert_eq!(MadeToken::read(&token.written()), token);
        }
        let old = MadeToken { description: "plain".to_owned(), ..MadeToken::default() };
        assert_eq!(MadeToken::read(b"plain"), old);
    }
}
