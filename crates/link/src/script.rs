//! A Lua script with its precomputed hash.

use std::sync::Arc;

use super::large::{Argument, LargeArgs};

/// The clock that a script uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The clock of Redis.
    Redis,
    /// The clock that a test sets under [`TEST_CLOCK`], so that a seed can be replayed.
    Test,
}

/// The key of the test clock: a list of seconds and microseconds.
pub const TEST_CLOCK: &str = "delaybridge:test:clock";

impl Clock {
    /// Replaces the clock in the text of a script.
    pub fn in_text(self, text: String) -> String {
        match self {
            Clock::Redis => text,
            Clock::Test => text.replace("redis.call('TIME')", &format!("redis.call('LRANGE', '{TEST_CLOCK}', 0, 1)")),
        }
    }
}

/// A script as the server caches it. Cheap to clone.
#[derive(Clone)]
pub struct Script {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    text: String,
    sha1: String,
}

impl Script {
    /// Creates a script; `name` is for logs and metrics.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        // The client library's type is used for its hash only, because it copies the text at every call.
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Script { inner: Arc::new(Inner { name: name.into(), text, sha1 }) }
    }

    /// Returns the name in logs and metrics.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the Lua text.
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// Returns the SHA-1 of the text in lower-case hexadecimal, as `EVALSHA` expects it.
    pub fn sha1(&self) -> &str {
        &self.inner.sha1
    }

    /// Returns the `EVALSHA` command with these keys and arguments, for a pipeline. For a single call use
    /// [`Conn::script`](super::Conn::script), which loads a missing script.
    pub fn command(&self, keys: &[impl AsRef<[u8]>], args: &[impl Argument], large: &mut LargeArgs) -> redis::Cmd {
        let bytes =
            keys.iter().map(|key| key.as_ref().len()).sum::<usize>() + args.iter().map(Argument::size).sum::<usize>();
        let mut command = redis::Cmd::with_capacity(3 + keys.len() + args.len(), 64 + bytes);
        command.arg("EVALSHA").arg(self.sha1()).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        for arg in args {
            large.add(&mut command, arg);
        }
        command
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({} {})", self.name(), self.sha1())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_sha1_of_the_text() {
        assert_eq!(Script::new("one", "return 1").sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }

    #[test]
    fn keys_precede_arguments_and_are_counted() {
        let command =
            Script::new("one", "return 1").command(&["k1", "k2"], &[b"a\r\n\0".as_slice()], &mut LargeArgs::default());
        let packed = command.get_packed_command();
        let expected = b"*6\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n\
            $1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$4\r\na\r\n\0\r\n";
        assert_eq!(packed.as_slice(), expected.as_slice());
    }
}
