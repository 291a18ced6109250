//! Fuzzing with damaged replies of Redis, Sentinel and a Cluster, for the tests of their parsers: no panic, nothing
//! remembered that was not in the reply, and bounded time.
//!
//! A target runs for a moment, or for `DELAYBRIDGE_FUZZ` seconds (`make fuzz`). It prints its seed; `DELAYBRIDGE_SEED`
//! repeats a run.

use std::time::Duration;

use fastrand::Rng;

use delaybridge_core::clock::Instant;

/// The default duration of a target.
const MOMENT: Duration = Duration::from_millis(300);
/// Maximum CPU time for a reply of at most [`LONGEST`] bytes. CPU time, because a busy machine may pause a process for
/// long.
const SLOWEST: Duration = Duration::from_millis(250);
const LONGEST: usize = 64 << 10;
/// Number of bytes of a reply that are shown; the seed reproduces the rest.
const SHOWN: usize = 200;

/// Runs the target with damaged replies; it returns `Some` if it could parse one.
pub(super) fn fuzz(what: &str, seeds: &[&str], target: impl Fn(&[u8]) -> Option<()>) {
    let of = |name| std::env::var(name).ok();
    let time = of("DELAYBRIDGE_FUZZ").and_then(|text| text.parse().ok()).map_or(MOMENT, Duration::from_secs_f64);
    let seed = of("DELAYBRIDGE_SEED").and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("{what}: seed {seed}");
    let mut random = Rng::with_seed(seed);
    let started = Instant::now();
    let mut runs = 0_u64;
    let mut read = 0_u64;
    for seed in seeds {
        assert!(target(seed.as_bytes()).is_some() || runs > 0, "{what}: the first reply is a good one");
        runs += 1;
    }
    // A busy machine may have no time left: a few runs are always made.
    while started.elapsed() < time || runs <= 20 {
        let bytes = damaged(&mut random, seeds);
        let before = on_processor();
        let found = target(&bytes);
        let taken = on_processor().saturating_sub(before);
        let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii();
        assert!(taken <= SLOWEST, "{what}: {taken:?} for {} bytes, from {shown}", bytes.len());
        (runs, read) = (runs + 1, read + u64::from(found.is_some()));
    }
    println!("{what}: {runs} replies, {read} of them read");
    assert!(runs > 10 && read > 0, "{what}: {read} of {runs} replies read");
}

/// Returns the CPU time of this thread.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts it");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds");
    Duration::from_nanos(nanos)
}

/// Copies a seed and changes, removes or repeats a few parts of it, sometimes very often.
fn damaged(random: &mut Rng, seeds: &[&str]) -> Vec<u8> {
    let mut bytes = random.choice(seeds).expect("a seed").as_bytes().to_vec();
    for _ in 0..random.usize(1..5) {
        if bytes.is_empty() {
            break;
        }
        let at = random.usize(..bytes.len());
        let to = random.usize(at..=bytes.len().min(at + 60));
        match random.u8(..7) {
            0 => bytes[at] ^= 1 << random.u8(..8),
            1 => bytes[at] = random.choice(*b"*$:+-%~_,#(>\r\n 0129?").unwrap_or(b'*'),
            2 => bytes.truncate(at),
            3 => {
                let _ = bytes.drain(at..to);
            }
            4 => {
                let number: &[u8] =
                    random.choice([&b"-1"[..], b"0", b"99999", b"4294967296", b"9223372036854775807"]).unwrap_or(b"1");
                bytes.splice(at..to.min(at + 2), number.iter().copied());
            }
            5 => {
                let part = bytes[at..to].repeat(random.usize(1..2_000));
                bytes.splice(at..at, part);
            }
            _ => {
                let other = random.choice(seeds).expect("a seed").as_bytes();
                let from = random.usize(..other.len());
                bytes.splice(at..at, other[from..].iter().copied());
            }
        }
    }
    bytes.truncate(LONGEST);
    bytes
}
