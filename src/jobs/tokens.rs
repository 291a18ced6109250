//! Tokens of namespaces, for APIs that make them at run time. Only hashes are kept: one hash a namespace, field is the
//! token's SHA-256, value is what is kept of it. Each call is one command.
//!
//! ```text
//! value    0x01 maker 0x01 read write interval 0x01 description       the middle is empty without limits
//! ```

use serde::Serialize;

use super::error::JobError;
use super::keys::PREFIX;
use super::queue::JobQueue;

/// Most tokens that a list shows.
const MOST: usize = 10_000;

/// Begins a value, and separates its parts. A value without it is a description alone, as versions before 0.1 wrote it.
const MARK: u8 = 1;

/// What is kept of a token that was made at run time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MadeToken {
    /// The name of the token that made it; empty: it was made on the daemon's machine, without one.
    pub maker: String,
    /// How often it may be used.
    pub limits: Option<TokenLimits>,
    /// What was said of it.
    pub description: String,
}

/// How often a token may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct TokenLimits {
    /// Most requests that take jobs; zero is no limit.
    pub read: u32,
    /// Most requests that add jobs; zero is no limit.
    pub write: u32,
    /// In so many seconds.
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

pub(super) fn key(namespace: &str) -> String {
    format!("{PREFIX}tokens:{{{namespace}}}")
}

impl JobQueue {
    /// The token of this hash, if the namespace has one.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn token(&self, namespace: &str, hash: &str) -> Result<Option<MadeToken>, JobError> {
        let mut command = redis::cmd("HGET");
        command.arg(key(namespace)).arg(hash);
        let value: Option<Vec<u8>> = self.conn(key(namespace)).await?.query(&command).await?;
        Ok(value.map(|value| MadeToken::read(&value)))
    }

    /// Enters a token; false if it is there. A second call answers false.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn make_token(&self, namespace: &str, hash: &str, token: &MadeToken) -> Result<bool, JobError> {
        let mut command = redis::cmd("HSETNX");
        command.arg(key(namespace)).arg(hash).arg(token.written());
        Ok(self.conn(key(namespace)).await?.query(&command).await?)
    }

    /// Replaces what is kept of a token. It may be sent again.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn change_token(&self, namespace: &str, hash: &str, token: &MadeToken) -> Result<(), JobError> {
        let mut command = redis::cmd("HSET");
        command.arg(key(namespace)).arg(hash).arg(token.written());
        Ok(self.conn(key(namespace)).await?.query::<()>(&command).await?)
    }

    /// The namespace's tokens by their hashes.
    ///
    /// # Errors
    ///
    /// Those of the connection. [`JobError::Invalid`] if there are more than can be shown.
    pub async fn tokens(&self, namespace: &str) -> Result<Vec<(String, MadeToken)>, JobError> {
        let conn = self.conn(key(namespace)).await?;
        let mut length = redis::cmd("HLEN");
        length.arg(key(namespace));
        if conn.query::<usize>(&length).await? > MOST {
            return Err(JobError::Invalid(format!("the namespace has more than {MOST} tokens")));
        }
        let mut command = redis::cmd("HGETALL");
        command.arg(key(namespace));
        let all: Vec<(String, Vec<u8>)> = conn.query(&command).await?;
        Ok(all.into_iter().map(|(hash, value)| (hash, MadeToken::read(&value))).collect())
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
