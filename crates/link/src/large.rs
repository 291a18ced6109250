//! Large arguments of commands, which are written from where they are.
//!
//! The client library copies an argument three times on its way to the socket: into the command, into the packed command and into the
//! buffer of the connection. So a command gets a short name in place of a large argument, and the stream below the library writes the
//! argument where it meets the name.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, buf::Chain};
use memchr::memmem;
use parking_lot::Mutex;
use redis::Cmd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Minimum size of a large argument, in bytes.
const LARGE: usize = 1 << 20;

/// The large arguments of unanswered commands.
static NAMED: LazyLock<Named> = LazyLock::new(Named::new);
/// Whether there ever was one. Never reset: a command may be written after its arguments are gone.
static IS_USED: AtomicBool = AtomicBool::new(false);

struct Named {
    /// The start of each name as the library writes it: the length of the name and a random number, so that no element contains it.
    prefix: Vec<u8>,
    arguments: Mutex<Arguments>,
}

#[derive(Default)]
struct Arguments {
    next: u64,
    by_number: HashMap<u64, Bytes>,
}

/// Length of a name: `large:`, 32 hexadecimal digits that all names of a process share, `:`, and the 16 digits of its number.
const NAME: usize = 6 + 32 + 1 + DIGITS;
const DIGITS: usize = 16;

impl Named {
    fn new() -> Named {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the system has random numbers");
        let prefix = format!("${NAME}\r\nlarge:{:032x}:", u128::from_ne_bytes(random)).into_bytes();
        Named { prefix, arguments: Mutex::default() }
    }

    /// Returns the number of the name at the start of these bytes, and the length of the name as the library writes it.
    fn parse(&self, bytes: &[u8]) -> Option<(u64, usize)> {
        let digits = bytes.strip_prefix(&self.prefix[..])?.get(..DIGITS)?;
        let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        Some((number, self.prefix.len() + DIGITS))
    }
}

/// An argument of a command. A large one that can be shared is not copied.
pub trait Argument: AsRef<[u8]> {
    /// Returns the argument if it is large and can be shared.
    fn large(&self) -> Option<&Bytes> {
        None
    }

    /// Returns the number of bytes that the command takes for it.
    fn size(&self) -> usize {
        if self.large().is_some() { NAME } else { self.as_ref().len() }
    }
}

impl Argument for Bytes {
    fn large(&self) -> Option<&Bytes> {
        (self.len() >= LARGE).then_some(self)
    }
}

impl Argument for Vec<u8> {}
impl Argument for String {}
impl Argument for &str {}
impl Argument for &[u8] {}

/// The large arguments of a command, which contains their names.
///
/// Keep it until the command is answered: a connection that meets the name of a dropped argument is closed.
#[derive(Debug, Default)]
#[must_use]
pub struct LargeArgs(Vec<u64>);

impl LargeArgs {
    /// Adds an argument to a command: its bytes, or its name if it is large.
    pub fn add(&mut self, command: &mut Cmd, argument: &impl Argument) {
        let Some(argument) = argument.large() else {
            command.arg(argument.as_ref());
            return;
        };
        IS_USED.store(true, Ordering::Release);
        let mut arguments = NAMED.arguments.lock();
        let number = arguments.next;
        arguments.next += 1;
        arguments.by_number.insert(number, argument.clone());
        self.0.push(number);
        let start = NAMED.prefix.len() - (NAME - DIGITS);
        let name = [&NAMED.prefix[start..], format!("{number:016x}").as_bytes()].concat();
        command.arg(name);
    }
}

impl Drop for LargeArgs {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            let mut arguments = NAMED.arguments.lock();
            self.0.iter().for_each(|number| _ = arguments.by_number.remove(number));
        }
    }
}

/// A stream that writes large arguments in place of their names.
///
/// A name must arrive whole in one call, as from the client library, which writes from a buffer of whole commands.
pub(super) struct LargeArgStream<S> {
    inner: S,
    /// The rest of the argument that replaces the name at the start of the next call, and the length of that name.
    replacing: Option<(Chain<Bytes, Bytes>, usize)>,
}

impl<S> LargeArgStream<S> {
    pub(super) fn new(inner: S) -> LargeArgStream<S> {
        LargeArgStream { inner, replacing: None }
    }
}

impl<S: AsyncWrite + Unpin> LargeArgStream<S> {
    /// Returns the number of bytes before the next name; `0` if they begin with one, whose replacement then begins.
    fn before_name(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !IS_USED.load(Ordering::Acquire) {
            return Ok(bytes.len());
        }
        match memmem::find(bytes, &NAMED.prefix) {
            None => return Ok(bytes.len()),
            Some(0) => {}
            Some(place) => return Ok(place),
        }
        let found = NAMED.parse(bytes).and_then(|(number, length)| {
            let argument = NAMED.arguments.lock().by_number.get(&number).cloned()?;
            let header = Bytes::from(format!("${}\r\n", argument.len()));
            Some((header.chain(argument), length))
        });
        self.replacing =
            Some(found.ok_or_else(|| io::Error::other("not sent: the caller of this command has given up"))?);
        Ok(0)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LargeArgStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.replacing.is_none() {
            let before = this.before_name(bytes)?;
            if this.replacing.is_none() {
                return Pin::new(&mut this.inner).poll_write(cx, &bytes[..before]);
            }
        }
        while let Some((rest, length)) = &mut this.replacing {
            if !rest.has_remaining() {
                let length = *length;
                this.replacing = None;
                return Poll::Ready(Ok(length));
            }
            let written = ready!(Pin::new(&mut this.inner).poll_write(cx, rest.chunk()))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            rest.advance(written);
        }
        Poll::Ready(Ok(0))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LargeArgStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, into)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// A stream that takes a different number of bytes at each call, and none at every third.
    #[derive(Default)]
    struct Reluctant {
        taken: Vec<u8>,
        calls: usize,
    }

    impl AsyncWrite for Reluctant {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.calls += 1;
            if self.calls.is_multiple_of(3) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let count = bytes.len().min(1 + self.calls * 7919 % 100_000);
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn body(seed: u64, size: usize) -> Bytes {
        let mut bytes = vec![0; size];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        bytes.into()
    }

    #[tokio::test]
    async fn each_name_becomes_its_argument_whatever_the_socket_takes() {
        let sizes = [3, LARGE, 0, LARGE - 1, LARGE + 1, 2 * LARGE];
        let bodies: Vec<Bytes> = sizes.iter().zip(0..).map(|(size, seed)| body(seed, *size)).collect();
        let mut large = LargeArgs::default();
        let (mut written, mut expected) = (Vec::new(), Vec::new());
        for arguments in bodies.chunks(4) {
            let (mut short, mut whole) = (redis::cmd("RPUSH"), redis::cmd("RPUSH"));
            for argument in arguments {
                large.add(&mut short, argument);
                whole.arg(&argument[..]);
            }
            short.write_packed_command(&mut written);
            whole.write_packed_command(&mut expected);
        }
        assert!(written.len() < LARGE + 1_000, "{} of {}", written.len(), expected.len());
        let mut stream = LargeArgStream::new(Reluctant::default());
        stream.write_all(&written).await.unwrap();
        assert!(stream.inner.taken == expected, "{} bytes of {}", stream.inner.taken.len(), expected.len());
    }

    #[tokio::test]
    async fn the_name_of_an_argument_that_is_gone_is_not_written() {
        let mut large = LargeArgs::default();
        let mut command = redis::cmd("SET");
        large.add(&mut command, &body(1, LARGE));
        drop(large);
        let mut stream = LargeArgStream::new(Reluctant::default());
        let refused = stream.write_all(&command.get_packed_command()).await.unwrap_err();
        assert!(refused.to_string().contains("has given up"), "{refused}");
        assert_eq!(stream.inner.taken, b"*2\r\n$3\r\nSET\r\n");
    }

    #[test]
    fn arguments_are_kept_until_the_command_is_answered() {
        let argument = body(1, LARGE);
        let mut large = LargeArgs::default();
        large.add(&mut redis::cmd("SET"), &argument);
        assert!(!argument.is_unique());
        drop(large);
        assert!(argument.is_unique());
    }
}
