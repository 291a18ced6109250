//! A Lua script with its hash computed once. Does not know what the script does.

use std::sync::Arc;

/// Which clock decides in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Redis's.
    Redis,
    /// One that a test sets under [`TEST_CLOCK`], so that a seed replays.
    Test,
}

/// Key that holds the seconds and microseconds of the test clock: a list of two.
pub const TEST_CLOCK: &str = "delaybridge:test:clock";

impl Clock {
    /// A script's text with this clock in it.
    pub fn in_text(self, text: String) -> String {
        match self {
            Clock::Redis => text,
            Clock::Test => text.replace("redis.call('TIME')", &format!("redis.call('LRANGE', '{TEST_CLOCK}', 0, 1)")),
        }
    }
}

/// A script as the server caches it. Clones are cheap.
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
    /// A script under the name that logs and metrics use.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        // The client's own type is used for its hash only: it copies the text at every call.
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Script { inner: Arc::new(Inner { name: name.into(), text, sha1 }) }
    }

    /// The name that logs and metrics use.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The Lua text.
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// Lower-case hexadecimal SHA-1 of the text, as `EVALSHA` takes it.
    pub fn sha1(&self) -> &str {
        &self.inner.sha1
    }

    /// The command that runs the script: `EVALSHA` with these keys and arguments. For a pipeline; a single call is
    /// better made by [`Conn::script`](super::Conn::script), which loads a missing script.
    pub fn command(&self, keys: &[impl AsRef<[u8]>], args: &[impl AsRef<[u8]>]) -> redis::Cmd {
        let bytes = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
            + args.iter().map(|arg| arg.as_ref().len()).sum::<usize>();
        let mut command = redis::Cmd::with_capacity(3 + keys.len() + args.len(), 64 + bytes);
        command.arg("EVALSHA").arg(self.sha1()).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        for arg in args {
            command.arg(arg.as_ref());
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
        let command = Script::new("one", "return 1").command(&["k1", "k2"], &[b"a\r\n\0".as_slice()]);
        let packed = command.get_packed_command();
        let expected = b"*6\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n\
            $1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$4\r\na\r\n\0\r\n";
        assert_eq!(packed.as_slice(), expected.as_slice());
    }
}
